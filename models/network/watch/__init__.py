"""What looks at the network and changes nothing: deadlocks, stalls, samples, traces, results."""
