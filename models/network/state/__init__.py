"""Records and arrays of the network's state, what is constant in them, and whose they are."""
