"""Hosts: NICs, the two ends of queue pairs, messages, timers, and messages that end without packets."""
