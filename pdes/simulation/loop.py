"""The rounds of a run, from its beginning or a checkpoint to its end, and what is done between them meanwhile."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from models.network.flow_mode.state import N_AS_PACKETS, N_MESSAGE
from models.network.state.records import PACKET_HOPS
from models.network.watch.results import unfinished_rows
from pdes.beginning import Beginning
from pdes.checkpoint_requests import Requests
from pdes.engine.round import (
    COMPUTE_NS,
    EXCHANGE_NS,
    IS_WAITING,
    N_ROUND,
    NOW,
    PAUSE_EVERY_S,
    RETURN_NS,
    WAIT_NS,
    run_rounds,
)
from pdes.results.progress import Progress
from pdes.simulation.balance import Balancer
from pdes.simulation.checkpoints.take import Checkpoints
from pdes.simulation.crew import WAKES, counted, hear, sleep
from pdes.simulation.job import Run
from pdes.simulation.rests import Rests
from pdes.simulation.spreading import Spreading
from pdes.units import PS_PER_S


@dataclass(frozen=True)
class Ended:
    """How the rounds ended, on one rank."""

    seconds: float
    """Of wall time that they took."""
    exit_status: int
    """Above zero: a signal has ended them before their time; there are no results."""
    checkpoints: dict[str, Any]
    """What `run.json` says of them."""
    balance: dict[str, Any]
    """And of LPs that changed ranks; {} if none could."""
    spreading: dict[str, Any]
    """And of ranks that joined or fell asleep; {} if all simulated from the first event on."""
    ranks: list[tuple[float, float, float, int]]
    """What each rank did, see `crew.counted`; [] on ranks above 0, and where one rank did several runs."""


def run_to_end(
    job: Run, quiet: bool, heeds_signals: bool = False, shows_progress: bool = False, beginning: Beginning | None = None
) -> Ended:
    """Run the rounds of a run that is compiled. Every rank must call it.

    heeds_signals: see `requests.Requests`. shows_progress: also where there is no terminal. beginning: ends here.
    """
    told = _Told(job, quiet, shows_progress)
    every_ps = job.scenario.config.checkpoint.every_ps
    every_s = None if every_ps is None else every_ps / PS_PER_S
    requests = Requests(every_s if job.everyone.rank == 0 else None, heeds_signals)
    checkpoints = Checkpoints(job, requests, told.say)
    balance_s = job.scenario.config.partition.rebalance_interval_ps / PS_PER_S
    balancer = Balancer(job, balance_s) if _may_move(job) else None
    spreading = Spreading(job) if job.begins_alone else None
    rests = Rests(job, checkpoints, balancer, spreading)

    def tick() -> None:
        told.update(balancer is not None and balancer.has_moved)
        hear(job, requests)
        rests.tick()

    pause_s = min(PAUSE_EVERY_S, balance_s / 4, PAUSE_EVERY_S if every_s is None else every_s / 4)
    job.everyone.barrier()
    begin_s, status = time.monotonic(), WAKES
    with requests:
        if beginning is not None:
            beginning.end()
            if beginning.seen:
                requests.take_over(beginning.seen)
        while rests.has_moved and status == WAKES:
            if job.is_asleep:
                status = sleep(job, requests)
                rests.begin()
                continue
            rests.has_moved = False
            told.begin()
            with _watched(job):
                run_rounds(job.model, job.loop, job.model.exchange, tick, pause_s, rests.rest)
    if job.begins_alone and job.everyone.rank == 0 and job.world.size == 1:
        job.everyone.bcast(checkpoints.exit_status)
    status = status if job.is_asleep else checkpoints.exit_status
    job.everyone.barrier()
    loop_s = time.monotonic() - begin_s
    told.close()
    if not (status or job.is_asleep):
        _take_what_is_left(job)
    balance = {} if balancer is None else balancer.facts()
    ranks = job.everyone.gather(counted(job))
    changes = {} if spreading is None else spreading.facts()
    return Ended(loop_s, status, checkpoints.facts(), balance, changes, ranks or [])


def _may_move(job: Run) -> bool:
    """Whether LPs may change ranks."""
    is_wanted = job.scenario.config.partition.rebalance and not job.looks_at_rounds
    return is_wanted and 1 < job.everyone.size < job.scenario.n_lp


def _take_what_is_left(job: Run) -> None:
    """Rows that the model still has, of what is unfinished too if the run was ended before its workload."""
    assembly, rows = job.assembly, job.rows
    if assembly.watch is not None:
        assembly.watch.look_at_end(job.model.state)
    if job.scenario.stop_ps is not None or assembly.circles or assembly.debug.stopped_ps is not None:
        job.model.flush()
        left = unfinished_rows(job.model.state, job.model.rank_of_node, job.world.rank)
        rows.take(left, left[:0, :2], left[:0], left[:0])
    job.model.flush()
    rows.truncate(assembly)


@contextmanager
def _watched(job: Run) -> Iterator[None]:
    """Rounds of which the witness knows, so that it can say if one of them does not end."""
    limit_ps = job.scenario.config.run.stall_limit_ps
    if job.witness is None or limit_ps is None:
        yield
        return
    places = " ".join(map(str, (N_ROUND, NOW, RETURN_NS, EXCHANGE_NS, IS_WAITING)))
    job.witness.tell(places=places, stall_s=limit_ps / PS_PER_S)
    try:
        yield
    finally:
        job.witness.tell(stall_s=0)


class _Told:
    """What people hear of a run while it lasts, on rank 0."""

    def __init__(self, job: Run, quiet: bool, shows_progress: bool) -> None:
        s, world = job.scenario, job.everyone
        self._job, self._stream = job, sys.stderr if world.rank == 0 and not quiet else None
        is_shown = shows_progress or (self._stream is not None and self._stream.isatty())
        unit = "flows" if s.config.wormhole.mode == "flow" else "packet-hops"
        self._progress = Progress(self._stream if is_shown else None, world.size, s.stop_ps, unit=unit)
        self._all_hops = int(s.port_hops.sum())  # that are expected if nothing is skipped
        self._base_hops = self._base_done = 0
        self._factor = 1.0  # all ranks' packet-hops beside this one's

    def begin(self) -> None:
        """Rounds begin, or go on with other ranks: rank 0 has counted all until now."""
        job, hops = self._job, self._job.scenario.port_hops
        mine = int(hops[job.model.rank_of_node[job.scenario.topology.port_src] == job.world.rank].sum())
        self._factor = self._all_hops / mine if mine else job.world.size
        self._base_hops, self._base_done = self._counted()

    def _counted(self) -> tuple[int, int]:
        """On this rank: packet-hops simulated, and those and what was skipped."""
        model = self._job.model
        hops = int(model.state.fabric.counters[PACKET_HOPS])
        return hops, hops + (0 if model.fast_forward is None else model.fast_forward.hops_so_far(model.state))

    def say(self, text: str) -> None:
        """A line of its own."""
        self._progress.close()
        if self._stream is not None:
            print(text, file=self._stream, flush=True)

    def update(self, has_moved: bool) -> None:
        """How far the run is. has_moved: whether LPs have changed ranks."""
        job, model = self._job, self._job.model
        if model.flow is not None:
            n_flow = int(model.flow.words[N_MESSAGE] + model.flow.words[N_AS_PACKETS])
            self._progress.update(job.now_ps, n_flow, n_flow / max(1, job.assembly.n_flow), self._how_it_goes)
            return
        factor = job.world.size if has_moved else self._factor
        hops, done = self._counted()
        hops = self._base_hops + (hops - self._base_hops) * factor - job.restored["hops"]
        done = self._base_done + (done - self._base_done) * factor
        share = done / max(1, self._all_hops) * (job.scenario.plan.n_iteration / job.assembly.n_iteration)
        self._progress.update(job.now_ps, round(hops), share, self._how_it_goes)

    def close(self) -> None:
        """No more of it."""
        self._progress.close()

    def _how_it_goes(self) -> list[str]:
        """How long this rank waits for others, and what need not be simulated."""
        job, loop = self._job, self._job.loop
        compute_ns, idle_ns = int(loop[COMPUTE_NS]), int(loop[WAIT_NS] + loop[EXCHANGE_NS])
        found: list[str] = []
        if job.everyone.size > job.world.size:
            found.append("the other ranks sleep")
        elif job.world.size > 1:
            share = idle_ns / max(compute_ns + idle_ns, 1)
            found.append(f"rank 0 waits {100 * share:.0f} %, expected imbalance {job.balance:.2f}")
        if job.model.fast_forward is not None:
            hops, done = self._counted()
            found.append(f"skipped {100 * (done - hops) / max(done, 1):.1f} %")
        return found
