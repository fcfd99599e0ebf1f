"""DCTCP by itself: what one ACK does to a rate. That it does so in the network is `test_twin`'s claim."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference.control_driver import Driver

LINE_BPS, MIN_BPS, STEP_BPS, PAYLOAD, DEFAULT_GAIN = 100 * 10**9, 10**9, 615_000_000, 1000, 0.0625


def run(marks: list[int], in_flight_pkts: int, line_bps: int = LINE_BPS):
    """(rates after each ACK of a whole packet, alpha at the end)."""
    driver = Driver("dctcp", line_rate_bps=line_bps)
    rates = []
    for i, is_marked in enumerate(marks):
        acked_byte = (i + 1) * PAYLOAD
        driver.ack(acked_byte, acked_byte + in_flight_pkts * PAYLOAD, is_marked=is_marked)
        rates.append(int(driver.flow.rate_bps))
    return rates, float(driver.flow.alpha)


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
