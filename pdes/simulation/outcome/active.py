"""The span of a run in which something happened: what shares of time are shares of.

A list of flows may begin seconds after time 0, and the timers of a message that lost its end run up to the stop time.
"""

from typing import Any

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.watch.results import open_pauses
from models.topology.graph import Topology
from models.workload.plan import WorkloadPlan
from models.workload.program import OP_START, OP_WAIT
from pdes.engine.time_index import NEVER
from pdes.simulation.job import Run


def first_start_ps(plan: WorkloadPlan) -> int:
    """When the first message or task can start: what a stream begins with may wait for an instant."""
    if not len(plan.streams):
        return 0
    first = plan.operations[plan.streams["first_operation"]]
    waits = np.isin(first["kind"], (OP_START, OP_WAIT))
    return int(np.maximum(plan.streams["wake_ps"], np.where(waits, first["time_ps"], 0)).min())


def last_use_ps(job: Run) -> tuple[int, int]:
    """(last finish of a message, last use of anything) on this rank, -1 and 0 if there is none.

    Tasks, and ports that are still paused, are in use for ever. What a host sent last, acknowledgements too, is under
    way until the next node has it.
    """
    topology, state = job.scenario.topology, job.model.state
    mine = job.model.rank_of_node[topology.port_src] == job.world.rank
    if job.scenario.plan.n_main or job.assembly.n_task or open_pauses(state, topology)[0][mine].any():
        return NEVER, NEVER
    return job.rows.last_finish_ps, int(under_way_until_ps(state, topology)[mine].max(initial=0))


def under_way_until_ps(state: NetworkState, topology: Topology) -> np.ndarray:
    """int64[n_port]: until when what a host sent last is under way; 0 at switches, and where nothing was sent."""
    ports = state.fabric.ports
    sends = ~topology.is_switch[topology.port_src] & (ports["tx_bytes"] > 0)
    return np.where(sends, ports["free_at_ps"] + ports["delay_ps"], 0)


def active_ps(plan: WorkloadPlan, totals: dict[str, Any]) -> list[int]:
    """[first start, last delivery], within the time that was simulated. totals: see `gather`."""
    end_ps = totals["last_finish_ps"] if totals["n_flow_done"] == plan.n_flow else totals["last_use_ps"]
    end_ps = min(end_ps, totals["last_ps"]) if end_ps >= 0 else totals["last_ps"]
    return [min(first_start_ps(plan), end_ps), end_ps]
