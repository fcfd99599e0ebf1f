"""A scenario whose optimised placement is compared with ranks in order before the run, in flow mode if that is short.

The closed form, which finds the placement, knows no collisions of hashed ways and nothing of exchanges that meet. Flow
mode does. Which of the two decides follows from the config alone, not from the machine.
"""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from models.topology.graph import Topology
from pdes.config import Config
from pdes.config.tables.sections import CheckpointConfig, OutputConfig
from pdes.config.wormhole.table import WormholeConfig
from pdes.engine.exchange import World
from pdes.errors import ConfigError
from pdes.results.folder import ResultFolder
from pdes.scenario import Scenario, build_scenario
from pdes.scenario.build import said_of
from pdes.scenario.placing import Placing, by_closed_form, chosen_by, cluster_of, is_optimised, optimised, placed_at
from pdes.scenario.topology import build_topology
from pdes.scenario.training import checked_job
from pdes.simulation.compile import compile_kernels
from pdes.simulation.job import Run
from pdes.simulation.loop import run_to_end
from pdes.simulation.preparation.prepared import Prepared

MOST_EVENTS = 1_000_000  # of a run in flow mode: a second or so
MOST_ITERATIONS = 2  # that such a run has: the last one counts

TopologyOf = Callable[[Config], Topology]


def build_placed(config: Config, topology_of: TopologyOf = build_topology) -> Scenario:
    """As `build_scenario`; an optimised placement is taken only if it is faster than ranks in order. ConfigError."""
    if not is_optimised(config):
        return build_scenario(config, topology_of)
    topology = topology_of(config)
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
            scenario = build_scenario(placed_at(_in_flow_mode(config), placed), lambda _: topology)
        except ConfigError:
            return None
        if 2 * scenario.plan.n_flow + scenario.plan.n_task > MOST_EVENTS:
            return None
        times_ps.append(_iteration_ps(scenario))
    return chosen_by("flow mode", gpu_of_rank, times_ps[1], times_ps[0])


def _in_flow_mode(config: Config) -> Config:
    """A few iterations without packets, and without anything that is written."""
    n_iteration = min(MOST_ITERATIONS, config.simulation.iterations)
    given = config.wormhole
    return config.with_tables(
        simulation=config.simulation.model_copy(update={"iterations": n_iteration, "stop_time_ps": None}),
        wormhole=WormholeConfig(mode="flow", flow=given.flow, microbatch_repeats=given.microbatch_repeats),
        output=OutputConfig(flows=False, tasks=False),
        checkpoint=CheckpointConfig(),
    )


def _iteration_ps(scenario: Scenario) -> int:
    """The last iteration's time."""
    with tempfile.TemporaryDirectory(prefix="pdes-placement-") as folder:
        job = Run(Prepared(scenario, ResultFolder(Path(folder) / "run")), World())
        try:
            compile_kernels(job)
            run_to_end(job, quiet=True)
            ends_ps = job.model.state.work.iteration_end_ps
        finally:
            job.rows.close()
    return int(ends_ps[-1] - (ends_ps[-2] if len(ends_ps) > 1 else 0))
