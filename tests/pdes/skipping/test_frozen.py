"""What is frozen and when it ends, against a list that is searched from end to end."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pdes.engine.time_index import NEVER
from pdes.skipping.frozen import Freeze, FrozenSet, each_of

N_FLOW = 6


def freeze(flow: int, begin_ps: int, period_ps: int) -> Freeze:
    """A flow that has two ports of its own."""
    one = np.ones(1, np.int64)
    return Freeze(np.array([flow]), np.array([2 * flow, 2 * flow + 1]), begin_ps, period_ps, 3, one, one, 0 * one)


@given(st.lists(st.tuples(st.integers(0, N_FLOW - 1), st.integers(1, 5), st.booleans()), max_size=30))
def test_the_first_end_and_what_has_ended_are_those_of_a_search(steps) -> None:
    frozen, listed, now_ps = FrozenSet(N_FLOW, 2 * N_FLOW), {}, 0
    for flow, period_ps, ends_early in steps:
        now_ps += 1
        ended = frozen.ended(now_ps)
        assert [frozen[number] for number in ended] == [f for f in listed.values() if f.end_ps <= now_ps]
        frozen.drop([frozen[number] for number in ended])
        listed = {key: f for key, f in listed.items() if f.end_ps > now_ps}
        if flow in listed and ends_early:
            frozen.drop([listed.pop(flow)])
        elif flow not in listed:
            listed[flow] = freeze(flow, now_ps, period_ps)
            frozen.hold([listed[flow]])
        assert frozen.first_end_ps == min((f.end_ps for f in listed.values()), default=NEVER)
        assert np.flatnonzero(frozen.is_frozen).tolist() == sorted(listed)
        for port in range(2 * N_FLOW):
            assert frozen.at(port) is listed.get(port // 2)


def test_what_is_held_together_is_dropped_apart_and_nothing_ends_twice() -> None:
    frozen, both = FrozenSet(N_FLOW, 2 * N_FLOW), [freeze(1, 0, 10), freeze(4, 0, 10)]
    frozen.hold(both)
    assert [frozen[number] for number in frozen.ended(30)] == both
    frozen.drop(both[:1])
    assert frozen.ended(30) == [] and frozen.at(2) is None and frozen.at(8) is both[1]


def test_partitions_that_are_alike_are_split_where_somebody_comes() -> None:
    """Three with two ports each; somebody comes to the second and to the third."""
    one, two = np.array([7]), np.array([9])
    whole = Freeze(np.array([0, 1, 2]), np.arange(6), 0, 10, 5, one, two, 0 * one, n_member=3)
    frozen = FrozenSet(N_FLOW, 2 * N_FLOW)
    frozen.hold([whole])
    (some,), (others,) = frozen.split(0, np.array([3, 4]))
    assert (some.pairs.tolist(), some.ports.tolist(), some.n_member) == ([1, 2], [2, 3, 4, 5], 2)
    assert (others.pairs.tolist(), others.ports.tolist(), others.n_member) == ([0], [0, 1], 1)
    assert frozen.at(2) is some and frozen.at(5) is some and frozen.at(1) is others and frozen.n_flow == 3
    assert frozen.split(frozen.number(some), np.array([2, 5])) == ([some], [])
    shift_ps, packets, _ = some.progress(30)
    assert shift_ps == 30 and packets.tolist() == [23, 23]  # 30 * 7 / 9
    assert [freeze.pairs.tolist() for freeze in each_of(some)] == [[1], [2]]
    assert frozen.census() == (3, 0) and len(frozen.ended(50)) == 2


def test_progress_is_rounded_alike_however_large_it_is() -> None:
    """Beyond what fits into 64 bits, too."""
    count, count_ps = np.array([3, 10**9 + 7]), np.array([11, 10**10 + 19])
    for period_ps in (7, 10**9, 10**12):
        freeze = Freeze(np.arange(2), np.arange(2), 0, period_ps, 1, count, count_ps, 0 * count)
        exact = [(2 * period_ps * n + t) // (2 * t) for n, t in zip(count.tolist(), count_ps.tolist(), strict=True)]
        assert freeze.progress(period_ps)[1].tolist() == exact
