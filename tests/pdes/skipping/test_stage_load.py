"""How full stages count as, and when something may be learned of who crosses them."""

from typing import Any

import numpy as np

from models.congestion.law import BUILT_IN
from models.network.skip.make_fast_forward import FORGETS
from pdes.engine.jit import loop_kernel
from pdes.engine.time_index import NEVER
from pdes.scenario.network import SHARES_WHEREVER_PACKETS_GO
from pdes.skipping.fluid.stage_load import (
    WHOLE,
    StageLoads,
    count_at_level,
    follow_stages,
    make_stage_loads,
    see_packets,
)

WAIT_PS = 100


@loop_kernel
def follow(s: StageLoads, now_ps: int) -> Any:
    """The step, from Python."""
    return follow_stages(s, now_ps, WAIT_PS)


@loop_kernel
def count(s: StageLoads, flow: int, n: int) -> None:
    """The step, from Python."""
    count_at_level(s, flow, n)


def eight_flows() -> StageLoads:
    """Over the first stage, each of which may use a quarter of it; the last two over another one besides."""
    start = np.array([0, 1, 2, 3, 4, 5, 6, 8, 10], np.int64)
    stage = np.array([0, 0, 0, 0, 0, 0, 0, 1, 0, 1], np.int32)
    return make_stage_loads((start, stage), np.full(10, WHOLE // 4), 2)


def see(s: StageLoads, flows: list[int], timers: tuple[int, ...] = ()) -> list[bool]:
    is_mixed = np.zeros(len(flows), np.bool_)
    see_packets(s, np.array(flows, np.int64), np.array([flow in timers for flow in flows], np.int64), is_mixed)
    return is_mixed.tolist()


def test_a_stage_is_full_at_once_and_empty_after_a_while() -> None:
    s = eight_flows()
    see(s, [0, 1])
    assert follow(s, 0) == (False, NEVER) and s.is_full.tolist() == [0, 0]  # half of it is used
    see(s, [0, 1, 2])
    assert follow(s, 10) == (True, NEVER) and s.is_full.tolist() == [1, 0]
    see(s, [0])
    assert follow(s, 20) == (False, 20 + WAIT_PS)
    see(s, [0, 1, 2])
    assert follow(s, 30) == (False, NEVER)  # steps of rings have gaps
    see(s, [0])
    assert follow(s, 40) == (False, 40 + WAIT_PS) and follow(s, 39 + WAIT_PS) == (False, 40 + WAIT_PS)
    assert follow(s, 40 + WAIT_PS) == (True, NEVER) and s.is_full.tolist() == [0, 0]


def test_what_is_at_flow_level_fills_stages_and_nothing_is_learned_beside_it() -> None:
    s = eight_flows()
    for flow in (6, 7):
        count(s, flow, 1)
    assert see(s, [0, 1]) == [True, True]
    follow(s, 0)
    assert s.is_full.tolist() == [1, 0]
    for flow in (6, 7):
        count(s, flow, -1)
    assert see(s, [0, 1]) == [False, False] and not s.at_level.any()


def test_nothing_is_learned_over_a_full_stage_once_a_timer_was_on() -> None:
    s = eight_flows()
    assert see(s, [0], timers=(0,)) == [False]  # it is not full
    see(s, [0, 1, 2])
    follow(s, 0)
    assert see(s, [0, 1, 2], timers=(1,)) == [True] * 3
    assert see(s, [0, 1, 2]) == [True] * 3


def test_nothing_is_learned_over_a_full_stage_that_the_model_bars() -> None:
    s = eight_flows()
    s.is_barred[0] = 1
    assert see(s, [0, 1, 2]) == [False] * 3  # it is not full
    follow(s, 0)
    assert see(s, [0, 1, 2, 6]) == [True] * 4


def test_controls_that_are_learned_of_where_packets_go_different_ways_are_built_in() -> None:
    """A name that is none would bar a control in silence."""
    assert {*FORGETS, *SHARES_WHEREVER_PACKETS_GO} <= set(BUILT_IN)
