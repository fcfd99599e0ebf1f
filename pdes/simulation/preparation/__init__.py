"""Before a run: its scenario is built and checked, and its placement compared."""
