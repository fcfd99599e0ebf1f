"""Claims about ns-3's way of reading numbers: what is cut off, and that whole values survive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.topology.ns3_time import ns3_delay_ps, ns3_rate_bps, ns3_start_ps


@pytest.mark.parametrize(
    ("text", "delay_ns"),
    [("0.0007ms", 699), ("0.001ms", 1000), ("0.0005ms", 500), ("1us", 1000), ("1.5us", 1500), ("25ns", 25), ("0ns", 0)],
)
def test_a_link_delay_is_cut_off_to_ns(text: str, delay_ns: int) -> None:
    """CORRECTIONS.md fact 6."""
    assert ns3_delay_ps(text) == delay_ns * 1000


@pytest.mark.parametrize(
    ("text", "rate_bps"),
    [("100Gbps", 10**11), ("1000Mb/s", 10**9), ("12.5GBps", 10**11), ("2.5Gbps", 25 * 10**8), ("7bps", 7)],
)
def test_a_rate_is_whole_bits(text: str, rate_bps: int) -> None:
    assert ns3_rate_bps(text) == rate_bps


@pytest.mark.parametrize("text", ["", "fast", "1", "1 Gbps", "-1Gbps", "1e400Gbps", "."])
def test_what_ns_3_does_not_read_is_none(text: str) -> None:
    assert ns3_rate_bps(text) is None


@pytest.mark.parametrize("text", ["x", "-1", "nan", "inf", "1e30"])
def test_a_start_is_seconds_from_0_on(text: str) -> None:
    assert ns3_start_ps(text) is None


def test_a_start_is_cut_off_to_ns() -> None:
    assert ns3_start_ps("2.0") == 2 * 10**12
    assert ns3_start_ps("2.00010000000000001") == 2_000_100_000_000
    assert ns3_start_ps("0.0007") == 699_999 * 1000


@given(delay_ns=st.integers(0, 10**12))
def test_whole_ns_survive(delay_ns: int) -> None:
    assert ns3_delay_ps(f"{delay_ns}ns") == delay_ns * 1000
