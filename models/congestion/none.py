"""No congestion control: every queue pair sends at line rate."""


class LineRate:
    """Line rate, for ever. With a window this is a fixed window; without, what PFC alone makes of a network."""

    @staticmethod
    def start(flow, event, p):
        """Nothing ever changes the rate that the engine starts with."""
        flow.rate_bps = flow.line_rate_bps
