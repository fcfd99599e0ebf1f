"""DCTCP by itself: what one ACK does to a rate. That it does so in the network is `test_twin`'s claim."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.congestion.dctcp import DEFAULT_GAIN, make_control, on_ack
from pdes.engine.jit import loop_kernel

LINE_BPS, MIN_BPS, STEP_BPS, PAYLOAD = 100 * 10**9, 10**9, 615_000_000, 1000


@loop_kernel
def _run(control, constants, marks, in_flight_bytes, line_bps, rates):
    """ACKs of whole packets one after another; the rate after each."""
    rate_bps = line_bps
    for i in range(marks.size):
        acked = (i + 1) * 1000
        rate_bps = on_ack(control, constants, 0, acked, acked + in_flight_bytes, marks[i], rate_bps, line_bps)
        rates[i] = rate_bps


def run(marks: list[int], in_flight_pkts: int, line_bps: int = LINE_BPS, gain: float = DEFAULT_GAIN):
    """(rates after each ACK, alpha at the end)."""
    control, rates = make_control(1), np.zeros(len(marks), np.int64)
    constants = np.array([gain, STEP_BPS, MIN_BPS, PAYLOAD], np.float64)
    _run(control, constants, np.array(marks, np.int64), in_flight_pkts * PAYLOAD, line_bps, rates)
    return rates.tolist(), float(control["alpha"][0])


@given(st.lists(st.integers(0, 1), min_size=1, max_size=100), st.integers(0, 20))
def test_the_rate_stays_between_the_least_and_the_line_rate(marks, in_flight):
    rates, alpha = run(marks, in_flight)
    assert all(MIN_BPS <= rate <= LINE_BPS for rate in rates)
    assert 0.0 <= alpha <= 1.0


@pytest.mark.parametrize("line_bps", [10**8, 10**9 - 1])
def test_a_line_slower_than_the_least_rate_is_never_exceeded(line_bps):
    rates, _ = run([1] * 50, 5, line_bps)
    assert max(rates) <= line_bps


def test_without_marks_the_rate_stays_and_alpha_fades_by_its_gain_once_a_window():
    rates, alpha = run([0] * 61, 9)
    assert set(rates) == {LINE_BPS}
    assert alpha == pytest.approx((1 - DEFAULT_GAIN) ** 6)  # the ACKs of bytes 11000, 21000, .., 61000 end a window


def test_a_marked_window_cuts_once():
    """The first mark halves the rate (alpha is 1 at the start); those of the same window do not cut again."""
    rates, _ = run([1] * 10, 10)
    assert rates == [LINE_BPS // 2] * 10


def test_after_the_cut_the_rate_climbs_by_a_step_each_window():
    rates, _ = run([1] + [0] * 60, 9)
    steps = np.diff(rates)
    assert rates[0] == LINE_BPS // 2
    assert set(steps.tolist()) == {0, STEP_BPS}
    at = np.flatnonzero(steps)
    assert set(np.diff(at).tolist()) == {10}  # nine packets in flight and the one acknowledged


def test_alpha_tends_to_the_share_of_marks():
    _, alpha = run([1, 0, 0, 0] * 2_000, 7)
    assert alpha == pytest.approx(0.25, abs=0.05)
