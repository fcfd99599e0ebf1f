"""A job of several on one cluster: its plan, where it is, and when it begins."""

from typing import NamedTuple

import numpy as np

from models.workload.plan import WorkloadPlan
from models.workload.traffic.flows import NO_PRIORITY


class PlacedJob(NamedTuple):
    """One job: its plan over its own GPUs, host numbers of these, and when it begins.

    after: numbers of jobs that have to end first, all before it in the list; delay_ps later it begins, and not before
    start_ps. priority: of what has none of its own, -1: the network's.
    """

    name: str
    plan: WorkloadPlan
    hosts: np.ndarray
    start_ps: int = 0
    after: tuple[int, ...] = ()
    delay_ps: int = 0
    priority: int = NO_PRIORITY
