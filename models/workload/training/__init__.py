"""A training iteration by the formulas of Wormhole's models: job, transformer, experts, and the streams of each GPU."""
