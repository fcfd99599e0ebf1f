"""The closed form of a lone message against a packet-by-packet recursion and hand-made numbers."""

from fractions import Fraction
from math import ceil

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from models.topology.closed_form import ideal_delivery_ps, ideal_fct_ps, tx_ps
from pdes.units import MAX_PACKET_BYTES

PORTS = st.lists(
    st.tuples(
        st.sampled_from([10**9, 25 * 10**9, 100 * 10**9, 400 * 10**9, 3_600 * 10**9, 7_777_777_777]),
        st.integers(0, 2 * 10**6),
    ),
    min_size=1,
    max_size=6,
)


def leave_times_ps(ready_ps: list[int], size_bytes: list[int], ports: list[tuple[int, int]]) -> list[int]:
    """When each packet is past a row of FIFO ports: begin = max(here, wire idle), one packet and port after another."""
    for rate_bps, delay_ps in ports:
        idle_ps, arrive_ps = 0, []
        for here_ps, size in zip(ready_ps, size_bytes, strict=True):
            idle_ps = max(here_ps, idle_ps) + ceil(Fraction(size * 8 * 10**12, rate_bps))
            arrive_ps.append(idle_ps + delay_ps)
        ready_ps = arrive_ps
    return ready_ps


def as_arrays(data: list[tuple[int, int]], ack: list[tuple[int, int]]) -> tuple[np.ndarray, ...]:
    rate_bps, delay_ps = np.array([*data, *ack], np.int64).reshape(-1, 2).T.copy()
    port = np.arange(len(data) + len(ack), dtype=np.int32)
    return port[: len(data)], port[len(data) :], rate_bps, delay_ps


@given(st.integers(1, MAX_PACKET_BYTES), st.integers(1, 2 * 10**12))
@settings(deadline=None)
def test_tx_is_the_exact_ceiling(size_bytes, rate_bps):
    assert tx_ps(size_bytes, rate_bps) == ceil(Fraction(size_bytes * 8 * 10**12, rate_bps))


@given(PORTS, PORTS, st.integers(1, 12_000), st.sampled_from([1, 500, 1000]), st.integers(0, 100), st.integers(1, 1500))
@settings(deadline=None, max_examples=500)
def test_a_lone_message_takes_exactly_what_its_packets_take(
    data, ack, size_bytes, payload_bytes, header_bytes, ack_bytes
):
    size_bytes = min(size_bytes, 40 * payload_bytes)
    n_packet = ceil(size_bytes / payload_bytes)
    sizes = [payload_bytes + header_bytes] * n_packet
    sizes[-1] = size_bytes - (n_packet - 1) * payload_bytes + header_bytes
    delivered_ps = leave_times_ps([0] * n_packet, sizes, data)
    acked_ps = leave_times_ps(delivered_ps, [ack_bytes] * n_packet, ack)
    data_port, ack_port, rate_bps, delay_ps = as_arrays(data, ack)
    message = size_bytes, payload_bytes, header_bytes
    assert ideal_delivery_ps(*message, data_port, rate_bps, delay_ps) == delivered_ps[-1]
    assert ideal_fct_ps(*message, ack_bytes, data_port, ack_port, rate_bps, delay_ps) == acked_ps[-1]


def test_equal_hops_give_the_formula_of_the_reference():
    # ns-3 notes, section 9: (n - 1) t_d + H t_d + H D + H t_a + H D, here with exact picoseconds, 100 Gbps and 1 us.
    data_port, ack_port, rate_bps, delay_ps = as_arrays([(10**11, 10**6)] * 2, [(10**11, 10**6)] * 2)
    fct_ps = ideal_fct_ps(10**6, 1000, 48, 60, data_port, ack_port, rate_bps, delay_ps)
    assert fct_ps == 999 * 83_840 + 2 * 83_840 + 2 * 4_800 + 4 * 10**6


def test_an_ack_waits_for_the_one_before_behind_a_last_packet_that_is_smaller():
    # 1001 B: a last packet of 49 B (3920 ps at 100 Gbps) lands 880 ps before the first packet's ACK of 60 B is sent.
    data_port, ack_port, rate_bps, delay_ps = as_arrays([(10**11, 0)], [(10**11, 0)])
    assert ideal_delivery_ps(1001, 1000, 48, data_port, rate_bps, delay_ps) == 83_840 + 3_920
    assert ideal_fct_ps(1001, 1000, 48, 60, data_port, ack_port, rate_bps, delay_ps) == 83_840 + 2 * 4_800


def test_a_message_of_a_terabyte_does_not_overflow():
    data_port, ack_port, rate_bps, delay_ps = as_arrays([(10**9, 10**6)], [(10**9, 10**6)])
    fct_ps = ideal_fct_ps(10**12, 1000, 48, 60, data_port, ack_port, rate_bps, delay_ps)
    assert fct_ps == 10**9 * 8_384_000 + 480_000 + 2 * 10**6
