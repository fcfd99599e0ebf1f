"""Runs one queue pair of a congestion control by hand, through the addresses that the engine calls."""

from typing import Any

import numpy as np

from models.congestion.compiled import N_SCRATCH_WORD, STATUS_OK
from models.congestion.interface import EVENT, NEVER
from models.congestion.law import Law, find_law
from pdes.engine.foreign import call5


class HandlerError(Exception):
    """The handler's status said that it raised."""


class Driver:
    """flow, event, p: the records, as rows. Rates are clamped after each handler as the engine does it."""

    def __init__(self, law: Law | str, values: dict[str, Any] | None = None, **constants: int) -> None:
        self.law = find_law(law) if isinstance(law, str) else law
        self.handlers = self.law.compile()
        known = {
            "line_rate_bps": 100 * 10**9,
            "max_window_bytes": 52_000,
            "base_rtt_ps": 4_160_000,
            "payload_bytes": 1000,
        } | constants
        self.flows = self.law.make_flows(1)
        for name, value in known.items():
            self.flows[name] = value
        self.flows["rate_bps"], self.flows["window_bytes"] = known["line_rate_bps"], known["max_window_bytes"]
        self.values = self.law.parameter_values({}) | (values or {})
        self.parameters = self.law.make_parameters(self.values, [known["line_rate_bps"]])
        self.events, self.scratch = np.zeros(1, EVENT), np.zeros(N_SCRATCH_WORD, np.int64)
        self.flow: Any = self.flows[0]
        self.p: Any = self.parameters[0]
        self.call("start")

    def call(self, handler: str, **fields: Any) -> int:
        """Run a handler, if there is one, on an event of these fields; the event's retime."""
        self.events[:] = 0
        for name, value in fields.items():
            if isinstance(value, (list, tuple)):
                self.events[name][0, : len(value)] = value
            else:
                self.events[name] = value
        address = getattr(self.handlers, handler)
        if address:
            scratch = self.scratch.ctypes.data
            records = (rows.ctypes.data for rows in (self.flows, self.events, self.parameters))
            if call5(address, scratch, scratch + 8, *records) not in STATUS_OK:
                raise HandlerError(self.law.explain(handler, self.flow, self.events, self.p, int(self.scratch[1])))
        self.flow.rate_bps = min(max(int(self.flow.rate_bps), 1), int(self.flow.line_rate_bps))
        return int(self.events["retime"][0])

    def ack(self, acked_byte: int, next_byte: int, **fields: Any) -> int:
        """An ACK; a notification's handler first."""
        fields |= {"acked_byte": acked_byte, "next_byte": next_byte}
        if fields.get("is_cnp"):
            self.call("on_cnp", **fields)
        return self.call("on_ack", **fields)

    def run_timers(self, until_ps: int) -> None:
        """Fire every timer that is due before `until_ps`, in the engine's order."""
        while True:
            times = self.flow.timer_ps.tolist()
            first_ps = min(times)
            if first_ps >= until_ps:
                return
            timer = times.index(first_ps)
            self.flow.timer_ps[timer] = NEVER
            self.call("on_timer", now_ps=first_ps, timer=timer)

    def state(self) -> bytes:
        """Everything that the flow record holds."""
        return self.flows.tobytes()
