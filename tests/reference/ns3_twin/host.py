"""A host: its NIC with queue pairs in turn, pacing and windows; the receiver with go-back-N; the sender's ACKs."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reference.ns3_twin.case import Ns3Config, Ns3Flow
from reference.ns3_twin.event_queue import NIC_WAKES, WIRE
from reference.ns3_twin.quantities import wire_ns
from reference.ns3_twin.wire import Kind, Node, Packet, Port, Wires

if TYPE_CHECKING:
    from reference.ns3_twin.control import Control

NACK_INTERVAL_NS = 500_000  # the same NACK again only after this time
ACK_QUEUE = 3  # the priority whose pause stops a NIC's ACKs, unless they ignore pauses
MASK_64 = (1 << 64) - 1


@dataclass(slots=True, eq=False)
class QueuePair:
    """One flow: sender, receiver, and what is reported of it. Times in ns; -1: not yet."""

    i_flow: int
    flow: Ns3Flow
    data_path: list[Port]
    ack_path: list[Port]
    line_rate_bps: int
    window_bytes: int  # 0: none
    base_rtt_ns: int
    control: "Control" = field(init=False)
    rate_bps: int = field(init=False)
    next_byte: int = 0  # to send
    acked_bytes: int = 0
    next_send_ns: int = 0  # pacing
    last_wire_bytes: int = 0  # size of the packet that the pacing is about
    expected_byte: int = 0  # receiver
    nack_again_ns: int = 0
    last_nack: int = 0
    delivered_ns: int = -1
    finish_ns: int = -1
    sent_bytes: int = 0  # payload, resends too
    marked_acks: int = 0
    nacks: int = 0

    def __post_init__(self) -> None:
        self.rate_bps = self.line_rate_bps

    @property
    def nic(self) -> Port:
        """The port that its data leaves by."""
        return self.data_path[0]

    @property
    def is_acked(self) -> bool:
        """Whether all bytes are acknowledged."""
        return self.acked_bytes >= self.flow.size_bytes

    @property
    def has_bytes(self) -> bool:
        """Whether bytes wait to be sent, resends too."""
        return self.next_byte < self.flow.size_bytes

    def reset_receiver(self) -> None:
        """Forget the receiver: a late duplicate finds a new one."""
        self.expected_byte = self.nack_again_ns = self.last_nack = 0


class Host(Node):
    """One NIC. ACKs go before data and wait for nothing but the wire and a pause of their priority.

    forgets_receivers: when a sender is done, ns-3 drops its receiver at once, on the other host. No message could do
    that: an engine without delay-free dependencies between hosts (design R12) keeps them.
    """

    def __init__(self, config: Ns3Config, wires: Wires, forgets_receivers: bool) -> None:
        self.config, self.wires, self.events = config, wires, wires.events
        self.forgets_receivers = forgets_receivers

    # Sending.

    def start(self, pair: QueuePair) -> None:
        """A flow starts: its queue pair joins the NIC's."""
        pair.nic.pairs.append(pair)
        pair.next_send_ns = self.events.now_ns
        self.serve(pair.nic)

    def serve(self, port: Port) -> None:
        if port.is_busy:
            return
        if port.acks and (self.config.ack_ignores_pause or not port.is_paused[ACK_QUEUE]):
            self.wires.transmit(port, port.acks.popleft())
            return
        pair = self._next_pair(port)
        if pair is not None:
            self._send_data(port, pair)
        elif port.wake_event is None:
            self._sleep(port)

    def _next_pair(self, port: Port) -> QueuePair | None:
        """The first pair in turn with bytes, leave, room and its time come.

        Only if a finished pair stands before it in turn, that one goes from the list, and all finished ones behind.
        The turn stays a place in the list, whoever moves there.
        """
        pairs, n = port.pairs, len(port.pairs)
        chosen, first_done = None, n
        for k in range(port.turn + 1, port.turn + 1 + n):
            pair = pairs[k % n]
            if pair.has_bytes and not port.is_paused[pair.flow.priority] and not self.is_window_full(pair):
                if pair.next_send_ns <= self.events.now_ns:
                    chosen = pair
                    break
            elif pair.is_acked:
                first_done = min(first_done, k % n)
        if first_done < n:
            port.pairs = pairs[:first_done] + [pair for pair in pairs[first_done + 1 :] if not pair.is_acked]
        if chosen is not None:
            port.turn = port.pairs.index(chosen)
        return chosen

    def is_window_full(self, pair: QueuePair) -> bool:
        """Whether a window's worth is unacknowledged. More acknowledged than sent counts as full: ns-3 is unsigned."""
        window_bytes = pair.window_bytes
        if window_bytes == 0:
            return False
        if self.config.window_follows_rate:
            window_bytes = max(window_bytes * pair.rate_bps // pair.line_rate_bps, 1)
        return (pair.next_byte - pair.acked_bytes) & MASK_64 >= window_bytes

    def _send_data(self, port: Port, pair: QueuePair) -> None:
        payload_bytes = min(self.config.payload_bytes, pair.flow.size_bytes - pair.next_byte)
        size_bytes = payload_bytes + self.config.data_header_bytes
        packet = Packet(Kind.DATA, size_bytes, pair.flow.priority, pair.next_byte, pair, pair.data_path, payload_bytes)
        packet.sent_ns = self.events.now_ns
        pair.next_byte += payload_bytes
        pair.sent_bytes += payload_bytes
        pair.last_wire_bytes = size_bytes
        self.wires.transmit(port, packet)
        pace_bps = pair.rate_bps if self.config.is_paced_by_rate else pair.line_rate_bps
        pair.next_send_ns = self.events.now_ns + wire_ns(size_bytes, pace_bps)

    def _sleep(self, port: Port) -> None:
        """Set the NIC's one timer to the first pacing time; a pair that waits for something else hides the others."""
        soon_ns = min((pair.next_send_ns for pair in port.pairs if pair.has_bytes), default=0)
        if soon_ns > self.events.now_ns:
            self._set_timer(port, soon_ns)

    def _set_timer(self, port: Port, wake_ns: int) -> None:
        port.wake_ns = wake_ns
        port.wake_event = self.events.push(wake_ns, (WIRE, port.port_id, NIC_WAKES), self._wake, port)

    def _wake(self, port: Port) -> None:
        port.wake_event = None
        self.serve(port)

    def retime(self, pair: QueuePair, rate_bps: int) -> None:
        """Change a pair's rate as of its last packet; a timer that would now come too late comes earlier."""
        gap_ns = wire_ns(pair.last_wire_bytes, rate_bps) - wire_ns(pair.last_wire_bytes, pair.rate_bps)
        pair.next_send_ns += gap_ns
        pair.rate_bps = rate_bps
        port = pair.nic
        if port.wake_event is not None and pair.next_send_ns < port.wake_ns:
            self.events.cancel(port.wake_event)
            self._set_timer(port, max(pair.next_send_ns, self.events.now_ns))

    # Receiving.

    def arrive(self, port: Port, packet: Packet) -> None:
        assert packet.pair is not None
        if packet.kind is Kind.DATA:
            self._take_data(packet.pair, packet)
        else:
            self._take_ack(packet.pair, packet)

    def _take_data(self, pair: QueuePair, packet: Packet) -> None:
        """Answer data: in order with an ACK, beyond a gap with a NACK, already known with silence."""
        answer = None
        if packet.number == pair.expected_byte:
            pair.expected_byte += packet.payload_bytes
            if pair.expected_byte == pair.flow.size_bytes and pair.delivered_ns < 0:
                pair.delivered_ns = self.events.now_ns
            in_chunk = pair.expected_byte % self.config.chunk_bytes
            if pair.expected_byte >= self.config.ack_interval_bytes or in_chunk == 0:
                answer = Kind.ACK
        elif packet.number > pair.expected_byte and self._may_nack(pair):
            pair.nack_again_ns, pair.last_nack = self.events.now_ns + NACK_INTERVAL_NS, pair.expected_byte
            answer = Kind.NACK
            if self.config.back_to_zero:
                pair.expected_byte -= pair.expected_byte % self.config.chunk_bytes
        if answer is not None:
            self._answer(pair, answer, packet)

    def _may_nack(self, pair: QueuePair) -> bool:
        return self.events.now_ns >= pair.nack_again_ns or pair.last_nack != pair.expected_byte

    def _answer(self, pair: QueuePair, kind: Kind, data: Packet) -> None:
        """An ACK or NACK with the data's mark, time stamp and telemetry, behind the NIC's other ACKs."""
        answer = Packet(kind, self.config.ack_bytes, pair.flow.priority, pair.expected_byte, pair, pair.ack_path)
        answer.is_marked, answer.sent_ns, answer.telemetry = data.is_marked, data.sent_ns, data.telemetry
        port = pair.ack_path[0]
        port.acks.append(answer)
        self.serve(port)

    def _take_ack(self, pair: QueuePair, packet: Packet) -> None:
        """Move the window, finish the flow, go back on a NACK, tell the congestion control, send on."""
        if pair.finish_ns >= 0:
            return
        acked_bytes = packet.number
        if self.config.back_to_zero:
            acked_bytes -= acked_bytes % self.config.chunk_bytes
        pair.marked_acks += packet.is_marked
        pair.nacks += packet.kind is Kind.NACK
        pair.acked_bytes = max(pair.acked_bytes, acked_bytes)
        if pair.is_acked:
            pair.finish_ns = self.events.now_ns
            pair.control.stop()
            if self.forgets_receivers:
                pair.reset_receiver()
        if packet.kind is Kind.NACK:
            pair.next_byte = pair.acked_bytes
        pair.control.take_ack(packet)
        self.serve(pair.nic)
