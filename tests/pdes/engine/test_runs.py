"""Rounds without a reduction: no message is late, and looks come at the same instants on any number of ranks.

Ranks are simulated here, in plain Python, around the kernels that say when a round begins.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdes.engine.jit import loop_kernel
from pdes.engine.round import (
    HORIZON,
    IN_ROUND,
    LIMIT,
    LONGEST_RUN,
    MOST_GAIN_FRAC,
    N_REDUCTION,
    N_ROUND,
    NEXT_LOOK,
    NOW,
    REST,
    RUN_LEFT,
    STRETCH_ROUNDS,
    begin_round,
    free_until_ps,
    make_loop,
    next_run_length,
    plan_run,
    runs_on,
)
from pdes.engine.time_index import NEVER
from pdes.random_plain import mix64_plain

N_LP = 6  # in a line: from three ranks on not all are neighbours
AHEAD_PS = 100
STRETCH_PS = STRETCH_ROUNDS * AHEAD_PS
END_PS = 60_000
Event = tuple[int, int, int]  # time_ps, LP, number


@loop_kernel
def _runs_on(loop):
    return runs_on(loop)


@loop_kernel
def _plan_run(loop, least_ps):
    plan_run(loop, least_ps)


@loop_kernel
def _begin_round(loop, least_ps):
    return begin_round(loop, least_ps)


def draw(seed: int, number: int, purpose: int, n: int) -> int:
    """0 .. n - 1."""
    return mix64_plain(mix64_plain(seed * 1_000_003 + number) + purpose) % n


def successors(seed: int, event: Event) -> list[Event]:
    """What an event brings about: one here after a while, or at a neighbour a lookahead later at least."""
    if event[0] >= END_PS:
        return []
    time_ps, lp, new = event[0], event[1], event[2] + 1
    waits_ps = ((1, 7, 40, 60, 90), (1, 7, 40, 300, 900), (5, 40, 300, 900, 9_000))[seed % 3]
    wait_ps = waits_ps[draw(seed, new, 2, 5)] * (1 + draw(seed, new, 3, 9))
    to = lp + (-1, 0, 0, 1)[draw(seed, new, 4, 4)]
    if to == lp or not 0 <= to < N_LP:
        return [(time_ps + wait_ps, lp, new)]
    return [(time_ps + AHEAD_PS + wait_ps // 20, to, new)]


class Simulated:
    """Ranks in a line, each with some LPs in turn; what they ran, and when they looked."""

    def __init__(self, n_rank: int, first: list[Event], next_look: Callable[[int], int], stop_ps: int = NEVER - 1):
        self.n_rank, self.next_look = n_rank, next_look
        self.loops = [make_loop(AHEAD_PS, stop_ps, next_look(0), may_run_on=True) for _ in range(n_rank)]
        self.pending: list[list[Event]] = [[] for _ in range(n_rank)]
        for event in first:
            heapq.heappush(self.pending[self.rank_of(event)], event)
        self.history: dict[int, list[Event]] = defaultdict(list)
        self.looks: list[tuple[int, int]] = []

    def rank_of(self, event: Event) -> int:
        return event[1] * self.n_rank // N_LP

    def run(self, of: Callable[[Event], list[Event]]) -> "Simulated":
        while self.open_round():
            sent = [new for rank in range(self.n_rank) for new in self.run_events(rank, of)]
            for new in sent:
                assert new[0] >= self.loops[self.rank_of(new)][HORIZON], "late"
                heapq.heappush(self.pending[self.rank_of(new)], new)
            for loop in self.loops:
                loop[IN_ROUND], loop[N_ROUND] = 0, loop[N_ROUND] + 1
            horizon_ps = int(self.loops[0][HORIZON])
            if horizon_ps >= self.loops[0][NEXT_LOOK]:
                self.looks.append((horizon_ps, sum(map(len, self.history.values()))))
                assert all(event[0] < horizon_ps for events in self.history.values() for event in events)
                assert all(heap[0][0] >= horizon_ps for heap in self.pending if heap)
                for loop in self.loops:
                    loop[NEXT_LOOK] = self.next_look(horizon_ps)
        return self

    def open_round(self) -> bool:
        """As `open_round` does where not all ranks are neighbours, or on one rank."""
        least_ps, is_of_run = min(heap[0][0] if heap else NEVER for heap in self.pending), set()
        if self.n_rank > 1:
            is_of_run = {bool(_runs_on(loop)) for loop in self.loops}
            assert len(is_of_run) == 1, "some ranks would wait in a reduction, others not"
        begun = set()
        for loop in self.loops:
            if is_of_run == {True}:
                begun.add(bool(_begin_round(loop, loop[HORIZON])))
                continue
            if self.n_rank > 1:
                loop[N_REDUCTION] += 1
                _plan_run(loop, least_ps)
            begun.add(bool(_begin_round(loop, least_ps)))
        assert len(begun) == 1
        assert len({(int(loop[NOW]), int(loop[HORIZON])) for loop in self.loops}) == 1
        return begun == {True}

    def run_events(self, rank: int, of: Callable[[Event], list[Event]]) -> list[Event]:
        """Run what lies below the horizon; what it sends to other LPs."""
        heap, horizon_ps, sent = self.pending[rank], self.loops[rank][HORIZON], []
        while heap and heap[0][0] < horizon_ps:
            event = heapq.heappop(heap)
            self.history[event[1]].append(event)
            for new in of(event):
                if new[1] == event[1]:
                    heapq.heappush(heap, new)
                else:
                    sent.append(new)
        return sent

    def count(self, word: int) -> int:
        return int(self.loops[0][word])


@given(
    st.integers(0, 2**31),
    st.sampled_from([[1], [30], [950], [STRETCH_PS], [9999], [20_000], [1, 7000, 30_000, 650]]),
    st.sampled_from([NEVER - 1, NEVER - 1, 0, 40_001]),
)
def test_no_message_is_late_and_looks_are_the_same_on_any_number_of_ranks(
    seed: int, every_ps: list[int], stop_ps: int
) -> None:
    first = [(draw(seed, i, 5, 300), i % N_LP, 10**6 * i) for i in range(8)]

    def next_look(horizon_ps: int) -> int:
        return horizon_ps + every_ps[draw(seed, horizon_ps, 6, len(every_ps))]

    def of(event: Event) -> list[Event]:
        return successors(seed, event)

    runs = [Simulated(n_rank, first, next_look, stop_ps).run(of) for n_rank in (1, 2, 3, 6)]
    for run in runs[1:]:
        assert run.history == runs[0].history and run.looks == runs[0].looks
    done = [event[0] for events in runs[0].history.values() for event in events]
    assert all(time_ps <= stop_ps for time_ps in done)
    assert all(len(heap) == 0 or heap[0][0] > stop_ps for run in runs for heap in run.pending)


def steady(gap_ps: int, end_ps: int) -> Callable[[Event], list[Event]]:
    """One event after the other at each LP."""
    return lambda event: [(event[0] + gap_ps, event[1], event[2])] if event[0] + gap_ps < end_ps else []


def test_a_busy_network_needs_few_reductions_and_no_more_rounds() -> None:
    first, of = [(lp, lp, lp) for lp in range(N_LP)], steady(5, 50_000)
    alone, many = (Simulated(n, first, lambda _: NEVER).run(of) for n in (1, 3))
    assert many.count(N_ROUND) - alone.count(N_ROUND) in range(LONGEST_RUN + 1)  # what is left of the last run
    # 1, 2, 4 .. LONGEST_RUN, then as long again and again; one that finds nothing left
    n_doubling = LONGEST_RUN.bit_length()
    rest = many.count(N_ROUND) - n_doubling - (2 * LONGEST_RUN - 1)
    assert many.count(N_REDUCTION) <= n_doubling + -(-rest // (LONGEST_RUN + 1)) + 1


def test_an_idle_network_skips_from_event_to_event() -> None:
    first, of = [(0, 0, 0)], steady(50 * AHEAD_PS, 100_000)
    run = Simulated(3, first, lambda _: NEVER).run(of)
    assert run.count(N_ROUND) - 20 in (0, 1) and run.count(N_REDUCTION) in (20, 21)


def test_runs_double_while_reductions_gain_little() -> None:
    lengths = [0]
    for _ in range(8):
        lengths.append(int(next_run_length(lengths[-1], AHEAD_PS // MOST_GAIN_FRAC, AHEAD_PS)))
    assert lengths == [0, 1, 2, 4, 8, 16, 32, 32, 32] and lengths[-1] == LONGEST_RUN
    assert next_run_length(32, AHEAD_PS // MOST_GAIN_FRAC + 1, AHEAD_PS) == 0


@given(st.integers(0, 2**31), st.sampled_from([1, 333, 5000]), st.sampled_from([1, 3]))
def test_when_one_looks_does_not_depend_on_who_else_looks(seed: int, other_ps: int, n_rank: int) -> None:
    """Of what is due at multiples of an interval, beside what is due more often."""
    first, own_ps = [(draw(seed, i, 5, 300), i % N_LP, 10**6 * i) for i in range(8)], 9_999

    def instants(*every_ps: int) -> dict[int, int]:
        """{due: the first look that reaches it}"""

        def next_look(horizon_ps: int) -> int:
            return min((horizon_ps // each + 1) * each for each in every_ps)

        run = Simulated(n_rank, first, next_look).run(lambda event: successors(seed, event))
        ends = [horizon_ps for horizon_ps, _ in run.looks]
        return {due: next(e for e in ends if e >= due) for due in range(own_ps, ends[-1] + 1 if ends else 0, own_ps)}

    alone, beside = instants(own_ps), instants(own_ps, other_ps)
    both = alone.keys() & beside.keys()
    assert [alone[due] for due in both] == [beside[due] for due in both]


@pytest.mark.parametrize("next_look_ps", [1, STRETCH_PS])
def test_there_is_no_run_in_a_stretch_with_a_look(next_look_ps: int) -> None:
    loop = make_loop(AHEAD_PS, next_look_ps=next_look_ps, may_run_on=True)
    _plan_run(loop, 0)
    assert loop[RUN_LEFT] == 1 and free_until_ps(loop) == 0 and not _runs_on(loop)


def test_no_round_goes_into_a_stretch_with_a_look_or_out_of_it() -> None:
    begin_ps, end_ps = 7 * STRETCH_PS, 8 * STRETCH_PS
    for look_ps in (begin_ps + 1, end_ps):
        loop = make_loop(AHEAD_PS, next_look_ps=look_ps, may_run_on=True)
        assert free_until_ps(loop) == begin_ps
        _plan_run(loop, 5)
        assert _begin_round(loop, 5) and loop[HORIZON] == 5 + AHEAD_PS and _runs_on(loop)
        assert _begin_round(loop, begin_ps - 1) and loop[HORIZON] == begin_ps
        loop[RUN_LEFT] = 5
        assert not _runs_on(loop)
        assert _begin_round(loop, begin_ps + 3) and loop[HORIZON] == begin_ps + 3 + AHEAD_PS
        assert _begin_round(loop, end_ps - 3) and loop[HORIZON] == end_ps
        assert _begin_round(loop, 9 * STRETCH_PS - 3) and loop[HORIZON] == 9 * STRETCH_PS  # nothing came before


def test_where_something_may_be_interrupted_every_round_begins_at_an_event() -> None:
    for next_look_ps in (1, 10**6 * AHEAD_PS, NEVER):
        loop = make_loop(AHEAD_PS, next_look_ps=next_look_ps)
        _plan_run(loop, 0)
        assert free_until_ps(loop) == 0 and not _runs_on(loop) and loop[LIMIT] == NEVER
        assert _begin_round(loop, STRETCH_PS - 5) and loop[HORIZON] == STRETCH_PS - 5 + AHEAD_PS


def test_a_rest_begins_no_run() -> None:
    loop = make_loop(AHEAD_PS, may_run_on=True)
    _plan_run(loop, 0)
    assert _runs_on(loop) and not _runs_on(loop)
    _plan_run(loop, 0)
    _plan_run(loop, REST)
    assert loop[RUN_LEFT] == 0 and not _runs_on(loop)


def test_a_run_ends_at_the_stop() -> None:
    loop = make_loop(AHEAD_PS, stop_ps=150, may_run_on=True)
    _plan_run(loop, 0)
    assert _begin_round(loop, 0) and _runs_on(loop)
    assert _begin_round(loop, loop[HORIZON]) and loop[HORIZON] == 151
    loop[RUN_LEFT] = 5
    assert not _runs_on(loop)
