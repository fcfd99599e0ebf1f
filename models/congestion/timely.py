"""TIMELY: the rate follows the gradient of the round-trip time."""

from models.congestion.interface import scaled


class Timely:
    """TIMELY. Source: Mittal et al. 2015, algorithm 1, in the form of the HPCC repository's CC_MODE 7.

    Times in ns, in doubles. Deviations of ns-3 from the paper: one update per window of data, not per completion of a
    segment; the gradient's smoothing weighs the new sample by 0.875; hyper-active increase adds a constant.
    """

    sequences = ("last_update",)
    header_bytes = 8
    needs = ("rtt",)
    parameters = {
        "gain": 0.875,  # weight of the new difference
        "decrease": 0.8,  # beta
        "low_rtt_ps": "50us",
        "high_rtt_ps": "500us",
        "min_rtt_ps": "20us",  # normalises the gradient
        "rate_increase_bps": scaled("100Mbps"),
        "hyper_increase_bps": scaled("500Mbps"),
        "hyper_after": 5,
        "min_rate_bps": "1Gbps",
    }
    limits = {"gain": (0.0, 1.0), "decrease": (0.0, 1.0), "min_rtt_ps": ("1ns", None)}
    papers = {"paper": {"rate_increase_bps": "10Mbps", "hyper_increase_bps": "50Mbps", "min_rate_bps": "10Mbps"}}
    state = {"last_update": 0, "last_rtt_ps": 0, "rtt_difference_ns": 0.0, "stage": 0}

    @staticmethod
    def on_ack(flow, event, p):
        """Once per window of data: up by a step, or down by the gradient or by how far the limit is exceeded."""
        if event.acked_byte <= flow.last_update:
            return
        if flow.last_update:
            rtt_ns = event.rtt_ps / 1000
            flow.rtt_difference_ns = (1 - p.gain) * flow.rtt_difference_ns + p.gain * (
                (event.rtt_ps - flow.last_rtt_ps) / 1000
            )
            gradient = flow.rtt_difference_ns / (p.min_rtt_ps / 1000)
            if event.rtt_ps < p.low_rtt_ps or (event.rtt_ps <= p.high_rtt_ps and gradient <= 0):
                step_bps = p.rate_increase_bps if flow.stage < p.hyper_after else p.hyper_increase_bps
                flow.rate_bps = min(flow.rate_bps + step_bps, flow.line_rate_bps)
                flow.stage += 1
            else:
                if event.rtt_ps > p.high_rtt_ps:
                    factor = 1 - p.decrease * (1 - p.high_rtt_ps / 1000 / rtt_ns)
                else:
                    factor = max(0.0, 1 - p.decrease * gradient)
                least_bps = min(p.min_rate_bps, flow.line_rate_bps)
                flow.rate_bps = max(least_bps, int(flow.rate_bps * factor))
                flow.stage = 0
        if event.next_byte > flow.last_update:
            flow.last_update = event.next_byte
            flow.last_rtt_ps = event.rtt_ps
