"""HPCC: the rate follows the utilisation that in-band telemetry tells of the most loaded hop."""

from models.congestion.interface import N_HOP, NO_WRAP, scaled

_STALE_PS = NO_WRAP // 2  # telemetry that does not wrap and is older than the last seen


class Hpcc:
    """HPCC. Source: Li et al. 2019, section 3 and algorithm 1, in the form of the HPCC repository's CC_MODE 3.

    Arithmetic in doubles, times in ns, in the order of the repository's code. In ns-3 mode the engine hands over stamps
    that are cut as on the wire, and time_wrap and tx_wrap are their moduli. Deviations: a hop whose two stamps are
    equal is passed over (ns-3 divides by zero), as is one whose stamp is older than the last (packets out of order);
    a path without switches keeps its rate.
    """

    times = ("hop_time_ps",)
    sequences = ("last_update",)
    hop_counts = ("hop_tx_bytes",)
    paths = ("path_id",)
    header_bytes = 42
    needs = ("int",)
    window = "max-bdp"
    parameters = {
        "target_utilisation": 0.95,
        "rate_increase_bps": scaled("40Mbps"),
        "min_rate_bps": "1Gbps",
        "max_stage": 0,  # additive steps between two multiplicative ones, MI_THRESH
        "fast_react": True,  # ACKs within a round trip set the rate too, without adopting it as reference
        "time_wrap_ps": NO_WRAP,
        "tx_wrap_bytes": NO_WRAP,
    }
    limits = {
        "target_utilisation": (0.01, 2.0),
        "max_stage": (0, None),
        "time_wrap_ps": (1, None),
        "tx_wrap_bytes": (1, None),
    }
    papers = {"paper": {"max_stage": 5, "rate_increase_bps": scaled("49Mbps")}}  # section 5.1: 80 bytes in 13 us
    state = {
        "reference_bps": 0,  # the rate that a round trip's computations start from
        "utilisation": 1.0,  # smoothed
        "stage": 0,
        "last_update": 0,  # an ACK beyond this byte ends a round trip
        "path_id": 0,
        "hop_time_ps": (0,) * N_HOP,
        "hop_tx_bytes": (0,) * N_HOP,
        "hop_queue_bytes": (0,) * N_HOP,
    }

    @staticmethod
    def start(flow, event, p):
        """All queue pairs start at line rate."""
        flow.reference_bps = flow.rate_bps

    @staticmethod
    def on_ack(flow, event, p):
        """Fold the telemetry in and set the rate; once a round trip the rate becomes the reference."""
        is_full = event.acked_byte > flow.last_update
        if event.n_hop == 0 or not (is_full or p.fast_react):
            return
        if flow.last_update == 0 or event.path_id != flow.path_id:  # the telemetry of another path has no forerunner
            flow.path_id = event.path_id
            if flow.last_update == 0:
                flow.last_update = event.next_byte
            for i in range(event.n_hop):
                flow.hop_time_ps[i] = event.hop_time_ps[i]
                flow.hop_tx_bytes[i] = event.hop_tx_bytes[i]
                flow.hop_queue_bytes[i] = event.hop_queue_bytes[i]
            return
        base_rtt_ns = flow.base_rtt_ps / 1000
        window_bytes = float(flow.max_window_bytes)
        if flow.max_window_bytes == 0:
            window_bytes = flow.line_rate_bps / 8e9 * base_rtt_ns
        most, most_ns = 0.0, 0.0
        for i in range(event.n_hop):
            rate_bps = event.hop_rate_bps[i]
            time_ps = event.hop_time_ps[i] - flow.hop_time_ps[i]
            if time_ps < 0:
                time_ps += p.time_wrap_ps
            if time_ps == 0 or time_ps > _STALE_PS:
                continue
            time_ns = time_ps / 1000
            sent_bytes = event.hop_tx_bytes[i] - flow.hop_tx_bytes[i]
            if sent_bytes < 0:
                sent_bytes += p.tx_wrap_bytes
            queue_bytes = min(event.hop_queue_bytes[i], flow.hop_queue_bytes[i])
            used = sent_bytes * 8 / (time_ns * 1e-9) / rate_bps
            if queue_bytes:
                used += float(queue_bytes) * flow.line_rate_bps / rate_bps / window_bytes
            if used > most:
                most, most_ns = used, time_ns
            flow.hop_time_ps[i] = event.hop_time_ps[i]
            flow.hop_tx_bytes[i] = event.hop_tx_bytes[i]
            flow.hop_queue_bytes[i] = event.hop_queue_bytes[i]
        most_ns = min(most_ns, base_rtt_ns)
        flow.utilisation = (flow.utilisation * (base_rtt_ns - most_ns) + most * most_ns) / base_rtt_ns
        excess = flow.utilisation / p.target_utilisation
        if excess >= 1 or flow.stage >= p.max_stage:
            # Bounded before it becomes an integer: the excess of a path that is nearly idle is nearly 0.
            most_bps = float(flow.line_rate_bps)
            rate_bps = int(min(flow.reference_bps / excess, most_bps)) + p.rate_increase_bps
            stage = 0
        else:
            rate_bps = flow.reference_bps + p.rate_increase_bps
            stage = flow.stage + 1
        rate_bps = min(max(rate_bps, p.min_rate_bps), flow.line_rate_bps)
        flow.rate_bps = rate_bps
        event.retime = 1
        if is_full:
            flow.reference_bps = rate_bps
            flow.stage = stage
            flow.last_update = max(flow.last_update, event.next_byte)
