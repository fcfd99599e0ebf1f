"""Having a network that fast-forwarding has taken apart go on packet by packet, all of it, as of one instant.

It is for who wants to see what a run does there without skipping, and leaves it at that: what fast-forwarding remembers
says nothing of the network afterwards. On one rank.
"""

import numpy as np

from models.network.model import NetworkModel
from models.network.skip.fast_forward import FastForward
from models.network.state.records import N_FROZEN_PORT, N_INTERRUPT
from pdes.engine.round import END_RUN, HORIZON, LEAST, LIMIT, MAY_RUN_ON, NEXT_LOOK, run_rounds
from pdes.engine.time_index import NEVER


def wake(model: NetworkModel, loop: np.ndarray) -> None:
    """Thaw everything at a round's end and run on until all of it has come as far; then nothing skips any more.

    Every queue pair that skips, or leads others, counts as one that has met frozen ports (design R9).
    """
    fast = model.fast_forward
    if fast is not None:
        _close_fluid(model, fast, int(loop[HORIZON]))
        _interrupt_all(model, int(loop[HORIZON]))

        def thaw(horizon_ps: int) -> int:
            is_level = fast.thaw(model.state, horizon_ps)
            return END_RUN if is_level and model.state.fabric.counters[N_FROZEN_PORT] == 0 else fast.limit_ps

        model.look = thaw
        if thaw(int(loop[HORIZON])) != END_RUN:
            loop[NEXT_LOOK] = loop[LIMIT] = fast.limit_ps
            loop[LEAST] = -1
            fast.round_looks = lambda other_look_ps: None  # nothing is decided on the way
            run_rounds(model, loop, model.exchange)
        del model.look
        model.fast_forward = None
    loop[NEXT_LOOK] = loop[LIMIT] = NEVER
    loop[LEAST], loop[MAY_RUN_ON] = -1, 1


def _close_fluid(model: NetworkModel, fast: FastForward, now_ps: int) -> None:
    """Have what is at flow level go on as packets, with nothing in flight."""
    if fast.fluid is None:
        return
    fast.fluid.give_up_all(model.state, now_ps)
    fast.fluid, fast.limit_ps = None, fast.held_ps


def _interrupt_all(model: NetworkModel, now_ps: int) -> None:
    """Have it noted of every queue pair with something under way that it has met frozen ports."""
    nic = model.state.nic
    pairs = np.flatnonzero((nic.is_frozen != 0) | (nic.queue_pairs["acked_byte"] < nic.queue_pairs["posted_end"]))
    nic.interrupted[: len(pairs)] = pairs
    nic.interrupt_ps[pairs] = now_ps
    model.state.fabric.counters[N_INTERRUPT] = len(pairs)
