"""Fast-forwarding of steady network partitions (Wormhole, NSDI 2026)."""
