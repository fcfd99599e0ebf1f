"""A profile: what each LP had to do in each round of a run on one rank, for the prediction of many ranks.

Rounds are run one by one, so that what nodes have done can be read after each; the time of a round is that of its
compiled part. A least-squares fit over the rounds says what a step of a host and of a switch takes, and a round without
any; scaled so that their sum is what was measured. Looks of fast-forwarding are made, and timed, as several ranks make
them, which makes one rank's time a little long; what ranks say to each other there is not in it. Those of samples and
checks are made, as they leave runs of rounds without a reduction no place (`pdes.engine.round`), but not timed.
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from models.network.make_fast_forward import make_fast_forward
from models.network.model import NetworkModel
from models.network.observers import Observer
from models.network.state import PACKET_HOPS
from partition.round_model import Profile
from pdes.engine.exchange import World
from pdes.engine.round import (
    COMPUTE_NS,
    HORIZON,
    LOOKAHEAD,
    N_ROUND,
    NOW,
    free_until_ps,
    make_loop,
    next_run_length,
    run_rounds,
)
from pdes.engine.time_index import NEVER
from pdes.errors import ConfigError
from pdes.scenario import Scenario
from pdes.simulation.observers import make_sampler, watch_deadlocks, watch_iterations, watch_repeats, watch_stalls
from pdes.wormhole.criterion import Choice

ARRAYS = ("round_of", "lp", "ns", "edges")


@dataclass(frozen=True)
class Profiled:
    """A profile, and what it is of."""

    profile: Profile
    seconds: float
    """Of wall time that it took."""
    is_whole: bool
    """The run came to its end."""
    simulated_ps: int
    hops: int
    share: float
    """Of the packet-hops that are expected if nothing is skipped."""


class _Rounds:
    """What is read after every round."""

    def __init__(self, model: NetworkModel, loop: np.ndarray, lp_of_node: np.ndarray) -> None:
        self._model, self._loop, self._lp_of_node = model, loop, lp_of_node
        self._n_step = model.state.fabric.n_step.copy()
        self._n_round, self._busy_ns = 0, 0
        self._horizon_ps, self._run_length, self._run_left = 0, 0, 0
        self.n_reduction = 0  # that ranks would need which are not all neighbours
        self.node_round: list[np.ndarray] = []
        self.node: list[np.ndarray] = []
        self.steps: list[np.ndarray] = []
        self.busy_ns: list[tuple[int, int]] = []  # (round, ns)

    def read(self) -> None:
        n_step, loop = self._model.state.fabric.n_step, self._loop
        n_round, busy_ns = int(loop[N_ROUND]), int(loop[COMPUTE_NS])
        if n_round == self._n_round:
            return
        self.n_reduction += n_round - self._n_round - 1 + self._needs_reduction()
        did = n_step - self._n_step
        nodes = np.flatnonzero(did)
        self.node.append(nodes)
        self.steps.append(did[nodes])
        self.node_round.append(np.full(len(nodes), len(self.busy_ns)))
        self.busy_ns.append((n_round - self._n_round, busy_ns - self._busy_ns))
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


def make_profile(scenario: Scenario, limit_s: float) -> Profiled:
    """Run the beginning of a scenario on one rank, limit_s of wall time at most."""
    s, world = scenario, World()
    model = NetworkModel(
        s.topology, s.paths, s.plan, s.max_window_bytes, s.lp_of_node, np.zeros(s.n_lp, np.int64), s.lookahead_ps,
        world, s.parameters, lambda *_: None,
    )  # fmt: skip
    wormhole = s.config.wormhole
    if wormhole.mode != "off":
        choice = Choice(wormhole.criterion, **wormhole.criterion_parameters)
        model.fast_forward = make_fast_forward(
            s.topology, model, s.parameters, world, s.path_rtt_ps, s.stop_ps, choice, wormhole.mode,
            wormhole.memo_tolerance,
        )  # fmt: skip
        if model.fast_forward is not None:
            model.fast_forward.glance = lambda other_look_ps: None  # looks are Python's, as they are on several ranks
    model.observers = _observers(s, model, world)
    model.compile()
    stop_ps = NEVER - 1 if s.stop_ps is None else s.stop_ps
    loop = make_loop(s.lookahead_ps, stop_ps, model.first_look_ps(), may_run_on=model.fast_forward is None)
    rounds, look_s = _Rounds(model, loop, s.lp_of_node), [0.0]
    is_out_of_time = _drive(model, loop, rounds, look_s, limit_s)
    profile = _fit(s, model, rounds, look_s[0])
    hops = int(model.state.fabric.counters[PACKET_HOPS])
    return Profiled(
        profile, is_out_of_time[1], not is_out_of_time[0], int(loop[NOW]), hops, hops / max(1, int(s.port_hops.sum()))
    )


def _observers(s: Scenario, model: NetworkModel, world: World) -> list[Observer]:
    """Those of a run that say when rounds begin with a reduction: with fast-forwarding all do, whoever looks."""
    iterations = watch_iterations(s, model, world)
    found: list[Observer | None] = [iterations, watch_repeats(s, model, world, iterations)]
    if model.fast_forward is None:
        found = [make_sampler(s, model, world), watch_deadlocks(s, model, world), watch_stalls(s, model, world), *found]
    return [one for one in found if one is not None]


def _drive(
    model: NetworkModel, loop: np.ndarray, rounds: _Rounds, look_s: list[float], limit_s: float
) -> tuple[bool, float]:  # fmt: skip
    """Run rounds one by one; (whether time ran out, seconds)."""
    begin_s, look = time.monotonic(), model.look

    def timed_look(horizon_ps: int) -> int:
        rounds.read()
        look_begin_s = time.perf_counter()
        found = look(horizon_ps)
        if model.fast_forward is not None:  # samples and the like are of each rank's own nodes: the more ranks the less
            look_s[0] += time.perf_counter() - look_begin_s
        return found

    class OutOfTimeError(Exception):
        pass

    def tick() -> None:
        rounds.read()
        if time.monotonic() - begin_s > limit_s:
            raise OutOfTimeError

    model.look = timed_look
    try:
        run_rounds(model, loop, model.exchange, tick, pause_every_s=0.0)
    except OutOfTimeError:
        return True, time.monotonic() - begin_s
    rounds.read()
    return False, time.monotonic() - begin_s


def _fit(s: Scenario, model: NetworkModel, rounds: _Rounds, look_s: float) -> Profile:
    """From steps to time."""
    none = np.zeros(0, np.int64)
    node, steps = np.concatenate([none, *rounds.node]), np.concatenate([none, *rounds.steps])
    entry_round = np.concatenate([none, *rounds.node_round]).astype(np.int64)
    n_entry = len(rounds.busy_ns)
    busy = np.array(rounds.busy_ns, np.float64).reshape(-1, 2)
    is_switch = s.topology.is_switch[node]
    of_kind = [np.bincount(entry_round[k], weights=steps[k], minlength=n_entry) for k in (~is_switch, is_switch)]
    per_round, per_host, per_switch = fit_costs(busy[:, 0], of_kind[0], of_kind[1], busy[:, 1])
    ns = steps * np.where(is_switch, per_switch, per_host)
    cell, i_cell = np.unique(entry_round * s.n_lp + s.lp_of_node[node], return_inverse=True)
    n_round = int(busy[:, 0].sum())
    first_round = np.cumsum(busy[:, 0]) - busy[:, 0]  # rounds that were looked at in one go count as one with work
    lp_ns = np.bincount(i_cell.reshape(-1), weights=ns, minlength=len(cell))
    src, dst, weight = s.lp_edges()
    hops = int(model.state.fabric.counters[PACKET_HOPS])
    packets = np.maximum(weight - 1, 0) * (hops / max(1, int(s.port_hops.sum())))
    return Profile(
        n_round, rounds.n_reduction, first_round[cell // s.n_lp].astype(np.int64), cell % s.n_lp, lp_ns, per_round,
        look_s * 1e9, (src, dst, packets),
    )  # fmt: skip


def fit_costs(
    n_round: np.ndarray, host_steps: np.ndarray, switch_steps: np.ndarray, busy_ns: np.ndarray
) -> tuple[float, float, float]:  # fmt: skip
    """(ns of a round, of a host's step, of a switch's), none below zero, whose sum is what was measured.

    Rounds that took far longer than such rounds do are left out: the machine did something else meanwhile.
    """
    table = np.stack([n_round, host_steps, switch_steps], axis=1).astype(np.float64)
    scale = np.sqrt(np.maximum(table.sum(axis=1), 1.0))[:, np.newaxis]  # of the error, so that long rounds do not rule
    if not len(table):
        return 0.0, 0.0, 0.0
    kept = busy_ns <= 4 * np.median(busy_ns / scale[:, 0] ** 2) * scale[:, 0] ** 2
    columns = [0, 1, 2]
    while True:
        found, *_ = np.linalg.lstsq((table / scale)[kept][:, columns], (busy_ns / scale[:, 0])[kept], rcond=None)
        if (found >= 0).all() or len(columns) == 1:
            break
        columns = [c for c, x in zip(columns, found, strict=True) if x > 0] or [1 if host_steps.any() else 2]
    costs = np.zeros(3)
    costs[columns] = np.maximum(found, 0)
    modelled = float((table[kept] @ costs).sum())
    costs *= float(busy_ns[kept].sum()) / modelled if modelled > 0 else 1.0
    return float(costs[0]), float(costs[1]), float(costs[2])


def write_profile(path: Path, found: Profiled, identity: dict[str, Any]) -> None:
    """Keep a profile. ConfigError: it cannot be written."""
    p = found.profile
    facts = {
        "identity": identity, "n_round": p.n_round, "n_reduction": p.n_reduction, "fixed_ns": p.fixed_ns,
        "serial_ns": p.serial_ns, "seconds": found.seconds, "is_whole": found.is_whole,
        "simulated_ps": found.simulated_ps, "hops": found.hops,
        "share": found.share,
    }  # fmt: skip
    try:
        with open(path, "wb") as file:
            np.savez_compressed(
                file, facts=np.array(json.dumps(facts)), round_of=p.round_of, lp=p.lp, ns=p.ns, edges=np.stack(p.edges)
            )
    except OSError as error:
        raise ConfigError("--profile", f"{path}: {error.strerror}", "a file that can be written") from error


def read_profile(path: Path, identity: dict[str, Any]) -> Profiled:
    """A profile that was kept. ConfigError: it is none, or of another config."""
    accepted = "a file that plan --profile has written of this config"
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
            facts = json.loads(str(file["facts"]))
            round_of, lp, ns, edges = (file[name] for name in ARRAYS)
            profile = Profile(
                facts["n_round"], facts["n_reduction"], round_of, lp, ns, facts["fixed_ns"], facts["serial_ns"],
                (edges[0].astype(np.int64), edges[1].astype(np.int64), edges[2]),
            )  # fmt: skip
            names = ("seconds", "is_whole", "simulated_ps", "hops", "share")
            found, of = Profiled(profile, *(facts[name] for name in names)), facts["identity"]
    except (OSError, ValueError, KeyError, TypeError, EOFError, IndexError) as error:
        raise ConfigError("--profile", f"{path} is no profile ({error})", accepted) from error
    except Exception as error:  # what a torn archive raises is zipfile's own
        raise ConfigError("--profile", f"{path} is no whole profile ({error})", accepted) from error
    if of != identity:
        raise ConfigError("--profile", f"{path} is of another config", accepted)
    return found
