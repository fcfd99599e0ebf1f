"""Running experiments together where that can be, and by themselves where it cannot: each one's result is the same."""

import gc
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from models.network.experiments import EVENT, HOPS, IS_GIVEN_UP, LAST_PS, SPENT_NS, TIMEOUTS, Experiment, InTurn
from models.network.state.constants import make_constants
from models.network.watch.results import open_pauses, port_columns, unfinished_rows
from models.workload.program import WAITING_DONE
from pdes.config import Config, load_config
from pdes.config.values import make_config
from pdes.debug.options import DebugPlan
from pdes.engine.compiling.straight import let_go
from pdes.engine.exchange import World
from pdes.engine.round import make_loop, run_rounds
from pdes.engine.time_index import NEVER
from pdes.experiments.build import build_all
from pdes.experiments.join import Offsets, join_scenarios, offsets_of
from pdes.experiments.result import ExperimentResult, FlowTables, Part, Ran, ReadResult
from pdes.experiments.together import MOST_NODES, kind_of, why_alone
from pdes.result import Outcome
from pdes.results.tables import Columns
from pdes.scenario import Scenario
from pdes.scenario.control import find_control
from pdes.simulation import simulate
from pdes.simulation.assemble import Assembly, Basis, assemble
from pdes.simulation.compile import compile_beside
from pdes.simulation.devices import Device
from pdes.simulation.outcome.active import under_way_until_ps
from pdes.simulation.outcome.tables import Spools
from pdes.simulation.rows import Rows
from pdes.units import NS_PER_S

MOST_TIMES, LEAST_EVENTS = 20, 100_000  # what has more events than so many times its packet-hops may never end


def in_batches(scenarios: Mapping[int, Scenario]) -> Iterator[list[int]]:
    """Numbers of scenarios that run together, in order; none that has to run alone is among them."""
    kinds: dict[Any, list[int]] = {}
    for i, s in scenarios.items():
        if not why_alone(s):
            kinds.setdefault(kind_of(s), []).append(i)
    for numbers in kinds.values():
        batch, n_node = [], 0
        for i in numbers:
            n_own = scenarios[i].topology.n_node
            if batch and n_node + n_own > MOST_NODES:
                yield batch
                batch, n_node = [], 0
            batch.append(i)
            n_node += n_own
        yield batch


def run_together(scenarios: Sequence[Scenario]) -> list[ExperimentResult | None]:
    """What comes of each; None: it did not end as it should, and has to be run alone to say why.

    scenarios: of one kind, none with a reason to be alone (`together`). SimError: all of them fail, as one does.
    """
    at = offsets_of(scenarios)
    union, world = join_scenarios(scenarios, at), World()
    with tempfile.TemporaryDirectory(prefix="pdes-experiments-") as folder:
        rows = Rows(union, world, Path(folder))
        try:
            assembly = assemble(Basis(union, world, DebugPlan(), None, rows.take), np.zeros(union.n_lp, np.int64))
            assembly.model.observers = []  # what they would find has to run alone, to say so
            rows.source = assembly
            in_turn = InTurn(assembly.model, union.parameters, [_experiment(s) for s in scenarios])
            compile_beside(assembly, in_turn.kernels())
            run_rounds(in_turn, make_loop(union.lookahead_ps), assembly.model.exchange)
            _take_what_is_left(scenarios, assembly, rows)
            whole = _Whole(at, union, assembly, rows, in_turn.experiments.words)
            return [whole.result(i, s) for i, s in enumerate(scenarios)]
        finally:
            rows.close()


def _experiment(s: Scenario) -> Experiment:
    constants = make_constants(s.plan, s.parameters, int(np.diff(s.paths.start).max(initial=1)))
    counts, most = (s.topology.n_node, s.topology.n_port, s.plan.n_task), MOST_TIMES * int(s.port_hops.sum())
    stop_ps = NEVER - 1 if s.stop_ps is None else s.stop_ps
    return Experiment(*counts, constants, s.lookahead_ps, most + LEAST_EVENTS, stop_ps)


def _take_what_is_left(scenarios: Sequence[Scenario], assembly: Assembly, rows: Rows) -> None:
    """Rows of messages that a stop time left unfinished, too."""
    model = assembly.model
    model.flush()
    if any(s.stop_ps is not None for s in scenarios):
        left = unfinished_rows(model.state, model.rank_of_node, 0)
        rows.take(left, left[:0, :2], left[:0], left[:0])


class _Whole:
    """What all of them came to, for each to take its part of."""

    def __init__(self, at: Offsets, union: Scenario, assembly: Assembly, rows: Rows, words: np.ndarray) -> None:
        state = assembly.model.state
        self.at, self.union, self.assembly, self.rows, self.words = at, union, assembly, rows, words
        plan = union.plan
        self.spools = {name: _columns(spool.read_groups()) for name, spool in rows.spools.items()}
        n_flow = [part.n_flow for part in plan.jobs]
        _move(self.spools["flows"], n_flow, {"src": at.node, "dst": at.node, "pair": at.pair})
        _move(self.spools["tasks"], [part.n_task for part in plan.jobs], {"gpu": at.host})
        _move(self.spools["breakdown"], [part.n_main * part.n_iteration for part in plan.jobs], {"gpu": at.host})
        own = {name: column for name, column in self.spools["flows"].items() if name != "pair"}
        end = np.cumsum(n_flow)
        ids = np.arange(end[-1]) - np.repeat(end - n_flow, n_flow)
        self.flows = FlowTables({"flow_id": ids} | own, end.tolist(), plan.tags)
        end_ps = np.repeat(words[:, LAST_PS], np.diff(at.port))
        self.ports = dict(port_columns(state, union.topology, assembly.model.rank_of_node, 0, end_ps))
        _move(self.ports, np.diff(at.port).tolist(), {"port_id": at.port, "node": at.node, "peer": at.node})
        self.is_paused = open_pauses(state, union.topology)[0]
        self.until_ps = under_way_until_ps(state, union.topology)
        is_open = state.work.streams["waiting_for"] != WAITING_DONE
        self.n_open = np.bincount(state.work.streams["job"], weights=is_open, minlength=len(words))

    def result(self, i: int, s: Scenario) -> ExperimentResult | None:
        """Of experiment i, whose scenario is s."""
        part = self.union.plan.jobs[i]
        n_done = int(self.rows.jobs.n_flow_done[i])
        is_whole = n_done == s.plan.n_flow and not self.n_open[i]
        if self.words[i, IS_GIVEN_UP] or not (is_whole or s.stop_ps is not None):
            return None
        flows = _part(self.spools["flows"], part.first_flow, part.n_flow)
        tasks = _part(self.spools["tasks"], part.first_task, part.n_task)
        spent = _part(self.spools["breakdown"], part.first_spent, part.n_main * part.n_iteration)
        assembly = Assembly(
            s, np.zeros(s.n_lp, np.int64), self.assembly.model, self.assembly.facts, None, self.assembly.debug,
            None, None, None, None,
        )  # fmt: skip
        rows = Spools(Part(flows), Part(tasks), Part(spent))
        spent_s = float(self.words[i, SPENT_NS]) / NS_PER_S
        how = {"ranks": 1, "experiments": len(self.words), "loop_seconds": spent_s}
        return ExperimentResult(
            Ran(s, assembly), rows, self._totals(i, s, n_done), self.union.plan, how, (self.flows, i)
        )  # fmt: skip

    def _totals(self, i: int, s: Scenario, n_done: int) -> dict[str, Any]:
        """As `gather` has them."""
        work, part, words, at = self.assembly.model.state.work, self.union.plan.jobs[i], self.words[i], self.at
        iterations = slice(part.first_iteration, part.first_iteration + part.n_iteration)
        first, end = int(at.port[i]), int(at.port[i + 1])
        is_timeless = bool(s.plan.n_main or s.plan.n_task or self.is_paused[first:end].any())
        ports = _part(self.ports, first, end - first)
        return {
            "hops": int(words[HOPS]), "events": int(words[EVENT]), "timeouts": int(words[TIMEOUTS]),
            "last_ps": int(words[LAST_PS]), "skipped": Counter(), "skipped_flow_ps": Counter(),
            "last_finish_ps": NEVER if is_timeless else int(self.rows.jobs.last_finish_ps[i]),
            "last_use_ps": NEVER if is_timeless else int(self.until_ps[first:end].max(initial=0)),
            "iteration_end_ps": work.iteration_end_ps[iterations], "n_task_done": work.iteration_tasks[iterations],
            "n_flow_done": n_done, "ports": ports, "samples": {}, "rtt": {}, "partitions": {},
        }  # fmt: skip


def _columns(groups: Any) -> dict[str, np.ndarray]:
    parts = list(groups)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}


def _move(columns: dict[str, np.ndarray], n_row: Sequence[int], begins: Mapping[str, np.ndarray]) -> None:
    """Numbers of all become those that an experiment has by itself. n_row: rows of each; begins: of its numbers."""
    for name, begin in begins.items():
        if name in columns:
            own = columns[name]
            columns[name] = np.where(own < 0, own, own - np.repeat(begin[: len(n_row)], n_row))


def _part(columns: Columns, first: int, n: int) -> dict[str, np.ndarray]:
    """Rows first .. first + n - 1."""
    return {name: column[first : first + n] for name, column in columns.items()}


def simulate_many(configs: Sequence[Any], device: Device = "cpu") -> list[Outcome]:
    """Simulate experiments on one rank, together where they are small and alike: what came of each, in order.

    configs: each as `simulate` takes it. device: "cuda": on a GPU, all of one congestion control in the same windows
    (docs/gpu.md). Tables stay in memory; those of an experiment are the same as of a run by itself. Raises SimError,
    also if one of them fails.
    """
    with no_collection():
        checked = [_checked(config) for config in configs]
        if device != "cpu":
            return _on_device(checked, device)
        found: dict[int, Outcome] = dict(run_small(build_all(checked)))
        let_go()
    return [found[i] if i in found else _alone(config) for i, config in enumerate(checked)]


def _on_device(configs: list[Config], device: Device) -> list[Outcome]:
    """All of one congestion control at once."""
    from pdes.simulation.devices.run import simulate_together  # with the engine, which nothing else here needs

    kinds: dict[str, list[int]] = {}
    for i, config in enumerate(configs):
        kinds.setdefault(find_control(config).law.name, []).append(i)
    found: dict[int, Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="pdes-experiments-") as folder:
        for numbers in kinds.values():
            outs = [Path(folder) / str(i) for i in numbers]
            results = simulate_together([configs[i] for i in numbers], outs, device)
            found |= {i: ReadResult(result) for i, result in zip(numbers, results, strict=True)}
    return [found[i] for i in range(len(configs))]


def run_small(scenarios: Sequence[Scenario]) -> dict[int, ExperimentResult]:
    """What came of those that run together, by number; the others have to run by themselves. SimError: as one does."""
    found: dict[int, ExperimentResult] = {}
    for numbers in in_batches(dict(enumerate(scenarios))):
        results = run_together([scenarios[i] for i in numbers])
        found |= {i: result for i, result in zip(numbers, results, strict=True) if result is not None}
    return found


def _checked(config: Any) -> Config:
    if isinstance(config, str | Path):
        return load_config(config)
    return config if isinstance(config, Config) else make_config(config)


@contextmanager
def no_collection() -> Iterator[None]:
    """Without looking for circles of objects again and again, while there are ever more and none goes."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _alone(config: Config) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="pdes-experiment-") as folder:
        return ReadResult(simulate(config, folder))
