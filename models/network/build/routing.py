"""Tables for switches that look up the next hop of each packet: one set per epoch of the links' state.

An epoch begins when the switches have learnt of a link's change, `convergence_ps` after it; its tables are those of
`topology.routing` on the links that are up then. Everything follows from the config, so every rank has the same tables.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from models.network.state.parameters import FLOWLET, WEIGHTED_ECMP, LinkChange, NetworkParameters, RoutingParameters
from models.network.state.switch_state import ECMP_SEED, FLOWLET_GAP_PS, N_ROUTING_SETTING, ROUTE, Routing
from models.topology.distance import distances
from models.topology.ecmp import ip_of
from models.topology.graph import Topology
from models.topology.routing import list_candidates

MAX_WEIGHT = 64  # most places of one port among the candidates of weighted ECMP


def make_routing(topology: Topology, parameters: NetworkParameters) -> Routing:
    """The tables of a run; of no size where every pair keeps its path."""
    routing = parameters.routing
    if routing is None:
        return _assemble(topology, np.zeros(0, ROUTE), [0], [_empty_tables()], RoutingParameters())
    states = link_states(topology, parameters.link_changes, routing.convergence_ps)
    tables = [_tables(topology, up, rate_bps, routing.policy) for _, up, rate_bps in states]
    return _assemble(topology, make_routes(routing), [time_ps for time_ps, _, _ in states], tables, routing)


def make_routes(routing: RoutingParameters) -> np.ndarray:
    """ROUTE records: row 2 * i is the way of pair i's data, row 2 * i + 1 of its ACKs, in the plan's order."""
    assert routing.header is not None
    ends = np.repeat(routing.header, 2, axis=0)
    ends[1::2] = ends[1::2][:, [1, 0, 3, 2]]
    routes = np.zeros(len(ends), ROUTE)
    routes["dst"] = ends[:, 1]
    routes["header_0"], routes["header_1"] = _addresses(ends[:, 0]), _addresses(ends[:, 1])
    routes["header_2"] = (ends[:, 2] & 0xFFFF) | ((ends[:, 3] & 0xFFFF) << 16)
    routes["policy"] = routing.policy
    return routes


def _addresses(nodes: np.ndarray) -> np.ndarray:
    known, place = np.unique(nodes, return_inverse=True)
    return np.array([int(ip_of(int(node))) for node in known], np.int64)[place]


def link_states(
    topology: Topology, changes: tuple[LinkChange, ...], delay_ps: int
) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """(begin of the epoch, bool[n_port] up, int64[n_port] rate) of every state of the links that routing sees."""
    up, rate_bps = np.ones(topology.n_port, np.bool_), topology.port_rate_bps.copy()
    states = [(0, up.copy(), rate_bps.copy())]
    for change in sorted(changes, key=lambda change: change.time_ps):
        both = [change.port, int(topology.port_peer[change.port])]
        up[both], rate_bps[both] = change.is_up, change.rate_bps
        state = (change.time_ps + delay_ps, up.copy(), rate_bps.copy())
        if states[-1][0] == state[0]:
            states[-1] = state
        else:
            states.append(state)
    return states


def _tables(topology: Topology, up: np.ndarray, rate_bps: np.ndarray, policy: int) -> dict[str, Any]:
    """Groups of hosts and the candidates of every switch towards each, over the links that are up."""
    ports = np.flatnonzero(up)
    place = np.full(topology.n_port, -1, np.int64)
    place[ports] = np.arange(len(ports))
    alive = replace(
        topology,
        port_src=topology.port_src[ports],
        port_dst=topology.port_dst[ports],
        port_rate_bps=topology.port_rate_bps[ports],
        port_delay_ps=topology.port_delay_ps[ports],
        port_peer=place[topology.port_peer[ports]],
    )
    table = distances(alive)
    way_start, way_port = np.zeros(topology.n_node + 1, np.int64), np.zeros(len(ports) + 1, np.int64)
    starts, ways, n_way = [], [], 0
    for group in range(len(table.group_component)):
        component = table.group_component[group]
        n_switch = int(table.component_start[component + 1] - table.component_start[component])
        list_candidates(alive.port_dst, table, group, way_start, way_port)
        for row in range(n_switch):
            found = ports[way_port[way_start[row] : way_start[row + 1]]]
            if policy == WEIGHTED_ECMP:
                found = _by_rate(found, rate_bps)
            starts.append(n_way)
            ways.append(found)
            n_way += len(found)
    return {
        "component": table.component.astype(np.int32),
        "local": table.local.astype(np.int32),
        "attach_start": table.attach_start,
        "attach_group": table.attach_group,
        "group_component": table.group_component.astype(np.int32),
        "group_first": table.hops_start[:-1],
        "way_start": np.array([*starts, n_way], np.int64),
        "way_port": np.concatenate(ways).astype(np.int32) if ways else np.zeros(0, np.int32),
        "is_up": up.astype(np.uint8),
    }


def _by_rate(ports: np.ndarray, rate_bps: np.ndarray) -> np.ndarray:
    """The candidates, each as often as its rate is a multiple of their greatest common divisor, roughly."""
    if len(ports) < 2:
        return ports
    rates = rate_bps[ports]
    unit = max(int(np.gcd.reduce(rates)), -(-int(rates.max()) // MAX_WEIGHT))
    return np.repeat(ports, np.maximum(1, rates // unit))


def _empty_tables() -> dict[str, Any]:
    none, small = np.zeros(1, np.int64), np.zeros(1, np.int32)
    return {
        "component": small, "local": small, "attach_start": none, "attach_group": none, "group_component": small,
        "group_first": none, "way_start": none, "way_port": small, "is_up": np.zeros(1, np.uint8),
    }  # fmt: skip


def _assemble(
    topology: Topology,
    routes: np.ndarray,
    epoch_ps: list[int],
    tables: list[dict[str, Any]],
    routing: RoutingParameters,
) -> Routing:
    """One structure of all epochs: rows of groups, ways and attachments are numbered through."""
    n_group = n_start = n_way = n_attach = 0
    for t in tables:
        t["attach_start"], t["attach_group"] = t["attach_start"] + n_attach, t["attach_group"] + n_group
        t["group_first"], t["way_start"] = t["group_first"] + n_start, t["way_start"] + n_way
        n_attach, n_group = n_attach + len(t["attach_group"]), n_group + len(t["group_component"])
        n_start, n_way = n_start + len(t["way_start"]), n_way + len(t["way_port"])
    settings = np.zeros(N_ROUTING_SETTING, np.int64)
    settings[ECMP_SEED], settings[FLOWLET_GAP_PS] = routing.ecmp_seed, routing.flowlet_gap_ps
    flat = {name: np.concatenate([t[name] for t in tables]) for name in tables[0]}
    wide = {name: np.stack([t[name] for t in tables]) for name in ("component", "local", "attach_start", "is_up")}
    has_flowlets = len(routes) > 0 and bool((routes["policy"] == FLOWLET).any())
    n_flowlet = (topology.n_node, routing.n_flowlet, 2) if has_flowlets else (1, 1, 2)
    return Routing(
        routes=routes,
        epoch_ps=np.array(epoch_ps, np.int64),
        **(flat | wide),
        port_src=topology.port_src,
        in_start=topology.in_start,
        flowlets=np.zeros(n_flowlet, np.int64),
        settings=settings,
    )
