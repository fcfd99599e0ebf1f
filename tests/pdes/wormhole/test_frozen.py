"""What is frozen and when it ends, against a list that is searched from end to end."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pdes.engine.time_index import NEVER
from pdes.wormhole.frozen import Freeze, FrozenSet

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
