"""One rank's part of a run, up to what all ranks counted: placement, the round loop, rows into spools."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from models.network.build.warm_up import task
from models.network.model import NetworkModel
from models.network.skip.make_fast_forward import make_fast_forward
from models.network.skip.progress import sample_pairs
from models.network.state.records import PACKET_HOPS
from models.network.watch.deadlock import Circle
from models.network.watch.parts import PartCollector
from models.network.watch.results import (
    FLOW_SPOOL_COLUMNS,
    SPENT_SPOOL_COLUMNS,
    TASK_SPOOL_COLUMNS,
    FlowFacts,
    unfinished_rows,
)
from partition.placement import balance, place
from pdes.beginning import STARTING, Beginning
from pdes.config import Config
from pdes.debug.options import DebugOptions, DebugPlan, resolve
from pdes.debug.session import DebugSession
from pdes.engine.checkpoint_folder import Checkpoint
from pdes.engine.exchange import World
from pdes.engine.jit import JIT_DISABLED, compiled_kernels
from pdes.engine.round import (
    COMPUTE_NS,
    EXCHANGE_NS,
    IS_WAITING,
    N_LOOP,
    N_ROUND,
    NOW,
    PAUSE_EVERY_S,
    RETURN_NS,
    WAIT_NS,
    make_loop,
    run_rounds,
)
from pdes.engine.time_index import NEVER
from pdes.results.folder import ResultFolder
from pdes.results.progress import Progress
from pdes.results.spool import RowSpool
from pdes.scenario import Scenario, build_scenario
from pdes.simulation.balance import Balancer
from pdes.simulation.checkpoint import Checkpoints, check_directory, checkpoint_directory, restore
from pdes.simulation.compilers import ALWAYS, Compilers, announce_compiling, file_name
from pdes.simulation.memory import check_memory, within_memory
from pdes.simulation.observers import make_sampler, watch_deadlocks, watch_iterations, watch_repeats, watch_stalls
from pdes.simulation.requests import Requests
from pdes.simulation.restoration import read_queue_model, restoration_of
from pdes.simulation.rests import Rests
from pdes.simulation.resume import find
from pdes.simulation.shared_memo import SharedMemo, read_memo
from pdes.skipping.audit import Audit
from pdes.skipping.criterion import Choice
from pdes.skipping.papers.queue_model import QueueModel
from pdes.skipping.partition_series import PartitionSeries
from pdes.skipping.replay.memo_file import MemoFile
from pdes.units import PS_PER_S
from pdes.witness import Witness

NS_PER_S = 10**9
INSTANTS = ("start_ps", "delivered_ps", "finish_ps", "end_ps")  # columns of flows and tasks
NO_DEBUG = DebugOptions()


class Prepared:
    """A scenario; with the result folder and the memo's file, which rank 0 keeps when the rest goes to other ranks."""

    def __init__(self, scenario: Scenario, folder: ResultFolder) -> None:
        self.scenario, self.folder, self.begin_s = scenario, folder, time.monotonic()
        self.memo: MemoFile | None = None
        self.queue_model: QueueModel | None = None
        self.debug = DebugPlan()
        self.compilers: Compilers | None = None
        self.resumed: Checkpoint | None = None  # where the run goes on from

    def __getstate__(self) -> dict[str, Any]:
        kept = {"scenario": self.scenario, "resumed": self.resumed, "token": self.folder.token, "debug": self.debug}
        return kept | {"folder": None, "begin_s": 0.0}


def prepare(
    config: Config, quiet: bool = False, n_rank: int = 1, n_rank_here: int = 1, options: DebugOptions = NO_DEBUG
) -> Prepared:  # fmt: skip
    """Check everything and open the result folder. Raises SimError; on rank 0 only.

    n_rank: of the run; n_rank_here: of them, on this machine.
    """
    return _prepare(config, lambda: build_scenario(config), n_rank, n_rank_here, options)


def prepare_resumed(
    directory: str, out: str | None, quiet: bool = False, n_rank: int = 1, n_rank_here: int = 1
) -> Prepared:
    """The same of a run that goes on from a checkpoint. directory: of checkpoints. out: None: the run's own."""
    found, scenario = find(directory, out)
    prepared = _prepare(scenario.config, lambda: scenario, n_rank, n_rank_here)
    prepared.resumed = found
    return prepared


def _prepare(
    config: Config, build: Callable[[], Scenario], n_rank: int, n_rank_here: int,
    options: DebugOptions = NO_DEBUG,
) -> Prepared:  # fmt: skip
    memo = read_memo(config.wormhole)
    with within_memory(config):
        scenario = build()
    check_memory(scenario, n_rank, n_rank_here)
    queue_model, debug = read_queue_model(scenario), resolve(options, scenario)
    folder = ResultFolder(config.output.dir)
    try:
        folder.check()
        check_directory(config, folder)
    except BaseException:
        folder.abandon()
        raise
    prepared = Prepared(scenario, folder)
    prepared.memo, prepared.queue_model, prepared.debug = memo, queue_model, debug
    return prepared


class Run:
    """One rank's part of a run."""

    def __init__(self, prepared: Prepared, world: World, witness: Witness | None = None) -> None:
        """witness: of this rank, to be told where the run is."""
        self.scenario, self.world, self._witness = prepared.scenario, world, witness
        token = getattr(prepared, "token", None)
        self.folder = prepared.folder or ResultFolder(self.scenario.config.output.dir, token)
        if witness is not None:
            checkpoints = checkpoint_directory(self.scenario.config).absolute()
            witness.tell(folder=self.folder.work.absolute(), checkpoints=checkpoints)
        self.begin_s, self.compilers = prepared.begin_s, getattr(prepared, "compilers", None)
        self.resumed = prepared.resumed
        self.run_id = self.folder.token if self.resumed is None else self.resumed.facts["run"]
        self.restored = {"rounds": 0, "hops": 0, "events": 0}  # what others have simulated before
        self.checkpoints: Checkpoints | None = None
        self.balancer: Balancer | None = None
        s = self.scenario
        self.rank_of_lp = world.bcast(
            place(s.lp_load(), s.lp_edges(), world.size, s.config.partition.placement) if world.rank == 0 else None
        )
        self.balance = balance(s.lp_load(), self.rank_of_lp, world.size)
        output = s.config.output
        self.flows = self._spool("flows", s.plan.flows_per_iteration if output.flows else 0, FLOW_SPOOL_COLUMNS)
        self.tasks = self._spool("tasks", s.plan.tasks_per_iteration if output.tasks else 0, TASK_SPOOL_COLUMNS)
        self.spent = self._spool("breakdown", s.plan.n_main, SPENT_SPOOL_COLUMNS)
        self.n_flow_done, self.flow_ps, self.last_finish_ps = 0, 0, -1
        queue_model = getattr(prepared, "queue_model", None)
        self.queue_model_digest = None if queue_model is None else queue_model.digest  # on rank 0
        self._queue_model: QueueModel | None = queue_model
        self._debug_plan = prepared.debug
        self.assemble(self.rank_of_lp)
        self.memo: SharedMemo | None = None
        if s.config.wormhole.memo is not None:
            self.memo = SharedMemo(getattr(prepared, "memo", None), s, self.model, world)
        stop_ps = NEVER - 1 if s.stop_ps is None else s.stop_ps
        words = None if witness is None else witness.words[:N_LOOP]
        may_run_on = self.model.fast_forward is None  # whose interrupts everyone has to hear of at once
        self.loop = make_loop(self.lookahead_ps, stop_ps, self.model.first_look_ps(), words, may_run_on)

    @property
    def lookahead_ps(self) -> int:
        """Of rounds. Where somebody looks at these they are short, unless fast-forwarding decides at their ends."""
        s = self.scenario
        is_looked_at = self._debug_plan.looks_at_rounds and s.config.wormhole.mode == "off"
        return s.short_round_ps if is_looked_at else s.lookahead_ps

    def assemble(self, rank_of_lp: np.ndarray) -> None:
        """Make a model, and all that looks at it, of a placement; nothing has happened in it."""
        s, world = self.scenario, self.world
        self.rank_of_lp = rank_of_lp
        self.parts = PartCollector(s.plan.n_part) if s.plan.n_part > 1 else None
        self.model = NetworkModel(
            s.topology, s.paths, s.plan, s.max_window_bytes, s.lp_of_node, rank_of_lp, self.lookahead_ps, world,
            s.parameters, self._take_rows,
        )  # fmt: skip
        self.facts = FlowFacts(s.topology, s.paths, s.plan, s.parameters, self.model.state.routing)
        looks = self._debug_plan.looks_at_rounds
        if world.size > 1 and s.longest_round_ps and not looks:
            self.model.know_outputs(s.lp_of_node, self.lookahead_ps, s.longest_round_ps)
        self.debug = DebugSession(self._debug_plan, s, self.model, world)
        self.sampler, self.watch = make_sampler(s, self.model, world), watch_deadlocks(s, self.model, world)
        self.stall, self.iterations = watch_stalls(s, self.model, world), watch_iterations(s, self.model, world)
        observers = (self.sampler, self.watch, self.stall, self.iterations)
        self.model.observers = [observer for observer in observers if observer is not None] + self.debug.observers
        if s.config.wormhole.mode != "off":
            paper = s.config.wormhole.paper
            choice = Choice(paper.criterion, **paper.criterion_parameters)
            self.model.fast_forward = make_fast_forward(
                s.topology,
                self.model,
                s.parameters,
                world,
                s.path_rtt_ps,
                s.stop_ps,
                choice,
                s.config.wormhole.skips,
                s.config.wormhole.wave_tolerance,
                self._make_audit(),
            )
        if self.model.fast_forward is not None and s.config.output.partitions:
            self.model.fast_forward.series = PartitionSeries()
        if self.model.fast_forward is not None:
            fast = self.model.fast_forward
            fast.restoration = restoration_of(s, self.model, world, fast, self._queue_model)
        looks |= self._debug_plan.options.shows_end
        self.repeats = None if looks else watch_repeats(s, self.model, world, self.iterations)
        if self.repeats is not None:
            self.model.observers.append(self.repeats)

    def _make_audit(self) -> Audit | None:
        s, share = self.scenario, self.scenario.config.wormhole.audit
        return Audit(share, s.config.simulation.seed, s.parameters.payload_bytes) if share else None

    def compile(self, beginning: Beginning | None = None) -> float:
        """Compile the kernels before anything runs, rank 0 first so that the others find them; seconds that it took."""
        begin_s, beginning = time.monotonic(), beginning or Beginning()
        if self.world.rank == 0:
            self._say_what_compiling_takes(beginning)
            self._compile_beside(beginning)
            self._compile()
            beginning.enter(STARTING)
        self.world.barrier()
        if self.world.rank > 0:
            self._compile()
        self.world.barrier()
        return time.monotonic() - begin_s

    def _say_what_compiling_takes(self, beginning: Beginning) -> None:
        """Rank 0's compilers have been announced; here are runs that need one kernel or another besides."""
        if self.compilers is not None and self.compilers.is_at_work:
            return
        known = compiled_kernels()
        is_there = JIT_DISABLED or all(file_name(kernel) in known for kernel, _ in self.model.kernels())
        if is_there and (self.model.fast_forward is None or file_name(sample_pairs) in known):
            beginning.enter("loading the kernels")
        else:
            announce_compiling(beginning, self.compilers)

    def _compile_beside(self, beginning: Beginning) -> None:
        """What is left to the other processes, and what only this one can do meanwhile."""
        compilers = self.compilers
        if compilers is None or not compilers.is_at_work:
            return
        compilers.give(task(kernel, arguments) for kernel, arguments in self.model.kernels()[len(ALWAYS) :])
        self.facts.compile()
        if self.model.fast_forward is not None:
            self.model.fast_forward.compile(self.model.state)
        compilers.wait(beginning.check)

    def _compile(self) -> None:
        self.model.compile()
        self.facts.compile()

    def _spool(self, name: str, per_iteration: int, columns: tuple[str, ...]) -> RowSpool:
        n_iteration, n_repeat = self.scenario.plan.n_iteration, self.scenario.config.wormhole.n_repeat
        least = min(n_iteration, n_repeat or n_iteration)
        return RowSpool(
            self.folder.work, name, per_iteration * n_iteration, columns, rank=self.world.rank, n_rank=self.world.size,
            least_rows=per_iteration * least,
        )  # fmt: skip

    def _take_rows(self, flow: np.ndarray, arrival: np.ndarray, task: np.ndarray, spent: np.ndarray) -> None:
        """Rows from the kernels, into the spools by id."""
        if self.repeats is not None:
            flow, arrival, task, spent = self.repeats.moved(flow, arrival, task, spent)
        if len(flow):
            ids, columns = self.facts.columns(flow, self.model.pairs.pair_of_row)
            if self.parts is not None:
                ids, columns = self.parts.flows(ids, columns)
            if self.flows.n_row:
                self.flows.scatter(ids, columns)
            is_done = columns["finish_ps"] >= 0
            self.n_flow_done += int(is_done.sum())
            self.flow_ps += int((columns["finish_ps"] - columns["start_ps"])[is_done].sum())
            self.last_finish_ps = max(self.last_finish_ps, int(columns["finish_ps"].max(initial=-1)))
        if self.parts is not None:
            arrival = self.parts.arrivals(arrival)
        if len(arrival) and self.flows.n_row:
            self.flows.scatter(arrival[:, 0], {"delivered_ps": arrival[:, 1]})
        if len(task):
            self.tasks.scatter(task[:, 0], {name: task[:, 1 + i] for i, name in enumerate(TASK_SPOOL_COLUMNS)})
        if len(spent):
            self.spent.scatter(spent[:, 0], {name: spent[:, 1 + i] for i, name in enumerate(SPENT_SPOOL_COLUMNS)})

    def restore(self) -> None:
        """Go on from a checkpoint, if there is one to go on from. After compiling, which empties some memory."""
        if self.resumed is None:
            return
        restore(self, self.resumed.path, self.resumed.facts)
        self.world.barrier()
        if self.world.rank == 0:
            text = f"resumed from round {self.resumed.facts['round']:,} of {self.resumed.path}"
            print(f"pdes-sim: {text}", file=sys.stderr, flush=True)

    def simulate(
        self, quiet: bool, heeds_signals: bool = False, shows_progress: bool = False, beginning: Beginning | None = None
    ) -> float:
        """Run the rounds; seconds of wall time that they took. shows_progress: also where there is no terminal.

        beginning: ends here.
        """
        stream = sys.stderr if self.world.rank == 0 and not quiet else None
        is_shown = shows_progress or (stream is not None and stream.isatty())
        progress = Progress(stream if is_shown else None, self.world.size, self.scenario.stop_ps)
        mine = self.model.rank_of_node[self.scenario.topology.port_src] == self.world.rank
        expected, mean = int(self.scenario.port_hops[mine].sum()), int(self.scenario.port_hops.sum()) // self.world.size

        def say(text: str) -> None:
            progress.close()
            if stream is not None:
                print(text, file=stream, flush=True)

        every_ps = self.scenario.config.checkpoint.every_ps
        every_s = None if every_ps is None else every_ps / PS_PER_S
        requests = Requests(every_s if self.world.rank == 0 else None, heeds_signals)
        checkpoints = self.checkpoints = Checkpoints(self, requests, say)

        def tick() -> None:
            hops = int(self.model.state.fabric.counters[PACKET_HOPS]) - self.restored["hops"]
            done = hops + self.restored["hops"] / self.world.size
            if self.model.fast_forward is not None:
                done += self.model.fast_forward.hops_so_far(self.model.state)
            has_moved = self.balancer is not None and self.balancer.has_moved
            share = done / max(1, mean if has_moved else expected) * (self.scenario.plan.n_iteration / self.n_iteration)
            progress.update(self.now_ps, hops * self.world.size, share, self._how_it_goes)
            rests.tick()

        partition = self.scenario.config.partition
        balance_s = partition.rebalance_interval_ps / PS_PER_S
        moves = partition.rebalance and not self._debug_plan.looks_at_rounds
        if moves and 1 < self.world.size < self.scenario.n_lp:
            self.balancer = Balancer(self, balance_s)
        rests = Rests(self, checkpoints, self.balancer)
        pause_s = min(PAUSE_EVERY_S, balance_s / 4, PAUSE_EVERY_S if every_s is None else every_s / 4)
        self.world.barrier()
        begin_s = time.monotonic()
        with requests, self._watched():
            if beginning is not None:
                beginning.end()
                if beginning.seen:
                    requests.take_over(beginning.seen)
            while rests.has_moved:
                rests.has_moved = False
                run_rounds(self.model, self.loop, self.model.exchange, tick, pause_s, rests.rest)
        self.world.barrier()
        loop_s = time.monotonic() - begin_s
        progress.close()
        if checkpoints.exit_status:
            return loop_s
        if self.watch is not None:
            self.watch.look_at_end(self.model.state)
        if self.scenario.stop_ps is not None or self.circles or self.debug.stopped_ps is not None:
            self.model.flush()
            rows = unfinished_rows(self.model.state, self.model.rank_of_node, self.world.rank)
            self._take_rows(rows, rows[:0, :2], rows[:0], rows[:0])
        self.model.flush()
        for spool, n_row in ((self.flows, self.n_flow), (self.tasks, self.n_task)):
            spool.truncate(min(n_row, spool.n_row))
        self.spent.truncate(self.scenario.plan.n_main * self.n_iteration)
        return loop_s

    def fill(self) -> None:
        """Write the rows of passes that were left out. On rank 0, when all ranks' rows are there."""
        if self.repeats is None or not self.repeats.jumps:
            return
        for name, spool in (("flow", self.flows), ("task", self.tasks)):
            spool.amend(partial(self.repeats.fill, name), [c for c in spool.columns if c in INSTANTS])

    def _how_it_goes(self) -> list[str]:
        """What progress says of this rank: how long it waits for others, and what need not be simulated."""
        compute_ns, idle_ns = int(self.loop[COMPUTE_NS]), int(self.loop[WAIT_NS] + self.loop[EXCHANGE_NS])
        fast, found = self.model.fast_forward, []
        if self.world.size > 1:
            share = idle_ns / max(compute_ns + idle_ns, 1)
            found.append(f"rank 0 waits {100 * share:.0f} %, expected imbalance {self.balance:.2f}")
        if fast is not None:
            skipped, hops = fast.hops_so_far(self.model.state), int(self.model.state.fabric.counters[PACKET_HOPS])
            found.append(f"skipped {100 * skipped / max(skipped + hops, 1):.1f} %")
        return found

    def release_folder(self) -> None:
        """The results are there: see `Witness.release_folder`."""
        if self._witness is not None:
            self._witness.release_folder()

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Rounds of which the witness knows, so that it can say if one of them does not end."""
        limit_ps = self.scenario.config.run.stall_limit_ps
        if self._witness is None or limit_ps is None:
            yield
            return
        places = " ".join(map(str, (N_ROUND, NOW, RETURN_NS, EXCHANGE_NS, IS_WAITING)))
        self._witness.tell(places=places, stall_s=limit_ps / PS_PER_S)
        try:
            yield
        finally:
            self._witness.tell(stall_s=0)

    @property
    def now_ps(self) -> int:
        """The time that the simulation is about: later than its clock by what was left out."""
        return int(self.loop[NOW]) + (0 if self.repeats is None else self.repeats.skipped_ps)

    @property
    def n_iteration(self) -> int:
        """Iterations that are simulated, or would be without a stop time: the others repeat them."""
        return self.scenario.plan.n_iteration if self.iterations is None else self.iterations.n_iteration

    @property
    def n_flow(self) -> int:
        """Messages of these iterations."""
        return self.scenario.plan.flows_per_iteration * self.n_iteration

    @property
    def n_task(self) -> int:
        """Task rows of these iterations."""
        return self.scenario.plan.tasks_per_iteration * self.n_iteration

    @property
    def circles(self) -> tuple[Circle, ...]:
        """Of queues that wait for each other, if the run ended with a PFC deadlock; the same on every rank."""
        return () if self.watch is None else self.watch.circles

    @property
    def is_deadlocked(self) -> bool:
        """Did a PFC deadlock end the run before its time?"""
        return bool(self.circles) and self.watch is not None and self.watch.found_ps >= 0

    @property
    def is_stalled(self) -> bool:
        """Did the run end as nothing gets through any more?"""
        return self.stall is not None and self.stall.found_ps >= 0
