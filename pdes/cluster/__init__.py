"""A run at the cluster level: from its config to its tables."""
