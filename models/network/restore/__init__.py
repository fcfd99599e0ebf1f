"""How queues come back after a skip by the papers' ways, and the looks at queues that these need."""
