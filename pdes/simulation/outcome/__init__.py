"""What comes of a run: counts of all ranks, whether it came to its end, tables, JSON files and the summary."""
