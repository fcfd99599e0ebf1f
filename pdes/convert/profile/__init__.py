"""Profiles of GPUs to traces: readers of two profilers' files, and from kernels on streams to nodes, which they share."""
