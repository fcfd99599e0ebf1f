"""DCTCP: once a window the share of marked ACKs is folded in, and the first mark of a window cuts the rate by it.

Rate based, with a window that follows the rate, as in ns-3's RoCE model. The constants are those of the HPCC
repository's run.py, scaled to the line rate.
"""

from numba.extending import register_jitable

from models.congestion.interface import scaled


class Dctcp:
    """DCTCP. Source: Alizadeh et al. 2010, section 3, in the form of the HPCC repository's CC_MODE 8."""

    window = "max-bdp"
    sequences = ("last_update", "cut_until")
    ecn_at_100g = (300_000, 300_000, 1.0)
    parameters = {"gain": 0.0625, "rate_increase_bps": scaled("615Mbps"), "min_rate_bps": "1Gbps"}
    limits = {"gain": (0.0, 1.0)}
    papers = {"paper": {"gain": 0.0625}}  # section 3.4: g = 1/16
    state = {
        "alpha": 1.0,  # smoothed share of marked packets
        "last_update": 0,  # an ACK beyond this byte ends a window
        "cut_until": 0,  # no second cut before this byte is acknowledged
        "batch": 0,  # packets in the window, an unsigned 32-bit number in ns-3
        "n_marked": 0,
        "is_cut": 0,
    }

    @staticmethod
    def on_ack(flow, event, p):
        """Once a window: alpha and a step up. At the first mark of a window: a cut by alpha / 2."""
        flow.n_marked += event.is_marked
        new_window = event.acked_byte > flow.last_update
        if new_window:
            if flow.last_update == 0:
                flow.batch = (event.next_byte // flow.payload_bytes + 1) & 0xFFFFFFFF
            else:
                share = min(1.0, flow.n_marked / flow.batch)
                flow.alpha = (1.0 - p.gain) * flow.alpha + p.gain * share
                flow.n_marked = 0
                flow.batch = packets_between(event.acked_byte, event.next_byte, flow.payload_bytes)
            flow.last_update = event.next_byte
        if flow.is_cut and event.acked_byte > flow.cut_until:
            flow.is_cut = 0
        if event.is_marked and not flow.is_cut:
            least_bps = min(p.min_rate_bps, flow.line_rate_bps)
            flow.rate_bps = max(least_bps, int(flow.rate_bps * (1.0 - flow.alpha / 2.0)))
            flow.is_cut = 1
            flow.cut_until = event.next_byte
        if new_window and not flow.is_cut:
            flow.rate_bps = min(flow.line_rate_bps, flow.rate_bps + p.rate_increase_bps)


@register_jitable
def packets_between(acked_byte, next_byte, payload_bytes):
    """Packets in flight and one, in ns-3's arithmetic: 64 unsigned bits, then 32.

    After a NACK an old ACK may lie beyond the first byte not sent; the difference then wraps, and the share of marks
    of that window is nearly 0. payload_bytes: at least 2.
    """
    bytes_between = next_byte - acked_byte
    if bytes_between >= 0:
        return (bytes_between // payload_bytes + 1) & 0xFFFFFFFF
    half = (bytes_between >> 1) + (2**63 - 1) + 1  # 2**64 + bytes_between is 2 * half and a bit: halves fit int64
    rest = 2 * (half % payload_bytes) + (bytes_between & 1)
    return (2 * (half // payload_bytes) + rest // payload_bytes + 1) & 0xFFFFFFFF
