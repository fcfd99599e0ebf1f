"""The engine against the plain twin, exactly: every flow and every port, on small networks of every kind."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from models.congestion.law import BUILT_IN, find_law
from models.network import model
from models.network.build import arrays as build
from models.network.build import buffers as build_buffers
from models.network.build.nic import MAX_WINDOW_BYTES
from models.network.state.parameters import ROUND_ROBIN, STRICT, WEIGHTED
from models.topology.fat_tree import fat_tree
from models.topology.leaf_spine import leaf_spine
from pdes.errors import ConfigError
from reference.network_case import NetworkCase, assert_equal, make_flow_case, make_parameters, squeezed
from reference.network_managed_strategies import managed_cases
from reference.network_strategies import cases, chains, dumbbells, fat_trees, leaf_spines, rails, stars

GBPS, NS = 10**9, 1000


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


@given(managed_cases(stars() | dumbbells()))
@settings(max_examples=120)
def test_engine_equals_twin_with_drops_pauses_loss_and_every_control(case):
    assert_equal(case.run(), case.run_twin())


@given(managed_cases(leaf_spines() | fat_trees() | rails() | chains()))
@settings(max_examples=80)
def test_engine_equals_twin_on_fabrics_with_everything(case):
    assert_equal(case.run(), case.run_twin())


@given(managed_cases(stars() | dumbbells() | rails() | chains()))
@settings(max_examples=30)
def test_no_cut_into_lps_changes_anything_with_everything(case):
    twin = case.run_twin()
    for threshold_ps in case.thresholds_ps():
        assert_equal(case.run(threshold_ps), twin)


@given(cases(stars() | dumbbells() | leaf_spines()))
@settings(max_examples=40)
def test_managed_switches_do_the_same_where_plain_ones_would_do(case):
    twin = case.run_twin()
    with pytest.MonkeyPatch.context() as patch:
        for module in (build, build_buffers, model):
            patch.setattr(module, "is_managed", lambda parameters: True)
        assert_equal(case.run(), twin)


@given(managed_cases(stars() | dumbbells() | leaf_spines() | chains(), laws=("hpcc",)))
@settings(max_examples=40)
def test_plain_switches_stamp_telemetry_as_managed_ones_do(case):
    one_class = np.ones(len(case.window_bytes), np.int64)
    plain = {"buffer": None, "loss_probability": None, "n_queue": 2, "pair_queue": one_class}
    case = replace(case, parameters=replace(case.parameters, **plain))
    assert not build.is_managed(case.parameters)
    twin = case.run_twin()
    assert_equal(case.run(), twin)
    with pytest.MonkeyPatch.context() as patch:
        for module in (build, build_buffers, model):
            patch.setattr(module, "is_managed", lambda parameters: True)
        assert_equal(case.run(), twin)


@pytest.mark.parametrize("law", BUILT_IN)
def test_every_control_equals_twin_through_pauses_loss_and_idle_time(law):
    case = squeezed(law, 30, pfc=True, loss=0.01)
    engine = case.run()
    assert sum(row[3] for row in engine.losses) > 0, "pauses"
    assert sum(engine.resent_bytes.values()) > 0
    assert_equal(engine, case.run_twin())


@pytest.mark.parametrize("scheduler", [STRICT, ROUND_ROBIN, WEIGHTED])
def test_engine_equals_twin_when_a_small_buffer_drops(scheduler):
    case = squeezed("none", 12, pfc=False, scheduler=scheduler)
    engine = case.run()
    assert sum(row[0] for row in engine.losses) > 20, "drops"
    assert_equal(engine, case.run_twin())


def test_pfc_with_headroom_drops_nothing():
    engine = squeezed("none", 12, pfc=True).run()
    assert sum(row[0] for row in engine.losses) == 0
    assert sum(row[3] for row in engine.losses) > 10
    assert sum(engine.resent_bytes.values()) == 0


def test_timers_of_idle_queue_pairs_neither_last_nor_matter_later():
    """DCQCN's timers go on for a millisecond after the first messages; the run ends with the last acknowledgement."""
    values = find_law("dcqcn").parameter_values({}) | {"increase_interval_ps": 20_000 * NS, "fast_recovery_times": 5}
    case = squeezed("dcqcn", 200, pfc=True, law_values=values, ecn_min_bytes=np.zeros(16, np.int64))
    case = replace(case, parameters=replace(case.parameters, ecn_max_bytes=np.full(16, 1000)))
    engine = case.run()
    assert engine.last_event_ps == max(finish_ps for _, _, finish_ps, _ in engine.flows.values())
    assert_equal(engine, case.run_twin())


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
    wide = replace(case, window_bytes=np.array([MAX_WINDOW_BYTES]))
    with pytest.raises(ConfigError, match=rf"\[network\] window: {MAX_WINDOW_BYTES} B. Accepted: below"):
        wide.run()
