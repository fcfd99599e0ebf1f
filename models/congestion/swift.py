"""Swift: a window that holds the round-trip time at a target."""

import math

from numba.extending import register_jitable


class Swift:
    """Swift. Source: Kumar et al. 2020, sections 3.1-3.3 and algorithm 1.

    The target grows with the path (its idle round trip stands for the paper's hops times a constant) and as the window
    shrinks (flow scaling). Deviations: one delay, that of the fabric; hosts of this simulator have none, so the
    endpoint's window is left out. A window below one packet is one packet in flight at a pace of window / RTT of
    payload. The window starts at, and never exceeds, that of [network] window.
    """

    times = ("last_decrease_ps",)
    header_bytes = 8
    needs = ("rtt",)
    window = "max-bdp"
    controls_window = True
    parameters = {
        "base_target_ps": "0ps",  # target = base_target + path_share * idle RTT + flow scaling
        "path_share": 1.25,
        "flow_scaling_share": 1.0,  # its most, of the idle RTT
        "flow_scaling_min_pkts": 0.1,  # windows between which it goes from its most to nothing
        "flow_scaling_max_pkts": 100.0,
        "increase_pkts": 1.0,  # per round trip
        "decrease": 0.8,  # beta
        "max_decrease": 0.5,  # max_mdf
        "min_window_pkts": 0.001,
        "reset_after": 5,  # timeouts in a row
    }
    limits = {
        "flow_scaling_share": (0.0, None),
        "flow_scaling_min_pkts": (1e-6, None),
        "increase_pkts": (0.0, None),
        "decrease": (0.0, 1.0),
        "max_decrease": (0.0, 1.0),
        "min_window_pkts": (1e-6, 1.0),
        "reset_after": (1, None),
    }
    papers = {"paper": {"base_target_ps": "25us", "path_share": 1.0}}
    state = {
        "window_pkts": 0.0,
        "last_decrease_ps": 0,
        "last_rtt_ps": 0,
        "n_timeout": 0,  # in a row
    }

    @staticmethod
    def start(flow, event, p):
        """A full window."""
        flow.last_rtt_ps = flow.base_rtt_ps
        flow.last_decrease_ps = event.now_ps - flow.base_rtt_ps
        flow.window_pkts = most_pkts(flow)
        apply(flow)

    @staticmethod
    def on_ack(flow, event, p):
        """Additive increase below the target, multiplicative decrease at most once per round trip above."""
        may_decrease = event.now_ps - flow.last_decrease_ps >= flow.last_rtt_ps
        flow.n_timeout = 0
        flow.last_rtt_ps = max(event.rtt_ps, 1)
        before_pkts = flow.window_pkts
        target_ps = target_delay_ps(flow, p)
        if event.is_nack:
            if may_decrease:
                flow.window_pkts = before_pkts * (1 - p.max_decrease)
        elif event.rtt_ps < target_ps:
            acked_pkts = event.newly_acked_bytes / flow.payload_bytes
            flow.window_pkts = before_pkts + p.increase_pkts * acked_pkts / max(before_pkts, 1.0)
        elif may_decrease:
            excess = (event.rtt_ps - target_ps) / event.rtt_ps
            flow.window_pkts = before_pkts * max(1 - p.decrease * excess, 1 - p.max_decrease)
        settle(flow, p, before_pkts, event.now_ps)

    @staticmethod
    def on_timeout(flow, event, p):
        """As after a loss; after several in a row the least window."""
        before_pkts = flow.window_pkts
        flow.n_timeout += 1
        if flow.n_timeout >= p.reset_after:
            flow.window_pkts = p.min_window_pkts
        elif event.now_ps - flow.last_decrease_ps >= flow.last_rtt_ps:
            flow.window_pkts = before_pkts * (1 - p.max_decrease)
        settle(flow, p, before_pkts, event.now_ps)


@register_jitable
def most_pkts(flow):
    """The largest window, in packets; without [network] window the product of line rate and idle round trip."""
    if flow.max_window_bytes > 0:
        return flow.max_window_bytes / flow.payload_bytes
    return max(1.0, flow.line_rate_bps / 8e12 * flow.base_rtt_ps / flow.payload_bytes)


@register_jitable
def target_delay_ps(flow, p):
    """Section 3.1's target: the path's share and, the smaller the window the more, room for many flows."""
    low, high = 1 / math.sqrt(p.flow_scaling_max_pkts), 1 / math.sqrt(p.flow_scaling_min_pkts)
    room = 0.0
    if high > low:
        room = min(max((1 / math.sqrt(flow.window_pkts) - low) / (high - low), 0.0), 1.0)
    return p.base_target_ps + flow.base_rtt_ps * (p.path_share + p.flow_scaling_share * room)


@register_jitable
def settle(flow, p, before_pkts, now_ps):
    """Clamp the window, note a decrease, and tell the engine."""
    flow.window_pkts = min(max(flow.window_pkts, p.min_window_pkts), max(most_pkts(flow), p.min_window_pkts))
    if flow.window_pkts < before_pkts:
        flow.last_decrease_ps = now_ps
    apply(flow)


@register_jitable
def apply(flow):
    """Window and pace from a window in packets."""
    flow.window_bytes = max(1, int(flow.window_pkts * flow.payload_bytes))
    flow.rate_bps = flow.line_rate_bps
    if flow.window_pkts < 1:
        flow.rate_bps = int(flow.window_pkts * flow.payload_bytes * 8e12 / flow.last_rtt_ps)
