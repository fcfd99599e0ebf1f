"""`pdes-sim timeline`: what GPUs and queues did over time, as a trace for the viewers of Perfetto and Chrome."""
