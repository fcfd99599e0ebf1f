"""Stretches of the rounds of a run: what nodes had to do in each round, and from that what each LP took.

Rounds are run one by one, so that what nodes have done can be read after each; the time of a round is that of its
compiled part. A least-squares fit over the rounds says what a step of a host and of a switch takes, a node that has
any, and a round without. Going through Python after every round makes rounds slower than they are, so where some of a
stretch's rounds are run in one go, too, these say how long its rounds take: in processor time, which does not count
what the machine does for others meanwhile.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from models.network.model import NetworkModel
from models.network.state.records import PACKET_HOPS
from partition.round_model import Profile
from pdes.engine.round import (
    COMPUTE_NS,
    HORIZON,
    LOOKAHEAD,
    N_ROUND,
    NOW,
    free_until_ps,
    next_run_length,
    run_rounds,
)
from pdes.scenario import Scenario

GO_EVERY_S = 0.0005  # how often rounds that run in one go are asked whether it is enough
MOST_SCALE = 4.0  # that a stretch may be slower or faster than the fit over all of them says


@dataclass(frozen=True)
class Total:
    """Rounds that were run in one go."""

    n_round: int
    host_steps: int
    switch_steps: int
    ns: float
    hops: int


@dataclass
class Stretch:
    """Rounds that were run one by one. Arrays by (round, node) with steps in it."""

    at_ps: int
    hops: int = 0
    n_reduction: int = 0
    """Rounds that would begin with a reduction on ranks that are not all neighbours."""
    busy: np.ndarray = field(default_factory=lambda: np.zeros((0, 2)))
    """float64[n, 2]: (rounds, ns) of what was read at once, one round as a rule."""
    entry: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    """int32[]: the row of `busy`."""
    node: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    steps: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    total: Total | None = None
    """Of rounds beside it; None: there are none."""
    weight: float = 1.0
    """How many such stretches the run has."""
    span_ps: int = 0
    """From the begin of its first round to the end of its last one."""

    @property
    def n_round(self) -> int:
        """Rounds of it."""
        return int(self.busy[:, 0].sum())

    @property
    def round_ps(self) -> float:
        """How long a round is, with what is skipped between two."""
        return self.span_ps / max(1, self.n_round)


class _EnoughError(Exception):
    pass


class Reader:
    """What is read of a model after every round, and in one go."""

    def __init__(self, model: NetworkModel, loop: np.ndarray) -> None:
        self._model, self._loop = model, loop
        self._is_switch = model.topology.is_switch
        self._found: Stretch | None = None  # that is being read
        self._n_step, self._n_round, self._busy_ns, self._n_entry = model.state.fabric.n_step, 0, 0, 0
        self._horizon_ps, self._run_length, self._run_left = int(loop[HORIZON]), 0, 0
        self._parts: tuple[list[np.ndarray], ...] = ([], [], [])
        self._busy: list[tuple[int, int]] = []
        self.looks_s = 0.0
        """Processor time of decisions between rounds, so far."""

    def run_for(self, n_round: int, limit_s: float, every_s: float, tick: Callable[[], None] = lambda: None) -> bool:
        """Run so many rounds, or so long, in wall time; whether the run is over. tick: called every every_s."""
        loop, end_s = self._loop, time.monotonic() + limit_s
        end_round = int(loop[N_ROUND]) + n_round

        def check() -> None:
            tick()
            if loop[N_ROUND] >= end_round or time.monotonic() > end_s:
                raise _EnoughError

        try:
            run_rounds(self._model, loop, self._model.exchange, check, every_s)
        except _EnoughError:
            return False
        return True

    def go(self, n_round: int, limit_s: float, tick: Callable[[], None] = lambda: None) -> tuple[Total, bool]:
        """Run rounds in one go; (what they took, whether the run is over)."""
        before, looks_s, begin_s = self._counts(), self.looks_s, time.thread_time()
        is_over = self.run_for(n_round, limit_s, GO_EVERY_S, tick)
        ns = (time.thread_time() - begin_s - (self.looks_s - looks_s)) * 1e9
        n, hosts, switches, hops = (b - a for a, b in zip(before, self._counts(), strict=True))
        self._horizon_ps, self._run_left = int(self._loop[HORIZON]), 0
        return Total(n, hosts, switches, ns, hops), is_over

    def _counts(self) -> tuple[int, int, int, int]:
        fabric = self._model.state.fabric
        switches = int(fabric.n_step[self._is_switch].sum())
        hosts = int(fabric.n_step.sum()) - switches
        return int(self._loop[N_ROUND]), hosts, switches, int(fabric.counters[PACKET_HOPS])

    def one_by_one(
        self, n_round: int, limit_s: float, tick: Callable[[], None] = lambda: None, n_entry: int = 2**62
    ) -> tuple[Stretch, bool]:
        """Run rounds one by one; (what was done in them, whether the run is over). n_entry: enough to read."""
        loop, fabric = self._loop, self._model.state.fabric
        found, begin_ps = Stretch(int(loop[NOW])), int(loop[HORIZON])
        self._found = found
        self._parts, self._busy, self._n_entry = ([], [], []), [], 0
        self._n_step, self._n_round, self._busy_ns = fabric.n_step.copy(), int(loop[N_ROUND]), int(loop[COMPUTE_NS])
        begin_hops = int(fabric.counters[PACKET_HOPS])

        def read() -> None:
            self.read_now()
            tick()
            if self._n_entry > n_entry:
                raise _EnoughError

        is_over = self.run_for(n_round, limit_s, 0.0, read)
        self.read_now()
        self._found, none = None, np.zeros(0, np.int32)
        found.entry, found.node, found.steps = (np.concatenate([none, *parts]) for parts in self._parts)
        found.busy = np.array(self._busy, np.float64).reshape(-1, 2)
        found.span_ps = int(loop[HORIZON]) - begin_ps
        found.hops = int(self._model.state.fabric.counters[PACKET_HOPS]) - begin_hops
        return found, is_over

    def read_now(self) -> None:
        """Note what was done since the last time, if rounds are read one by one and one has ended."""
        n_step, loop, found = self._model.state.fabric.n_step, self._loop, self._found
        n_round, busy_ns = int(loop[N_ROUND]), int(loop[COMPUTE_NS])
        if found is None or n_round == self._n_round:
            return
        found.n_reduction += n_round - self._n_round - 1 + self._needs_reduction()
        did = n_step - self._n_step
        nodes = np.flatnonzero(did)
        self._n_entry += len(nodes)
        for part, values in zip(self._parts, (np.full(len(nodes), len(self._busy)), nodes, did[nodes]), strict=True):
            part.append(values.astype(np.int32))
        self._busy.append((n_round - self._n_round, busy_ns - self._busy_ns))
        self._n_step[nodes] = n_step[nodes]
        self._n_round, self._busy_ns = n_round, busy_ns

    def _needs_reduction(self) -> bool:
        """Whether the last round would have begun with one, by the rule of `pdes.engine.round`."""
        was_ps, self._horizon_ps = self._horizon_ps, int(self._loop[HORIZON])
        if self._run_left and was_ps < free_until_ps(self._loop):
            self._run_left -= 1
            return False
        gain_ps = int(self._loop[NOW]) - was_ps
        self._run_length = self._run_left = next_run_length(self._run_length, gain_ps, int(self._loop[LOOKAHEAD]))
        return True


def profiles_of(s: Scenario, stretches: Sequence[Stretch], longest_ps: int) -> list[Profile]:
    """From steps to time. Rounds that were as long as they are in s are of up to longest_ps in the run."""
    read_ps = max(s.lookahead_ps, s.longest_round_ps)
    table = np.concatenate([_table(s, stretch) for stretch in stretches])
    costs = fit_costs(table, np.concatenate([stretch.busy[:, 1] for stretch in stretches]))
    joined = [longest_ps // read_ps if 2 * stretch.round_ps >= read_ps else 1 for stretch in stretches]
    scales = [_scale(s, stretch, costs) for stretch in stretches]
    return [_profile(s, *each) for each in zip(stretches, (costs * scale for scale in scales), joined, strict=True)]


def _table(s: Scenario, stretch: Stretch) -> np.ndarray:
    """float64[n, 4]: rounds, nodes with something to do, steps of hosts and of switches in what was read at once."""
    is_switch, n = s.topology.is_switch[stretch.node], len(stretch.busy)
    kinds = [np.bincount(stretch.entry[k], weights=stretch.steps[k], minlength=n) for k in (~is_switch, is_switch)]
    return np.stack([stretch.busy[:, 0], np.bincount(stretch.entry, minlength=n), *kinds], axis=1)


def _scale(s: Scenario, stretch: Stretch, costs: np.ndarray) -> float:
    """How much slower than fitted its rounds are if they run in one go."""
    total = stretch.total
    if total is None or stretch.n_round == 0:
        return 1.0
    n_visit = len(stretch.node) * total.n_round / stretch.n_round
    fitted_ns = float(np.array([total.n_round, n_visit, total.host_steps, total.switch_steps]) @ costs)
    return float(np.clip(total.ns / fitted_ns, 1 / MOST_SCALE, MOST_SCALE)) if fitted_ns > 0 else 1.0


def _profile(s: Scenario, stretch: Stretch, costs: np.ndarray, n_joined: int) -> Profile:
    """n_joined: so many rounds that were read are one; what is left over is one, too."""
    per_round, per_visit, per_host, per_switch = costs.tolist()
    ns = per_visit + stretch.steps * np.where(s.topology.is_switch[stretch.node], per_switch, per_host)
    first_round = np.cumsum(stretch.busy[:, 0]) - stretch.busy[:, 0]  # what was read at once counts as one with work
    round_of = first_round.astype(np.int64) // n_joined
    cell, i_cell = np.unique(round_of[stretch.entry] * s.n_lp + s.lp_of_node[stretch.node], return_inverse=True)
    lp_ns = np.bincount(i_cell.reshape(-1), weights=ns, minlength=len(cell))
    return Profile(
        -(-stretch.n_round // n_joined), -(-stretch.n_reduction // n_joined), cell // s.n_lp, cell % s.n_lp, lp_ns,
        per_round, 0.0, stretch.weight,
    )  # fmt: skip


def weigh(stretches: Sequence[Stretch], hops: float) -> None:
    """Scale weights so that stretches stand for so many packet-hops."""
    found = sum(stretch.weight * stretch.hops for stretch in stretches)
    for stretch in stretches if found > 0 else ():
        stretch.weight *= hops / found


def fit_costs(table: np.ndarray, busy_ns: np.ndarray) -> np.ndarray:
    """ns of a round, of a node that has something to do in it, of a host's step and of a switch's, float64[4], none
    below zero, whose sum is what was measured. table: float64[n, 4], counts of these. busy_ns: float64[n].

    Rounds that took far longer than such rounds do are left out: the machine did something else meanwhile.
    """
    costs = np.zeros(4)
    if not len(table):
        return costs
    scale = np.maximum(table.sum(axis=1), 1.0)[:, np.newaxis]  # of the error: a step is slower where there are many
    kept = busy_ns <= 4 * np.median(busy_ns / scale[:, 0]) * scale[:, 0]
    columns = [i for i in range(4) if table[:, i].any()]
    while columns:
        found, *_ = np.linalg.lstsq((table / scale)[kept][:, columns], (busy_ns / scale[:, 0])[kept], rcond=None)
        if (found >= 0).all():
            costs[columns] = found
            break
        columns.remove(columns[int(np.argmin(found))])
    modelled = float((table[kept] @ costs).sum())
    return costs * (float(busy_ns[kept].sum()) / modelled if modelled > 0 else 1.0)
