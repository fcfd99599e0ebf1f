"""From priorities to a port's queues: dense numbers, so that nobody scans queues that no packet uses."""

from typing import NamedTuple

import numpy as np

from models.network.state.parameters import ROUND_ROBIN, STRICT, WEIGHTED
from models.workload.plan import WorkloadPlan
from pdes.config.tables.network import NetworkConfig

SCHEDULERS = {"strict": STRICT, "round-robin": ROUND_ROBIN, "weighted": WEIGHTED}


class Queues(NamedTuple):
    """Queue 0 is for ACKs; by ns-3's rules for pauses and priority 0."""

    pair_queue: np.ndarray  # int64[n_pair]
    priority: tuple[int, ...]  # of queues 1, 2, ...
    scheduler: int
    weight: tuple[int, ...]  # of queues 0, 1, ...; () unless weighted

    @property
    def n_queue(self) -> int:
        """Of a port, queue 0 included."""
        return len(self.priority) + 1


def find_queues(network: NetworkConfig, plan: WorkloadPlan) -> Queues:
    """Number the priorities in use from 1: the highest first; by ns-3's rules the lowest, and 0 keeps queue 0."""
    pair_priority = plan.pair_priority
    assert pair_priority is not None
    used = np.flatnonzero(np.bincount(pair_priority)).tolist()
    if network.is_ns3:
        ordered = [priority for priority in used if priority > 0] or [network.priority or 1]
        scheduler, weight = ROUND_ROBIN, ()
    else:
        ordered = used[::-1] or [network.priority]
        scheduler = SCHEDULERS[network.scheduler.kind]
        weights = network.scheduler.weights
        weight = (0, *(weights.get(priority, 1) for priority in ordered)) if scheduler == WEIGHTED else ()
    queue_of = np.zeros(8, np.int64)
    queue_of[ordered] = np.arange(1, len(ordered) + 1)
    return Queues(queue_of[pair_priority], tuple(ordered), scheduler, weight)
