"""How full the stages of a network are where packets of a flow go different ways.

A stage is ports over which packets are spread evenly. Here it is one that carries all that hosts can send, so that no
flow has to wait for others there, and sharing it is no company. But the fuller it is, the more packets meet in its
queues. So what is known of messages is known by whether a stage of their way is more than half full: that is a part of
their forms (`Links.form`), which change with it. A stage is full at once, and not full any more when it has been so for
some ticks, as steps of rings have gaps.

Packets do not meet messages that are at flow level. So nothing is learned of who sends them while much of what goes
over their stages is there. Nor is it of who crosses a full stage once a control of somebody there had a timer that was
on, as DCQCN has while it recovers, or where the model bars it from the beginning: who happens not to have met others'
packets says nothing of those who will.
"""

from typing import NamedTuple

import numpy as np

from pdes.engine.jit import loop_kernel, step_kernel
from pdes.engine.time_index import NEVER

N_LOAD = 2  # forms that a way may have: with no full stage, with one
WHOLE = 10**6  # load of a stage whose flows, each at the rate of its slowest port, would use all of it
WAIT_TICKS = 32
MOST_AT_LEVEL = 0.1  # of the load of a stage whose flows are learned from


class StageLoads(NamedTuple):
    """Stages, and what goes over them. Those of flow f are stage[start[f] : start[f + 1]]."""

    start: np.ndarray  # int64[n_flow + 1]
    stage: np.ndarray  # int32[]
    share: np.ndarray  # int64[], WHOLE-ths of that stage that the flow may use
    at_level: np.ndarray  # int64[n_stage], load of flows at flow level
    packets: np.ndarray  # int64[n_stage], and of those that are simulated
    is_barred: np.ndarray  # int64[n_stage], 1: nothing is learned of who crosses it while it is full
    is_full: np.ndarray  # int64[n_stage], 1: more than half of it is used, or was until lately
    low_ps: np.ndarray  # int64[n_stage], since when less is, if it counts as full; NEVER: it is not


def make_stage_loads(ways: tuple[np.ndarray, np.ndarray], share: np.ndarray, n_stage: int) -> StageLoads:
    """Nothing goes over them. ways: (start, stage)."""
    at_level, packets, is_barred, is_full = (np.zeros(n_stage, np.int64) for _ in range(4))
    return StageLoads(*ways, share, at_level, packets, is_barred, is_full, np.full(n_stage, NEVER, np.int64))


def no_stages(n_flow: int) -> StageLoads:
    """Where all packets of a flow go one way."""
    return make_stage_loads((np.zeros(n_flow + 1, np.int64), np.zeros(0, np.int32)), np.zeros(0, np.int64), 0)


@step_kernel
def count_at_level(s: StageLoads, flow, n):
    """A flow comes to flow level (n: 1) or leaves it (-1)."""
    for at in range(s.start[flow], s.start[flow + 1]):
        s.at_level[np.uint64(s.stage[at])] += n * s.share[at]


@step_kernel
def follow_stages(s: StageLoads, now_ps, wait_ps):
    """See which stages are full now; (whether others than before, when that may be so next if no load changes)."""
    is_new, next_ps = False, NEVER
    for i in range(s.is_full.size):
        if s.at_level[i] + s.packets[i] > WHOLE // 2:
            is_new |= s.is_full[i] == 0
            s.is_full[i], s.low_ps[i] = 1, NEVER
        elif s.is_full[i]:
            s.low_ps[i] = min(s.low_ps[i], now_ps)
            if now_ps >= s.low_ps[i] + wait_ps:
                s.is_full[i], s.low_ps[i], is_new = 0, NEVER, True
            else:
                next_ps = min(next_ps, s.low_ps[i] + wait_ps)
    return is_new, next_ps


@step_kernel
def load_of(s: StageLoads, flow):
    """Whether a stage of a flow's way is full, 0 or 1."""
    load = np.int64(0)
    for at in range(s.start[flow], s.start[flow + 1]):
        load |= s.is_full[np.uint64(s.stage[at])]
    return load


@loop_kernel
def see_packets(s: StageLoads, flows, has_timer, is_mixed):
    """Note which flows are simulated now, int64[n], and write of each whether nothing can be learned of it for its
    stages. has_timer: int64[n], != 0: a timer of the control is on. is_mixed: bool[n]."""
    s.packets[:] = 0
    for i in range(flows.size):
        for at in range(s.start[flows[i]], s.start[flows[i] + 1]):
            s.packets[np.uint64(s.stage[at])] += s.share[at]
            s.is_barred[np.uint64(s.stage[at])] |= s.is_full[np.uint64(s.stage[at])] & (has_timer[i] != 0)
    for i in range(flows.size):
        is_mixed[i] = False
        for at in range(s.start[flows[i]], s.start[flows[i] + 1]):
            stage = np.uint64(s.stage[at])
            is_mixed[i] |= (s.is_full[stage] & s.is_barred[stage]) != 0
            is_mixed[i] |= s.at_level[stage] > MOST_AT_LEVEL * (s.at_level[stage] + s.packets[stage])
