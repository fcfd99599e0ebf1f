"""Where a job's GPUs are: one file for each policy, all of them functions of the machine, a pool and a number of GPUs.

A policy takes GPUs and says which, or takes none and says None: then the job waits.
"""

from collections.abc import Callable

from models.cluster.job import Place
from models.cluster.machine import Machine
from models.cluster.placement import packed, rack, spread, whole

Policy = Callable[[Machine, int, int], Place | None]
POLICIES: dict[str, Policy] = {
    "packed": packed.place,
    "whole": whole.place,
    "rack": rack.place,
    "spread": spread.place,
}
