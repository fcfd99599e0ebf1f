"""A trace of messages and computations: its graph, checks, order, collectives, and the plan that it becomes."""
