"""Time in stretches: which are drawn, for which flows, and what of them is compared."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdes.engine.time_index import NEVER
from pdes.random_plain import PURPOSE_AUDIT, uniform_plain
from pdes.skipping.components import components_of
from pdes.skipping.fluid.stretches import FIRST_STREAM, LENGTH, NO_STRETCH, Stretches

L = 1000  # ps, what takes longest


def stretches(share: float, n: int = 1, seed: int = 1) -> Stretches:
    """Of n components of a flow each."""
    return Stretches(np.arange(n), share, seed, L)


@given(st.floats(0, 1), st.integers(1, 2**31), st.integers(0, 2**40))
def test_what_is_drawn_is_up_to_seed_number_and_component(share: float, seed: int, number: int) -> None:
    drawn = [uniform_plain(seed, i, PURPOSE_AUDIT, FIRST_STREAM + number) < share for i in range(5)]
    assert stretches(share, 5, seed).draws(number).tolist() == drawn


def test_about_the_share_of_the_time_is_drawn() -> None:
    """Within four standard deviations, over 200 stretches of different lengths of 20 components."""
    s, n, share = stretches(0.2, 20), 200, 0.2
    lasts_ps, drawn_ps = [], np.zeros(20)
    for i in range(n):
        begin_ps = 0 if i == 0 else s.end_ps
        if i:
            s.go_on(begin_ps)
        s.note(L + 5 * i)
        lasts_ps.append(s.end_ps - begin_ps)
        drawn_ps += (s.end_ps - begin_ps) * s.is_drawn(np.arange(20))
    deviation = math.sqrt(20 * share * (1 - share) * sum(ps * ps for ps in lasts_ps))
    assert abs(drawn_ps.sum() - 20 * share * sum(lasts_ps)) < 4 * deviation


def test_a_stretch_is_as_long_as_what_takes_longest_demands() -> None:
    s = stretches(0.5)
    assert s.end_ps == LENGTH * L
    s.note(3 * L)
    s.note(2 * L)
    s.go_on(s.end_ps + 7)
    assert s.end_ps == LENGTH * L + 7 + LENGTH * 3 * L


def begun(drawn: list[bool]) -> Stretches:
    """In the second stretch, with what is drawn of the first three made up."""
    s = Stretches(np.zeros(1, np.int64), 0.0, 1, L)
    s.draws = lambda number: np.array([drawn[number]])  # type: ignore[method-assign]
    s.go_on(0)
    changes = s.go_on(s.end_ps)
    assert changes.tolist() == [drawn[0] != drawn[1]] and s.is_drawn(np.zeros(1, np.int64))[0] == drawn[1]
    return s


BEGIN, END = LENGTH * L, 2 * LENGTH * L  # of the second one


@pytest.mark.parametrize(
    ("drawn", "first_ps", "last_ps"),
    [
        ([False, True, False], BEGIN + L, END - L),  # what takes longest is over before, and before the end
        ([True, True, False], L, END - L),  # the first one was not the first that was drawn in truth
        ([False, True, True], BEGIN + L, NEVER),  # it goes on as it is
        ([True, False, True], NEVER, NEVER),
    ],
)
def test_what_begins_with_nothing_at_flow_level_and_ends_so_is_compared(
    drawn: list[bool], first_ps: int, last_ps: int
) -> None:
    s, flow = begun(drawn), np.zeros(1, np.int64)
    for begin_ps in (0, first_ps - 1, first_ps, last_ps - 1, last_ps):
        is_compared = first_ps <= begin_ps < last_ps
        assert s.unit_of(flow, begin_ps)[0] == (1 if is_compared else NO_STRETCH), begin_ps


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_nothing_or_all_of_it(share: float) -> None:
    s, flows = stretches(share, 3), np.arange(3)
    for i in range(20):
        assert (s.is_drawn(flows) == (share == 1)).all()
        units = s.unit_of(flows, i * L)
        assert (units == (i * 3 + flows if share else NO_STRETCH)).all()
        if share == 0:
            assert s.end_ps == NEVER
        else:
            assert not s.go_on(s.end_ps).any()


def test_flows_that_share_ports_by_others_are_one_component() -> None:
    ways = [[0, 1], [2, 3], [5], [3, 4], [4, 0], [6]]
    start = np.cumsum([0, *map(len, ways)])
    port_of = np.concatenate(ways).astype(np.int32)
    assert components_of((start, port_of), 8).tolist() == [0, 0, 1, 0, 0, 2]


@given(st.lists(st.sets(st.integers(0, 30), min_size=1, max_size=4), min_size=1, max_size=25))
def test_components_are_the_closure_of_sharing(ways: list[set[int]]) -> None:
    start = np.cumsum([0, *map(len, ways)])
    found = components_of((start, np.concatenate([sorted(way) for way in ways]).astype(np.int32)), 31)
    sets = [set(way) for way in ways]
    for _ in ways:  # as often as it may take
        sets = [set().union(*(other for other in sets if other & mine)) for mine in sets]
    assert [[bool(a & b) for b in sets] for a in sets] == (found[:, None] == found).tolist()
    assert sorted(set(found.tolist())) == list(range(found.max() + 1)) and found[0] == 0
