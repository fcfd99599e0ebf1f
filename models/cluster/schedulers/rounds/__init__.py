"""Schedulers in rounds, as in Gavel (Narayanan et al., OSDI '20): a policy says who shall have which share of what."""
