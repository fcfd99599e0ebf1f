"""Rounds that look without a trip through Python, while there is nothing to decide: see `pdes.skipping.look.assess`.

On several ranks they meet for it (`pdes.engine.gathering`): each brings what its hosts have got done, and whether it
has something that Python has to see to. If one has, all of them leave the rounds; else all find the same. Ticks of flow
level (`skip.fluid_ticks`) are part of it, unless flows go on packet by packet there.
"""

from typing import NamedTuple

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.host.interrupts import is_interrupted
from models.network.managed_rounds import managed_rounds
from models.network.outputs import Outputs
from models.network.rounds import plain_rounds, take_in
from models.network.skip.fluid_ticks import IS_AUDITED, Ticks, tick_in_rounds
from models.network.skip.progress import Samples, offer_sample, take_sample
from models.network.state.records import N_POSTED, N_UNSEEN
from pdes.engine.jit import inlined, program_kernel, step_kernel
from pdes.engine.round import (
    HORIZON,
    IS_INTERRUPTED,
    LEAST,
    LIMIT,
    MARK_NS,
    NEXT_LOOK,
    RETURN_NS,
    ROUND_LOOK,
    ROUND_PAUSE,
)
from pdes.engine.round_exchange import ExchangeState
from pdes.skipping.look.assess import NEXT_LOOK_PS, Assessment, assess

# What `RoundLooks.words` holds.
(
    UNTIL_PS,  # when somebody else looks, or this may not look: Python's turn
    FROM_PS,  # before that nothing may be decided
    ASSESSED_PS,  # instant of the last look that found something, which is Python's to decide; -1: there is none
    N_ROW,  # of its sample
    HAS_WAVES,  # one of WAVES_*, 0: there are none
    TICK_PS,  # when waves want to see whether something was posted
    TICK_EVERY_PS,
    SEEN_POSTED,  # messages that were posted when they saw last
    WAVES_PS,  # when waves want to look, whatever was posted
    FLOW_LEVEL_PS,  # when something happens at flow level, whatever was posted
    HELD_PS,  # when something frozen goes on, or a wave's end is due: Python's turn
) = range(11)
N_ROUND_LOOK_WORD = 11
FOR_PYTHON, FOR_TICK, FOR_SAMPLES = 0, 1, 2  # who, or what, a look is for: of all ranks the least counts
WAVES_COME_FIRST, WAVES_WAIT = (
    1,
    2,
)  # waves look at every look, which is Python's then; or, where messages go at flow level, every so often


class RoundLooks(NamedTuple):
    """What a look needs."""

    words: np.ndarray  # int64[N_ROUND_LOOK_WORD]
    samples: Samples
    assessment: Assessment
    ticks: Ticks  # empty where nothing goes at flow level


@step_kernel
def _who_looks(loop, state: NetworkState, ex: ExchangeState, g: RoundLooks):
    """What this rank knows, before anything is sampled, of what a look has to see to: one of FOR_*."""
    now_ps, words, counters = loop[HORIZON], g.words, state.fabric.counters
    if loop[IS_INTERRUPTED] or is_interrupted(counters) or now_ps >= words[HELD_PS]:
        return FOR_PYTHON
    if now_ps < words[FROM_PS] or now_ps >= words[UNTIL_PS]:
        return FOR_PYTHON
    if words[HAS_WAVES] == WAVES_COME_FIRST and now_ps >= g.assessment.words[NEXT_LOOK_PS]:
        return FOR_PYTHON
    is_wave_due = counters[N_POSTED] != words[SEEN_POSTED] or now_ps >= words[WAVES_PS]
    if words[HAS_WAVES] and now_ps >= words[TICK_PS] and is_wave_due:
        return FOR_PYTHON
    if counters[N_UNSEEN] == 0 and now_ps < words[FLOW_LEVEL_PS]:
        return FOR_SAMPLES
    is_there = take_in(state.fabric, state.work, ex)  # what the last exchange brought lies where it belongs
    return FOR_TICK if is_there and not g.ticks.words[IS_AUDITED] else FOR_PYTHON


@step_kernel
def finds_nothing(loop, state: NetworkState, ex: ExchangeState, g: RoundLooks):
    """Look at a round's end; whether there is nothing for Python, so that rounds may go on: the same on every rank.

    What happens at flow level comes first. LEAST, if it is known, stays where nothing does.
    """
    now_ps, words, fabric, nic = loop[HORIZON], g.words, state.fabric, state.nic
    is_due, wanted = now_ps >= g.assessment.words[NEXT_LOOK_PS], _who_looks(loop, state, ex, g)
    wanted = offer_sample(fabric, nic, g.samples, is_due and wanted == FOR_SAMPLES, np.int64(wanted))
    if wanted == FOR_PYTHON:
        return False
    if wanted == FOR_TICK:
        next_ps = tick_in_rounds(fabric, state.buffers, nic, g.samples, g.ticks, now_ps)
        if next_ps < 0:
            return False
        words[FLOW_LEVEL_PS] = next_ps
        loop[LIMIT], loop[LEAST] = min(words[HELD_PS], max(next_ps, now_ps + 1)), -1
        if is_due:
            offer_sample(fabric, nic, g.samples, True, np.int64(0))
    if words[HAS_WAVES] and now_ps >= words[TICK_PS]:
        words[TICK_PS] = now_ps + words[TICK_EVERY_PS]
    if is_due:
        n_row = take_sample(g.samples)
        if assess(g.assessment, g.samples.rows[:n_row], now_ps):
            words[ASSESSED_PS], words[N_ROW] = now_ps, n_row
            return False
    next_ps = min(g.assessment.words[NEXT_LOOK_PS], loop[LIMIT], words[UNTIL_PS], max(words[TICK_PS], now_ps + 1))
    loop[NEXT_LOOK] = next_ps
    return True


@inlined
def _rounds_with_looks(loop, ex, state, port_peer_row, outputs, g, run):
    """Rounds, as run(loop, ex, state, port_peer_row, outputs) carries them out, while looks find nothing to decide."""
    while True:
        code = run(loop, ex, state, port_peer_row, outputs)
        if code != ROUND_LOOK or not finds_nothing(loop, state, ex, g):
            return code
        if loop[MARK_NS] > loop[RETURN_NS]:
            return ROUND_PAUSE


@program_kernel
def run_rounds_with_looks(
    loop, ex: ExchangeState, state: NetworkState, port_peer_row, outputs: Outputs, g: RoundLooks
):  # fmt: skip
    """`run_rounds`, as long as looks find nothing to decide."""
    return _rounds_with_looks(loop, ex, state, port_peer_row, outputs, g, plain_rounds)


@program_kernel
def run_managed_rounds_with_looks(
    loop, ex: ExchangeState, state: NetworkState, port_peer_row, outputs: Outputs, g: RoundLooks
):  # fmt: skip
    """The same where switches are managed."""
    return _rounds_with_looks(loop, ex, state, port_peer_row, outputs, g, managed_rounds)
