"""HPCC with probabilistic telemetry: packets carry one code, the largest utilisation of the ports on their path."""

import math

from models.congestion.interface import scaled
from pdes.engine.jit import loop_kernel

LEAST_UTILISATION = 0.001  # what code 0 stands for
MAX_CODE = 2**16 - 1


class HpccPint:
    """HPCC-PINT. Source: Ben Basat et al. 2020, section 4.3, in the form of the HPCC repository's CC_MODE 10.

    Smoothing is done by the switch (`next_utilisation`), so the first ACK of a round trip sets the rate by itself.
    Deviations: every packet carries a code (PINT_PROB 1); codes are rounded to the nearest, not at random, and the
    switch computes in doubles, not with tables of logarithms.
    """

    sequences = ("last_update",)
    header_bytes = 2
    needs = ("pint",)
    window = "max-bdp"
    parameters = {
        "target_utilisation": 0.95,
        "rate_increase_bps": scaled("40Mbps"),
        "min_rate_bps": "1Gbps",
        "max_stage": 0,
        "log_base": 1.05,  # ratio of two neighbouring codes; the switches use it too
    }
    limits = {"target_utilisation": (0.01, 2.0), "max_stage": (0, None), "log_base": (1.0001, 2.0)}
    papers = {"paper": {"max_stage": 5, "rate_increase_bps": scaled("49Mbps")}}
    state = {"reference_bps": 0, "stage": 0, "last_update": 0}

    @staticmethod
    def start(flow, event, p):
        """All queue pairs start at line rate."""
        flow.reference_bps = flow.rate_bps

    @staticmethod
    def on_ack(flow, event, p):
        """Set the rate from the utilisation that came back; once a round trip it becomes the reference."""
        if flow.last_update == 0:
            flow.last_update = event.next_byte
            return
        excess = decode_utilisation(event.pint_code, p.log_base) / p.target_utilisation
        if excess >= 1 or flow.stage >= p.max_stage:
            most_bps = float(flow.line_rate_bps)
            rate_bps = int(min(flow.reference_bps / excess, most_bps)) + p.rate_increase_bps
            stage = 0
        else:
            rate_bps = flow.reference_bps + p.rate_increase_bps
            stage = flow.stage + 1
        flow.rate_bps = min(max(rate_bps, p.min_rate_bps), flow.line_rate_bps)
        event.retime = 1
        if event.acked_byte > flow.last_update:
            flow.reference_bps = flow.rate_bps
            flow.stage = stage
            flow.last_update = max(flow.last_update, event.next_byte)


@loop_kernel
def next_utilisation(utilisation, gap_ps, queue_bytes, last_bytes, rate_bps, base_rtt_ps):
    """A port's smoothed utilisation when a packet starts to leave it.

    utilisation: at the packet before, 0.0 at first. gap_ps: since that packet; last_bytes: its size on the wire.
    queue_bytes: what waits behind the packet. u' = dt q / (B T^2) + size / (B T) + u (T - dt) / T, B in bytes.
    """
    gap_ns = min(gap_ps, base_rtt_ps) / 1000
    rtt_ns = base_rtt_ps / 1000
    bdp_bytes = rate_bps / 8e9 * rtt_ns
    return (
        gap_ns / rtt_ns * (queue_bytes / bdp_bytes) + last_bytes / bdp_bytes + utilisation * (rtt_ns - gap_ns) / rtt_ns
    )


@loop_kernel
def encode_utilisation(utilisation, log_base):
    """The code nearest to a utilisation on the scale LEAST_UTILISATION * log_base ** code. int 0..MAX_CODE."""
    if utilisation <= LEAST_UTILISATION:
        return 0
    return min(int(math.log(utilisation / LEAST_UTILISATION) / math.log(log_base) + 0.5), MAX_CODE)


@loop_kernel
def decode_utilisation(code, log_base):
    """LEAST_UTILISATION * log_base ** code, by squaring: the same double with and without the compiler."""
    value, power = LEAST_UTILISATION, log_base
    while code > 0:
        if code & 1:
            value = value * power
        power = power * power
        code = code >> 1
    return value
