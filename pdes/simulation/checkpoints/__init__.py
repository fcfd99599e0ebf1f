"""Checkpoints of a run: when one is asked for, what is in it, where it lies, and how a run goes on from it."""
