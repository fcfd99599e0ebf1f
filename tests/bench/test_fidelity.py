"""Differences between runs, on made-up tables whose differences are known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fidelity import event_skip, flow_errors, iteration_error, ks_distance, matched, relative, rtt_errors


def flows(rows: list[tuple[int, int, int]]) -> dict[str, np.ndarray]:
    """(flow id, finish, fct)"""
    return dict(zip(("flow_id", "finish_ps", "fct_ps"), np.array(rows, np.int64).reshape(-1, 3).T, strict=True))


def packets(rows: list[tuple[int, int]]) -> dict[str, np.ndarray]:
    """(sequence, round-trip time)"""
    return dict(zip(("sequence", "rtt_ps"), np.array(rows, np.int64).reshape(-1, 2).T, strict=True))


FULL = flows([(0, 100, 100), (1, 250, 200), (2, 1000, 400)])


def test_a_run_is_no_different_from_itself() -> None:
    errors = flow_errors(FULL, FULL)
    assert (errors.pop("flows_matched"), errors.pop("flow_coverage")) == (3, 1.0)
    assert set(errors.values()) == {0.0} and "p99_of_distribution" in errors


def test_errors_are_relative_without_a_sign_and_matched_by_flow() -> None:
    errors = flow_errors(FULL, flows([(2, 1100, 480), (0, 99, 90), (1, 250, 200)]))
    assert errors["mean_fct"] == pytest.approx((0.1 + 0 + 0.2) / 3)
    assert errors["max_fct"] == pytest.approx(0.2)
    assert errors["p99_fct"] == pytest.approx(0.1 + 0.98 * 0.1)  # by linear interpolation between the two largest
    assert errors["last_end"] == pytest.approx(0.1)
    assert errors["p50_of_distribution"] == 0
    assert errors["distribution"] == pytest.approx(errors["p99_of_distribution"])
    assert errors["ks_distance"] == pytest.approx(1 / 3)


def test_flows_that_swap_their_times_differ_but_not_in_distribution() -> None:
    errors = flow_errors(FULL, flows([(0, 200, 200), (1, 150, 100), (2, 1000, 400)]))
    assert errors["mean_fct"] == pytest.approx((1 + 0.5) / 3)
    assert errors["distribution"] == errors["ks_distance"] == errors["last_end"] == 0


def test_unfinished_and_missing_flows_are_left_out_and_said() -> None:
    errors = flow_errors(FULL, flows([(0, 110, 110), (1, -1, -1), (7, 900, 900)]))
    assert (errors["flows_matched"], errors["flow_coverage"]) == (1, pytest.approx(1 / 3))
    assert errors["mean_fct"] == errors["max_fct"] == errors["last_end"] == pytest.approx(0.1)
    nothing = flow_errors(FULL, flows([(1, -1, -1)]))
    assert (nothing["flows_matched"], nothing["flow_coverage"], nothing["mean_fct"]) == (0, 0.0, None)
    assert nothing.keys() == errors.keys()
    assert flow_errors(flows([]), FULL)["flow_coverage"] is None


def test_rows_match_by_key_whatever_their_order() -> None:
    one, other = matched(np.array([5, 3, 3, 9]), np.array([9, 1, 3]))
    assert (one.tolist(), other.tolist()) == ([1, 3], [2, 0])


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.lists(st.integers(0, 9), min_size=1, max_size=30))
def test_the_distance_of_distributions_is_the_largest_difference_of_shares(one: list[int], other: list[int]) -> None:
    slow = max(abs(sum(a <= x for a in one) / len(one) - sum(b <= x for b in other) / len(other)) for x in range(10))
    assert ks_distance(np.array(one), np.array(other)) == pytest.approx(slow)


def test_round_trip_times_are_compared_where_both_runs_have_the_packet() -> None:
    full = packets([(0, 1000), (1000, 1000), (2000, 2000), (3000, 4000)])
    errors = rtt_errors(full, packets([(1000, 1300), (3000, 3600), (9000, 1)]))
    assert errors["rtt_coverage"] == 0.5
    assert errors["rtt_nrmse"] == pytest.approx(((300**2 + 400**2) / 2) ** 0.5 / 2500)
    assert rtt_errors(full, full) == {"rtt_nrmse": 0.0, "rtt_coverage": 1.0}
    assert rtt_errors(full, packets([])) == {"rtt_nrmse": None, "rtt_coverage": 0.0}
    assert rtt_errors(packets([]), full) == {"rtt_nrmse": None, "rtt_coverage": None}


def test_large_differences_of_round_trip_times_do_not_overflow() -> None:
    assert rtt_errors(packets([(0, 1)]), packets([(0, 2**62)]))["rtt_nrmse"] == pytest.approx(2.0**62)


def test_iterations_are_compared_one_by_one() -> None:
    assert iteration_error([100, 200], [110, 180]) == pytest.approx(0.1)
    assert iteration_error([100], [100]) == 0
    assert iteration_error([], []) is None and iteration_error([1, 2], [1]) is None


def test_what_is_skipped_is_a_share_of_the_full_run() -> None:
    assert event_skip(25, 1000) == 0.975
    assert event_skip(1000, 1000) == event_skip(0, 0) == 0


def test_nothing_instead_of_nothing_is_no_error() -> None:
    assert relative(0, 0) == 0 and relative(0, 5) == 1 and relative(10, 5) == 0.5
