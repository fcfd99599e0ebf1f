"""The engine against the plain twin, exactly: every flow and every port, on small networks of every kind."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from models.topology.fat_tree import fat_tree
from models.topology.leaf_spine import leaf_spine
from pdes.errors import ConfigError
from reference.network_case import NetworkCase, Outcome, make_flow_case, make_parameters
from reference.network_strategies import cases, dumbbells, fat_trees, leaf_spines, rails, stars

GBPS, NS = 10**9, 1000


def assert_equal(engine: Outcome, twin: Outcome) -> None:
    """The same flows to the picosecond, the same ports to the byte."""
    assert engine.flows == twin.flows
    differ = {i: (e, t) for i, (e, t) in enumerate(zip(engine.ports, twin.ports, strict=True)) if e != t}
    assert not differ, f"ports (engine, twin) as (tx_bytes, max_queue_bytes, marks): {differ}"
    assert engine.n_hop == twin.n_hop


@given(cases(stars() | dumbbells()))
@settings(max_examples=150)
def test_engine_equals_twin_around_one_and_two_switches(case):
    assert_equal(case.run(), case.run_twin())


@given(cases(leaf_spines() | fat_trees() | rails()))
@settings(max_examples=100)
def test_engine_equals_twin_on_fabrics(case):
    assert_equal(case.run(), case.run_twin())


@given(cases(stars() | dumbbells() | rails()))
@settings(max_examples=30)
def test_no_cut_into_lps_changes_anything(case):
    twin = case.run_twin()
    for threshold_ps in case.thresholds_ps():
        assert_equal(case.run(threshold_ps), twin)


def incast(n_sender: int, size_bytes: int) -> NetworkCase:
    topology = leaf_spine(3, 2, 8, 100 * GBPS, 100 * GBPS, 1000 * NS, 1000 * NS)
    flows = [(i, 23, size_bytes + 997 * i, 0) for i in range(n_sender)]
    return make_flow_case(topology, flows, make_parameters(topology, (20_000, 80_000), ecn_max_probability=0.2))


def test_engine_equals_twin_in_an_incast_that_marks():
    case = incast(12, 100_000)
    engine = case.run()
    assert sum(marks for *_, marks in engine.flows.values()) > 100
    assert_equal(engine, case.run_twin())


@pytest.mark.parametrize("n_pair", [31, 32, 33, 70, 1100])
def test_engine_equals_twin_with_many_queue_pairs_on_one_nic(n_pair):
    """Round robin over sets of one word, of several, of more than one upper word; windows of one packet close often."""
    topology = leaf_spine(2, 1, 4, 100 * GBPS, 100 * GBPS, 1000 * NS, 1000 * NS)
    flows = [(i % 2, 2 + i % 6, 1 + 701 * (i % 7), (i % 3) * 500 * NS) for i in range(n_pair * 2)]
    case = make_flow_case(topology, flows, make_parameters(topology, (5_000, 20_000)), window_bytes=1000)
    assert_equal(case.run(), case.run_twin())


@pytest.mark.parametrize("shift", [1, 5, 8])
def test_engine_equals_twin_in_a_permutation_on_a_fat_tree(shift):
    topology = fat_tree(4, 100 * GBPS, 100 * GBPS, 1000 * NS, 1000 * NS)
    case = make_flow_case(
        topology, [(i, (i + shift) % 16, 100_000, 0) for i in range(16)], make_parameters(topology, (10_000, 40_000))
    )
    twin = case.run_twin()
    for threshold_ps in case.thresholds_ps():
        assert_equal(case.run(threshold_ps), twin)


def test_a_run_can_be_interrupted_after_every_round():
    case, rounds = incast(6, 20_000), []
    interrupted = case.run(each_round=lambda model: rounds.append(model.state.fabric.node_time[1]))
    assert len(rounds) > 10
    assert_equal(interrupted, case.run())


@pytest.mark.parametrize("n_sender", [1, 11])
def test_other_random_numbers_change_which_packets_are_marked_and_nothing_else(n_sender):
    case = incast(n_sender, 60_000)
    other = replace(case, parameters=replace(case.parameters, seed=2))
    assert_equal(other.run(), other.run_twin())
    assert (case.run().flows == other.run().flows) == (n_sender == 1)


def test_more_packets_than_the_first_pool_holds():
    case = incast(12, 600_000)
    case = replace(case, window_bytes=np.full(12, 10**7, np.int64))
    engine = case.run()
    assert len(engine.model.state.fabric.packets) > 4096
    assert_equal(engine, case.run_twin())


def test_a_window_that_would_overflow_is_refused():
    case = incast(1, 1000)
    wide = replace(case, window_bytes=np.array([2**63 // (100 * GBPS) + 1]))
    with pytest.raises(ConfigError, match=r"\[network\] window: 92233721 B. Accepted: a window below"):
        wide.run()
