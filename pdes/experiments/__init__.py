"""Many small experiments in one compiled loop: what may go together, the network of all, and what came of each."""
