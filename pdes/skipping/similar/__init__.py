"""As the mean of the nearest earlier episodes: waves of flows that begin together."""
