"""The round loop on one rank: horizons, the stop, pauses, shortages."""

import numpy as np

from pdes.engine.exchange import World
from pdes.engine.jit import loop_kernel
from pdes.engine.round import (
    ASKS,
    END_RUN,
    HORIZON,
    INTERRUPTED,
    N_ROUND,
    NOW,
    REST,
    ROUND_DONE,
    close_round,
    leave_round,
    make_loop,
    open_round,
    run_rounds,
)
from pdes.engine.round_exchange import ExchangeState, make_exchange, reduce_min, swap
from pdes.engine.time_index import NEVER

SHORT = 9


@loop_kernel
def _run_rounds(loop, ex: ExchangeState, times_ps, is_short, at, rounds):
    """Rounds over one entity with events at times_ps[at[0]:], NEVER the last one; at[1] rounds are in `rounds`."""
    while True:
        if not open_round(loop, ex, times_ps[at[0]]):
            return ROUND_DONE
        while times_ps[at[0]] < loop[HORIZON]:
            if is_short[at[0]]:
                leave_round(loop, ex)
                return SHORT
            at[0] += 1
        rounds[at[1], 0], rounds[at[1], 1] = loop[NOW], loop[HORIZON]
        at[1] += 1
        code = close_round(loop, ex, times_ps[at[0]])
        if code != 0:
            return code


class Counter:
    """A model whose only entity has an event at each of some instants; it runs short before some of them."""

    def __init__(self, times_ps: list[int], short_before: tuple[int, ...] = ()) -> None:
        self.times_ps = np.array([*times_ps, NEVER])
        self.is_short = np.isin(self.times_ps, short_before)
        self.at, self.log = np.zeros(2, np.int64), np.zeros((len(times_ps), 2), np.int64)
        self.n_relieved = 0

    @property
    def done(self) -> list[int]:
        return self.times_ps[: self.at[0]].tolist()

    @property
    def rounds(self) -> list[tuple[int, int]]:
        return [tuple(row) for row in self.log[: self.at[1]].tolist()]

    def run_rounds(self, loop: np.ndarray, ex: ExchangeState) -> int:
        return _run_rounds(loop, ex, self.times_ps, self.is_short, self.at, self.log)

    def relieve(self, code: int) -> None:
        assert code == SHORT
        self.is_short[self.at[0]] = False
        self.n_relieved += 1


class Looker(Counter):
    """The same with looks: every look_every_ps, until it ends the run at end_ps."""

    def __init__(self, times_ps: list[int], look_every_ps: int, end_ps: int = NEVER, **keys) -> None:
        super().__init__(times_ps, **keys)
        self.look_every_ps, self.end_ps, self.limit_ps = look_every_ps, end_ps, NEVER
        self.looks: list[tuple[int, list[int]]] = []

    def look(self, horizon_ps: int) -> int:
        self.looks.append((horizon_ps, self.done))
        return END_RUN if horizon_ps >= self.end_ps else horizon_ps + self.look_every_ps


def run(model: Counter, lookahead_ps: int, **keys) -> np.ndarray:
    stop = {"stop_ps": keys.pop("stop_ps")} if "stop_ps" in keys else {}
    loop = make_loop(lookahead_ps, **stop, next_look_ps=getattr(model, "look_every_ps", NEVER))
    run_rounds(model, loop, make_exchange(World(), [], 1), **keys)
    return loop


def test_a_round_begins_at_an_event_and_ends_a_lookahead_later():
    model = Counter([3, 5, 12, 13, 1000])
    loop = run(model, 10)
    assert model.rounds == [(3, 13), (13, 23), (1000, 1010)]
    assert model.done == [3, 5, 12, 13, 1000]
    assert loop[N_ROUND] == 3


def test_the_stop_is_inclusive():
    model = Counter([3, 5, 12, 13, 1000])
    run(model, 10, stop_ps=12)
    assert model.done == [3, 5, 12]
    assert model.rounds == [(3, 13)]
    model = Counter([3, 5, 12, 13, 1000])
    run(model, 10, stop_ps=11)
    assert model.rounds == [(3, 12)]


def test_a_shortage_is_mended_inside_the_round():
    model = Counter([3, 5, 12, 13], short_before=(3, 5, 13))
    run(model, 10)
    assert (model.done, model.n_relieved, model.rounds) == ([3, 5, 12, 13], 3, [(3, 13), (13, 23)])


def test_a_pause_comes_after_every_round_if_asked():
    ticks, model = [], Counter([3, 5, 12, 13, 1000])
    run(model, 10, tick=lambda: ticks.append(len(model.rounds)), pause_every_s=0)
    assert ticks == [1, 2, 3]


def test_a_look_comes_at_the_first_round_end_that_reaches_it():
    model = Looker([3, 5, 12, 13, 40, 1000], 20)
    run(model, 10)
    assert model.rounds == [(3, 13), (13, 23), (40, 50), (1000, 1010)]
    assert model.looks == [(23, [3, 5, 12, 13]), (50, [3, 5, 12, 13, 40]), (1010, model.done)]


def test_looks_change_neither_rounds_nor_pauses():
    ticks, model, blind = [], Looker([3, 5, 12, 13, 40], 1, short_before=(12,)), Counter([3, 5, 12, 13, 40])
    run(model, 10, tick=lambda: ticks.append(len(model.rounds)), pause_every_s=0)
    run(blind, 10)
    assert model.rounds == blind.rounds and ticks == [1, 2, 3] and len(model.looks) == 3


def test_a_look_does_not_put_a_pause_off():
    ticks, model = [], Looker(list(range(0, 2000, 10)), 1)
    run(model, 10, tick=lambda: ticks.append(1), pause_every_s=1e-6)
    assert len(ticks) > 10


def test_a_look_may_end_the_run():
    model = Looker([3, 5, 12, 13, 40, 1000], 20, end_ps=50)
    run(model, 10)
    assert model.done == [3, 5, 12, 13, 40]


def test_who_asks_has_a_rest_at_a_rounds_end_and_nothing_else_changes():
    rests, model, blind = [], Counter([3, 5, 12, 13, 40, 1000]), Counter([3, 5, 12, 13, 40, 1000])
    loop = make_loop(10)

    def ask() -> None:
        loop[ASKS] = len(model.rounds) in (1, 3)

    def rest() -> bool:
        rests.append((len(model.rounds), model.done))
        return True

    run_rounds(model, loop, make_exchange(World(), [], 1), ask, 0, rest)
    run(blind, 10)
    assert rests == [(1, [3, 5, 12]), (3, [3, 5, 12, 13, 40])] and model.rounds == blind.rounds


def test_a_rest_may_end_the_run():
    model, loop = Counter([3, 5, 12, 13, 1000]), make_loop(10)
    loop[ASKS] = 1
    run_rounds(model, loop, make_exchange(World(), [], 1), rest=lambda: False)
    assert model.done == [] and not loop[ASKS]


def test_an_interrupt_comes_before_a_rest():
    """What is interrupted is looked at first: a rest finds nothing half done."""
    assert INTERRUPTED < REST < 0


def test_one_rank_reduces_and_swaps_nothing():
    ex = make_exchange(World(), [1, 2], 5)
    assert ex.outbox.shape[0] == ex.inbox.shape[0] == ex.peer.size == 0
    assert reduce_min(ex, 42) == 42
    assert swap(ex, 43) == 43


def test_a_world_without_mpi_is_one_rank():
    world = World()
    assert (world.rank, world.size, world.library()) == (0, 1, "none")
    assert world.bcast("x") == "x"
    assert world.gather(3) == world.allgather(3) == [3]
    world.barrier()
    world.abort(3)
    assert not world.addresses().any()
