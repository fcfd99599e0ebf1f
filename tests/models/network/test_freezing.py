"""Freezing and thawing, whatever is worth freezing: nothing is lost, and what is to come only comes later."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from models.congestion.law import find_law
from models.network.skip.progress import N_COLUMN, sample_pairs
from models.network.state.parameters import (
    GO_BACK_N,
    SELECTIVE_REPEAT,
    WEIGHTED,
    NetworkParameters,
    TransportParameters,
)
from models.network.state.records import N_TIMEOUT
from models.topology.graph import LinkKind, Topology
from models.topology.leaf_spine import leaf_spine
from models.topology.rail_optimised import rail_optimised
from models.workload.collectives import Collective, plan_collectives
from reference.both_ends import both_ends
from reference.freezing import MARKED_LAWS, Blinking, blink, gamble, run_double, wait_once
from reference.network_case import (
    Flow,
    NetworkCase,
    Outcome,
    assert_equal,
    make_flow_case,
    make_parameters,
    make_plan_case,
    squeezed,
)
from reference.network_managed_strategies import managed_cases
from reference.network_strategies import chains, dumbbells, leaf_spines, rails, stars, switched

GBPS, NS, US = 10**9, 1000, 10**6
TOPOLOGIES = stars() | dumbbells() | rails() | chains() | leaf_spines()


@st.composite
def long_flows(draw: st.DrawFn, topology: Topology, payload: int) -> list[Flow]:
    """A few flows of up to 150 packets that begin while others are under way."""
    hosts, starts = st.integers(0, topology.n_host - 1), st.integers(0, 200 * US) | st.sampled_from([0, 10 * US])
    flows = []
    for _ in range(draw(st.integers(2, 8))):
        src, dst = draw(hosts), draw(hosts)
        size_bytes = draw(st.integers(1, 300)) * payload // 2
        flows.append((src, dst if dst != src else (src + 1) % topology.n_host, size_bytes, draw(starts)))
    return flows


@st.composite
def freezable(draw: st.DrawFn, cases: st.SearchStrategy[NetworkCase]) -> tuple[NetworkCase, int]:
    """(case, delay threshold): any cut into logical processes, and either kind of recovery."""
    case = draw(cases)
    if case.parameters.transport is not None:
        recovery = draw(st.sampled_from([GO_BACK_N, SELECTIVE_REPEAT]))
        transport = replace(case.parameters.transport, recovery=recovery)
        case = replace(case, parameters=replace(case.parameters, transport=transport))
    return case, draw(st.sampled_from(case.thresholds_ps()))


ANY = freezable(managed_cases(TOPOLOGIES, n_parts=(1, 2, 3)))
LONG = freezable(managed_cases(TOPOLOGIES, n_parts=(1, 1, 2), list_flows=long_flows))


def delayed(plain: Outcome, from_ps: int, by_ps: int) -> Outcome:
    """What is left of a run if everything from an instant on comes later."""

    def later(time_ps: int) -> int:
        return time_ps + by_ps if time_ps >= from_ps else time_ps

    rows = {i: (start, later(got), later(end), marks) for i, (start, got, end, marks) in plain.flows.items()}
    return replace(plain, flows=rows, last_event_ps=later(plain.last_event_ps))


def assert_all_done(case: NetworkCase, outcome: Outcome) -> None:
    """Every flow has ended once, after it began, and every byte has come across."""
    assert sorted(outcome.flows) == list(range(len(case.flow_list)))
    assert all(start < got < end for start, got, end, _ in outcome.flows.values())
    pairs = both_ends(outcome.model.state.nic)
    assert (pairs["acked_byte"] == pairs["posted_end"]).all()
    assert (pairs["expected_byte"] == pairs["posted_end"]).all()


@settings(max_examples=200)
@given(ANY, st.sampled_from([1, 300_000, 2 * US]))
def test_what_thaws_at_once_was_never_frozen(frozen_case, every_ps):
    case, threshold_ps = frozen_case
    plain = case.run(threshold_ps)
    assert_equal(run_double(case, blink, every_ps, threshold_ps, kind=Blinking), plain)


@settings(max_examples=200)
@given(ANY, st.integers(0, 30 * US), st.integers(1, 1000 * US))
def test_everything_comes_later_by_what_the_network_stood_still(frozen_case, from_ps, for_ps):
    case, threshold_ps = frozen_case
    plain = case.run(threshold_ps)
    from_ps += max(start_ps + 1 for *_, start_ps in case.flow_list)  # whoever came meanwhile would end it
    stood = run_double(case, wait_once(from_ps, for_ps), 1, threshold_ps)
    log = stood.model.fast_forward._controller.log
    assume(log)
    assert_equal(stood, delayed(plain, log[0], for_ps))


@settings(max_examples=25)
@given(LONG, st.integers(0, 2**30), st.sampled_from([1, 200_000, US]), st.sampled_from([1, 10, 100]))
def test_nothing_is_lost_or_invented_whatever_is_frozen(frozen_case, seed, every_ps, longest_us):
    """And whatever it gets done meanwhile."""
    case, threshold_ps = frozen_case
    assert_all_done(case, run_double(case, gamble(seed, longest_us * US), every_ps, threshold_ps, verify=True))


def test_what_strays_onto_a_frozen_wire_is_kept():
    """Data is lost and sent twice, so ACKs of messages that have ended cross ports of others that are frozen.

    The wire keeps what it had and what has come, in order, when it thaws.
    """
    topology = leaf_spine(2, 2, 2, 100 * GBPS, 10 * GBPS, 0, 0)
    none = np.zeros(topology.n_port, np.int64)
    parameters = NetworkParameters(
        ack_bytes=1, seed=16150, ecn_min_bytes=none, ecn_max_bytes=none, law=find_law("dcqcn"),
        law_values={
            "gain": 2**-8, "alpha_interval_ps": 1000, "decrease_interval_ps": 3_333_333,
            "increase_interval_ps": 300_000_000, "fast_recovery_times": 0, "rate_increase_bps": 20_000_000,
            "hyper_increase_bps": 200_000_000, "min_rate_bps": GBPS, "clamp_target": 0,
        },
        window_mode=0, base_rtt_ps=np.full(4, 1_846_240), pair_queue=np.array([1, 2, 2, 2]), n_queue=3,
        scheduler=WEIGHTED, queue_weight=(3, 1, 2), loss_probability=np.full(topology.n_port, 0.05),
        transport=TransportParameters(
            timeout_ps=333_333_333, max_timeout_ps=333_333_333, reorder_bytes=0, nack_interval_ps=US, ack_every=1,
            cnp_interval_ps=50_000_000,
        ),
    )  # fmt: skip
    flows = [(3, 0, 116_500, 10 * US), (0, 3, 128_000, 0), (1, 2, 61_500, 449), (2, 1, 29_000, 200 * US)]
    case = make_flow_case(topology, flows, parameters, window_bytes=20_000, queue_pairs="per-pair")
    assert_all_done(case, run_double(case, gamble(6683, US), US, 1, verify=True))


def test_the_gamble_is_worth_it():
    """It skips most of what there is, and is interrupted."""
    topology = leaf_spine(2, 2, 4, 100 * GBPS, 100 * GBPS, US, US)
    flows = [(i, 4 + i, 2_000_000 + 997 * i, 0) for i in range(4)]
    flows += [(*ends, 40_000, at * US) for ends in ((0, 5), (6, 3)) for at in (30, 50, 70, 90, 110, 130)]
    case = make_flow_case(topology, flows, make_parameters(topology, (10_000, 50_000)))
    outcome = run_double(case, gamble(3, 50 * US), US, verify=True)
    counters = outcome.model.fast_forward.counters
    assert counters.thaws_interrupted > 3 < counters.thaws_planned
    assert outcome.model.fast_forward.skipped.packet_hops > 2 * outcome.n_hop
    assert_all_done(case, outcome)


@pytest.mark.parametrize("law", MARKED_LAWS)
def test_every_control_stands_still_through_pauses_loss_and_resends(law):
    case = squeezed(law, 30, pfc=True, loss=0.01)
    plain = case.run()
    assert sum(row[3] for row in plain.losses) > 0, "pauses"
    assert_equal(run_double(case, blink, 1, kind=Blinking), plain)
    for from_ps in (310 * US, 330 * US):
        stood = run_double(case, wait_once(from_ps, 77 * US), 1, verify=from_ps == 310 * US)
        assert_equal(stood, delayed(plain, stood.model.fast_forward._controller.log[0], 77 * US))


def test_pauses_under_way_stay_what_they_are():
    """PFC frames on a hidden wire name no queue pair whose bytes could move on."""
    case = squeezed("none", 12, pfc=True)
    plain = case.run()
    assert sum(row[3] for row in plain.losses) > 10
    assert_equal(run_double(case, blink, 1, kind=Blinking, verify=True), plain)


@pytest.mark.parametrize("seed", range(4))
def test_what_is_frozen_amid_pauses_loses_nothing(seed):
    """The books of the shared buffer are whole in every round, and PFC keeps every packet whoever is frozen."""
    case = squeezed("none", 12, pfc=True)
    outcome = run_double(case, gamble(seed, 20 * US), US, verify=True)
    assert outcome.model.fast_forward.counters.freezes > 3
    assert sum(row[3] for row in outcome.losses) > 5, "pauses"
    assert sum(row[0] for row in outcome.losses) == 0, "drops"
    assert_all_done(case, outcome)


def star(n: int, parameters: NetworkParameters, flows: list[Flow]) -> NetworkCase:
    topology = switched(n, [(i, n, 100 * GBPS, US) for i in range(n)], 1, list(range(n)))
    return make_flow_case(topology, flows, parameters)


def test_the_timeout_of_a_message_that_has_ended_wakes_no_frozen_port():
    """It is looked at when it would have been due, and the queue pair's port belongs to others by then."""
    timed = NetworkParameters(transport=TransportParameters(timeout_ps=20 * US))
    case = star(3, timed, [(0, 1, 1000, 0), (0, 2, 200_000, 0)])
    plain = case.run()
    stood = run_double(case, wait_once(8 * US, 50 * US), 1, verify=True)
    from_ps = stood.model.fast_forward._controller.log[0]
    assert plain.flows[0][2] < from_ps < 20 * US < plain.flows[1][2]
    assert_equal(stood, delayed(plain, from_ps, 50 * US))


def test_timeouts_do_not_run_while_nothing_does():
    timed = NetworkParameters(transport=TransportParameters(timeout_ps=20 * US))
    case = star(2, timed, [(0, 1, 200_000, 0)])
    stood = run_double(case, wait_once(8 * US, 5000 * US), 1)
    assert stood.n_timeout == 0 == int(stood.model.state.fabric.counters[N_TIMEOUT])
    assert stood.sent_bytes == 200_000


def test_collectives_and_their_tasks_take_no_notice():
    topology = rail_optimised(
        8, 2, 2, LinkKind(100 * GBPS, 500 * NS), LinkKind(100 * GBPS, 1500 * NS), 1.0, LinkKind(3_600 * GBPS, 25 * NS)
    )
    jobs = [
        Collective("ring", "all-reduce", 100_001, tuple(range(8))),
        Collective("all", "all-to-all", 60_000, tuple(range(0, 8, 2)), after=("ring",)),
        Collective("one", "point-to-point", 5_000, (7, 0), after=("ring",)),
    ]
    case = make_plan_case(topology, plan_collectives(jobs, 8, 2), make_parameters(topology, (10_000, 50_000)))
    for threshold_ps in case.thresholds_ps():
        plain = case.run(threshold_ps)
        blinked = run_double(case, blink, 300_000, threshold_ps, verify=True, kind=Blinking)
        assert blinked.model.fast_forward.counters.freezes > 50
        assert_equal(blinked, plain)
        assert blinked.tasks == plain.tasks and len(plain.tasks) > 20


def test_a_sample_holds_nothing_that_only_the_receivers_rank_knows():
    """Else ranks would decide by where the receiver is."""
    case = squeezed("none", 30, pfc=False, loss=0.05)
    transport = TransportParameters(SELECTIVE_REPEAT, timeout_ps=200 * US)
    case = replace(case, parameters=replace(case.parameters, transport=transport))
    none, n_held, n_row = np.zeros(0, np.int64), 0, 0

    def sample(state) -> np.ndarray:
        here = np.ones(case.topology.n_node, np.uint8)
        out = np.zeros((len(state.nic.queue_pairs), N_COLUMN), np.int64)
        return out[: sample_pairs(state.fabric, state.nic, here, none, out)].copy()

    def check(model) -> None:
        nonlocal n_held, n_row
        table = model.state.nic.receivers
        before, rows = table.copy(), sample(model.state)
        n_held, n_row = n_held + int((table["held_range"] >= 0).sum()), n_row + len(rows)
        for name in ("expected_byte", "received_bytes", "nack_byte", "nack_after_ps", "cnp_after_ps", "n_arrived"):
            table[name] = 12345
        for name in ("held_range", "early_end"):
            table[name] = -1
        assert np.array_equal(sample(model.state), rows)
        table[:] = before

    case.run(each_round=check)
    assert n_held > 20 and n_row > 1000
