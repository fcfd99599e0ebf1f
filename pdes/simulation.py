"""One run, start to results: placement, the round loop, rows into tables, and what `plan` prints.

`prepare` (rank 0) builds and checks; `run` (every rank) simulates; both are what `cli` calls. Nothing here can change a
result: it only decides where LPs run and where rows go.
"""

import platform
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from models.network.model import NetworkModel
from models.network.results import (
    FLOW_SPOOL_COLUMNS,
    TASK_SPOOL_COLUMNS,
    FlowFacts,
    explain_blocked,
    port_columns,
    unfinished_rows,
)
from models.network.state import EVENTS, LAST_EVENT_PS, PACKET_HOPS
from partition.placement import balance, place
from pdes.config import Config
from pdes.engine.exchange import World
from pdes.engine.jit import is_compiled
from pdes.engine.round import COMPUTE_NS, EXCHANGE_NS, N_ROUND, NOW, WAIT_NS, make_loop, run_rounds
from pdes.engine.time_index import NEVER
from pdes.errors import SimError
from pdes.results.folder import ResultFolder
from pdes.results.progress import Progress
from pdes.results.spool import RowSpool
from pdes.results.summary import (
    FLOW_COLUMNS,
    pick_busiest_ports,
    pick_slowest_flows,
    read_breakdown,
    terminal_summary,
    write_json,
)
from pdes.results.tables import read_table, write_table
from pdes.scenario import Scenario, build_scenario
from pdes.units import format_duration

NS_PER_S = 10**9


class Prepared:
    """A scenario with the result folder that rank 0 holds; the folder stays behind when it is sent to other ranks."""

    def __init__(self, scenario: Scenario, folder: ResultFolder) -> None:
        self.scenario, self.folder, self.begin_s = scenario, folder, time.monotonic()

    def __getstate__(self) -> dict[str, Any]:
        return {"scenario": self.scenario, "folder": None, "begin_s": 0.0, "token": self.folder.token}


def prepare(config: Config, quiet: bool = False) -> Prepared:
    """Check everything and open the result folder. Raises SimError; on rank 0 only."""
    if not quiet and not is_compiled():
        print("pdes-sim: compiling for this machine, once per version: 10 to 15 s", file=sys.stderr, flush=True)
    scenario = build_scenario(config)
    folder = ResultFolder(config.output.dir)
    folder.check()
    return Prepared(scenario, folder)


def compile_ahead() -> None:
    """Compile the network's kernels on a rank that waits for `prepare`, if no earlier run has left them."""
    if not is_compiled():
        from models.network import warm_up

        warm_up.compile_ahead()


class Run:
    """One rank's part of a run."""

    def __init__(self, prepared: Prepared, world: World) -> None:
        self.scenario, self.world = prepared.scenario, world
        token = getattr(prepared, "token", None)
        self.folder = prepared.folder or ResultFolder(self.scenario.config.output.dir, token)
        self.begin_s = prepared.begin_s
        s = self.scenario
        lp_load = s.lp_load()
        self.rank_of_lp = world.bcast(
            place(lp_load, s.lp_edges(), world.size, s.config.partition.placement) if world.rank == 0 else None
        )
        self.balance = balance(lp_load, self.rank_of_lp, world.size)
        self.flows = self._spool("flows", s.plan.n_flow, FLOW_SPOOL_COLUMNS)
        self.tasks = self._spool("tasks", s.plan.n_task, TASK_SPOOL_COLUMNS)
        self.n_flow_done = 0
        self.n_task_done = np.zeros(s.plan.n_iteration, np.int64)
        self.facts = FlowFacts(s.topology, s.paths, s.plan, s.parameters)
        self.model = NetworkModel(
            s.topology, s.paths, s.plan, s.max_window_bytes, s.lp_of_node, self.rank_of_lp, s.lookahead_ps, world,
            s.parameters, self._take_rows,
        )  # fmt: skip
        self.loop = make_loop(s.lookahead_ps, NEVER - 1 if s.stop_ps is None else s.stop_ps)

    def compile(self) -> float:
        """Compile the kernels before anything runs, rank 0 first so that the others find them; seconds that it took."""
        begin_s = time.monotonic()
        if self.world.rank == 0:
            self._compile()
        self.world.barrier()
        if self.world.rank > 0:
            self._compile()
        self.world.barrier()
        return time.monotonic() - begin_s

    def _compile(self) -> None:
        self.model.compile()
        self.facts.compile()

    def _spool(self, name: str, n_row: int, columns: tuple[str, ...]) -> RowSpool:
        return RowSpool(self.folder.work, name, n_row, columns, rank=self.world.rank, n_rank=self.world.size)

    def _take_rows(self, flow: np.ndarray, arrival: np.ndarray, task: np.ndarray) -> None:
        """Rows from the kernels, into the spools by id."""
        if len(flow):
            ids, columns = self.facts.columns(flow, self.model.pairs.pair_of_row)
            self.flows.scatter(ids, columns)
            self.n_flow_done += int((columns["finish_ps"] >= 0).sum())
        if len(arrival):
            self.flows.scatter(arrival[:, 0], {"delivered_ps": arrival[:, 1]})
        if len(task):
            self.tasks.scatter(task[:, 0], {name: task[:, 1 + i] for i, name in enumerate(TASK_SPOOL_COLUMNS)})
            np.add.at(self.n_task_done, task[:, 1 + TASK_SPOOL_COLUMNS.index("iteration")], 1)

    def simulate(self, quiet: bool) -> float:
        """Run the rounds; seconds of wall time that they took."""
        counters = self.model.state.fabric.counters
        stream = sys.stderr if self.world.rank == 0 and not quiet else None
        progress = Progress(stream, self.world.size, self.scenario.stop_ps)
        mine = self.model.rank_of_node[self.scenario.topology.port_src] == self.world.rank
        expected = max(1, int(self.scenario.port_hops[mine].sum()))

        def tick() -> None:
            hops = int(counters[PACKET_HOPS])
            progress.update(int(self.loop[NOW]), hops * self.world.size, hops / expected)

        self.world.barrier()
        begin_s = time.monotonic()
        run_rounds(self.model, self.loop, self.model.exchange, tick)
        self.world.barrier()
        loop_s = time.monotonic() - begin_s
        progress.close()
        if self.scenario.stop_ps is not None:
            rows = unfinished_rows(self.model.state, self.model.rank_of_node, self.world.rank)
            self._take_rows(rows, rows[:0], rows[:0])
        self.model.flush()
        return loop_s

    def gather(self) -> dict[str, Any]:
        """What the ranks counted, added up; the same on every rank."""
        counters, work = self.model.state.fabric.counters, self.model.state.work
        own = {
            "hops": int(counters[PACKET_HOPS]),
            "events": int(counters[EVENTS]),
            "last_ps": int(counters[LAST_EVENT_PS]),
            "iteration_end_ps": work.iteration_end_ps,
            "n_flow_done": self.n_flow_done,
            "n_task_done": self.n_task_done,
            "ports": port_columns(self.model.state, self.scenario.topology, self.model.rank_of_node, self.world.rank),
            "seconds": [float(self.loop[i]) / NS_PER_S for i in (COMPUTE_NS, WAIT_NS, EXCHANGE_NS)],
            "blocked": explain_blocked(self.model.state, self.scenario.topology, self.scenario.plan, self.world.rank,
                                       self.model.rank_of_node),
        }  # fmt: skip
        parts = self.world.allgather(own)
        ends = np.max([p["iteration_end_ps"] for p in parts], axis=0)
        return {
            "hops": sum(p["hops"] for p in parts),
            "events": sum(p["events"] for p in parts),
            "last_ps": max(p["last_ps"] for p in parts),
            "iteration_end_ps": ends,
            "n_flow_done": sum(p["n_flow_done"] for p in parts),
            "n_task_done": np.sum([p["n_task_done"] for p in parts], axis=0),
            "ports": {name: np.sum([p["ports"][name] for p in parts], axis=0) for name in parts[0]["ports"]},
            "seconds": [p["seconds"] for p in parts],
            "blocked": [line for p in parts for line in p["blocked"]],
        }


def run(prepared: Prepared, world: World, quiet: bool = False) -> None:
    """Simulate a prepared scenario on all ranks and write its results. Raises SimError."""
    job = Run(prepared, world)
    try:
        _warn(job)
        compile_s = job.compile()
        loop_s = job.simulate(quiet)
        totals = job.gather()
        if world.rank == 0:  # alone, so that what it says is said once; the others wait below and end with it
            _check_end(job, totals)
        job.world.barrier()
        if world.rank == 0:
            _write(job, totals, (compile_s, loop_s), quiet)
    finally:
        job.flows.close()
        job.tasks.close()
        if world.rank == 0:
            job.folder.abandon()


def _check_end(job: Run, totals: dict[str, Any]) -> None:
    """Raise SimError if a run without a stop time ended before its workload."""
    n_left = job.scenario.plan.n_flow - totals["n_flow_done"]
    if job.scenario.stop_ps is not None or not (totals["blocked"] or n_left):
        return
    if totals["last_ps"] > NEVER // 8:
        text = f"the run would pass {format_duration(NEVER)} of simulated time, the most that there is, with "
        raise SimError(f"{text}{n_left} flows unfinished. Check the rates, delays and sizes of the config")
    lines = [f"{n_left} flows are unfinished", *totals["blocked"][:20]]
    raise SimError("the run cannot go on: nothing is left to happen, but\n  " + "\n  ".join(lines))


def _warn(job: Run) -> None:
    s, world = job.scenario, job.world
    n_idle = world.size - s.n_lp
    if world.rank == 0 and n_idle > 0:
        text = f"{_counted(world.size, 'rank')} for {_counted(s.n_lp, 'LP')}: {_counted(n_idle, 'rank')} "
        text += f"{'has' if n_idle == 1 else 'have'} nothing to do"
        print(f"pdes-sim: warning: {text}. A lower [partition] delay_threshold may give more LPs", file=sys.stderr)


def _counted(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def _result(job: Run, totals: dict[str, Any]) -> dict[str, Any]:
    """`result.json`: what the config determines."""
    s = job.scenario
    # A stop time can leave the last iterations unfinished: they have no time.
    n_whole = int((np.cumprod(totals["n_task_done"] == s.plan.tasks_per_iteration)).sum())
    times = np.diff(totals["iteration_end_ps"][:n_whole], prepend=0).tolist()
    return {
        "config": s.identity(),
        "topology": s.topology.name,
        "workload": s.plan.facts | {"kind": s.plan.name},
        "hosts": s.topology.n_host,
        "logical_processes": s.n_lp,
        "lookahead_ps": s.lookahead_ps,
        "base_rtt_ps": s.base_rtt_ps,
        "iteration_time_ps": times if s.config.workload.kind == "training" else [],
        "simulated_time_ps": totals["last_ps"],
        "packet_hops": totals["hops"],
        "skipped_packet_hops": 0,
        "events": totals["events"],
        "flows": s.plan.n_flow,
        "flows_finished": totals["n_flow_done"],
        "tasks": s.plan.n_task,
    }


def _run_facts(job: Run, totals: dict[str, Any], compile_s: float, loop_s: float) -> dict[str, Any]:
    """`run.json`: how it was run."""
    names = ("pdes-sim", "numpy", "numba", "mpi4py", "pyarrow", "pymetis")
    compute, wait, exchange = zip(*totals["seconds"], strict=True)
    return {
        "ranks": job.world.size,
        "mpi_library": job.world.library(),
        "placement": job.scenario.config.partition.placement,
        "rank_of_lp": job.rank_of_lp.tolist(),
        "expected_imbalance": job.balance,
        "threshold_choice": job.scenario.threshold_reason,
        "output": str(job.folder.directory),
        "wall_seconds": time.monotonic() - job.begin_s,
        "compile_seconds": compile_s,
        "loop_seconds": loop_s,
        "packet_hops_per_second": totals["hops"] / max(loop_s, 1e-9),
        "events_per_second": totals["events"] / max(loop_s, 1e-9),
        "rounds": int(job.loop[N_ROUND]),
        "compute_seconds": list(compute),
        "wait_seconds": list(wait),
        "exchange_seconds": list(exchange),
        "versions": {name: _version(name) for name in names} | {"python": platform.python_version()},
        "machine": f"{platform.machine()} {platform.system()}",
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _write(job: Run, totals: dict[str, Any], seconds: tuple[float, float], quiet: bool) -> None:
    """Tables, JSON files and the summary; under final names only when all are complete."""
    s, folder = job.scenario, job.folder
    write_table(folder.work_path("flows.parquet"), "flows", job.flows.read_groups(), {"tag": list(s.plan.tags) or [""]})
    task_names = {"kind": list(s.plan.kinds), "stream": list(s.plan.stream_names)}
    write_table(folder.work_path("tasks.parquet"), "tasks", job.tasks.read_groups(), task_names)
    node_names = {"node": list(s.topology.node_name), "peer": list(s.topology.node_name)}
    write_table(folder.work_path("ports.parquet"), "ports", [totals["ports"]], node_names)
    result, facts = _result(job, totals), _run_facts(job, totals, *seconds)
    write_json(folder.work_path("result.json"), result)
    write_json(folder.work_path("run.json"), facts)
    breakdown = {} if quiet else read_breakdown(folder.work, result)
    slowest = [] if quiet else pick_slowest_flows(read_table(folder.work_path("flows.parquet"), FLOW_COLUMNS))
    folder.commit(["flows.parquet", "tasks.parquet", "ports.parquet", "run.json", "result.json"])
    if not quiet:
        busiest = pick_busiest_ports([totals["ports"]], result["simulated_time_ps"], names=node_names)
        terminal_summary(result, facts, breakdown, slowest, busiest)
        print(f"results in {folder.directory}")


def simulate(config: Config, quiet: bool = True) -> None:
    """Simulate a config on one rank, from Python, and write its result folder. Raises SimError."""
    run(prepare(config, quiet), World(), quiet)


def plan(config: Config) -> None:
    """Print what a run would be; runs nothing and writes nothing."""
    from pdes.plan import print_plan

    print_plan(build_scenario(config))
