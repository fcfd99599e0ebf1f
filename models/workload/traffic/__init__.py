"""Traffic without a training job: lists of flows, and open-loop arrivals with sizes from a distribution."""
