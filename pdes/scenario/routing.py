"""[network.routing], [[network.path]] and [[network.link_event]] in the network model's terms."""

from typing import Any

import numpy as np

from models.network.state import parameters as model
from models.network.state.parameters import LinkChange, RoutingParameters
from models.topology.graph import Topology
from models.topology.paths import Paths
from models.workload.plan import WorkloadPlan
from pdes.config.tables.network import NetworkConfig
from pdes.config.tables.routing import LinkEventConfig
from pdes.errors import ConfigError
from pdes.units import format_rate, shown

POLICIES = {
    "ecmp": model.ECMP,
    "weighted": model.WEIGHTED_ECMP,
    "spray": model.SPRAY,
    "flowlet": model.FLOWLET,
    "adaptive": model.ADAPTIVE,
}


def link_changes(network: NetworkConfig, topology: Topology) -> tuple[LinkChange, ...]:
    """The events of [[network.link_event]], each with all that holds from then on, in order of time.

    Raises ConfigError for a link that is not there and for a rate above the link's own.
    """
    state: dict[int, tuple[int, float, bool]] = {}
    changes = []
    for i_row, event in sorted(enumerate(network.link_event), key=lambda row: row[1].time_ps):
        where = f"[[network.link_event]] {i_row + 1}"
        port = _port_of(topology, event, where)
        full_bps = int(topology.port_rate_bps[port])
        rate_bps, loss, is_up = state.get(port, (full_bps, float(topology.port_loss[port]), True))
        rate_bps = rate_bps if event.rate_bps is None else event.rate_bps
        if rate_bps > full_bps:
            raise ConfigError(
                f"{where} rate", f"{format_rate(rate_bps)}", f"Accepted: at most the link's {format_rate(full_bps)}"
            )
        loss = loss if event.loss is None else event.loss
        is_up = is_up if event.state is None else event.state == "up"
        state[port] = (rate_bps, loss, is_up)
        changes.append(LinkChange(event.time_ps, port, rate_bps, loss, is_up))
    return tuple(changes)


def _port_of(topology: Topology, event: LinkEventConfig, where: str) -> int:
    """The port from the first named node to the second."""
    ends = [_node_of(topology, name, f"{where} link") for name in event.link]
    ports = np.flatnonzero((topology.port_src == ends[0]) & (topology.port_dst == ends[1]))
    if not len(ports):
        found = f"no link joins {event.link[0]} and {event.link[1]}"
        raise ConfigError(f"{where} link", found, _near(topology, ends[0]))
    if event.which >= len(ports):
        found = f"found {event.which}, but {len(ports)} links join {event.link[0]} and {event.link[1]}"
        raise ConfigError(f"{where} which", found, f"Accepted: 0 to {len(ports) - 1}")
    return int(ports[event.which])


def _near(topology: Topology, node: int) -> str:
    names = [topology.node_name[int(dst)] for dst in topology.port_dst[topology.port_src == node][:4]]
    return f"{topology.node_name[node]} has links to {', '.join(names)}, ..."


def _node_of(topology: Topology, name: str, where: str) -> int:
    try:
        return topology.node_name.index(name)
    except ValueError:
        some = ", ".join(topology.node_name[i] for i in (0, len(topology.node_name) // 2, len(topology.node_name) - 1))
        raise ConfigError(where, f"no node is called {shown(name)}", f"Nodes have names such as {some}") from None


def override_paths(
    network: NetworkConfig, topology: Topology, plan: WorkloadPlan, paths: Paths
) -> tuple[Paths, np.ndarray]:
    """(paths with those of [[network.path]] in place, bool[n_pair] the pairs that these fix). Raises ConfigError.

    Hand-tuned routes come before every rule (HeteroSim, message routing).
    """
    fixed = np.zeros(len(plan.pair_src), np.bool_)
    if not network.path:
        return paths, fixed
    rows = [paths.row(i) for i in range(len(paths.start) - 1)]
    src, dst = topology.host[plan.pair_src], topology.host[plan.pair_dst]
    for i_row, path in enumerate(network.path):
        where = f"[[network.path]] {i_row + 1} nodes"
        nodes = [_node_of(topology, name, where) for name in path.nodes]
        ports = [_hop(topology, nodes[k], nodes[k + 1], where) for k in range(len(nodes) - 1)]
        inner = [topology.node_name[node] for node in nodes[1:-1] if not topology.is_switch[node]]
        if inner or topology.is_switch[nodes[0]] or topology.is_switch[nodes[-1]]:
            raise ConfigError(where, " ".join(path.nodes), "Accepted: a host, switches, a host")
        for pair in np.flatnonzero((src == nodes[0]) & (dst == nodes[-1])).tolist():
            rows[2 * pair] = np.array(ports, np.int32)
            rows[2 * pair + 1] = topology.port_peer[ports[::-1]].astype(np.int32)
            fixed[pair] = True
    start = np.cumsum([0, *(len(row) for row in rows)]).astype(np.int64)
    return Paths(start, np.concatenate(rows)), fixed


def _hop(topology: Topology, src: int, dst: int, where: str) -> int:
    ports = np.flatnonzero((topology.port_src == src) & (topology.port_dst == dst))
    if not len(ports):
        found = f"no link joins {topology.node_name[src]} and {topology.node_name[dst]}"
        raise ConfigError(where, found, _near(topology, src))
    return int(ports[0])


def routing_parameters(
    network: NetworkConfig, topology: Topology, plan: WorkloadPlan, fixed: np.ndarray, changes: tuple[LinkChange, ...]
) -> RoutingParameters | None:
    """Switches that look up next hops, where the policy or links that change need it; else None: paths are fixed."""
    routing: Any = network.routing
    if routing.policy == "ecmp" and not changes:
        return None
    header = [topology.host[plan.pair_src], topology.host[plan.pair_dst], plan.pair_sport, plan.pair_dport]
    return RoutingParameters(
        policy=POLICIES[routing.policy],
        ecmp_seed=network.ecmp_seed,
        flowlet_gap_ps=routing.flowlet_gap_ps,
        fixed_pair=fixed if fixed.any() else None,
        header=np.stack(header, axis=1),
        convergence_ps=routing.convergence_ps,
    )
