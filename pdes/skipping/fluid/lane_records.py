"""What `lanes` says of messages."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Ended(NamedTuple):
    """How flows' last messages ended; int64[n]."""

    end_byte: np.ndarray
    ended_ps: np.ndarray
    marked: np.ndarray
    delivered_ps: np.ndarray


class Times(NamedTuple):
    """How long a message takes from its posting on."""

    delivered_ps: int
    ended_ps: int
    marked: int


class Watched(NamedTuple):
    """Messages that were alone and are over. Arrays int64[n]."""

    flows: np.ndarray
    end_byte: np.ndarray
    key: np.ndarray
    posted_ps: np.ndarray
    is_loaded: np.ndarray  # bool[n], whether they met acknowledgements


@dataclass
class LaneCounters:
    """For the results."""

    known: int = 0  # forms and sizes whose time is
    opened: int = 0
    converted: int = 0  # messages that got one when they were under way
    closed: int = 0  # as somebody came
    shared: int = 0  # messages that went on beside others on their ways, each at its pace
    at_shares: int = 0  # of these, at shares that were known; a message counts whenever its group changes
