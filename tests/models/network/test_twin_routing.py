"""The engine against the plain twin, exactly, where switches choose the way, links change, only holes are resent."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.network.model import NetworkModel
from models.network.state.parameters import (
    ADAPTIVE,
    ECMP,
    FLOWLET,
    GO_BACK_N,
    SELECTIVE_REPEAT,
    SPRAY,
    WEIGHTED_ECMP,
    LinkChange,
    NetworkParameters,
    RoutingParameters,
    TransportParameters,
)
from models.network.state.records import N_FREE_MESSAGE, N_FREE_PACKET, N_FREE_RANGE
from models.network.verify.network import verify_network
from models.topology.leaf_spine import leaf_spine
from reference.both_ends import both_ends
from reference.network_case import NetworkCase, assert_equal, make_flow_case, make_parameters
from reference.network_managed_strategies import managed_cases
from reference.network_routing_strategies import headers, meshes, moving_cases
from reference.network_strategies import chains, dumbbells, fat_trees, leaf_spines, rails, stars, switched

GBPS, US = 10**9, 10**6
POLICIES = {
    "ecmp": ECMP, "weighted": WEIGHTED_ECMP, "spray": SPRAY, "flowlet": FLOWLET, "adaptive": ADAPTIVE,
}  # fmt: skip
RECOVERIES = {"go-back-n": GO_BACK_N, "selective-repeat": SELECTIVE_REPEAT}


@given(moving_cases(stars() | dumbbells()))
@settings(max_examples=100)
def test_engine_equals_twin_around_one_and_two_switches(case):
    assert_equal(case.run(), case.run_twin())


@given(moving_cases(meshes()))
@settings(max_examples=150)
def test_engine_equals_twin_on_any_graph_of_switches(case):
    assert_equal(case.run(), case.run_twin())


@given(moving_cases(leaf_spines() | fat_trees() | rails() | chains()))
@settings(max_examples=80)
def test_engine_equals_twin_on_fabrics(case):
    assert_equal(case.run(), case.run_twin())


@given(moving_cases(stars() | dumbbells() | rails() | meshes()))
@settings(max_examples=30)
def test_no_cut_into_lps_changes_anything(case):
    twin = case.run_twin()
    for threshold_ps in case.thresholds_ps():
        assert_equal(case.run(threshold_ps), twin)


@given(moving_cases(stars() | dumbbells() | rails() | meshes()))
@settings(max_examples=25)
def test_every_state_is_consistent(case):
    for threshold_ps in case.thresholds_ps()[:2]:
        outcome = case.run(threshold_ps, lambda model: verify_network(model.state, case.topology))
        assert_all_is_over(case, outcome.model)


def assert_all_is_over(case: NetworkCase, model: NetworkModel) -> None:
    """Every byte was delivered and acknowledged, every packet, message and range is free, nothing is left to resend."""
    qp, n_part = both_ends(model.state.nic), case.plan.n_part
    sent = np.zeros(len(qp["posted_end"]), np.int64)
    for _, pair, size_bytes, _ in case.flow_list:
        for k in range(n_part):
            sent[model.pairs.row_of_pair[pair + k]] += len(range(k, size_bytes, n_part))
    for name in ("posted_end", "next_byte", "high_byte", "expected_byte", "acked_byte"):
        np.testing.assert_array_equal(qp[name], sent, name)
    assert (qp["resend_byte"] >= qp["lost_byte"]).all()
    fabric, nic = model.state.fabric, model.state.nic
    for pool, count in ((fabric.packets, N_FREE_PACKET), (nic.messages, N_FREE_MESSAGE), (nic.ranges, N_FREE_RANGE)):
        assert int(fabric.counters[count]) == len(pool)


@given(managed_cases(stars() | leaf_spines() | fat_trees() | rails() | meshes(), n_parts=(1, 2)), st.booleans())
@settings(max_examples=40)
def test_ecmp_looked_up_at_every_switch_takes_the_fixed_paths(case, is_weighted):
    same_rates = len(set(case.topology.port_rate_bps.tolist())) == 1
    policy = WEIGHTED_ECMP if is_weighted and same_rates else ECMP
    routing = RoutingParameters(policy=policy, header=headers(case.topology, case.plan))
    assert_equal(replace(case, parameters=replace(case.parameters, routing=routing)).run(), case.run())


def broken_fabric(policy: int, recovery: int, n_part: int = 1, reorder_bytes: int = 0) -> NetworkCase:
    """Two leaves and three spines; one spine's link goes down and comes back, one is slow, one loses packets."""
    topology = leaf_spine(2, 3, 4, 100 * GBPS, 100 * GBPS, US, US)
    ports = np.flatnonzero((topology.port_src == 8) & (topology.port_dst >= 10)).tolist()
    changes = (
        LinkChange(0, ports[1], 25 * GBPS),
        LinkChange(4 * US, ports[0], 100 * GBPS, is_up=False),
        LinkChange(6 * US, ports[2], 50 * GBPS, 0.02),
        LinkChange(30 * US, ports[0], 100 * GBPS),
    )
    transport = TransportParameters(recovery=recovery, timeout_ps=50 * US, reorder_bytes=reorder_bytes)
    p = make_parameters(topology, (20_000, 80_000), transport=transport, link_changes=changes)
    case = make_flow_case(topology, [(i, 4 + i, 200_000, 300_000 * i) for i in range(4)], p, n_part=n_part)
    routing = RoutingParameters(policy, 0, 2 * US, header=headers(topology, case.plan), convergence_ps=5 * US)
    return replace(case, parameters=replace(p, routing=routing))


@pytest.mark.parametrize("recovery", RECOVERIES)
@pytest.mark.parametrize("policy", POLICIES)
def test_engine_equals_twin_while_a_fabric_breaks(policy, recovery):
    case = broken_fabric(POLICIES[policy], RECOVERIES[recovery], n_part=1 + 3 * (policy == "ecmp"))
    engine = case.run()
    lost = [sum(column) for column in zip(*engine.losses, strict=True)]
    assert lost[0] == 0
    assert lost[4] > 0, "what was on the link that went down, and what was sent until it was routed around"
    assert sum(engine.resent_bytes.values()) > 0
    assert_equal(engine, case.run_twin())


@pytest.mark.parametrize("reorder_bytes", [0, 1, 2_500, 20_000])
def test_selective_repeat_sends_again_less_than_go_back_n_and_in_the_same_packets(reorder_bytes):
    case = broken_fabric(SPRAY, SELECTIVE_REPEAT, reorder_bytes=reorder_bytes)
    engine, other = case.run(), broken_fabric(SPRAY, GO_BACK_N).run()
    assert 0 < sum(engine.resent_bytes.values()) < sum(other.resent_bytes.values())
    assert sum(engine.resent_bytes.values()) % 1000 == 0
    assert_equal(engine, case.run_twin())


@pytest.mark.parametrize("policy", ["spray", "flowlet", "adaptive"])
def test_ways_are_drawn_by_counting_packets_not_by_the_time(policy):
    """Design R3: the same network some time later draws the same ways."""
    later_ps = 123_456_789
    engine, later = (unbroken_fabric(POLICIES[policy], start_ps).run() for start_ps in (0, later_ps))
    assert engine.ports == later.ports
    moved = {i: (*(time_ps + later_ps for time_ps in times), marks) for i, (*times, marks) in engine.flows.items()}
    assert moved == later.flows
    draws = engine.model.state.buffers.inlets["n_route_draw"]
    at_leaf = np.isin(engine.model.topology.port_dst, (8, 9)) & (engine.model.topology.port_src < 8)
    assert (draws[at_leaf] > 0).any() and (draws[~at_leaf] == 0).all(), "where there is more than one way"


def unbroken_fabric(policy: int, start_ps: int) -> NetworkCase:
    """Two leaves, three spines, and messages that begin apart by more than the gap of flowlets."""
    topology = leaf_spine(2, 3, 4, 100 * GBPS, 100 * GBPS, US, US)
    p = make_parameters(topology, transport=TransportParameters(recovery=SELECTIVE_REPEAT))
    flows = [(i % 4, 4 + i % 4, 30_000, start_ps + 100_000 * i + 20 * US * (i // 4)) for i in range(32)]
    case = make_flow_case(topology, flows, p, queue_pairs="per-pair")
    routing = RoutingParameters(policy, flowlet_gap_ps=2 * US, header=headers(topology, case.plan))
    return replace(case, parameters=replace(p, routing=routing))


def test_without_a_way_packets_are_dropped_where_they_come_in():
    """The only link between two switches is down, and the first switch knows it, from 10 us to 30 us."""
    links = [(0, 2, 100 * GBPS, US), (2, 3, 100 * GBPS, US), (3, 1, 100 * GBPS, US)]
    topology = switched(2, links, 2, [0, 1])
    middle = int(np.flatnonzero((topology.port_src == 2) & (topology.port_dst == 3))[0])
    down = (LinkChange(10 * US, middle, 100 * GBPS, is_up=False), LinkChange(30 * US, middle, 100 * GBPS))
    p = NetworkParameters(link_changes=down, transport=TransportParameters(SELECTIVE_REPEAT, timeout_ps=20 * US))
    case = make_flow_case(topology, [(0, 1, 400_000, 0), (0, 1, 1000, 15 * US)], p)
    routing = RoutingParameters(header=headers(topology, case.plan), convergence_ps=0)
    case = replace(case, parameters=replace(p, routing=routing))
    engine = case.run()
    dropped = {port: row[4] for port, row in enumerate(engine.losses) if row[4]}
    first = int(np.flatnonzero((topology.port_src == 0) & (topology.port_dst == 2))[0])
    assert dropped[first] > 0
    assert dropped[middle] > 0, "what was on the wire"
    assert_equal(engine, case.run_twin())


# Damage to selective repeat's state that a check must see.


def _table(model: NetworkModel, name: str) -> np.ndarray:
    """The end that has chains of ranges of this name."""
    nic = model.state.nic
    return nic.queue_pairs if name == "sacked_range" else nic.receivers


def _row(model: NetworkModel, name: str) -> int:
    return int(np.flatnonzero(_table(model, name)[name] >= 0)[0])


def _add_to_range(model: NetworkModel, name: str, field: str, n_bytes: int) -> None:
    model.state.nic.ranges[field][_table(model, name)[name][_row(model, name)]] += n_bytes


def _forget(model: NetworkModel, name: str) -> None:
    _table(model, name)[name][_row(model, name)] = -1


def _set(model: NetworkModel, field: str, value: int) -> None:
    model.state.nic.queue_pairs[field][_row(model, "sacked_range")] = value


DAMAGE: dict[str, Callable[[NetworkModel], None]] = {
    "a range that is lost": lambda model: _forget(model, "held_range"),
    "an end of a message that is forgotten": lambda model: _forget(model, "early_end"),
    "an end of a message in the wrong place": lambda model: _add_to_range(model, "early_end", "first_byte", -1),
    "a byte held that never came": lambda model: _add_to_range(model, "held_range", "first_byte", -1000),
    "a byte thought held that is not": lambda model: _add_to_range(model, "sacked_range", "end_byte", 1_000_000),
    "a free range too many": lambda model: model.state.fabric.counters.__setitem__(N_FREE_RANGE, 7),
    "a recovery without an end": lambda model: _set(model, "recover_byte", 0),
    "bytes lost that were never sent": lambda model: _set(model, "lost_byte", 10**9),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_the_check_sees(name):
    case = broken_fabric(SPRAY, SELECTIVE_REPEAT)
    flows = [(*flow[:1], 4 + flow[0], 3_000, 0) for flow in [(i % 4,) for i in range(200)]]
    p = replace(case.parameters, routing=None)
    case = make_flow_case(case.topology, flows, p, queue_pairs="per-pair")
    routing = RoutingParameters(SPRAY, header=headers(case.topology, case.plan), convergence_ps=5 * US)
    model = replace(case, parameters=replace(p, routing=routing)).run(stop_ps=11 * US).model
    verify_network(model.state, case.topology)
    DAMAGE[name](model)
    with pytest.raises(AssertionError):
        verify_network(model.state, case.topology)
