"""NSCC: Ultra Ethernet's sender-based control, by round-trip time and ECN together."""

from numba.extending import register_jitable

REFERENCE_BDP_BYTES = 150_000.0  # the network that the constants are given for: 100 Gbit/s, 12 us
REFERENCE_RTT_PS = 12e6


class Nscc:
    """Network-signalled control. Source: Ultra Ethernet specification 1.0, section 3.6 (CMS), as in htsim's UecSrc.

    mark, delay >= target: multiplicative decrease; no mark, delay >= target: fair increase; no mark, delay < target:
    proportional increase, fast when there is no queue at all; mark, delay < target: nothing. Increases are collected
    and applied once per adjust_pkts or round trip. When a period acknowledges little, the window becomes that (quick
    adapt). Deviations: the idle round trip is given, not learnt; the bandwidth-delay product is [network] window where
    there is one; recovery is go-back-N, so a NACK or a timeout counts as the loss of one packet; packets are not
    trimmed, so the target is a whole idle round trip; one path per queue pair, so marks do not switch paths.
    """

    times = ("last_adjust_ps", "last_decrease_ps", "look_ps")
    header_bytes = 8
    needs = ("rtt",)
    window = "max-bdp"
    controls_window = True
    ecn_at_100g = (30_000, 120_000, 1.0)  # 0.2 and 0.8 of the reference network's product
    parameters = {
        "target_share": 1.0,  # target queueing delay, of the idle round trip
        "max_window_share": 1.5,  # of the bandwidth-delay product
        "delay_gain": 0.0125,
        "decrease": 0.8,  # gamma
        "max_decrease": 0.5,
        "fair_increase_pkts": 5.0,
        "proportional_increase_pkts": 4.0,
        "fast_increase": 0.25,
        "fast_below_ps": "1us",
        "eta_pkts": 0.15,  # per round trip, whatever happens
        "adjust_pkts": 8,
        "quick_adapt_shift": 3,  # acknowledged less than the largest window / 2**3
        "quick_adapt_targets": 4.0,  # a delay that calls for it
    }
    limits = {
        "target_share": (0.01, 100.0),
        "max_window_share": (0.1, 100.0),
        "delay_gain": (0.0, 1.0),
        "decrease": (0.0, 1.0),
        "max_decrease": (0.0, 1.0),
        "quick_adapt_shift": (0, 62),
    }
    papers = {"paper": {}}  # the specification's are the default
    state = {
        "cwnd_bytes": 0.0,
        "mean_delay_ps": 0.0,
        "increase_bytes2": 0.0,  # collected, times the window
        "received_bytes": 0,  # since the last adjustment
        "last_adjust_ps": 0,
        "last_decrease_ps": 0,
        "achieved_bytes": 0,  # since the last look for quick adapt
        "look_ps": 0,  # the next one; 0: none yet
        "has_loss": 0,
        "ignored_bytes": 0,
        "ignore_bytes": 0,  # marks of what was in flight at a quick adapt say nothing new
        "fast_bytes": 0,  # acknowledged in a row without a queue
        "is_fast": 0,
    }

    @staticmethod
    def start(flow, event, p):
        """The largest window."""
        flow.cwnd_bytes = max(p.max_window_share * bdp_bytes(flow), float(flow.payload_bytes))
        flow.last_adjust_ps = event.now_ps
        flow.last_decrease_ps = event.now_ps
        flow.window_bytes = int(flow.cwnd_bytes)

    @staticmethod
    def on_ack(flow, event, p):
        """One of the four cases, then what has been collected."""
        if event.is_nack:
            lose(flow, p, event.now_ps, event.next_byte - event.acked_byte)
            return
        target_ps = p.target_share * flow.base_rtt_ps
        delay_ps = float(max(event.rtt_ps - flow.base_rtt_ps, 0))
        update_delay(flow, p, delay_ps, target_ps, event.is_marked)
        flow.achieved_bytes += event.newly_acked_bytes
        flow.received_bytes += event.newly_acked_bytes
        flow.ignored_bytes += event.newly_acked_bytes
        in_flight_bytes = event.next_byte - event.acked_byte
        if not quick_adapt(flow, p, event.now_ps, event.is_marked, delay_ps, in_flight_bytes):
            if event.is_marked:
                if delay_ps >= target_ps:
                    decrease(flow, p, event.now_ps, target_ps)
            else:
                increase(flow, p, event.newly_acked_bytes, delay_ps, target_ps)
            bound(flow, p)
            period_ps = event.now_ps - flow.last_adjust_ps
            if flow.received_bytes > p.adjust_pkts * flow.payload_bytes or period_ps > flow.base_rtt_ps:
                adjust(flow, p, event.now_ps)
        bound(flow, p)
        flow.window_bytes = int(flow.cwnd_bytes)

    @staticmethod
    def on_timeout(flow, event, p):
        """The loss of a packet."""
        lose(flow, p, event.now_ps, event.next_byte - event.acked_byte)


@register_jitable
def bdp_bytes(flow):
    """Bandwidth-delay product."""
    if flow.max_window_bytes > 0:
        return float(flow.max_window_bytes)
    return flow.line_rate_bps / 8e12 * flow.base_rtt_ps


@register_jitable
def bound(flow, p):
    """One packet to the largest window."""
    most = max(p.max_window_share * bdp_bytes(flow), float(flow.payload_bytes))
    flow.cwnd_bytes = min(max(flow.cwnd_bytes, float(flow.payload_bytes)), most)


@register_jitable
def update_delay(flow, p, delay_ps, target_ps, is_marked):
    """The mean queueing delay; long delays without a mark are past, so a quarter of a round trip stands for them."""
    sample_ps = delay_ps
    if not is_marked and delay_ps > target_ps:
        sample_ps = 0.25 * flow.base_rtt_ps
    gain = 0.0125 if is_marked and delay_ps > 5 * flow.base_rtt_ps else p.delay_gain
    flow.mean_delay_ps = gain * sample_ps + (1 - gain) * flow.mean_delay_ps


@register_jitable
def quick_adapt(flow, p, now_ps, is_marked, delay_ps, in_flight_bytes):
    """Once per round trip and target: if little arrived and delay or loss call for it, the window is what arrived.

    True if the ACK is to have no other effect.
    """
    if flow.ignored_bytes < flow.ignore_bytes and is_marked:
        flow.increase_bytes2, flow.received_bytes = 0.0, 0
        return True
    if now_ps <= flow.look_ps:
        return False
    target_ps = p.target_share * flow.base_rtt_ps
    calls = flow.has_loss or delay_ps > p.quick_adapt_targets * target_ps
    little = flow.achieved_bytes < int(p.max_window_share * bdp_bytes(flow)) >> p.quick_adapt_shift
    adapts = flow.look_ps != 0 and calls and little
    if adapts:
        flow.cwnd_bytes = max(float(flow.achieved_bytes), float(flow.payload_bytes))
        flow.ignore_bytes, flow.ignored_bytes, flow.has_loss = max(in_flight_bytes, 0), 0, 0
        flow.increase_bytes2, flow.received_bytes = 0.0, 0
    flow.achieved_bytes = 0
    flow.look_ps = now_ps + flow.base_rtt_ps + int(target_ps)
    return adapts


@register_jitable
def increase(flow, p, acked_bytes, delay_ps, target_ps):
    """Fair above the target; below in proportion to what is left of it, or fast while there is no queue."""
    scale = bdp_bytes(flow) / REFERENCE_BDP_BYTES
    if delay_ps >= target_ps:
        flow.increase_bytes2 += p.fair_increase_pkts * flow.payload_bytes * scale * acked_bytes
        return
    if delay_ps < p.fast_below_ps:
        flow.fast_bytes += acked_bytes
        if flow.fast_bytes > flow.cwnd_bytes or flow.is_fast:
            flow.cwnd_bytes += p.fast_increase * scale * acked_bytes
            flow.is_fast = 1
            return
    else:
        flow.fast_bytes = 0
    flow.is_fast = 0
    share = (target_ps - delay_ps) / REFERENCE_RTT_PS
    flow.increase_bytes2 += p.proportional_increase_pkts * flow.payload_bytes * scale * share * acked_bytes


@register_jitable
def decrease(flow, p, now_ps, target_ps):
    """By how far the mean delay exceeds the target, once per round trip."""
    flow.is_fast, flow.fast_bytes = 0, 0
    if flow.mean_delay_ps > target_ps and now_ps - flow.last_decrease_ps > flow.base_rtt_ps:
        excess = (flow.mean_delay_ps - target_ps) / flow.mean_delay_ps
        flow.cwnd_bytes *= max(1 - p.decrease * excess, p.max_decrease)
        flow.last_decrease_ps = now_ps


@register_jitable
def adjust(flow, p, now_ps):
    """Apply what increases have collected; once per round trip a little more, which makes shares fair."""
    flow.cwnd_bytes += flow.increase_bytes2 / flow.cwnd_bytes
    if now_ps - flow.last_adjust_ps >= flow.base_rtt_ps:
        flow.cwnd_bytes += p.eta_pkts * flow.payload_bytes * bdp_bytes(flow) / REFERENCE_BDP_BYTES
        flow.last_adjust_ps = now_ps
    flow.increase_bytes2, flow.received_bytes = 0.0, 0


@register_jitable
def lose(flow, p, now_ps, in_flight_bytes):
    """A packet was lost: quick adapt if it is time for it, else one packet less."""
    flow.ignored_bytes += flow.payload_bytes
    flow.has_loss = 1
    if not quick_adapt(flow, p, now_ps, 1, 0.0, in_flight_bytes):
        flow.cwnd_bytes -= flow.payload_bytes
    bound(flow, p)
    flow.window_bytes = int(flow.cwnd_bytes)
