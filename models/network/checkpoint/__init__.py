"""The network's part of a checkpoint."""
