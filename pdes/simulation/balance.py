"""Ranks that drift apart: what each has been busy with, measured, and LPs that move if that pays.

No result depends on it (design R6): an instant at which LPs move is a round's end, and decides nothing else.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from partition.rebalance import MAX_DRIFT_FRAC, Advice, advise
from pdes.engine.round import COMPUTE_NS, N_ROUND
from pdes.simulation.job import Run
from pdes.simulation.moves import move
from pdes.units import NS_PER_S

GUESS_NS, GUESS_NODE_NS = 20_000_000, 50_000  # of a move before there was one; as measured from 200 to 1,000 nodes
LOOK_SHARE = 0.05  # of the time, at most, that looks may take: METIS takes long with many LPs


class Balancer:
    """One rank's part. The clock that counts is rank 0's."""

    def __init__(self, job: Run, every_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """clock: seconds of wall time, for tests."""
        self._job, self._every_s, self._clock = job, every_s, clock
        self._cost_ns = GUESS_NS + GUESS_NODE_NS * job.scenario.topology.n_node
        self._n_look, self._look_s, self._busiest_ns, self._largest_drift, self._moves = 0, 0.0, 0, 0.0, []
        self.begin()

    def begin(self, look_s: float = 0.0) -> None:
        """An interval begins here. look_s: what the last look has taken."""
        if self._job.is_asleep:
            return
        self._next_s = self._clock() + max(self._every_s, look_s / LOOK_SHARE)
        self._busy_ns, self._n_step = int(self._job.loop[COMPUTE_NS]), self._job.model.state.fabric.n_step.copy()

    @property
    def is_due(self) -> bool:
        """Whether this rank wants to look how ranks fare."""
        return self._job.world.rank == 0 and self._clock() >= self._next_s

    @property
    def has_moved(self) -> bool:
        """Whether any LP has, up to now."""
        return bool(self._moves)

    def rest(self) -> bool:
        """Look, at a round's end that all ranks have, and move LPs if that pays; whether any have moved."""
        job, world, look_begin_s = self._job, self._job.world, self._clock()
        parts = world.gather(self._load())
        advice: Advice = world.bcast(None if parts is None else self._advise(parts))
        look_s = self._clock() - look_begin_s
        self._look_s, self._busiest_ns = self._look_s + look_s, self._busiest_ns + advice.busiest_ns
        self._n_look, self._largest_drift = self._n_look + 1, max(self._largest_drift, advice.drift_frac)
        if advice.rank_of_lp is not None:
            begin_s, n_moved = self._clock(), int((advice.rank_of_lp != job.rank_of_lp).sum())
            move(job, advice.rank_of_lp)
            world.barrier()
            seconds = self._clock() - begin_s
            self._cost_ns = int(seconds * NS_PER_S)
            self._moves.append(self._facts_of(advice, n_moved, seconds))
        self.begin(look_s)
        return advice.rank_of_lp is not None

    def _load(self) -> tuple[int, np.ndarray]:
        """(time that this rank was busy, steps of each LP), since the last look."""
        job, n_step = self._job, self._job.model.state.fabric.n_step - self._n_step
        steps = np.zeros(job.scenario.n_lp, np.int64)
        np.add.at(steps, job.scenario.lp_of_node, n_step)
        return int(job.loop[COMPUTE_NS]) - self._busy_ns, steps

    def _advise(self, parts: list[Any]) -> Advice:
        busy_ns, steps = np.array([busy for busy, _ in parts], np.int64), np.stack([steps for _, steps in parts])
        return advise(busy_ns, steps, self._job.scenario.lp_edges(), self._job.rank_of_lp, self._cost_ns)

    def _facts_of(self, advice: Advice, n_moved: int, seconds: float) -> dict[str, Any]:
        return {
            "round": int(self._job.loop[N_ROUND]), "simulated_ps": self._job.now_ps, "lps": n_moved,
            "drift": round(advice.drift_frac, 4), "expected_gain_seconds": advice.gain_ns / NS_PER_S,
            "seconds": seconds,
        }  # fmt: skip

    def facts(self) -> dict[str, Any]:
        """What `run.json` says."""
        return {
            "looks": self._n_look, "look_seconds": self._look_s, "busiest_seconds": self._busiest_ns / NS_PER_S,
            "largest_drift": round(self._largest_drift, 4),
            "drift_allowed": MAX_DRIFT_FRAC, "moves": self._moves,
        }  # fmt: skip
