"""Running the streams of a workload at the hosts, and the observers that leave out what repeats in them."""
