"""Hypothesis strategies: networks whose packets find their way switch by switch, over links that change."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from models.congestion.law import BUILT_IN
from models.network.state.parameters import (
    ADAPTIVE,
    ECMP,
    FLOWLET,
    GO_BACK_N,
    SELECTIVE_REPEAT,
    SPRAY,
    WEIGHTED_ECMP,
    LinkChange,
    RoutingParameters,
)
from models.topology.graph import Topology
from models.workload.plan import WorkloadPlan
from reference.network_case import NetworkCase
from reference.network_managed_strategies import managed_cases, transports
from reference.network_strategies import DELAYS, LINK, RATES, switched

US = 10**6
POLICIES = (ECMP, SPRAY, FLOWLET, ADAPTIVE, WEIGHTED_ECMP)


@st.composite
def meshes(draw: st.DrawFn) -> Topology:
    """Up to five switches joined at random, some of them twice; hosts with one to three links to one or two of them."""
    n_host, n_switch = draw(st.integers(2, 5)), draw(st.integers(2, 5))
    switch = st.integers(n_host, n_host + n_switch - 1)
    rate_bps, delay_ps = draw(LINK)
    some_rate = st.sampled_from([rate_bps, rate_bps, draw(RATES)])
    links = [(n_host + i, n_host + draw(st.integers(0, i - 1)), draw(some_rate), delay_ps) for i in range(1, n_switch)]
    for end_a, end_b in draw(st.lists(st.tuples(switch, switch), max_size=6)):
        if end_a != end_b:
            links.append((end_a, end_b, draw(some_rate), draw(st.sampled_from([delay_ps, draw(DELAYS)]))))
    for host in range(n_host):
        links += [(host, near, draw(some_rate), delay_ps) for near in draw(st.lists(switch, min_size=1, max_size=3))]
    return switched(n_host, links, n_switch, list(range(n_host)))


@st.composite
def link_changes(draw: st.DrawFn, topology: Topology) -> tuple[LinkChange, ...]:
    """Up to three links that go down, come up, get slower or lose packets; in the end they are up."""
    changes = []
    times = st.one_of(st.sampled_from([0, US, 1_083_840, 2 * US]), st.integers(0, 30 * US), st.integers(0, 2000 * US))
    for _ in range(draw(st.integers(1, 3))):
        port = draw(st.integers(0, topology.n_port - 1))
        full_bps = int(topology.port_rate_bps[port])
        rates = st.sampled_from([full_bps, full_bps // 2, full_bps // 10, min(full_bps, 1_234_567_891)])
        when = sorted(draw(st.lists(times, min_size=1, max_size=4)))
        for i, time_ps in enumerate(when):
            is_up = i == len(when) - 1 or draw(st.booleans())
            loss = draw(st.sampled_from([0.0, 0.0, 0.05]))
            changes.append(LinkChange(time_ps, port, draw(rates), loss, is_up))
    return tuple(sorted(changes, key=lambda change: change.time_ps))


def headers(topology: Topology, plan: WorkloadPlan) -> np.ndarray:
    """int64[n_pair, 4]: what ECMP hashes."""
    ends = [topology.host[plan.pair_src], topology.host[plan.pair_dst], plan.pair_sport, plan.pair_dport]
    return np.stack(ends, axis=1)


@st.composite
def routings(
    draw: st.DrawFn, topology: Topology, plan: WorkloadPlan, policies: tuple[int, ...] = POLICIES
) -> RoutingParameters:
    """A policy of switches; some queue pairs may keep their paths."""
    n_pair = len(plan.pair_src)
    fixed = draw(st.one_of(st.none(), st.lists(st.booleans(), min_size=n_pair, max_size=n_pair).map(np.array)))
    return RoutingParameters(
        policy=draw(st.sampled_from(policies)),
        ecmp_seed=draw(st.sampled_from([0, 1, 2**32 - 1, 12345])),
        flowlet_gap_ps=draw(st.sampled_from([0, 100_000, US, 50 * US])),
        n_flowlet=draw(st.sampled_from([1, 3, 4096])),
        fixed_pair=fixed,
        header=headers(topology, plan),
        convergence_ps=draw(st.sampled_from([0, 1, US, 20 * US, 1000 * US])),
    )


@st.composite
def moving_cases(
    draw: st.DrawFn, topologies: st.SearchStrategy[Topology], laws: tuple[str, ...] = tuple(BUILT_IN)
) -> NetworkCase:
    """Everything that the default mode knows, in any combination."""
    case = draw(managed_cases(topologies, laws, n_parts=(1, 1, 2, 3)))
    topology, p = case.topology, case.parameters
    changes = draw(link_changes(topology)) if draw(st.booleans()) else ()
    routing = draw(routings(topology, case.plan)) if draw(st.integers(0, 3)) else None
    transport = p.transport
    keeps_order = routing is None or routing.policy in (ECMP, WEIGHTED_ECMP)
    if transport is not None or changes or not keeps_order:
        payload = p.payload_bytes
        transport = replace(
            transport or draw(transports()),
            recovery=draw(st.sampled_from([GO_BACK_N, SELECTIVE_REPEAT, SELECTIVE_REPEAT])),
            reorder_bytes=draw(st.sampled_from([0, 0, 1, payload - 1, payload, 3 * payload + 7, 20_000])),
        )
    return replace(case, parameters=replace(p, routing=routing, link_changes=changes, transport=transport))
