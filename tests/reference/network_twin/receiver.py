"""Where data arrives: go-back-N. What is in order is taken, a hole is asked for, a duplicate is acknowledged again."""

from typing import Any

from models.network.parameters import TransportParameters
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

    def take(self, packet: Packet, now_ps: int) -> Packet | None:
        """Take a data packet; the answer, if there is one."""
        assert packet.kind == DATA
        payload = packet.size_bytes - self.run.parameters.header_bytes
        is_hole = packet.number > self.expected
        if packet.number == self.expected:
            self.expected += payload
            if packet.ends_flow >= 0:
                self.run.flows[packet.ends_flow].delivered_ps = now_ps
            self.n_unacked += 1
            is_due = self.n_unacked >= self.transport.ack_every or packet.ends_flow >= 0 or packet.is_marked
        else:
            assert is_hole or packet.number + payload <= self.expected, "packets are always cut at the same bytes"
            is_due = not is_hole or self.asks(now_ps)
        if not is_due:
            return None
        self.n_unacked = 0
        p = self.run.parameters
        answer = Packet(ACK, p.ack_bytes, 0, list(self.pair.ack_path), self.pair, self.expected, is_nack=is_hole)
        answer.sent_ps, answer.hops, answer.pint_code = packet.sent_ps, packet.hops, packet.pint_code
        answer.is_marked = packet.is_marked
        if packet.is_marked and now_ps >= self.next_cnp_ps:
            answer.is_cnp = True
            self.next_cnp_ps = now_ps + self.transport.cnp_interval_ps
        return answer

    def asks(self, now_ps: int) -> bool:
        """Whether the hole is asked for: once, and for the same byte again only after an interval."""
        if self.asked is not None and self.asked[0] == self.expected and now_ps < self.asked[1]:
            return False
        self.asked = (self.expected, now_ps + self.transport.nack_interval_ps)
        return True
