"""A scenario whose optimised placement is compared with ranks in order before the run, in flow mode if that is short.

The closed form, which finds the placement, knows no collisions of hashed ways and nothing of exchanges that meet. Flow
mode does. Which of the two decides follows from the config alone, not from the machine.
"""

from collections.abc import Callable
from dataclasses import replace

from models.topology.graph import Topology
from pdes.config import Config
from pdes.errors import ConfigError
from pdes.scenario import Scenario, build_scenario
from pdes.scenario.build import said_of
from pdes.scenario.placing import (
    Placing,
    by_closed_form,
    chosen_by,
    cluster_of,
    is_optimised,
    is_placed_by_runs,
    optimised,
    placed_at,
)
from pdes.scenario.topology import build_topology
from pdes.scenario.training import checked_job
from pdes.simulation.preparation.job_places import build_least_contended
from pdes.simulation.preparation.trial import in_flow_mode, run_to_its_end

MOST_EVENTS = 1_000_000  # of a run in flow mode: a second or so

TopologyOf = Callable[[Config], Topology]


def build_placed(config: Config, topology_of: TopologyOf = build_topology) -> Scenario:
    """As `build_scenario`; an optimised placement is taken only if it is faster than ranks in order. ConfigError."""
    if not is_placed_by_runs(config):
        return build_scenario(config, topology_of)
    topology = topology_of(config)
    if not is_optimised(config):
        return build_least_contended(config, topology)
    with said_of(config):
        placed = optimised(config, checked_job(config, topology), cluster_of(config, topology))
    placing = by_closed_form(placed)
    if placing.gpu_of_rank is not None and placed.in_order_fits:
        placing = _by_flow_mode(config, topology, placing.gpu_of_rank) or placing
    scenario = build_scenario(placed_at(config, placing.gpu_of_rank), lambda _: topology)
    facts = scenario.plan.facts | {"placement": placing.said}
    return replace(scenario, config=config, plan=replace(scenario.plan, facts=facts))


def _by_flow_mode(config: Config, topology: Topology, gpu_of_rank: list[int]) -> Placing | None:
    """None: flow mode does not have this network, or would take long."""
    times_ps = []
    for placed in (None, gpu_of_rank):
        try:
            scenario = build_scenario(placed_at(in_flow_mode(config), placed), lambda _: topology)
        except ConfigError:
            return None
        if 2 * scenario.plan.n_flow + scenario.plan.n_task > MOST_EVENTS:
            return None
        times_ps.append(_iteration_ps(scenario))
    return chosen_by("flow mode", gpu_of_rank, times_ps[1], times_ps[0])


def _iteration_ps(scenario: Scenario) -> int:
    """The last iteration's time."""
    with run_to_its_end(scenario) as ran:
        ends_ps = ran.model.state.work.iteration_end_ps
    return int(ends_ps[-1] - (ends_ps[-2] if len(ends_ps) > 1 else 0))
