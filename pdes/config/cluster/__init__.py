"""The config of a run at the cluster level: a file with the table [cluster]."""
