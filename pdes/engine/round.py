"""Conservative rounds (design R5, R6): what every model's compiled loop does at the start and the end of a round, and
the Python loop around it.

A model has a compiled function `run_rounds(loop, ex, ...) -> code` that repeats

    if not open_round(loop, ex, next_event_ps): return ROUND_DONE
    ... run every LP's events below loop[HORIZON]; on a shortage return a code > 0, and go on here when called again ...
    close_round(loop, ex, least time pending or sent)

so that rounds cost no trip through Python; `run_rounds` below calls it until the run is over.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from pdes.engine.exchange import ExchangeState, reduce_min, swap
from pdes.engine.foreign import clock_ns
from pdes.engine.jit import step_kernel
from pdes.engine.time_index import NEVER

# What `loop`, int64[N_LOOP], holds.
LOOKAHEAD, STOP, HORIZON, IN_ROUND, N_ROUND, NOW, COMPUTE_NS, WAIT_NS, EXCHANGE_NS, MARK_NS, RETURN_NS, LEAST = range(
    12
)
N_LOOP = 16

# What a compiled loop returns; a model adds its own codes above PAUSE.
ROUND_DONE, ROUND_PAUSE = 0, 1
PAUSE_EVERY_S = 0.2


class RoundModel(Protocol):
    """What the engine asks of a model on one rank."""

    def run_rounds(self, loop: np.ndarray, ex: ExchangeState) -> int:
        """Run rounds in compiled code until done, until loop[RETURN_NS], or until something is short."""
        ...

    def relieve(self, code: int) -> None:
        """Mend the shortage that a code above ROUND_PAUSE names: grow a pool, write out rows."""
        ...


def make_loop(lookahead_ps: int, stop_ps: int = NEVER - 1) -> np.ndarray:
    """State of the round loop. No event later than stop_ps runs."""
    loop = np.zeros(N_LOOP, np.int64)
    loop[LOOKAHEAD], loop[STOP], loop[LEAST] = lookahead_ps, stop_ps, -1
    return loop


@step_kernel
def open_round(loop, ex: ExchangeState, next_event_ps):
    """Agree on the next horizon; False if no rank has an event up to the stop. Nothing to do inside a round."""
    if loop[IN_ROUND]:
        loop[MARK_NS] = clock_ns(ex.clock[0], ex.clock[1:])
        return True
    begin_ns = clock_ns(ex.clock[0], ex.clock[1:])
    least_ps = loop[LEAST]  # known from the last exchange if all ranks are neighbours: then no reduction is due
    if least_ps < 0:
        least_ps = reduce_min(ex, next_event_ps)
    loop[MARK_NS] = clock_ns(ex.clock[0], ex.clock[1:])
    loop[WAIT_NS] += loop[MARK_NS] - begin_ns
    if least_ps > loop[STOP]:
        return False
    loop[NOW] = least_ps
    loop[HORIZON] = min(least_ps + loop[LOOKAHEAD], loop[STOP] + 1)
    loop[IN_ROUND] = 1
    return True


@step_kernel
def leave_round(loop, ex: ExchangeState):
    """Stop the clock of a round that goes on after a shortage is mended."""
    loop[COMPUTE_NS] += clock_ns(ex.clock[0], ex.clock[1:]) - loop[MARK_NS]


@step_kernel
def close_round(loop, ex: ExchangeState, least_ps):
    """Exchange with the neighbours; True if it is time to go back to Python for a moment.

    least_ps: least time of what is pending on this rank or leaves it now.
    """
    begin_ns = clock_ns(ex.clock[0], ex.clock[1:])
    loop[COMPUTE_NS] += begin_ns - loop[MARK_NS]
    end_ns = begin_ns
    if ex.n_rank[0] > 1:
        least_ps = swap(ex, least_ps)
        if ex.is_complete[0]:
            loop[LEAST] = least_ps
        end_ns = clock_ns(ex.clock[0], ex.clock[1:])
        loop[EXCHANGE_NS] += end_ns - begin_ns
    loop[IN_ROUND] = 0
    loop[N_ROUND] += 1
    return end_ns > loop[RETURN_NS]


def run_rounds(
    model: RoundModel,
    loop: np.ndarray,
    ex: ExchangeState,
    tick: Callable[[], None] | None = None,
    pause_every_s: float = PAUSE_EVERY_S,
) -> None:
    """Run a model to its end on this rank. tick is called every so often, for progress; 0: after every round."""
    while True:
        loop[RETURN_NS] = clock_ns(ex.clock[0], ex.clock[1:]) + int(pause_every_s * 1e9)
        code = model.run_rounds(loop, ex)
        if code == ROUND_DONE:
            return
        if code == ROUND_PAUSE:
            if tick is not None:
                tick()
        else:
            model.relieve(code)
