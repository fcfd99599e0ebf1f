"""Packet mode in windows of lookahead for very many threads, a GPU's or a CPU's: see `state`."""
