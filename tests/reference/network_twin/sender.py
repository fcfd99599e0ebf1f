"""The sending end of a queue pair: messages, window, pace, resends, timers, and whom the congestion control hears."""

import zlib
from collections import deque
from typing import Any

from models.congestion.interface import N_HOP, N_TIMER, NEVER
from models.network.state.parameters import SELECTIVE_REPEAT, WINDOW_FOLLOWS_RATE
from reference.network_twin.control import Control
from reference.network_twin.events import TIMER
from reference.network_twin.missing import Missing
from reference.network_twin.packet import DATA, Packet, wire_ps

UNBOUNDED = 2**62


class Sender:
    """A queue pair's sender. row: its place by (sending port, plan's order), which is the order of timers."""

    def __init__(self, pair: Any, run: Any, port: Any, row: int, window_bytes: int, rtt_ps: int, queue: int) -> None:
        self.pair, self.run, self.port, self.row, self.queue = pair, run, port, row, queue
        p = run.parameters
        self.transport = p.transport
        self.all_ends: list[tuple[int, int]] = []  # (last byte + 1, flow id) of every message posted
        self.unfinished: deque[tuple[int, int]] = deque()
        self.posted = self.sent = self.acked = self.highest = 0  # bytes; sent: the next byte to send
        self.next_send_ps = self.last_bytes = 0
        self.deadline_ps: int | None = None  # of the retransmission timeout
        self.wait_ps = 0 if p.transport is None else p.transport.timeout_ps
        is_selective = p.transport is not None and p.transport.recovery == SELECTIVE_REPEAT
        self.missing = Missing(p.transport.reorder_bytes) if is_selective else None
        self.line_rate_bps = port.rate_bps  # of the start, whatever becomes of the link
        self.max_window_bytes = window_bytes
        self.window_bytes = window_bytes or UNBOUNDED
        self.control = Control(
            p.law, p.law_values, rate_bps=port.rate_bps, window_bytes=window_bytes, line_rate_bps=port.rate_bps,
            max_window_bytes=window_bytes, base_rtt_ps=rtt_ps, payload_bytes=p.payload_bytes,
        )  # fmt: skip
        self.rate_bps = port.rate_bps
        self.pushed: set[tuple[int, int]] = set()  # (timer, time) of the control's timers in the heap
        self.control.call("start")
        self.obey_control()

    @property
    def is_busy(self) -> bool:
        """Whether something is not acknowledged."""
        return self.acked < self.posted

    # Sending.

    def post(self, flow_id: int, size_bytes: int) -> None:
        """A message, or a part of one, joins the stream."""
        self.posted += size_bytes
        self.all_ends.append((self.posted, flow_id))
        self.unfinished.append((self.posted, flow_id))

    def may_send(self) -> bool:
        """Whether there are bytes to send and room in the window, or something to send again whatever the window."""
        is_open = self.sent < self.posted and self.sent - self.acked < self.window_bytes
        return is_open or (self.missing is not None and self.missing.first() is not None)

    def make_packet(self, now_ps: int) -> Packet:
        """A packet that is missing, or the next bytes of the message that they belong to; the one after it is paced."""
        missing = self.missing.take() if self.missing is not None else None
        first, end, ends_flow = missing or self.cut()
        self.last_bytes = end - first + self.run.parameters.header_bytes
        self.run.sent_bytes += end - first
        self.run.flows[self.unfinished[0][1]].resent_bytes += max(0, min(end, self.highest) - first)
        self.highest = max(self.highest, end)
        self.next_send_ps = now_ps + wire_ps(self.last_bytes, self.rate_bps)
        if self.transport is not None and self.deadline_ps is None:
            self.set_deadline(now_ps)
        packet = self.pair.packet(DATA, self.last_bytes, self.queue, first)
        packet.ends_flow, packet.sent_ps = ends_flow, now_ps
        return packet

    def cut(self) -> tuple[int, int, int]:
        """The next bytes of the stream as (first, end, flow that they end or -1)."""
        end, flow_id = next(message for message in self.all_ends if message[0] > self.sent)
        first, self.sent = self.sent, min(end, self.sent + self.run.parameters.payload_bytes)
        out = first, self.sent, flow_id if self.sent == end else -1
        if self.missing is not None:
            self.missing.sent.append(out)
        return out

    # Acknowledgements.

    def take_ack(self, ack: Packet, now_ps: int) -> None:
        """The window moves, messages finish, lost bytes are to be sent again, the congestion control learns."""
        before = self.acked
        self.acked = max(before, ack.number)
        if self.unfinished:
            self.run.flows[self.unfinished[0][1]].ecn_marks += ack.is_marked
        while self.unfinished and self.unfinished[0][0] <= self.acked:
            self.run.flows[self.unfinished.popleft()[1]].finish_ps = now_ps
        goes_back = ack.is_nack and ack.number >= before and self.missing is None
        if self.missing is not None:
            self.missing.learn(self.acked, self.sent, ack.held)
        self.sent = self.acked if goes_back else max(self.sent, self.acked)
        if self.transport is not None and self.acked > before:
            self.wait_ps = self.transport.timeout_ps
            if self.sent == self.acked and not goes_back:
                self.deadline_ps = None  # nothing is under way
            else:
                self.set_deadline(now_ps)
        fields = {
            "now_ps": now_ps, "acked_byte": ack.number, "newly_acked_bytes": self.acked - before,
            "next_byte": self.sent, "is_marked": int(ack.is_marked), "is_cnp": int(ack.is_cnp),
            "is_nack": int(ack.is_nack), **self.telemetry(ack, now_ps),
        }  # fmt: skip
        if ack.is_cnp:
            self.control.call("on_cnp", **fields)
        self.control.call("on_ack", **fields)
        self.obey_control()

    def telemetry(self, ack: Packet, now_ps: int) -> dict[str, Any]:
        """What the acknowledged packet has carried, of what the control needs."""
        needs, out = self.run.parameters.law.needs, {}
        if needs:
            out["rtt_ps"] = now_ps - ack.sent_ps
        if "pint" in needs:
            out["pint_code"] = ack.pint_code
        if "int" in needs:
            hops = ack.hops[:N_HOP]
            out["n_hop"], out["path_id"] = len(hops), zlib.crc32(repr([hop[4] for hop in ack.hops]).encode())
            for i, name in enumerate(("hop_time_ps", "hop_tx_bytes", "hop_queue_bytes", "hop_rate_bps")):
                out[name] = tuple(hop[i] for hop in hops) + (0,) * (N_HOP - len(hops))
        return out

    # The congestion control and timers.

    def obey_control(self) -> None:
        """Take over rate, window and timers; the control is told what became of its rate."""
        p, rate_bps = self.run.parameters, self.control.rate_bps
        self.control.flow.rate_bps = rate_bps
        if self.control.is_retimed and self.last_bytes:
            gap_ps, old_gap_ps = (wire_ps(self.last_bytes, rate) for rate in (rate_bps, self.rate_bps))
            self.next_send_ps += gap_ps - old_gap_ps
        self.control.is_retimed = False
        if p.law.controls_window:
            self.window_bytes = max(0, self.control.flow.window_bytes) or UNBOUNDED
        elif rate_bps != self.rate_bps and self.max_window_bytes and p.window_mode == WINDOW_FOLLOWS_RATE:
            self.window_bytes = max(1, self.max_window_bytes * rate_bps // self.line_rate_bps)
        self.rate_bps = rate_bps
        for timer in range(N_TIMER):
            time_ps = self.control.flow.timer_ps[timer]
            if time_ps < NEVER and (timer, time_ps) not in self.pushed:
                self.pushed.add((timer, time_ps))
                self.run.events.push(time_ps, TIMER, self.row, timer, lambda at_ps, k=timer: self.fire(k, at_ps))

    def fire(self, timer: int, now_ps: int) -> None:
        """A timer of the control, unless it has been set to another time since."""
        self.pushed.discard((timer, now_ps))
        if self.control.flow.timer_ps[timer] != now_ps:
            return
        if self.is_busy:
            self.port.node.note_event(now_ps)
        self.control.flow.timer_ps[timer] = NEVER
        self.control.call("on_timer", now_ps=now_ps, timer=timer, acked_byte=self.acked, next_byte=self.sent)
        self.obey_control()
        self.port.look(now_ps)

    def set_deadline(self, now_ps: int) -> None:
        """Expect an acknowledgement of something new by then."""
        self.deadline_ps = now_ps + self.wait_ps
        self.run.events.push(self.deadline_ps, TIMER, self.row, N_TIMER, self.time_out)

    def time_out(self, now_ps: int) -> None:
        """Unless something came meanwhile: send again what is not acknowledged, and wait twice as long."""
        if self.deadline_ps != now_ps:
            return
        self.deadline_ps = None
        if self.sent == self.acked:
            return  # nothing is under way: all was to be sent again, and could not be
        self.port.node.note_event(now_ps)
        self.run.n_timeout += 1
        self.wait_ps = min(2 * self.wait_ps, self.transport.max_timeout_ps)
        if self.missing is not None:
            self.missing.give_up(self.sent)
        else:
            self.sent = self.acked
        self.set_deadline(now_ps)
        self.control.call("on_timeout", now_ps=now_ps, acked_byte=self.acked, next_byte=self.sent)
        self.obey_control()
        self.port.look(now_ps)
