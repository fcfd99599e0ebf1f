"""HPCC-PINT: codes lose less than their base, the switch's mean tends to the load, the rate follows the code."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.congestion.hpcc_pint import MAX_CODE, decode_utilisation, encode_utilisation, next_utilisation
from pdes.engine.jit import loop_kernel
from reference.control_driver import Driver

RATE_BPS, BASE_RTT_PS = 100 * 10**9, 10_000_000


@given(st.floats(0.001, 1000.0), st.floats(1.001, 2.0))
def test_a_code_is_off_by_less_than_half_a_step(utilisation, log_base):
    ratio = decode_utilisation(encode_utilisation(utilisation, log_base), log_base) / utilisation
    assert abs(math.log(ratio)) <= math.log(log_base) / 2 * (1 + 1e-6) + 1e-9


@given(st.integers(0, 400), st.sampled_from([1.01, 1.05, 1.5]))
def test_a_decoded_code_is_encoded_to_itself(code, log_base):
    assert encode_utilisation(decode_utilisation(code, log_base), log_base) == code


def test_codes_keep_to_their_range():
    assert [encode_utilisation(u, 1.05) for u in (0.0, 0.0005, 0.001)] == [0, 0, 0]
    assert encode_utilisation(1e300, 1.0001) == MAX_CODE


@loop_kernel
def _port(n_packet, gap_ps, queue_bytes, packet_bytes):
    utilisation = 0.0
    for _ in range(n_packet):
        utilisation = next_utilisation(utilisation, gap_ps, queue_bytes, packet_bytes, RATE_BPS, BASE_RTT_PS)
    return utilisation


@given(st.integers(80_000, 2_000_000), st.integers(0, 500_000))
def test_a_ports_mean_tends_to_its_load_and_queue(gap_ps, queue_bytes):
    """u* = q / BDP + size / (B dt): the terms of a packet every dt, smoothed over a round trip."""
    expected = queue_bytes / 125_000 + 1000 * 8 / (RATE_BPS * gap_ps * 1e-12)
    assert _port(5_000, gap_ps, queue_bytes, 1000) == pytest.approx(expected, rel=1e-9)


def test_the_rate_is_divided_by_the_excess_and_adopted_once_a_round_trip():
    cc = Driver("hpcc-pint", {"log_base": 1.05})
    code = encode_utilisation(1.9, 1.05)
    excess = decode_utilisation(code, 1.05) / 0.95
    expected = int(RATE_BPS / excess) + 40 * 10**6
    assert cc.ack(1000, 50_000, pint_code=code) == 0  # the first ACK sets nothing
    for acked in (2000, 3000):  # within the round trip: each from the same reference
        assert cc.ack(acked, 60_000, pint_code=code) == 1
        assert (cc.flow.rate_bps, cc.flow.reference_bps) == (expected, RATE_BPS)
    cc.ack(51_000, 90_000, pint_code=code)
    assert (cc.flow.rate_bps, cc.flow.reference_bps) == (expected, expected)


def test_an_idle_path_lets_the_rate_go_to_the_line_rate():
    cc = Driver("hpcc-pint")
    cc.ack(1000, 50_000)
    cc.flow.reference_bps = 10**9
    cc.ack(51_000, 60_000, pint_code=0)
    assert cc.flow.rate_bps == RATE_BPS
