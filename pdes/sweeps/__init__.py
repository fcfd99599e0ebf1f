"""Many runs of one config: axes, seeds, workers, a store that loses nothing, and what it all says."""
