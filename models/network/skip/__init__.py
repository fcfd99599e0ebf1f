"""What the packet network does for `pdes.skipping`: samples, freezes, thaws, takes packets out and puts them back."""
