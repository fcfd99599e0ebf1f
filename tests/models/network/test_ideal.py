"""The least time of a flow: none is faster, and one that is alone on its best way takes just that."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.network.state.parameters import (
    ADAPTIVE,
    ECMP,
    FLOWLET,
    SELECTIVE_REPEAT,
    SPRAY,
    WEIGHTED_ECMP,
    LinkChange,
    RoutingParameters,
    TransportParameters,
)
from models.network.watch.results import FlowFacts
from models.topology.graph import Topology
from models.topology.leaf_spine import leaf_spine
from pdes.config import load_config
from pdes.convert.ns3 import convert
from pdes.scenario import build_scenario
from reference.network_case import NetworkCase, Outcome, make_flow_case, make_parameters
from reference.network_routing_strategies import headers, meshes, moving_cases
from reference.network_strategies import DELAYS, RATES, dumbbells, fat_trees, leaf_spines, rails, stars, switched
from reference.ns3_runs import answers_of

GBPS, US = 10**9, 10**6
NO_MARKS = (2**31 - 1, 2**31 - 1)
WIDE_BYTES = 2 * 10**6
NS3_CASES = Path(__file__).parents[2] / "reference" / "ns3_cases"
SELECTIVE = TransportParameters(timeout_ps=10**9, recovery=SELECTIVE_REPEAT, reorder_bytes=10**6)
POLICIES = (ECMP, WEIGHTED_ECMP, SPRAY, FLOWLET, ADAPTIVE)


def times_ps(case: NetworkCase, outcome: Outcome) -> list[tuple[int, int]]:
    """(time that it took, its least time) of every flow."""
    sizes = {i: (pair, size) for i, pair, size, _ in case.flow_list}
    rows = [(i, *sizes[i], start, finish, 0, 0, 0) for i, (start, _, finish, _) in sorted(outcome.flows.items())]
    facts = FlowFacts(case.topology, case.paths, case.plan, case.parameters)
    _, columns = facts.columns(np.array(rows, np.int64).reshape(-1, 8), np.arange(len(case.plan.pair_src)))
    return list(zip([row[4] - row[3] for row in rows], columns["ideal_fct_ps"].tolist(), strict=True))


def assert_none_is_faster(case: NetworkCase, outcome: Outcome) -> None:
    assert [(took, least) for took, least in times_ps(case, outcome) if took < least] == []


def routed(case: NetworkCase, policy: int, changes: tuple[LinkChange, ...] = (), **keys) -> NetworkCase:
    """The case with a policy and selective repeat. keys: of RoutingParameters."""
    routing = RoutingParameters(policy=policy, header=headers(case.topology, case.plan), **keys)
    transport = replace(SELECTIVE, ack_every=1 if case.parameters.transport is None else
                        case.parameters.transport.ack_every)  # fmt: skip
    return replace(
        case, parameters=replace(case.parameters, routing=routing, transport=transport, link_changes=changes)
    )


@given(moving_cases(meshes() | rails()).filter(lambda case: case.plan.n_part == 1))
@settings(max_examples=150)
def test_no_flow_is_faster_whatever_switches_links_and_losses_do(case):
    assert_none_is_faster(case, case.run())


@given(moving_cases(stars() | dumbbells() | leaf_spines() | fat_trees()).filter(lambda case: case.plan.n_part == 1))
@settings(max_examples=60)
def test_no_flow_is_faster_on_fabrics(case):
    assert_none_is_faster(case, case.run())


@st.composite
def unlike_ways(draw: st.DrawFn) -> Topology:
    """Two switches with hosts, and up to four ways of two links between them, no two alike; some links are double."""
    n_way = draw(st.integers(1, 4))
    links = [(host, 4 + host // 2, draw(RATES), draw(DELAYS)) for host in range(4)]
    for way, end in product(range(n_way), range(2)):
        links += [(4 + end, 6 + way, draw(RATES), draw(DELAYS)) for _ in range(draw(st.sampled_from([1, 1, 2])))]
    return switched(4, links, 2 + n_way, list(range(4)))


@given(
    topology=unlike_ways() | meshes(),
    size=st.integers(1, 40_000) | st.sampled_from([1000, 1001, 2001, 20_000, 20_001]),
    n_flow=st.integers(1, 6),
    policy=st.sampled_from(POLICIES),
    ack_every=st.integers(1, 4),
    ack_bytes=st.sampled_from([60, 60, 1500]),
)
@settings(max_examples=300)
def test_no_flow_is_faster_than_its_best_way_without_loss(topology, size, n_flow, policy, ack_every, ack_bytes):
    transport = TransportParameters(ack_every=ack_every)
    parameters = make_parameters(topology, NO_MARKS, ack_bytes=ack_bytes, transport=transport)
    case = make_flow_case(topology, [(i % 2, 1 - i % 2, size, 0) for i in range(n_flow)], parameters, WIDE_BYTES)
    case = routed(case, policy)
    assert_none_is_faster(case, case.run())


@given(
    topology=unlike_ways() | meshes(),
    size=st.integers(1, 40_000) | st.sampled_from([1000, 1001, 2001, 20_000, 20_001]),
    policy=st.sampled_from([ECMP, WEIGHTED_ECMP, None]),
    ack_every=st.integers(1, 4),
)
@settings(max_examples=150)
def test_a_lone_flow_that_keeps_its_way_takes_its_least_time(topology, size, policy, ack_every):
    """As long as its last packet is no smaller than an ACK and its last ACK has none before it on a slower way back."""
    transport = TransportParameters(ack_every=ack_every)
    parameters = make_parameters(topology, NO_MARKS, ack_bytes=1, transport=transport)
    case = make_flow_case(topology, [(0, 1, size, 0)], parameters, WIDE_BYTES)
    if policy is not None:
        case = routed(case, policy)
    took_ps, least_ps = times_ps(case, case.run())[0]
    assert took_ps == least_ps


@given(topology=unlike_ways(), n_packet=st.sampled_from([1, 1, 2, 9]), seed=st.integers(0, 9))
@settings(max_examples=60)
def test_the_least_time_is_that_of_the_best_way(topology, n_packet, seed):
    """Every way is tried by itself, as the path of a lone flow whose host is the slowest port."""
    rates = np.where(topology.is_switch[topology.port_src], topology.port_rate_bps, 5 * GBPS)
    rates = np.where(topology.is_switch[topology.port_dst], rates, 5 * GBPS)
    topology = replace(topology, port_rate_bps=rates)
    size_bytes = 1000 * n_packet
    parameters = make_parameters(topology, NO_MARKS, seed=seed)
    case = make_flow_case(topology, [(0, 2, size_bytes, 0)], parameters, WIDE_BYTES)
    src, dst = topology.port_src, topology.port_dst
    first, last = np.flatnonzero(src == 0)[0], np.flatnonzero(dst == 2)[0]
    found_ps = []
    for one in np.flatnonzero((src == 4) & topology.is_switch[dst]):
        for two in np.flatnonzero((src == dst[one]) & (dst == 5)):
            paths = replace(case.paths, port=case.paths.port.copy())
            paths.row(0)[:] = first, one, two, last
            found_ps.append(times_ps(replace(case, paths=paths), Outcome({0: (0, 0, 0, 0)}))[0][1])
    sprayed = routed(case, SPRAY)
    took_ps, least_ps = times_ps(sprayed, sprayed.run())[0]
    assert least_ps == min(found_ps) <= took_ps


def slow_way_back(n_packet: int, ack_every: int) -> NetworkCase:
    """Messages with ACKs of 1500 B, three times as long as their data on the wire."""
    topology = leaf_spine(1, 0, 2, 100 * GBPS, 100 * GBPS, US, US)
    transport = TransportParameters(ack_every=ack_every)
    parameters = make_parameters(topology, NO_MARKS, payload_bytes=452, ack_bytes=1500, transport=transport)
    return make_flow_case(topology, [(0, 1, 452 * n_packet, 0)], parameters, WIDE_BYTES)


@pytest.mark.parametrize("ack_every, n_data, n_ack", [(1, 2, 13), (2, 3, 7), (3, 4, 5), (4, 13, 2)])
def test_only_acks_that_are_sent_wait_for_one_another(ack_every, n_data, n_ack):
    """The last ACK waits for all others, except with one for 4 packets, which are 160 ns on the wire, an ACK 120 ns."""
    case = slow_way_back(12, ack_every)
    expected_ps = 4 * US + n_data * 40_000 + n_ack * 120_000
    assert times_ps(case, case.run()) == [(expected_ps, expected_ps)]


@pytest.mark.parametrize("policy", [SPRAY, ADAPTIVE])
def test_packets_on_several_slow_ways_are_faster_than_on_one(policy):
    """Hosts of 100 Gbit/s, four spines of 25 Gbit/s: no single way takes what they take together."""
    topology = leaf_spine(2, 4, 2, 100 * GBPS, 25 * GBPS, US, US)
    case = make_flow_case(topology, [(0, 2, 100_000, 0)], make_parameters(topology, NO_MARKS), WIDE_BYTES)
    alone_ps = times_ps(case, case.run())[0][0]
    case = routed(case, policy)
    took_ps, least_ps = times_ps(case, case.run())[0]
    assert least_ps <= took_ps < alone_ps
    tx_ps, slow_ps, ack_ps = 83_840, 4 * 83_840, 4_800
    assert least_ps == 8 * US + 101 * tx_ps + 2 * slow_ps + 2 * ack_ps + 2 * 4 * ack_ps


def test_a_flow_may_have_seen_the_way_of_a_later_epoch():
    """The near spine comes back after 2 ms: flows that end before know the far one only. ACKs go by the far one."""
    links = [(0, 2, 100 * GBPS, US), (1, 3, 100 * GBPS, US)]
    links += [(2, 4, 100 * GBPS, 50 * US), (4, 3, 100 * GBPS, 50 * US), (2, 5, 100 * GBPS, US), (5, 3, 100 * GBPS, US)]
    topology = switched(2, links, 4, [0, 1])
    near = int(np.flatnonzero((topology.port_src == 2) & (topology.port_dst == 5))[0])
    changes = (LinkChange(0, near, 100 * GBPS, 0.0, False), LinkChange(2000 * US, near, 100 * GBPS, 0.0, True))
    flows = [(0, 1, 1000, 100 * US), (0, 1, 1000, 1990 * US), (0, 1, 1000, 3000 * US)]
    case = make_flow_case(topology, flows, make_parameters(topology, NO_MARKS), WIDE_BYTES)
    case = routed(case, ADAPTIVE, changes, convergence_ps=0)
    wires_ps = 4 * 83_840 + 4 * 4_800
    far_ps, both_ps = 204 * US + wires_ps, 106 * US + wires_ps
    assert times_ps(case, case.run()) == [(far_ps, far_ps), (far_ps, both_ps), (both_ps, both_ps)]


@pytest.mark.parametrize("name, is_alone", [("a_single/dctcp", True), ("a1_one_packet/hpcc", True),
                                            ("l_nic_rr/dcqcn", False), ("c_incast8/timely", False)])  # fmt: skip
def test_ns3s_truncated_wire_times_count(name, is_alone, tmp_path):
    """ns-3's own completion times: no flow is faster, and one that is alone takes its least time, to the ns."""
    convert(NS3_CASES / name, tmp_path / "case.toml", False)
    s, fct_ns = build_scenario(load_config(tmp_path / "case.toml")), answers_of(NS3_CASES / name)
    assert fct_ns is not None
    order = np.argsort(s.plan.operations["flow"])
    rows = np.zeros((len(order), 8), np.int64)
    rows[:, 0], rows[:, 1] = np.arange(len(order)), s.plan.slots[order]
    rows[:, 2] = s.plan.operations["size_bytes"][order]
    _, columns = FlowFacts(s.topology, s.paths, s.plan, s.parameters).columns(rows, np.arange(len(s.plan.pair_src)))
    least_ns = (columns["ideal_fct_ps"] // 1000).tolist()
    assert all(least <= fct for least, fct in zip(least_ns, fct_ns, strict=True))
    assert not is_alone or least_ns == fct_ns
