"""From a scenario to the arrays of one rank, before anything has happened."""
