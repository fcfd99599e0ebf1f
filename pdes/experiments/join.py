"""The networks of several experiments as one, in which no link joins them: nodes, ports and the rest one behind the
other, see `models.network.experiments`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from models.network.state.parameters import BufferParameters, NetworkParameters
from models.topology.graph import Topology
from models.topology.paths import Paths
from models.workload.jobs.join import join_plans
from models.workload.jobs.placed import PlacedJob
from models.workload.plan import WorkloadPlan
from pdes.scenario import Scenario


class Offsets(NamedTuple):
    """Where each experiment's numbers begin, and behind the last one's; int64[n_experiment + 1] each."""

    node: np.ndarray
    port: np.ndarray
    host: np.ndarray
    pair: np.ndarray


def offsets_of(scenarios: Sequence[Scenario]) -> Offsets:
    """Of these, in this order."""

    def before(count: Callable[[Scenario], int]) -> np.ndarray:
        return np.cumsum([0, *map(count, scenarios)])

    return Offsets(
        before(lambda s: s.topology.n_node),
        before(lambda s: s.topology.n_port),
        before(lambda s: s.topology.n_host),
        before(lambda s: len(s.plan.pair_src)),
    )


def join_scenarios(scenarios: Sequence[Scenario], at: Offsets) -> Scenario:
    """One scenario, for one rank: each experiment is a job of it. scenarios: of one kind, see `together`."""
    first = scenarios[0]
    return replace(
        first,
        topology=_join_topologies([s.topology for s in scenarios], at),
        plan=_join_plans(scenarios, at),
        paths=_join_paths([s.paths for s in scenarios], at),
        max_window_bytes=np.concatenate([s.max_window_bytes for s in scenarios]),
        path_rtt_ps=np.concatenate([s.path_rtt_ps for s in scenarios]),
        parameters=_join_parameters([s.parameters for s in scenarios], at),
        port_hops=np.concatenate([s.port_hops for s in scenarios]),
        lp_of_node=_moved([s.lp_of_node for s in scenarios], np.cumsum([0, *(s.n_lp for s in scenarios)])),
        longest_round_ps=0,
    )


def _moved(parts: Sequence[np.ndarray], begins: np.ndarray) -> np.ndarray:
    """Numbers of all, each part's moved to its begin; -1 stays what it is."""
    return np.concatenate([np.where(own == -1, -1, own + begin) for own, begin in zip(parts, begins, strict=False)])


def _join_topologies(parts: Sequence[Topology], at: Offsets) -> Topology:
    def all_of(name: str) -> np.ndarray:
        return np.concatenate([getattr(part, name) for part in parts])

    def moved(name: str, begins: np.ndarray) -> np.ndarray:
        return _moved([getattr(part, name) for part in parts], begins)

    return Topology(
        name=f"{len(parts)} networks",
        node_name=tuple(chain.from_iterable(part.node_name for part in parts)),
        is_switch=all_of("is_switch"),
        server=moved("server", at.node),  # there are no more servers than nodes
        host=moved("host", at.node),
        port_src=moved("port_src", at.node),
        port_dst=moved("port_dst", at.node),
        port_rate_bps=all_of("port_rate_bps"),
        port_delay_ps=all_of("port_delay_ps"),
        port_peer=moved("port_peer", at.port),
        port_loss=all_of("port_loss"),
    )


def _join_plans(scenarios: Sequence[Scenario], at: Offsets) -> WorkloadPlan:
    plans = [s.plan for s in scenarios]
    hosts = [np.arange(first, end) for first, end in zip(at.host[:-1], at.host[1:], strict=True)]
    placed = [PlacedJob(str(i), plan, own) for i, (plan, own) in enumerate(zip(plans, hosts, strict=True))]
    return replace(join_plans(placed), keeps_tasks=plans[0].keeps_tasks)


def _join_paths(parts: Sequence[Paths], at: Offsets) -> Paths:
    lengths = np.concatenate([np.diff(part.start) for part in parts])
    port = np.concatenate([part.port + begin for part, begin in zip(parts, at.port, strict=False)])
    return Paths(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), port.astype(np.int32))


def _join_parameters(parts: Sequence[NetworkParameters], at: Offsets) -> NetworkParameters:
    """Each port has its own thresholds and each queue pair its own control's parameters; the rest the first one's."""

    def all_of(name: str) -> np.ndarray:
        return np.concatenate([getattr(part, name) for part in parts])

    return replace(
        parts[0],
        ecn_min_bytes=all_of("ecn_min_bytes"),
        ecn_max_bytes=all_of("ecn_max_bytes"),
        ecn_max_probability=all_of("ecn_max_probability"),
        base_rtt_ps=all_of("base_rtt_ps"),
        pair_queue=all_of("pair_queue"),
        buffer=_join_buffers([part.buffer for part in parts]),
        loss_probability=None if parts[0].loss_probability is None else all_of("loss_probability"),
        law_sets=_law_sets(parts, np.diff(at.pair).tolist()),
    )


def _law_sets(parts: Sequence[NetworkParameters], n_pair: Sequence[int]) -> tuple[tuple[dict[str, Any], int], ...]:
    """(values, queue pairs) of neighbours that have the same ones."""
    found: list[tuple[dict[str, Any], int]] = []
    for part, n in zip(parts, n_pair, strict=True):
        values = part.law_values
        if found and found[-1][0] == values:
            found[-1] = values, found[-1][1] + n
        else:
            found.append((values, n))
    return tuple(found)


def _join_buffers(parts: Sequence[BufferParameters | None]) -> BufferParameters | None:
    """Buffers of the same kind, or none."""
    there = [part for part in parts if part is not None]
    if not there:
        return None
    arrays = {
        name: np.concatenate([getattr(part, name) for part in there])
        for name in ("size_bytes", "alpha_1024", "headroom_bytes")
    }
    return replace(there[0], **arrays)
