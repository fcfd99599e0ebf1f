"""A window of fixed size and no reaction to anything: the yardstick of loss-free fabrics."""


class FixedWindow:
    """At most [network] window bytes in flight, at line rate. Source: what ASTRA-sim's CC_MODE 12 amounts to."""

    window = "max-bdp"
    controls_window = True

    @staticmethod
    def start(flow, event, p):
        """Both stay as they are for ever."""
        flow.rate_bps = flow.line_rate_bps
        flow.window_bytes = flow.max_window_bytes
