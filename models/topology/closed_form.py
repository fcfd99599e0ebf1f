"""Completion times of a message that is alone on its path, exact to the picosecond.

Packets of one message through store-and-forward hops are a tandem of FIFO queues whose service time at a hop is the
same for all packets but the last, shorter one. The last packet's departure is a last-passage time with a closed form.
Congestion control, windows and other traffic are not in it: it is the bound that they are measured against.
"""

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
def tandem_ps(n_packet, full_bytes, last_bytes, ack_bytes, data_port, ack_port, port_rate_bps, port_delay_ps):
    """When the last of `n_packet` packets, all ready at 0, leaves a path of `data_port`, then `ack_port`.

    full_bytes, last_bytes: wire size on `data_port` of the first n_packet - 1 packets and of the last. ack_bytes: wire
    size of what goes on for each packet on `ack_port` (which may be empty). Bound: the result stays below 2^63 ps.

    The last packet leaves after the longest passage: the packets before it pass hops 1..b, the last one hops b..m, so
    max over b of [sum_{h<=b} full_h + (n-2) max_{h<=b} full_h + sum_{h>=b} last_h], plus all delays (n >= 2).
    """
    n_data, n_hop = len(data_port), len(data_port) + len(ack_port)
    after_ps, delay_ps = 0, 0
    for i_hop in range(n_hop):
        port = data_port[i_hop] if i_hop < n_data else ack_port[i_hop - n_data]
        delay_ps += port_delay_ps[port]
        after_ps += tx_ps(last_bytes if i_hop < n_data else ack_bytes, port_rate_bps[port])
    if n_packet == 1:
        return after_ps + delay_ps
    full_sum_ps, full_max_ps, longest_ps = 0, 0, 0
    for i_hop in range(n_hop):
        port = data_port[i_hop] if i_hop < n_data else ack_port[i_hop - n_data]
        full_ps = tx_ps(full_bytes if i_hop < n_data else ack_bytes, port_rate_bps[port])
        full_sum_ps += full_ps
        full_max_ps = max(full_max_ps, full_ps)
        longest_ps = max(longest_ps, full_sum_ps + (n_packet - 2) * full_max_ps + after_ps)
        after_ps -= tx_ps(last_bytes if i_hop < n_data else ack_bytes, port_rate_bps[port])
    return longest_ps + delay_ps


@kernel
def ideal_delivery_ps(size_bytes, payload_bytes, header_bytes, data_port, port_rate_bps, port_delay_ps):
    """Time from the start of a message that is alone on its path until its last byte is at the receiver.

    size_bytes >= 1. data_port: int[n_hop] port ids, a slice of `Paths.port`; the rates and delays are per port.
    """
    n_packet = -(-size_bytes // payload_bytes)
    last_bytes = last_packet_bytes(size_bytes, payload_bytes) + header_bytes
    return tandem_ps(
        n_packet, payload_bytes + header_bytes, last_bytes, 0, data_port, data_port[:0], port_rate_bps, port_delay_ps
    )


@kernel
def ideal_fct_ps(size_bytes, payload_bytes, header_bytes, ack_bytes, data_port, ack_port, port_rate_bps, port_delay_ps):
    """Time from the start of a message that is alone on its paths until its sender has the ACK of the last byte.

    One ACK of `ack_bytes` per data packet, sent at once on `ack_port`. The ACKs are a further stretch of the same
    tandem: normally the last one finds its path idle, but behind a last packet that is smaller than an ACK, or on a
    way back that is slow, it waits for the one before. size_bytes >= 1.
    """
    n_packet = -(-size_bytes // payload_bytes)
    last_bytes = last_packet_bytes(size_bytes, payload_bytes) + header_bytes
    return tandem_ps(
        n_packet, payload_bytes + header_bytes, last_bytes, ack_bytes, data_port, ack_port, port_rate_bps, port_delay_ps
    )
