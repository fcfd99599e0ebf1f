"""Conservation and consistency (design R8): the whole state is checked after every round of runs of every kind."""

import numpy as np
import pytest
from hypothesis import given, settings

from models.network.model import NetworkModel
from models.network.verify.network import verify_network
from models.topology.fat_tree import fat_tree
from models.topology.graph import LinkKind
from models.topology.leaf_spine import leaf_spine
from models.topology.rail_optimised import rail_optimised
from models.workload.collectives import Collective, plan_collectives
from models.workload.training.iteration import GptModel, TrainingJob, plan_training
from pdes.engine.time_index import NEVER
from reference.both_ends import both_ends
from reference.network_case import NetworkCase, make_flow_case, make_parameters, make_plan_case, squeezed
from reference.network_managed_strategies import managed_cases
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
    topology = rail_optimised(
        16, 4, 2, LinkKind(100 * GBPS, 500 * NS), LinkKind(100 * GBPS, 1500 * NS), 1.0, LinkKind(3_600 * GBPS, 25 * NS)
    )
    jobs = [
        Collective("ring", "all-reduce", 100_001, tuple(range(16))),
        Collective("scatter", "reduce-scatter", 40_000, (0, 4, 8), start_ps=3_000_000),
        Collective("all", "all-to-all", 60_000, tuple(range(0, 16, 2)), after=("ring",)),
        Collective("gather", "all-gather", 24_000, (3, 2, 1, 0), after=("ring", "all")),
        Collective("one", "point-to-point", 5_000, (15, 0), after=("ring",)),
    ]
    return make_plan_case(topology, plan_collectives(jobs, 16, 2), make_parameters(topology, (10_000, 50_000)))


def training(tp_packets: bool) -> NetworkCase:
    topology = rail_optimised(
        16, 8, 2, LinkKind(100 * GBPS, 500 * NS), LinkKind(100 * GBPS, 1500 * NS), 1.0, LinkKind(3_600 * GBPS, 25 * NS)
    )
    model = GptModel(n_layer=2, hidden=64, vocabulary=128, sequence=32)
    job = TrainingJob(model, tp=4, dp=2, pp=2, n_microbatch=3, tp_packets=tp_packets, flops_per_s=10**12)
    return make_plan_case(topology, plan_training(job, 16, topology.server[topology.host], 2))


def all_at_once() -> NetworkCase:
    """Pauses, drops by loss, resends, three priorities, telemetry."""
    return squeezed("hpcc", 30, pfc=True, loss=0.01)


CASES = {
    "incast": incast,
    "permutation": permutation,
    "collectives": collectives,
    "training": lambda: training(False),
    "training with TP as packets": lambda: training(True),
    "pauses and loss": all_at_once,
    "drops": lambda: squeezed("none", 12, pfc=False),
}
QUICK = {"incast", "permutation"}


SLOW = {"drops", "collectives"}  # beside losses and training, and drawn networks that drop


def marks(name: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.slow] * (name in SLOW) + [pytest.mark.long] * (name not in QUICK)


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in CASES])
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


@given(managed_cases(stars() | dumbbells() | rails()))
@settings(max_examples=15)
def test_every_state_of_a_network_that_drops_pauses_and_resends_is_consistent(case):
    for threshold_ps in case.thresholds_ps()[:2]:
        outcome = case.run(threshold_ps, lambda model: verify_network(model.state, case.topology))
        assert_all_is_over(case, outcome.model)


def assert_all_is_over(case: NetworkCase, model: NetworkModel) -> None:
    """Every byte was delivered and acknowledged, every packet and message is free, every NIC sent what it had to."""
    state, pairs = model.state, model.pairs
    qp = both_ends(state.nic)
    sent = np.array([int(case.plan.pair_bytes[pair]) for pair in pairs.pair_of_row])
    for name in ("posted_end", "next_byte", "high_byte", "expected_byte", "acked_byte"):
        np.testing.assert_array_equal(qp[name], sent, name)
    assert (state.fabric.ports["queued_bytes"] == 0).all()
    assert not any(state.buffers.ingress[name].any() for name in ("held_bytes", "headroom_bytes", "is_pausing"))
    assert not state.buffers.switches["shared_bytes"].any() and not state.nic.nic_ports["paused"].any()
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


# Damage that a check must see: name -> what to break in the state of a running incast, or of all at once.


def _stop_in_mid_run(case: NetworkCase, stop_ps: int) -> NetworkModel:
    model = case.run(stop_ps=stop_ps).model
    assert model is not None
    return model


def _first(values: np.ndarray) -> int:
    return int(np.flatnonzero(values)[0])


DAMAGE = {
    "a packet that vanished from a wire": lambda s: _drop_from_wire(s.fabric),
    "a byte too many in a queue": lambda s: _add(
        s.fabric.ports, "queued_bytes", _first(s.fabric.ports["queued_bytes"])
    ),
    "a wrong ready bit": lambda s: _flip(
        s.nic.ready, int(s.nic.nic_ports["first_ready"][_first(s.nic.nic_ports["n_pair"])])
    ),
    "a stale mask bit": lambda s: _flip(s.fabric.mask, _first(s.fabric.mask == 0)),
    "a node asleep": lambda s: _add(
        s.fabric.node_time, ..., _first(s.fabric.node_time[len(s.fabric.node_time) // 2 :] < 2**60)
    ),
    "a byte received too early": lambda s: _add(s.nic.receivers, "expected_byte", 0),
    "a byte acknowledged twice": lambda s: _add(s.nic.queue_pairs, "acked_byte", 0),
    "a byte received twice": lambda s: _add(s.nic.receivers, "received_bytes", 0),
    "a byte sent and not counted": lambda s: _add(s.nic.queue_pairs, "sent_bytes", 0),
    "a byte dropped twice": lambda s: _add(s.fabric.dropped[:, 0], (), 0),
    "a port out of its switch's chain": lambda s: s.fabric.nodes["wait_head"].fill(-1),
    "a packet that overtakes": lambda s: _swap_arrivals(s.fabric),
    "a message that ends too late": lambda s: _add(
        s.nic.messages,
        "end_byte",
        int(s.nic.queue_pairs["last_message"][_first(s.nic.queue_pairs["last_message"] >= 0)]),
    ),
    "a window too wide": lambda s: _add(s.nic.queue_pairs, "window_bytes", 0),
}
MANAGED_DAMAGE = {
    "a byte too many in one of the queues": lambda s: _add(
        s.buffers.queues, "queued_bytes", _first(s.buffers.queues["queued_bytes"])
    ),
    "a byte held of nothing": lambda s: _add(s.buffers.ingress, "held_bytes", _first(s.buffers.ingress["held_bytes"])),
    "a byte of headroom in use": lambda s: _add(
        s.buffers.ingress, "headroom_bytes", _first(s.buffers.ingress["held_bytes"])
    ),
    "a byte shared by nobody": lambda s: _add(s.buffers.switches, "shared_bytes", 7),
    "a pause that nobody counts": lambda s: _add(s.buffers.switches, "n_pausing", 7),
    "a sender that is paused unasked": lambda s: _flip(s.nic.nic_ports["paused"], _first(s.nic.nic_ports["n_pair"])),
    "a queue that waits and is not served": lambda s: _flip(
        s.buffers.managed["waiting"], _first(s.buffers.managed["waiting"] > 0)
    ),
    "a timer that is forgotten": lambda s: s.nic.timers.fill(NEVER),
}


def _add(array: np.ndarray, name, row: int) -> None:
    column = array[len(array) // 2 :] if name is ... else array[name] if name else array
    column[row] += 1


def _flip(words: np.ndarray, i: int) -> None:
    words[i] ^= 1


def _drop_from_wire(fabric) -> None:
    port = _first((fabric.ports["link_head"] != fabric.ports["link_tail"]) & (fabric.ports["link_head"] >= 0))
    fabric.ports["link_head"][port] = fabric.packets["next"][fabric.ports["link_head"][port]]


def _swap_arrivals(fabric) -> None:
    port = _first((fabric.ports["link_head"] != fabric.ports["link_tail"]) & (fabric.ports["link_head"] >= 0))
    head = fabric.ports["link_head"][port]
    fabric.packets["arrival_ps"][head] = fabric.packets["arrival_ps"][fabric.packets["next"][head]] + 1


def assert_sees(case: NetworkCase, model: NetworkModel, damage) -> None:
    """The check passes before the damage and fails after it."""
    verify_network(model.state, case.topology)
    damage(model.state)
    with pytest.raises(AssertionError):
        verify_network(model.state, case.topology)


@pytest.mark.parametrize("name", DAMAGE)
def test_the_check_sees(name):
    case = incast()
    assert_sees(case, _stop_in_mid_run(case, 9_000_000), DAMAGE[name])


@pytest.mark.parametrize("name", DAMAGE | MANAGED_DAMAGE)
def test_the_check_sees_in_a_network_that_drops_and_pauses(name):
    case = all_at_once()
    assert_sees(case, _stop_in_mid_run(case, 14_000_000), (DAMAGE | MANAGED_DAMAGE)[name])
