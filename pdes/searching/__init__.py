"""The best layout and fabric of a config: a closed form ranks all candidates, flow mode some, packets the best few."""
