"""Completion times of a message that is alone on its path, exact to the picosecond.

Packets of one message through store-and-forward hops are a tandem of FIFO queues whose service time at a hop is the
same for all packets but the last, shorter one. The last packet's departure is a last-passage time with a closed form.
Congestion control, windows and other traffic are not in it: it is the bound that they are measured against.
"""

import numpy as np

from pdes.engine.jit import kernel, loop_kernel
from pdes.units import BITS_PER_BYTE, PS_PER_S


@loop_kernel
def tx_ps(size_bytes, rate_bps):
    """Serialisation time, rounded up. size_bytes 1..units.MAX_PACKET_BYTES, rate_bps > 0; int64."""
    return -((-size_bytes * BITS_PER_BYTE * PS_PER_S) // rate_bps)


@kernel
def last_packet_bytes(size_bytes, payload_bytes):
    """Payload of a message's last packet: 1..payload_bytes. size_bytes >= 1."""
    return (size_bytes - 1) % payload_bytes + 1


@kernel
def tandem_ps(n_packet, full_ps, last_ps):
    """When the last of `n_packet` packets, all ready at 0, is past a row of FIFO hops, without the hops' delays.

    full_ps, last_ps: int64[n_hop], what a hop takes for each of the first n_packet - 1 packets, and for the last.
    Bound: the result stays below 2^63 ps.

    The last packet leaves after the longest passage: the packets before it pass hops 1..b, the last one hops b..m, so
    max over b of [sum_{h<=b} full_h + (n-2) max_{h<=b} full_h + sum_{h>=b} last_h] (n >= 2).
    """
    after_ps = last_ps.sum()
    if n_packet == 1:
        return after_ps
    full_sum_ps, full_max_ps, longest_ps = 0, 0, 0
    for i_hop in range(len(full_ps)):
        full_sum_ps += full_ps[i_hop]
        full_max_ps = max(full_max_ps, full_ps[i_hop])
        longest_ps = max(longest_ps, full_sum_ps + (n_packet - 2) * full_max_ps + after_ps)
        after_ps -= last_ps[i_hop]
    return longest_ps


@kernel
def acked_tandem_ps(n_packet, ack_every, full_ps, last_ps, ack_ps):
    """When the sender has the ACK of the last of `n_packet` packets at the earliest, without the hops' delays.

    ack_every: at most so many packets, all in order, share an ACK; the last packet is acknowledged at once. ack_ps:
    int64[n_hop], what a hop of the way back takes for an ACK. Normally the last ACK finds its way idle, but behind a
    last packet that is smaller than an ACK, or on a way back that is slow, it waits for the one before.

    Marked packets are acknowledged too, so which other ACKs there are is not known. The i-th from the end belongs to
    packet n - i * ack_every at the earliest, and ACKs of just these packets delay the last one least. Of packets before
    the last, arrivals are equally far apart, so the longest passage is that of the first ACK or of the last but one.
    """
    n_early = (n_packet - 1) // ack_every
    longest_ps = tandem_ps(n_packet, full_ps, last_ps)
    if n_early > 0 and len(ack_ps) > 0:
        first_ps, apart_ps, slowest_ps = full_ps.sum(), full_ps.max(), ack_ps.max()
        for n_behind in (1, n_early):
            i_packet = n_packet - n_behind * ack_every
            longest_ps = max(longest_ps, first_ps + (i_packet - 1) * apart_ps + n_behind * slowest_ps)
    return longest_ps + ack_ps.sum()


@kernel
def _hop_times(size_bytes, ports, port_rate_bps):
    times_ps = np.empty(len(ports), np.int64)
    for i in range(len(ports)):
        times_ps[i] = tx_ps(size_bytes, port_rate_bps[ports[i]])
    return times_ps


@kernel
def ideal_delivery_ps(size_bytes, payload_bytes, header_bytes, data_port, port_rate_bps, port_delay_ps):
    """Time from the start of a message that is alone on its path until its last byte is at the receiver.

    size_bytes >= 1. data_port: int[n_hop] port ids, a slice of `Paths.port`; the rates and delays are per port.
    """
    n_packet = -(-size_bytes // payload_bytes)
    last_bytes = last_packet_bytes(size_bytes, payload_bytes) + header_bytes
    full_ps = _hop_times(payload_bytes + header_bytes, data_port, port_rate_bps)
    last_ps = _hop_times(last_bytes, data_port, port_rate_bps)
    return tandem_ps(n_packet, full_ps, last_ps) + port_delay_ps[data_port].sum()


@kernel
def ideal_fct_ps(size_bytes, payload_bytes, header_bytes, ack_bytes, data_port, ack_port, port_rate_bps, port_delay_ps):
    """Time from the start of a message that is alone on its paths until its sender has the ACK of the last byte.

    One ACK of `ack_bytes` per data packet, sent at once on `ack_port` (`acked_tandem_ps`). size_bytes >= 1.
    """
    n_packet = -(-size_bytes // payload_bytes)
    last_bytes = last_packet_bytes(size_bytes, payload_bytes) + header_bytes
    full_ps = _hop_times(payload_bytes + header_bytes, data_port, port_rate_bps)
    last_ps = _hop_times(last_bytes, data_port, port_rate_bps)
    ack_ps = _hop_times(ack_bytes, ack_port, port_rate_bps)
    delays_ps = port_delay_ps[data_port].sum() + port_delay_ps[ack_port].sum()
    return acked_tandem_ps(n_packet, 1, full_ps, last_ps, ack_ps) + delays_ps
