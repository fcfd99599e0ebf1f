"""Several jobs on one cluster: where each of them is, when it begins, and all their plans as one."""
