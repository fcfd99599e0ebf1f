"""Collectives as NCCL plans them: timed inside a server, messages on rails between servers."""
