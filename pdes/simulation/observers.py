"""Who looks at a run's network, as its config asks, whatever its ranks: see `models.network.observers`."""

from models.network.deadlock import DeadlockWatch
from models.network.model import NetworkModel
from models.network.sampling import Sampler
from models.network.stall import StallWatch, make_stall_watch
from models.workload.iterations import IterationWatch
from pdes.engine.exchange import World
from pdes.scenario import Scenario
from pdes.scenario.queues import find_queues


def make_sampler(s: Scenario, model: NetworkModel, world: World) -> Sampler | None:
    """Of ports, flows and counters, every [output] sample_interval."""
    output = s.config.output
    if output.sample_interval_ps is None:
        return None
    bits = [0, *(1 << priority for priority in find_queues(s.config.network, s.plan).priority)]
    return Sampler(
        s.topology, s.parameters, model.pairs, model.rank_of_node, world, output.sample_interval_ps, output.sample,
        output.sample_limit_bytes, bits,
    )  # fmt: skip


def watch_deadlocks(s: Scenario, model: NetworkModel, world: World) -> DeadlockWatch | None:
    """With PFC, every [network.pfc] deadlock_check."""
    network = s.config.network
    if not network.has_pfc:
        return None
    return DeadlockWatch(s.topology, s.parameters, model.rank_of_node, world, network.deadlock_check_ps)


def watch_stalls(s: Scenario, model: NetworkModel, world: World) -> StallWatch | None:
    """Where a run could go on for ever: one with a stop time ends in any case."""
    return make_stall_watch(s.topology, s.parameters, model.rank_of_node, world) if s.stop_ps is None else None


def watch_iterations(s: Scenario, model: NetworkModel, world: World) -> IterationWatch | None:
    """Where iterations that repeat need not be simulated."""
    n_repeat, tolerance = s.config.wormhole.n_repeat, s.config.wormhole.iteration_tolerance
    if not 0 < n_repeat < s.plan.n_iteration or not s.plan.tasks_per_iteration:
        return None
    return IterationWatch(s.topology, s.plan, model.rank_of_node, world, n_repeat, tolerance)
