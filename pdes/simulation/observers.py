"""Who looks at a run's network, as its config asks, whatever its ranks: see `models.network.watch.observers`."""

from models.network.flow_mode.sampling import FlowModeSampler
from models.network.flow_mode.state import FlowMode
from models.network.model import NetworkModel
from models.network.streams.iterations import IterationWatch
from models.network.streams.repeats import RepeatWatch
from models.network.watch.deadlock import DeadlockWatch
from models.network.watch.sampling import Sampler, Sampling
from models.network.watch.stall import StallWatch, make_stall_watch
from pdes.engine.exchange import World
from pdes.scenario import Scenario
from pdes.scenario.queues import find_queues


def make_sampler(s: Scenario, model: NetworkModel, world: World) -> Sampler | None:
    """Of ports, flows and counters, every [output] sample_interval."""
    output = s.config.output
    if output.sample_interval_ps is None:
        return None
    bits = [0, *(1 << priority for priority in find_queues(s.config.network, s.plan).priority)]
    wanted = Sampling(output.sample_interval_ps, output.sample, output.sample_limit_bytes)
    arguments = (s.topology, s.parameters, model.pairs, model.rank_of_node, world, wanted, bits)
    if model.flow is None:
        return Sampler(*arguments)
    model.flow_sampler = FlowModeSampler(lambda: flow_of(model), *arguments)
    return model.flow_sampler


def flow_of(model: NetworkModel) -> FlowMode:
    """Of a model in flow mode, as it is now: its arrays grow."""
    assert model.flow is not None
    return model.flow


def watch_deadlocks(s: Scenario, model: NetworkModel, world: World) -> DeadlockWatch | None:
    """With PFC, every [network.pfc] deadlock_check."""
    network = s.config.network
    if not network.has_pfc or not s.parameters.has_packets:
        return None
    return DeadlockWatch(s.topology, s.parameters, model.rank_of_node, world, network.deadlock_check_ps)


def watch_stalls(s: Scenario, model: NetworkModel, world: World) -> StallWatch | None:
    """Where a run could go on for ever: one with a stop time ends in any case."""
    if s.stop_ps is not None or not s.parameters.has_packets:  # whatever stands still in flow mode has no event
        return None
    return make_stall_watch(s.topology, s.parameters, model.rank_of_node, world)


def watch_iterations(s: Scenario, model: NetworkModel, world: World) -> IterationWatch | None:
    """Where iterations that repeat need not be simulated."""
    n_repeat, tolerance = s.config.wormhole.n_repeat, s.config.wormhole.iteration_tolerance
    if not 0 < n_repeat < s.plan.n_iteration or not s.plan.tasks_per_iteration:
        return None
    return IterationWatch(s.topology, s.plan, model.rank_of_node, world, n_repeat, tolerance)


def watch_repeats(
    s: Scenario, model: NetworkModel, world: World, iterations: IterationWatch | None
) -> RepeatWatch | None:
    """Where passes that repeat need not be simulated: not if something tells the time by the clock.

    After fast-forwarding is there. iterations: is told what is left out.
    """
    plan, p, output, n_repeat = s.plan, s.parameters, s.config.output, s.config.wormhole.n_pass_repeat
    tells_time = output.sample_interval_ps is not None or output.partitions or p.rtt_flow >= 0 or p.link_changes
    is_whole = plan.n_main > 0 and plan.graph is None and plan.n_part == 1 and s.stop_ps is None and not plan.jobs
    may_leave_out = model.fast_forward is not None or model.flow is not None
    if n_repeat == 0 or not may_leave_out or tells_time or not is_whole:
        return None
    here, tolerance = model.rank_of_node == world.rank, s.config.wormhole.iteration_tolerance
    watch = RepeatWatch(s.topology, plan, here, world, n_repeat, tolerance, model.flush)
    if iterations is not None:
        iterations.skipped_before = watch.skipped_before_end_of
    return watch
