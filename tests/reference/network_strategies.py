"""Hypothesis strategies: small networks of every kind, with mixed rates and delays, and flows that meet on them."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from models.topology.fat_tree import fat_tree
from models.topology.graph import LinkKind, Topology, make_topology
from models.topology.leaf_spine import leaf_spine
from models.topology.rail_optimised import rail_optimised
from reference.network_case import Flow, NetworkCase, make_flow_case, make_parameters

GBPS, NS = 10**9, 1000
# The last three do not divide 8e12, so that a packet's time is no multiple of its bytes.
RATES = st.sampled_from([10 * GBPS, 25 * GBPS, 100 * GBPS, 100 * GBPS, 3_600 * GBPS, 7_777_777_777, 33 * GBPS])
DELAYS = st.sampled_from([0, 25 * NS, 500 * NS, 1000 * NS, 1000 * NS, 1500 * NS, 777_777])
LINK = st.tuples(RATES, DELAYS)
MAX_WINDOW_BYTES = 2 * 10**6  # window x line rate is to stay below 2^63


def switched(n_host: int, links: list[tuple[int, int, int, int]], n_switch: int, servers: list[int]) -> Topology:
    names = [f"host{i}" for i in range(n_host)] + [f"switch{i}" for i in range(n_switch)]
    return make_topology("test", names, [False] * n_host + [True] * n_switch, servers + [-1] * n_switch, links)


@st.composite
def stars(draw: st.DrawFn) -> Topology:
    n_host = draw(st.integers(2, 6))
    links = [(i, n_host, *draw(LINK)) for i in range(n_host)]
    return switched(n_host, links, 1, list(range(n_host)))


@st.composite
def dumbbells(draw: st.DrawFn) -> Topology:
    """Two switches in the middle; hosts in pairs share a server, so that an LP has several hosts."""
    n_left, n_right = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    n_host = n_left + n_right
    links = [(i, n_host + (i >= n_left), *draw(LINK)) for i in range(n_host)]
    links.append((n_host, n_host + 1, *draw(LINK)))
    per_server = draw(st.sampled_from([1, 2]))
    return switched(n_host, links, 2, [i // per_server for i in range(n_host)])


@st.composite
def leaf_spines(draw: st.DrawFn) -> Topology:
    (host_bps, host_ps), (spine_bps, spine_ps) = draw(LINK), draw(LINK)
    return leaf_spine(draw(st.integers(1, 3)), 2, 2, host_bps, spine_bps, host_ps, spine_ps)


@st.composite
def fat_trees(draw: st.DrawFn) -> Topology:
    (host_bps, host_ps), (core_bps, core_ps) = draw(LINK), draw(LINK)
    return fat_tree(4, host_bps, core_bps, host_ps, core_ps)


@st.composite
def rails(draw: st.DrawFn) -> Topology:
    """Servers of 2 with NVLink as packets: GPUs have two ports, an LP has two GPUs and an NVSwitch."""
    return rail_optimised(
        8, 2, 2, LinkKind(100 * GBPS, 500 * NS), LinkKind(100 * GBPS, 1500 * NS), 1.0, LinkKind(draw(RATES), 25 * NS)
    )


@st.composite
def chains(draw: st.DrawFn) -> Topology:
    """Two hosts at each end of a line of switches: paths of more hops than telemetry has room for."""
    n_switch = draw(st.integers(1, 11))
    links = [(i, 4 + (i >= 2) * (n_switch - 1), *draw(LINK)) for i in range(4)]
    rate_bps, delay_ps = draw(LINK)
    links += [(4 + i, 5 + i, rate_bps, delay_ps) for i in range(n_switch - 1)]
    return switched(4, links, n_switch, [0, 1, 2, 3])


SOON = st.one_of(st.just(0), st.sampled_from([83_840, 1_000_000, 1_083_840]), st.integers(0, 3_000_000))
SOON_OR_LATER = st.one_of(SOON, SOON, st.integers(0, 600_000_000))  # later: after pauses in which timers fire


@st.composite
def flow_lists(draw: st.DrawFn, topology: Topology, payload: int, starts: st.SearchStrategy[int] = SOON) -> list[Flow]:
    """Up to 16 flows, most of them to one or two hosts, where they meet."""
    sizes = st.one_of(
        st.sampled_from([1, payload - 1, payload, payload + 1, 2 * payload, 10 * payload]), st.integers(1, 30 * payload)
    )
    hosts = st.integers(0, topology.n_host - 1)
    to = draw(st.lists(hosts, min_size=1, max_size=2))
    flows = []
    for _ in range(draw(st.integers(1, 16))):
        src, dst = draw(hosts), draw(st.one_of(st.sampled_from(to), hosts))
        flows.append((src, dst if dst != src else (src + 1) % topology.n_host, draw(sizes), draw(starts)))
    return flows


@st.composite
def cases(draw: st.DrawFn, topologies: st.SearchStrategy[Topology]) -> NetworkCase:
    """Networks without loss: DCTCP, one data queue, unlimited buffers."""
    topology = draw(topologies)
    payload = draw(st.sampled_from([1000, 1000, 1500, 64, 4096]))
    flows = draw(flow_lists(topology, payload))
    parameters = make_parameters(
        topology,
        draw(st.sampled_from([(0, 0), (0, 3_000), (2_000, 2_000), (1_000, 20_000), (300_000, 300_000)])),
        payload_bytes=payload,
        header_bytes=draw(st.sampled_from([48, 48, 0])),
        ack_bytes=draw(st.sampled_from([60, 60, 1, 1500])),
        seed=draw(st.integers(0, 2**31)),
        ecn_max_probability=draw(st.sampled_from([1.0, 0.2, 0.0])),
        dctcp_gain=draw(st.sampled_from([0.0625, 0.5, 1.0])),
        dctcp_rate_increase_bps=draw(st.sampled_from([1_000_000, 615_000_000, 10 * GBPS])),
        dctcp_min_rate_bps=draw(st.sampled_from([GBPS, 1_000_003])),
    )
    window = draw(st.sampled_from([None, None, 1, 3_000, 20_000, 10**6]))
    case = make_flow_case(topology, flows, parameters, window, draw(st.sampled_from(["per-flow", "per-pair"])))
    return replace(case, window_bytes=np.minimum(case.window_bytes, MAX_WINDOW_BYTES))
