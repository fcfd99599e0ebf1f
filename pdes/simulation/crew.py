"""The ranks that simulate: all of them, or rank 0 alone while the others sleep, and the way from one to the other.

Where something is skipped, much of a run is decisions, which all ranks that have LPs take alike: then fewer ranks are
faster. A run goes from rank 0 to all ranks and back as it does by way of a checkpoint on as many ranks as it likes,
only that this one stays in memory. No result depends on it (design R6). Rows of results stay on the rank that has
written them, until that rank falls asleep.
"""

import io
import signal
from typing import Any

import numpy as np

from models.network.state.records import PACKET_HOPS
from pdes.checkpoint_requests import Requests
from pdes.engine import pickled
from pdes.engine.exchange import World
from pdes.engine.round import COMPUTE_NS, EXCHANGE_NS, RUN_LEFT, RUN_LENGTH, WAIT_NS
from pdes.simulation.checkpoints.saved import load, save_alike, save_own
from pdes.simulation.compile import compile_in_turn
from pdes.simulation.job import Run
from pdes.units import NS_PER_S

WAKES = -1
"""What rank 0 says to those that sleep; else the run is over, and it is the exit status."""
PREPARES = -2
"""A word in their sleep: they will be woken soon."""


def sleep(job: Run, requests: Requests) -> int:
    """On a rank without LPs, until rank 0 says how it goes on: `WAKES`, or the exit status of the run.

    Signals that this rank hears go to rank 0.
    """
    world = job.everyone

    def listen() -> None:
        if world.told() == PREPARES:
            job.rehearse()
        if requests.is_pending:
            world.tell(signal.SIGTERM if requests.take().stops else signal.SIGUSR1, [0])

    world.while_waiting.append(listen)
    try:
        word: int = world.bcast(None)
    finally:
        world.while_waiting.remove(listen)
    if word == WAKES:
        spread(job)
    return word


def hear(job: Run, requests: Requests) -> None:
    """On rank 0, take up signals that ranks heard in their sleep, of which it may have woken them since."""
    if job.begins_alone and job.everyone.rank == 0:
        number = job.everyone.told()
        if number is not None:
            requests.take_over({number})


def spread(job: Run) -> None:
    """From rank 0 to all ranks, at a round's end: rank 0 wakes the others, whose `sleep` calls this."""
    world, packed = job.everyone, None
    if world.rank == 0:
        world.bcast(WAKES)
        job.model.flush()
        packed = _packed([save_own(job)], save_alike(job))
        _count(job)
        job.take_apart()
    job.is_asleep = False
    owns, alike = _unpacked(world.bcast_once(packed))
    _take_up(job, world, job.common_placement(), owns, alike, np.zeros(job.scenario.n_lp, np.int64))


def collect(job: Run) -> None:
    """From all ranks to rank 0, at a round's end that all have. The others are asleep then."""
    world, was_rank_of_lp = job.everyone, job.rank_of_lp
    job.model.flush()
    own = _packed(save_own(job))
    _count(job)
    alike = save_alike(job) if world.rank == 0 else None
    owns = world.gather(own)
    if alike is not None:
        alike = pickled.copied(alike)
    job.take_apart()
    if owns is not None and alike is not None:
        parts = [_unpacked(part)[0] for part in owns]
        _take_up(job, World(), np.zeros(job.scenario.n_lp, np.int64), parts, alike, was_rank_of_lp)
        job.rows.absorb(parts)
    world.barrier()
    if world.rank > 0:
        job.rows.forget()
        job.is_asleep = True


def counted(job: Run) -> tuple[float, float, float, int]:
    """(seconds of computing, waiting and exchanging, packet-hops) of this rank, whoever had what LPs when."""
    compute_s, wait_s, exchange_s = (float(job.loop[i]) / NS_PER_S for i in (COMPUTE_NS, WAIT_NS, EXCHANGE_NS))
    return compute_s, wait_s, exchange_s, hops_of(job)


def hops_of(job: Run) -> int:
    """Packet-hops that this rank has simulated, or that it has restored."""
    return job.own_hops if job.is_asleep else job.own_hops + int(job.model.state.fabric.counters[PACKET_HOPS])


def _count(job: Run) -> None:
    """Keep what this rank has counted: what adds up goes to rank 0."""
    job.own_hops += int(job.model.state.fabric.counters[PACKET_HOPS])


def _take_up(
    job: Run, world: World, rank_of_lp: np.ndarray, owns: list[Any], alike: dict[str, Any], was_rank_of_lp: np.ndarray
) -> None:  # fmt: skip
    """Go on with LPs placed anew. world: of those that call this."""
    job.place(world, rank_of_lp)
    compile_in_turn(job)  # which empties some memory
    load(job, owns, alike, was_rank_of_lp)
    job.own_hops -= int(job.model.state.fabric.counters[PACKET_HOPS])
    job.loop[RUN_LENGTH] = job.loop[RUN_LEFT] = 0  # of rounds between reductions, alike everywhere


def _packed(*values: Any) -> np.ndarray:
    """uint8[]: values that share nothing with others any more."""
    stream = io.BytesIO()
    pickled.dump(values, stream)
    return np.frombuffer(stream.getbuffer(), np.uint8)


def _unpacked(packed: np.ndarray) -> tuple[Any, ...]:
    return pickled.load(io.BytesIO(packed.data))
