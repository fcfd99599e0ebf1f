"""Starts that are late by a random time each: two runs that differ in nothing else show how chaotic the network is.

A GPU's streams are late once, when they first run; what they do by then in later iterations follows from that.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from models.workload.plan import WorkloadPlan
from models.workload.program import OP_WAIT
from models.workload.traffic.flows import FlowList
from pdes.random_plain import PURPOSE_START_JITTER, random_bits_plain


def late_ps(seed: int, entities: Iterable[int], jitter_ps: int) -> np.ndarray:
    """How late each entity is, int64 in [0, jitter_ps); twice the jitter, twice as late."""
    return np.array([random_bits_plain(seed, i, PURPOSE_START_JITTER, 0) * jitter_ps >> 64 for i in entities], np.int64)


def delay_flows(flows: FlowList, seed: int, jitter_ps: int) -> FlowList:
    """The same flows, each late by its own time: a function of its number."""
    return replace(flows, start_ps=flows.start_ps + late_ps(seed, range(len(flows.start_ps)), jitter_ps))


def delay_streams(plan: WorkloadPlan, seed: int, jitter_ps: int) -> WorkloadPlan:
    """The same plan, all streams of a GPU late by the same time. A stream that begins with a wait is late after it."""
    streams = plan.streams.copy()
    first = plan.operations[streams["first_operation"]]
    gpus, place = np.unique(streams["gpu"], return_inverse=True)
    streams["wake_ps"] = np.where(first["kind"] == OP_WAIT, first["time_ps"], 0)
    streams["wake_ps"] += late_ps(seed, gpus.tolist(), jitter_ps)[place]
    return replace(plan, streams=streams)
