"""Traces of jobs on clusters of GPUs, as they are published: read, audited, and written in one form."""
