"""A pass of a pipeline's schedule."""

from typing import NamedTuple


class Pass(NamedTuple):
    """A pass of one microbatch over one chunk. which: as in `models.compute.lower`: "forward", "backward", ..."""

    which: str
    chunk: int
    microbatch: int
