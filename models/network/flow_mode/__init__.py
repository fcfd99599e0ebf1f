"""Flow mode: a network without packets. Messages get max-min fair shares of the ports on their ways, from time zero."""
