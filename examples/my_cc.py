"""A congestion control of one's own: AIMD on ECN marks. In a config: congestion_control = "my_cc.py:Aimd"."""

from pdes import scaled


class Aimd:
    """Additive increase per round trip, multiplicative decrease at most once per round trip."""

    window = "max-bdp"
    ecn_at_100g = (100_000, 400_000, 0.2)
    parameters = {"cut": 0.3, "increase_bps": scaled("1Gbps"), "min_rate_bps": "100Mbps"}
    state = {"round_end": 0, "cut_end": 0}
    sequences = ("round_end", "cut_end")  # bytes of the stream: what fast-forwarding has to move on

    @staticmethod
    def on_ack(flow, event, p):
        if event.acked_byte > flow.round_end:  # what was on its way when the round began is acknowledged
            flow.round_end = event.next_byte
            flow.rate_bps += p.increase_bps
        if event.is_marked and event.acked_byte > flow.cut_end:
            flow.cut_end = event.next_byte
            flow.rate_bps = max(p.min_rate_bps, int(flow.rate_bps * (1 - p.cut)))
