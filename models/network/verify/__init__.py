"""Checks of the network's state: what is stored twice is worked out again, slowly, and compared."""
