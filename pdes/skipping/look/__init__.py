"""Looks: what is sampled of active flows, and what is found in the sample; compiled as far as nothing is decided."""
