"""Direct networks: every switch has hosts. The builders of fabrics of tiers stand beside this package."""
