"""Exactly what a state led to before: Wormhole's memo (section 4)."""
