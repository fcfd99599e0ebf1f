"""Profiles of GPUs to traces: readers of two profilers' files, and how kernels on streams become nodes."""
