"""Which GPU each rank of a job is on: given, in order, or optimised."""
