"""The commands of `pdes-sim`: each module has its arguments, `make_parser`, and what it does."""
