"""From a scenario and a placement to one rank's network and all that looks at it.

Nothing happens in a network here, and nothing outside it changes: what is assembled can be thrown away, as it is when
LPs change ranks, and made again of another placement.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from models.network.model import LogicalProcesses, NetworkModel
from models.network.skip.fast_forward import FastForward
from models.network.skip.make_fast_forward import Wanted, make_fast_forward
from models.network.streams.iterations import IterationWatch
from models.network.streams.repeats import RepeatWatch
from models.network.watch.deadlock import Circle, DeadlockWatch
from models.network.watch.parts import PartCollector
from models.network.watch.results import FlowFacts
from models.network.watch.sampling import Sampler
from models.network.watch.stall import StallWatch
from pdes.debug.options import DebugPlan
from pdes.debug.session import DebugSession
from pdes.engine.exchange import World
from pdes.scenario import Scenario
from pdes.simulation.observers import make_sampler, watch_deadlocks, watch_iterations, watch_repeats, watch_stalls
from pdes.simulation.restoration import restoration_of
from pdes.skipping.audit import Audit
from pdes.skipping.criterion import Choice
from pdes.skipping.look.partition_series import PartitionSeries
from pdes.skipping.papers.queue_model import QueueModel

TakeRows = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], None]


@dataclass(frozen=True)
class Basis:
    """What one rank's part of a run is assembled of, wherever LPs are placed."""

    scenario: Scenario
    world: World
    debug: DebugPlan
    queue_model: QueueModel | None
    """On rank 0, if the config names one."""
    take_rows: TakeRows
    """Is given rows of flows, arrivals, tasks and breakdowns when the model's room for them is full."""

    @property
    def lookahead_ps(self) -> int:
        """Of rounds. Where somebody looks at these they are short, unless fast-forwarding decides at their ends."""
        s = self.scenario
        is_looked_at = self.debug.looks_at_rounds and s.config.wormhole.mode == "off"
        return s.short_round_ps if is_looked_at else s.lookahead_ps


@dataclass
class Assembly:
    """One rank's network under a placement, and who looks at it."""

    scenario: Scenario
    rank_of_lp: np.ndarray
    """int64[n_lp]"""
    model: NetworkModel
    facts: FlowFacts
    parts: PartCollector | None
    debug: DebugSession
    sampler: Sampler | None
    watch: DeadlockWatch | None
    stall: StallWatch | None
    iterations: IterationWatch | None
    repeats: RepeatWatch | None = None

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


def assemble(basis: Basis, rank_of_lp: np.ndarray) -> Assembly:
    """One rank's part; every rank must call it, with the same placement. rank_of_lp: int64[n_lp]."""
    s, world = basis.scenario, basis.world
    parts = PartCollector(s.plan.n_part) if s.plan.n_part > 1 else None
    model = NetworkModel(
        s.topology,
        s.paths,
        s.plan,
        s.max_window_bytes,
        LogicalProcesses(s.lp_of_node, rank_of_lp, basis.lookahead_ps),
        world,
        s.parameters,
        basis.take_rows,
    )
    facts = FlowFacts(s.topology, s.paths, s.plan, s.parameters, model.state.routing)
    looks = basis.debug.looks_at_rounds
    if world.size > 1 and s.longest_round_ps and not looks:
        model.know_outputs(s.lp_of_node, basis.lookahead_ps, s.longest_round_ps)
    debug = DebugSession(basis.debug, s, model, world)
    sampler, watch = make_sampler(s, model, world), watch_deadlocks(s, model, world)
    stall, iterations = watch_stalls(s, model, world), watch_iterations(s, model, world)
    observers = (sampler, watch, stall, iterations)
    model.observers = [observer for observer in observers if observer is not None] + debug.observers
    found = Assembly(s, rank_of_lp, model, facts, parts, debug, sampler, watch, stall, iterations)
    model.fast_forward = _fast_forward(basis, model)
    if not (looks or basis.debug.options.shows_end):
        found.repeats = watch_repeats(s, model, world, iterations)
    if found.repeats is not None:
        model.observers.append(found.repeats)
    return found


def _fast_forward(basis: Basis, model: NetworkModel) -> FastForward | None:
    """What skips in a model, if the config asks for it and the network allows it."""
    s, wormhole = basis.scenario, basis.scenario.config.wormhole
    if not wormhole.may_skip:
        return None
    choice = Choice(wormhole.paper.criterion, **wormhole.paper.criterion_parameters)
    wanted = Wanted(choice, wormhole.skips, wormhole.wave_tolerance, _audit(s))
    fast = make_fast_forward(s.topology, model, s.parameters, basis.world, s.path_rtt_ps, s.stop_ps, wanted)
    if fast is not None:
        if s.config.output.partitions:
            fast.series = PartitionSeries()
        fast.suspension.restoration = restoration_of(s, model, basis.world, fast, basis.queue_model)
    return fast


def _audit(s: Scenario) -> Audit | None:
    share = s.config.wormhole.audit
    return Audit(share, s.config.simulation.seed, s.parameters.payload_bytes) if share else None
