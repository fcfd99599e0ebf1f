"""Where data arrives. What is in order is taken, a duplicate is acknowledged again.

Go-back-N: a hole is asked for. Selective repeat: what comes early is kept, and the stretch around it is named.
"""

from typing import Any

from models.network.state.parameters import SELECTIVE_REPEAT, TransportParameters
from reference.network_twin.packet import ACK, DATA, Packet


class Receiver:
    """The receiving end of a queue pair."""

    def __init__(self, pair: Any, run: Any) -> None:
        self.pair, self.run = pair, run
        self.transport = run.parameters.transport or TransportParameters()
        self.expected = 0
        self.n_unacked = 0  # packets in order since the last acknowledgement
        self.asked: tuple[int, int] | None = None  # the last NACK: its byte, and until when it is not repeated
        self.next_cnp_ps = 0
        self.is_selective = self.transport.recovery == SELECTIVE_REPEAT
        self.early: dict[int, tuple[int, int]] = {}  # first byte of a packet kept -> (its end, the flow that it ends)

    def take(self, packet: Packet, now_ps: int) -> Packet | None:
        """Take a data packet; the answer, if there is one."""
        assert packet.kind == DATA
        payload = packet.size_bytes - self.run.parameters.header_bytes
        is_hole = packet.number > self.expected
        if packet.number == self.expected:
            fills_hole = bool(self.early)
            self.go_on(self.expected + payload, packet.ends_flow, now_ps)
            while self.expected in self.early:
                self.go_on(*self.early.pop(self.expected), now_ps)
            self.n_unacked += 1
            is_due = (
                self.n_unacked >= self.transport.ack_every or packet.ends_flow >= 0 or packet.is_marked or fills_hole
            )
        else:
            assert is_hole or packet.number + payload <= self.expected, "packets are always cut at the same bytes"
            is_due = not is_hole or self.is_selective or self.asks(now_ps)
            if is_hole and self.is_selective:
                self.early[packet.number] = (packet.number + payload, packet.ends_flow)
        if not is_due:
            return None
        self.n_unacked = 0
        p = self.run.parameters
        answer = self.pair.packet(ACK, p.ack_bytes, 0, self.expected)
        answer.is_nack, answer.held = is_hole, self.around(packet.number) if is_hole and self.is_selective else None
        answer.sent_ps, answer.hops, answer.pint_code = packet.sent_ps, packet.hops, packet.pint_code
        answer.is_marked = packet.is_marked
        if packet.is_marked and now_ps >= self.next_cnp_ps:
            answer.is_cnp = True
            self.next_cnp_ps = now_ps + self.transport.cnp_interval_ps
        return answer

    def go_on(self, end: int, ends_flow: int, now_ps: int) -> None:
        """The bytes up to an end are in order."""
        self.expected = end
        if ends_flow >= 0:
            self.run.flows[ends_flow].delivered_ps = now_ps

    def around(self, number: int) -> tuple[int, int]:
        """The longest stretch of bytes kept with a packet in it."""
        first, end, ends = number, number, {end: first for first, (end, _) in self.early.items()}
        while first in ends:
            first = ends[first]
        while end in self.early:
            end = self.early[end][0]
        return first, end

    def asks(self, now_ps: int) -> bool:
        """Whether the hole is asked for: once, and for the same byte again only after an interval."""
        if self.asked is not None and self.asked[0] == self.expected and now_ps < self.asked[1]:
            return False
        self.asked = (self.expected, now_ps + self.transport.nack_interval_ps)
        return True
