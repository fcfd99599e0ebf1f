"""Rounds that look without a trip through Python, while there is nothing to decide: see `pdes.skipping.look.assess`.

On several ranks they meet for it (`pdes.engine.gathering`): each brings what its hosts have got done, and whether it
has something that Python has to see to. If one has, all of them leave the rounds; else all find the same.
"""

from typing import NamedTuple

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.host.interrupts import is_interrupted
from models.network.managed_rounds import run_managed_rounds
from models.network.outputs import Outputs
from models.network.rounds import run_rounds
from models.network.skip.progress import Samples, offer_sample, take_sample
from models.network.state.records import N_POSTED, N_UNSEEN, Fabric, Nic
from pdes.engine.jit import inlined, loop_kernel
from pdes.engine.round import (
    HORIZON,
    IS_INTERRUPTED,
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
) = range(10)
N_ROUND_LOOK_WORD = 10
WAVES_COME_FIRST, WAVES_WAIT = (
    1,
    2,
)  # waves look at every look, which is Python's then; or, where messages go at flow level, every so often


class RoundLooks(NamedTuple):
    """What a look needs."""

    words: np.ndarray  # int64[N_ROUND_LOOK_WORD]
    samples: Samples
    assessment: Assessment


@loop_kernel
def _is_for_python(loop, fabric: Fabric, g: RoundLooks):
    """Whether this rank knows, before anything is sampled, that a look has more to see to than samples."""
    now_ps, words = loop[HORIZON], g.words
    if loop[IS_INTERRUPTED] or is_interrupted(fabric.counters) or now_ps >= loop[LIMIT]:
        return True
    if now_ps < words[FROM_PS] or now_ps >= words[UNTIL_PS]:
        return True
    if fabric.counters[N_UNSEEN] > 0 or now_ps >= words[FLOW_LEVEL_PS]:
        return True  # that comes first, and may change what is to be judged
    if words[HAS_WAVES] == WAVES_COME_FIRST and now_ps >= g.assessment.words[NEXT_LOOK_PS]:
        return True
    if words[HAS_WAVES] and now_ps >= words[TICK_PS]:
        return fabric.counters[N_POSTED] != words[SEEN_POSTED] or now_ps >= words[WAVES_PS]
    return False


@loop_kernel
def finds_nothing(loop, fabric: Fabric, nic: Nic, g: RoundLooks):
    """Look at a round's end; whether there is nothing to decide, so that rounds may go on: the same on every rank.

    LEAST, if it is known, stays: nothing that is pending has changed.
    """
    now_ps, words = loop[HORIZON], g.words
    is_for_python, is_due = _is_for_python(loop, fabric, g), now_ps >= g.assessment.words[NEXT_LOOK_PS]
    least = np.int64(0) if is_for_python else np.int64(1)
    if offer_sample(fabric, nic, g.samples, is_due and not is_for_python, least) == 0:
        return False
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
        if code != ROUND_LOOK or not finds_nothing(loop, state.fabric, state.nic, g):
            return code
        if loop[MARK_NS] > loop[RETURN_NS]:
            return ROUND_PAUSE


@loop_kernel
def run_rounds_with_looks(
    loop, ex: ExchangeState, state: NetworkState, port_peer_row, outputs: Outputs, g: RoundLooks
):  # fmt: skip
    """`run_rounds`, as long as looks find nothing to decide."""
    return _rounds_with_looks(loop, ex, state, port_peer_row, outputs, g, run_rounds)


@loop_kernel
def run_managed_rounds_with_looks(
    loop, ex: ExchangeState, state: NetworkState, port_peer_row, outputs: Outputs, g: RoundLooks
):  # fmt: skip
    """The same where switches are managed."""
    return _rounds_with_looks(loop, ex, state, port_peer_row, outputs, g, run_managed_rounds)
