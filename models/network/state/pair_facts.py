"""What of queue pairs follows from the scenario alone: the same on every rank, so it is in memory once per machine.

Tables of what changes have a row for every queue pair, and a rank writes those of its own hosts. What a sender keeps is
in the order of sending ports, what a receiver keeps in that of receiving ones: so the rows of a host lie together, and
pages that have none of this rank's take no memory.
"""

from typing import NamedTuple

import numpy as np

from models.network.build.arrays import QueuePairs
from models.network.state.pair_records import PAIR_FACTS
from models.network.state.parameters import NetworkParameters
from models.topology.graph import Topology
from models.workload.plan import SLOT_PAIR, WorkloadPlan
from pdes.engine.jit import aligned_zeros


class PairFacts(NamedTuple):
    """Arrays that nobody writes."""

    facts: np.ndarray  # PAIR_FACTS[n_qp]
    receiver_row: np.ndarray  # int32[n_qp]  each queue pair's row of `Nic.receivers`
    parts: np.ndarray  # int32[n_qp, n_part], see `Nic.parts`
    slots: np.ndarray  # int32[]  the plan's slots, queue pairs by row


def make_pair_facts(
    topology: Topology,
    pairs: QueuePairs,
    plan: WorkloadPlan,
    max_window_bytes: np.ndarray,
    parameters: NetworkParameters,
) -> PairFacts:
    """max_window_bytes: int64[n_pair], plan's order; 0: no window."""
    order = pairs.pair_of_row
    facts = aligned_zeros(len(order), PAIR_FACTS)
    facts["max_window_bytes"] = max_window_bytes[order]
    facts["port"], facts["node"] = pairs.port, topology.port_src[pairs.port]
    facts["data_path"], facts["ack_path"] = pairs.path_start[:-1:2][order], pairs.path_start[1::2][order]
    facts["waiting_stream"] = plan.pair_stream[order]
    facts["first_part"] = pairs.row_of_pair[order // plan.n_part * plan.n_part]
    facts["queue"] = 1 if parameters.pair_queue is None else parameters.pair_queue[order]
    port = pairs.path_port[facts["ack_path"]]
    facts["receiver"] = topology.port_src[port]
    receiver_row = np.empty(len(order), np.int32)
    receiver_row[np.argsort(port, kind="stable")] = np.arange(len(order))
    slots = plan.slots.copy()
    is_pair = plan.slot_kind == SLOT_PAIR
    slots[is_pair] = pairs.row_of_pair[slots[is_pair]]
    return PairFacts(facts, receiver_row, _parts(pairs, plan.n_part), slots)


def _parts(pairs: QueuePairs, n_part: int) -> np.ndarray:
    """`Nic.parts`: for each queue pair that is the first of those that share messages, all of them."""
    rows = pairs.row_of_pair.reshape(-1, n_part)
    parts = np.zeros((len(pairs.row_of_pair) if n_part > 1 else 1, n_part), np.int32)
    if n_part > 1:
        parts[rows[:, 0]] = rows
    return parts
