"""Queue-pair scaling: every message is split over n queue pairs, which ECMP spreads over the paths (Arcadia, 9.3).

A message is complete when all of its parts are. Part k of a message of s bytes has s // n bytes, one more for the first
s % n parts; each queue pair has a source port, and so a hash, of its own.
"""

from dataclasses import replace

import numpy as np

from models.workload.plan import SLOT_PAIR, WorkloadPlan
from models.workload.program import OP_EXCHANGE, OP_RING, OP_SEND, OP_START
from pdes.errors import ConfigError

FIRST_PORT = 10_000


def scale_queue_pairs(plan: WorkloadPlan, n_part: int) -> WorkloadPlan:
    """The same workload over n_part queue pairs where there was one: pair i becomes i * n_part and those that follow.

    Raises ConfigError for a message of fewer bytes than parts.
    """
    if n_part == 1:
        return plan
    posts = np.isin(plan.operations["kind"], (OP_SEND, OP_RING, OP_EXCHANGE, OP_START))
    sizes = plan.operations["size_bytes"][posts]
    if len(sizes) and sizes.min() < n_part:
        found = f"{n_part} parts of a message of {sizes.min()} B"
        raise ConfigError("[network.routing] queue_pairs_per_flow", found, "Accepted: at most a part for each byte")
    step = int(plan.pair_sport.max(initial=FIRST_PORT)) - FIRST_PORT + 1
    part = np.tile(np.arange(n_part), len(plan.pair_src))
    columns = {
        name: np.repeat(getattr(plan, name), n_part)
        for name in ("pair_src", "pair_dst", "pair_sport", "pair_dport", "pair_bytes", "pair_stream")
    }
    columns["pair_sport"] = columns["pair_sport"] + part * step
    columns["pair_bytes"] = -(-columns["pair_bytes"] // n_part)
    priority = None if plan.pair_priority is None else np.repeat(plan.pair_priority, n_part)
    slots = np.where(plan.slot_kind == SLOT_PAIR, plan.slots * n_part, plan.slots).astype(np.int32)
    return replace(
        plan, **columns, pair_priority=priority, slots=slots, n_part=n_part, burst=plan.burst * n_part,
        facts=plan.facts | {"queue_pairs_per_flow": n_part},
    )  # fmt: skip
