"""Cutting a network into logical processes and placing them on ranks: arrays in, arrays out, nothing of ours needed."""

from partition.lps import NO_LOOKAHEAD_PS, cut_by_delay, lookahead_ps
from partition.placement import balance, place
from partition.threshold import Candidate, ThresholdChoice, choose_threshold

__all__ = [
    "NO_LOOKAHEAD_PS",
    "Candidate",
    "ThresholdChoice",
    "balance",
    "choose_threshold",
    "cut_by_delay",
    "lookahead_ps",
    "place",
]
