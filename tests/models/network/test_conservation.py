"""Conservation and consistency (design R8): the whole state is checked after every round of runs of every kind."""

import numpy as np
import pytest
from hypothesis import given, settings

from models.network.model import NetworkModel
from models.network.verify import verify_network
from models.topology.fat_tree import fat_tree
from models.topology.leaf_spine import leaf_spine
from models.topology.rail_optimised import rail_optimised
from models.workload.collectives import Collective, plan_collectives
from models.workload.training import GptModel, TrainingJob, plan_training
from reference.network_case import NetworkCase, make_flow_case, make_parameters, make_plan_case
from reference.network_strategies import cases, dumbbells, rails, stars

GBPS, NS = 10**9, 1000


def incast() -> NetworkCase:
    topology = leaf_spine(3, 2, 4, 100 * GBPS, 100 * GBPS, 1000 * NS, 1000 * NS)
    flows = [(i, 11, 60_000 + 997 * i, 100_000 * (i % 3)) for i in range(10)]
    return make_flow_case(topology, flows, make_parameters(topology, (10_000, 50_000), ecn_max_probability=0.2))


def permutation() -> NetworkCase:
    topology = fat_tree(4, 100 * GBPS, 40 * GBPS, 1000 * NS, 777_777)
    flows = [(i, (i + 5) % 16, 50_000, 0) for i in range(16)] + [(i, (i + 5) % 16, 1, 0) for i in range(16)]
    return make_flow_case(topology, flows, make_parameters(topology, (10_000, 50_000)), queue_pairs="per-pair")


def collectives() -> NetworkCase:
    topology = rail_optimised(16, 4, 2, 100 * GBPS, 100 * GBPS, 500 * NS, 1500 * NS, 1.0, 3_600 * GBPS, 25 * NS)
    jobs = [
        Collective("ring", "all-reduce", 100_001, tuple(range(16))),
        Collective("scatter", "reduce-scatter", 40_000, (0, 4, 8), start_ps=3_000_000),
        Collective("all", "all-to-all", 60_000, tuple(range(0, 16, 2)), after=("ring",)),
        Collective("gather", "all-gather", 24_000, (3, 2, 1, 0), after=("ring", "all")),
        Collective("one", "point-to-point", 5_000, (15, 0), after=("ring",)),
    ]
    return make_plan_case(topology, plan_collectives(jobs, 16, 2), make_parameters(topology, (10_000, 50_000)))


def training(tp_packets: bool) -> NetworkCase:
    topology = rail_optimised(16, 8, 2, 100 * GBPS, 100 * GBPS, 500 * NS, 1500 * NS, 1.0, 3_600 * GBPS, 25 * NS)
    model = GptModel(n_layer=2, hidden=64, vocabulary=128, sequence=32)
    job = TrainingJob(model, tp=4, dp=2, pp=2, n_microbatch=3, tp_packets=tp_packets, flops_per_s=10**12)
    return make_plan_case(topology, plan_training(job, 16, topology.server[topology.host], 2))


CASES = {
    "incast": incast,
    "permutation": permutation,
    "collectives": collectives,
    "training": lambda: training(False),
    "training with TP as packets": lambda: training(True),
}


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_lost_or_invented_in_any_round(name):
    case = CASES[name]()
    for threshold_ps in case.thresholds_ps()[:-1]:
        n_round = 0

        def check(model: NetworkModel) -> None:
            nonlocal n_round
            n_round += 1
            verify_network(model.state, case.topology)

        outcome = case.run(threshold_ps, check)
        assert n_round > 20
        assert sorted(outcome.flows) == list(range(case.plan.n_flow))
        assert [row[0] for row in outcome.tasks] == list(range(case.plan.n_task))
        verify_network(outcome.model.state, case.topology)
        assert_all_is_over(case, outcome.model)


@given(cases(stars() | dumbbells() | rails()))
@settings(max_examples=25)
def test_every_state_of_any_small_network_is_consistent(case):
    for threshold_ps in case.thresholds_ps()[:-1]:
        outcome = case.run(threshold_ps, lambda model: verify_network(model.state, case.topology))
        assert_all_is_over(case, outcome.model)


def assert_all_is_over(case: NetworkCase, model: NetworkModel) -> None:
    """Every byte was delivered and acknowledged, every packet and message is free, every NIC sent what it had to."""
    state, pairs = model.state, model.pairs
    qp = state.nic.queue_pairs
    sent = np.array([int(case.plan.pair_bytes[pair]) for pair in pairs.pair_of_row])
    for name in ("posted_end", "next_byte", "expected_byte", "acked_byte"):
        np.testing.assert_array_equal(qp[name], sent, name)
    assert (state.fabric.ports["queued_bytes"] == 0).all()
    assert int(state.fabric.counters[3]) == len(state.fabric.packets)
    assert int(state.fabric.counters[5]) == len(state.nic.messages)
    assert (qp["n_arrived"][qp["waiting_stream"] >= 0] == 0).all()


@pytest.mark.parametrize("name", CASES)
def test_the_result_of_a_case_does_not_depend_on_the_cut(name):
    case = CASES[name]()
    first, *others = [case.run(threshold_ps) for threshold_ps in case.thresholds_ps()]
    for other in others:
        assert (other.flows, other.ports, other.tasks, other.n_hop) == (
            first.flows, first.ports, first.tasks, first.n_hop,
        )  # fmt: skip


def test_a_run_that_stops_early_is_consistent_where_it_stops():
    case, stop_ps = incast(), 8_000_000
    outcome = case.run(stop_ps=stop_ps)
    verify_network(outcome.model.state, case.topology)
    assert len(outcome.flows) < case.plan.n_flow
    whole = case.run()
    done = {flow_id: row for flow_id, row in whole.flows.items() if row[2] <= stop_ps}
    assert outcome.flows == done


# Damage that a check must see: name -> what to break in the state of a running incast.


def _stop_in_mid_run() -> tuple[NetworkCase, NetworkModel]:
    case = incast()
    return case, case.run(stop_ps=9_000_000).model


def _first(values: np.ndarray) -> int:
    return int(np.flatnonzero(values)[0])


DAMAGE = {
    "a packet that vanished from a wire": lambda f, n: _drop_from_wire(f),
    "a byte too many in a queue": lambda f, n: _add(f.ports, "queued_bytes", _first(f.ports["queued_bytes"])),
    "a wrong ready bit": lambda f, n: _flip(n.ready, int(n.nic_ports["first_ready"][_first(n.nic_ports["n_pair"])])),
    "a stale mask bit": lambda f, n: _flip(f.mask, _first(f.mask == 0)),
    "a node asleep": lambda f, n: _add(f.node_time, ..., _first(f.node_time[len(f.node_time) // 2 :] < 2**60)),
    "a byte received too early": lambda f, n: _add(n.queue_pairs, "expected_byte", 0),
    "a byte acknowledged twice": lambda f, n: _add(n.queue_pairs, "acked_byte", 0),
    "a port out of its switch's chain": lambda f, n: f.nodes["wait_head"].fill(-1),
    "a packet that overtakes": lambda f, n: _swap_arrivals(f),
    "a message that ends too late": lambda f, n: _add(n.messages, "end_byte", int(n.queue_pairs["last_message"][0])),
    "a window too wide": lambda f, n: _add(n.queue_pairs, "window_bytes", 0),
}


def _add(array: np.ndarray, name, row: int) -> None:
    column = array[len(array) // 2 :] if name is ... else array[name]
    column[row] += 1


def _flip(words: np.ndarray, i: int) -> None:
    words[i] ^= 1


def _drop_from_wire(fabric) -> None:
    port = _first(fabric.ports["link_head"] != fabric.ports["link_tail"])
    fabric.ports["link_head"][port] = fabric.packets["next"][fabric.ports["link_head"][port]]


def _swap_arrivals(fabric) -> None:
    port = _first((fabric.ports["link_head"] != fabric.ports["link_tail"]) & (fabric.ports["link_head"] >= 0))
    head = fabric.ports["link_head"][port]
    fabric.packets["arrival_ps"][head] = fabric.packets["arrival_ps"][fabric.packets["next"][head]] + 1


@pytest.mark.parametrize("name", DAMAGE)
def test_the_check_sees(name):
    case, model = _stop_in_mid_run()
    verify_network(model.state, case.topology)
    DAMAGE[name](model.state.fabric, model.state.nic)
    with pytest.raises(AssertionError):
        verify_network(model.state, case.topology)
