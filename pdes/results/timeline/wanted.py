"""What of a run is to be in a trace, and how much of it if nobody says."""

from typing import NamedTuple

MOST_SLICES = 250_000
MOST_GPUS = 64
N_PORT = 8


class Wanted(NamedTuple):
    """None: what fits."""

    gpus: frozenset[int] | None = None
    iterations: frozenset[int] | None = None
    has_flows: bool = True
    ports: tuple[str, ...] = ()
    most: int = MOST_SLICES
