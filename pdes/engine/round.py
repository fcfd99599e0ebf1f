"""Conservative rounds (design R5, R6): what every model's compiled loop does at the start and the end of a round, and
the Python loop around it.

A model has a compiled function `run_rounds(loop, ex, ...) -> code` that repeats

    if not open_round(loop, ex, next_event_ps): return ROUND_DONE
    ... run every LP's events below loop[HORIZON]; on a shortage return a code > 0, and go on here when called again ...
    code = close_round(loop, ex, least time pending or sent); if code is not 0, return it

so that rounds cost no trip through Python; `run_rounds` below calls it until the run is over. What looks at nodes of
all ranks (design R6) does so between two rounds, at the first round end whose horizon has reached loop[NEXT_LOOK].

A rank that sets loop[ASKS] has all ranks rest at the same round's end: nothing is in flight then. Asking rides on what
rounds reduce and exchange anyway, so it is heard at the next reduction, LONGEST_RUN rounds on at most.

Where ranks are not all neighbours, a reduction says when the next event of all is. It is left out where it would say
little: at a round's end every event left lies at the horizon or later, so the next round may begin there, and nobody
has to be asked but the neighbours, whose messages the exchange waits for anyway. Such rounds make a run. How long it is
follows from what reductions said before, which all ranks know alike.

Horizons then depend on who is whose neighbour, thus on ranks, and decision instants must not (R6), nor on what else
looks. So time is cut into stretches of STRETCH_ROUNDS lookaheads. In a stretch in which a look is due there are no runs
and rounds begin at events, the first one at the first event of the stretch, as no round goes from one stretch into it,
nor out of it. So the look's instant follows from its due time and from the stretch's events alone. Where an interrupt
may come (R9) there are neither runs nor stretches.
"""

from collections.abc import Callable
from typing import Protocol, cast

import numpy as np

from pdes.engine.foreign import clock_ns
from pdes.engine.jit import loop_kernel, step_kernel
from pdes.engine.round_exchange import ExchangeState, reduce_min, swap
from pdes.engine.time_index import NEVER

# What `loop`, int64[N_LOOP], holds.
(
    LOOKAHEAD,
    STOP,
    HORIZON,
    IN_ROUND,
    N_ROUND,
    NOW,
    COMPUTE_NS,
    WAIT_NS,
    EXCHANGE_NS,
    MARK_NS,
    RETURN_NS,
    LEAST,
    NEXT_LOOK,  # NEVER: none
    LIMIT,  # no round passes it before the model has looked there, NEVER: none
    IS_INTERRUPTED,  # 1: a rank has said INTERRUPTED instead of its next event
    ASKS,  # 1: this rank wants all ranks to rest
    IS_RESTING,  # 1: they do
    IS_WAITING,  # 1: for other ranks
    MAY_RUN_ON,  # 1: nothing is ever INTERRUPTED, so that there may be runs
    RUN_LENGTH,  # rounds of the last run
    RUN_LEFT,  # of the present one
    N_REDUCTION,
) = range(22)
N_LOOP = 24
LONGEST_RUN = 32
MOST_GAIN_FRAC = 8  # a reduction that moved the horizon by no more than this part of a lookahead was for little
STRETCH_ROUNDS = 64  # of one lookahead

# What a compiled loop returns; a model adds its own codes above PAUSE.
ROUND_DONE, ROUND_PAUSE, ROUND_LOOK = 0, 1, -1
INTERRUPTED = -2  # in place of the next event time: all ranks look before anything else happens
REST = -1  # the same: all ranks rest
UNKNOWN = -3  # for an exchange: what leaves this rank may make events elsewhere of which a reduction has to say
END_RUN = -1  # what a model's look returns to end the run
PAUSE_EVERY_S = 0.2


class RoundModel(Protocol):
    """What the engine asks of a model on one rank."""

    def run_rounds(self, loop: np.ndarray, ex: ExchangeState) -> int:
        """Run rounds in compiled code until done, until loop[RETURN_NS], or until something is short."""
        ...

    def relieve(self, code: int) -> None:
        """Mend the shortage that a code above ROUND_PAUSE names: grow a pool, write out rows."""
        ...


class LookModel(RoundModel, Protocol):
    """A model that looks at its nodes now and then; needed only where a loop has a NEXT_LOOK."""

    limit_ps: int
    """No round passes this instant before the model has looked there; NEVER: none. Read after every look."""

    def look(self, horizon_ps: int) -> int:
        """Look at a round's end, when every event below horizon_ps has run on every rank, and none from there on.

        A logical process that stopped with INTERRUPTED has run less far. Every rank is called at the same instants,
        and may talk to the others. Returns the instant of the next look, above horizon_ps, or where some have run less
        far above the first of them, NEVER for none; or END_RUN, on all ranks.
        """
        ...


def make_loop(
    lookahead_ps: int, stop_ps: int = NEVER - 1, next_look_ps: int = NEVER, words: np.ndarray | None = None,
    may_run_on: bool = False,
) -> np.ndarray:  # fmt: skip
    """State of the round loop. No event later than stop_ps runs. next_look_ps: of a `LookModel`, its first.

    words: zeros to keep it in, int64[N_LOOP], for someone else to look at. may_run_on: the model never says INTERRUPTED
    and has no limit, so that rounds may begin without a reduction.
    """
    loop = np.zeros(N_LOOP, np.int64) if words is None else words
    loop[LOOKAHEAD], loop[STOP], loop[LEAST], loop[NEXT_LOOK] = lookahead_ps, stop_ps, -1, next_look_ps
    loop[LIMIT], loop[MAY_RUN_ON] = NEVER, may_run_on
    return loop


@loop_kernel
def free_until_ps(loop):
    """Where the stretch begins in which the next look is due: rounds before may be of a run. NEVER: no look."""
    if not loop[MAY_RUN_ON]:
        return np.int64(0)
    if loop[NEXT_LOOK] == NEVER:
        return NEVER
    stretch_ps = STRETCH_ROUNDS * loop[LOOKAHEAD]
    return (loop[NEXT_LOOK] - 1) // stretch_ps * stretch_ps  # a look that is due at a stretch's end is one of it


@step_kernel
def _longest_end_ps(loop, begin_ps):
    """Where a round that begins at begin_ps must end for the sake of stretches."""
    free_ps = free_until_ps(loop)
    if begin_ps < free_ps:
        return free_ps
    stretch_ps = STRETCH_ROUNDS * loop[LOOKAHEAD]
    return (begin_ps // stretch_ps + 1) * stretch_ps if loop[MAY_RUN_ON] else NEVER


@loop_kernel
def next_run_length(length, gain_ps, lookahead_ps):
    """Rounds of the run behind a reduction that moved the horizon by gain_ps beyond one lookahead.

    length: of the last run. Twice as many while reductions gain little, none behind one that did not: in a network that
    is idle it is a reduction that skips the time until something happens.
    """
    if gain_ps > lookahead_ps // MOST_GAIN_FRAC:
        return 0
    return min(max(1, 2 * length), LONGEST_RUN)


@step_kernel
def runs_on(loop):
    """Whether the next round is one of a run: it begins at the last one's horizon. All ranks say the same."""
    if loop[RUN_LEFT] == 0 or loop[HORIZON] >= free_until_ps(loop) or loop[HORIZON] > loop[STOP]:
        return False
    loop[RUN_LEFT] -= 1
    return True


@step_kernel
def plan_run(loop, least_ps):
    """How many rounds may do without, after a reduction to least_ps: the next event, REST, or INTERRUPTED."""
    loop[RUN_LEFT] = 0
    if least_ps >= 0:
        gain_ps = least_ps - loop[HORIZON]
        loop[RUN_LENGTH] = loop[RUN_LEFT] = next_run_length(loop[RUN_LENGTH], gain_ps, loop[LOOKAHEAD])


@step_kernel
def begin_round(loop, least_ps):
    """Set the next horizon, from an instant before which there is no event; False if none is left up to the stop."""
    least_ps = min(least_ps, loop[LIMIT])
    if least_ps < 0 or least_ps > loop[STOP]:
        return False
    loop[NOW] = least_ps
    loop[HORIZON] = min(least_ps + loop[LOOKAHEAD], loop[STOP] + 1, loop[LIMIT], _longest_end_ps(loop, least_ps))
    loop[IN_ROUND] = 1
    return True


@step_kernel
def open_round(loop, ex: ExchangeState, next_event_ps):
    """Agree on the next horizon; False if no rank has an event up to the stop, or if one is interrupted, or asks.

    Nothing to do inside a round. A round that begins at loop[LIMIT] is empty.
    """
    if loop[IN_ROUND]:
        loop[MARK_NS] = clock_ns(ex.clock[0], ex.clock[1:])
        return True
    begin_ns = clock_ns(ex.clock[0], ex.clock[1:])
    loop[IS_WAITING] = 1
    least_ps = loop[LEAST]  # known from the last exchange if all ranks are neighbours: then no reduction is due
    if least_ps < 0 and runs_on(loop):
        least_ps = loop[HORIZON]
    elif least_ps < 0:
        least_ps = reduce_min(ex, min(next_event_ps, REST) if loop[ASKS] else next_event_ps)
        loop[N_REDUCTION] += ex.n_rank[0] > 1
        if not ex.is_complete[0]:
            plan_run(loop, least_ps)
    loop[MARK_NS] = clock_ns(ex.clock[0], ex.clock[1:])
    loop[WAIT_NS] += loop[MARK_NS] - begin_ns
    loop[IS_WAITING] = 0
    loop[IS_INTERRUPTED], loop[IS_RESTING] = least_ps == INTERRUPTED, least_ps == REST
    return begin_round(loop, least_ps)


@step_kernel
def leave_round(loop, ex: ExchangeState):
    """Stop the clock of a round that goes on after a shortage is mended."""
    loop[COMPUTE_NS] += clock_ns(ex.clock[0], ex.clock[1:]) - loop[MARK_NS]


@step_kernel
def close_round(loop, ex: ExchangeState, least_ps):
    """Exchange with the neighbours; 0, or what to go back to Python for: ROUND_LOOK or ROUND_PAUSE.

    least_ps: least time of what is pending on this rank or leaves it now.
    """
    begin_ns = clock_ns(ex.clock[0], ex.clock[1:])
    loop[COMPUTE_NS] += begin_ns - loop[MARK_NS]
    end_ns = begin_ns
    if ex.n_rank[0] > 1:
        loop[IS_WAITING] = 1
        least_ps = swap(ex, min(least_ps, REST) if loop[ASKS] else least_ps)
        loop[IS_WAITING] = 0
        if ex.is_complete[0]:
            loop[LEAST] = least_ps  # below 0: a reduction says who asks, or is interrupted
        end_ns = clock_ns(ex.clock[0], ex.clock[1:])
        loop[EXCHANGE_NS] += end_ns - begin_ns
    loop[IN_ROUND] = 0
    loop[N_ROUND] += 1
    if loop[HORIZON] >= loop[NEXT_LOOK]:
        return ROUND_LOOK
    return ROUND_PAUSE if end_ns > loop[RETURN_NS] else 0


def run_rounds(
    model: RoundModel,
    loop: np.ndarray,
    ex: ExchangeState,
    tick: Callable[[], None] | None = None,
    pause_every_s: float = PAUSE_EVERY_S,
    rest: Callable[[], bool] | None = None,
) -> None:
    """Run a model to its end on this rank. tick is called every so often, for progress; 0: after every round.

    rest: called on all ranks at one round's end after some have set loop[ASKS], say in tick; whether to go on.
    """
    pause_ns, is_due = int(pause_every_s * 1e9), True
    while True:
        if is_due:
            loop[RETURN_NS] = clock_ns(ex.clock[0], ex.clock[1:]) + pause_ns
        code = model.run_rounds(loop, ex)
        if code == ROUND_DONE:
            if not loop[IS_RESTING]:
                return
            loop[ASKS] = loop[IS_RESTING] = 0
            if rest is not None and not rest():
                return
            is_due = True
            continue
        if code > ROUND_PAUSE:
            model.relieve(code)
            continue
        if code == ROUND_LOOK and not _look(cast(LookModel, model), loop):
            return
        is_due = code == ROUND_PAUSE or clock_ns(ex.clock[0], ex.clock[1:]) > loop[RETURN_NS]
        if is_due and tick is not None:
            tick()


def _look(model: LookModel, loop: np.ndarray) -> bool:
    """Let the model look at its nodes; False if the run is to end."""
    horizon_ps = int(loop[HORIZON])
    loop[NEXT_LOOK] = model.look(horizon_ps)
    loop[LIMIT], loop[LEAST] = model.limit_ps, -1  # what is pending may have changed
    assert loop[LIMIT] == NEVER or not loop[MAY_RUN_ON]
    assert loop[NEXT_LOOK] == END_RUN or loop[NEXT_LOOK] > loop[NOW]
    return bool(loop[NEXT_LOOK] != END_RUN)
