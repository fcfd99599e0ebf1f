"""The packet network in plain Python, written for reading: one global heap, one event for everything that happens.

The twin of `models.network` (style section 4). It shares the random numbers' definition and nothing else: no windows,
no lazy service, no pools. A transmission is two events: the port falls idle (kind 0), the packet arrives (kind 1).
Time, then kind, then source, then sequence is design R2's order; nodes need no place in it, since nothing that happens
at one node acts at another one at the same instant.
"""

from collections import deque
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from heapq import heappop, heappush
from math import ceil

from pdes.engine.rng import PURPOSE_ECN, uniform_plain

PORT_IDLE, ARRIVAL, POST = 0, 1, 3  # kinds of event; PORT_IDLE also stands for a pacing time that comes


@dataclass(frozen=True)
class TwinParameters:
    """What the network is told besides topology, paths and flows. ecn_min_bytes, ecn_max_bytes: one per port."""

    payload_bytes: int
    header_bytes: int
    ack_bytes: int
    seed: int
    ecn_min_bytes: list[int]
    ecn_max_bytes: list[int]
    ecn_max_probability: float
    dctcp_gain: float
    dctcp_rate_increase_bps: int
    dctcp_min_rate_bps: int


@dataclass(frozen=True)
class TwinFlow:
    """A message: what it is, on which queue pair, when it may start."""

    flow_id: int
    pair: int
    size_bytes: int
    start_ps: int


@dataclass
class FlowResult:
    """What became of a flow; -1 where it did not come to that."""

    start_ps: int = -1
    delivered_ps: int = -1
    finish_ps: int = -1
    ecn_marks: int = 0


@dataclass
class Packet:
    """Data or its acknowledgement. `number`: data: first byte; ACK: next byte expected."""

    pair: "Pair"
    is_ack: bool
    number: int
    size_bytes: int
    ends_flow: int  # flow id, -1: none
    marked: bool = False
    hop: int = 0  # ports of its path that it has used up


@dataclass
class Port:
    """One direction of a link at the node that sends on it."""

    port_id: int
    src: int
    dst: int
    rate_bps: int
    delay_ps: int
    idle_ps: int = 0
    acks: deque = field(default_factory=deque)
    data: deque = field(default_factory=deque)
    queued_bytes: int = 0
    n_sent: int = 0
    n_draw: int = 0
    tx_bytes: int = 0
    max_queue_bytes: int = 0
    ecn_marks: int = 0
    pairs: list["Pair"] = field(default_factory=list)  # of a NIC port, in the plan's order
    turn: int = -1  # whose turn was last


@dataclass
class Pair:
    """A queue pair: sender, receiver and the congestion control of the sender."""

    pair_id: int
    data_path: list[int]
    ack_path: list[int]
    line_rate_bps: int
    rate_bps: int
    window_bytes: int
    max_window_bytes: int
    ends: list[tuple[int, int]] = field(default_factory=list)  # (last byte + 1, flow id) of messages not sent whole
    unacked: deque = field(default_factory=deque)  # the same of messages not acknowledged whole
    posted: int = 0
    sent: int = 0
    acked: int = 0
    received: int = 0
    next_send_ps: int = 0
    alpha: float = 1.0
    window_ends_at: int = 0
    packets_in_window: int = 0
    marks_in_window: int = 0
    in_cut: bool = False
    cut_ends_at: int = 0


@cache
def wire_ps(size_bytes: int, rate_bps: int) -> int:
    """Serialisation time, rounded up to whole ps."""
    return ceil(Fraction(size_bytes * 8 * 10**12, rate_bps))


class NetworkTwin:
    """One simulation: `run` it once, then read `flows` (by id) and `ports`."""

    def __init__(self, topology, paths, flows: list[TwinFlow], windows, parameters: TwinParameters) -> None:
        self.p = parameters
        self.is_switch = [bool(x) for x in topology.is_switch]
        columns = (topology.port_src, topology.port_dst, topology.port_rate_bps, topology.port_delay_ps)
        self.ports = [Port(i, *row) for i, row in enumerate(zip(*(c.tolist() for c in columns), strict=True))]
        self.pairs = []
        for i, window in enumerate(windows):
            data, ack = paths.row(2 * i).tolist(), paths.row(2 * i + 1).tolist()
            rate_bps = self.ports[data[0]].rate_bps
            self.pairs.append(Pair(i, data, ack, rate_bps, rate_bps, int(window), int(window)))
            self.ports[data[0]].pairs.append(self.pairs[-1])
        self.flows = {flow.flow_id: FlowResult() for flow in flows}
        self.n_hop = 0
        self.heap: list[tuple] = []
        self.n_pushed = 0
        for flow in flows:
            self.push(flow.start_ps, POST, flow.flow_id, 0, flow)

    def push(self, time_ps: int, kind: int, source: int, sequence: int, what) -> None:
        self.n_pushed += 1
        heappush(self.heap, (time_ps, kind, source, sequence, self.n_pushed, what))

    def run(self, until_ps: int | None = None) -> "NetworkTwin":
        """Run every event up to and with until_ps."""
        while self.heap and (until_ps is None or self.heap[0][0] <= until_ps):
            now_ps, kind, source, _, _, what = heappop(self.heap)
            if kind == PORT_IDLE:
                self.send_if_idle(self.ports[source], now_ps)
            elif kind == POST:
                self.post(what, now_ps)
            elif self.is_switch[self.ports[source].dst]:
                self.forward(what, now_ps)
            else:
                self.receive(what, now_ps)
        return self

    # Ports.

    def transmit(self, port: Port, packet: Packet, now_ps: int) -> None:
        """The port is idle: the packet leaves now."""
        assert port.idle_ps <= now_ps and self.ports[self.path_of(packet)[packet.hop]] is port
        port.idle_ps = now_ps + wire_ps(packet.size_bytes, port.rate_bps)
        port.tx_bytes += packet.size_bytes
        port.n_sent += 1
        self.n_hop += 1
        packet.hop += 1
        self.push(port.idle_ps, PORT_IDLE, port.port_id, 0, None)
        self.push(port.idle_ps + port.delay_ps, ARRIVAL, port.port_id, port.n_sent, packet)

    def path_of(self, packet: Packet) -> list[int]:
        return packet.pair.ack_path if packet.is_ack else packet.pair.data_path

    def send_if_idle(self, port: Port, now_ps: int) -> None:
        """Start the next packet of an idle port, if one waits and may go."""
        if port.idle_ps > now_ps:
            return
        if port.acks:
            self.transmit(port, port.acks.popleft(), now_ps)
        elif self.is_switch[port.src]:
            if port.data:
                packet = port.data.popleft()
                port.queued_bytes -= packet.size_bytes
                if self.to_be_marked(port):
                    packet.marked = True
                    port.ecn_marks += 1
                self.transmit(port, packet, now_ps)
        else:
            self.send_data(port, now_ps)

    def to_be_marked(self, port: Port) -> bool:
        """RED on the bytes that stay behind the packet that leaves."""
        low, high = self.p.ecn_min_bytes[port.port_id], self.p.ecn_max_bytes[port.port_id]
        if port.queued_bytes <= low:
            return False
        if port.queued_bytes > high:
            return True
        port.n_draw += 1
        probability = self.p.ecn_max_probability * (port.queued_bytes - low) / (high - low)
        return uniform_plain(self.p.seed, port.port_id, PURPOSE_ECN, port.n_draw - 1) < probability

    def forward(self, packet: Packet, now_ps: int) -> None:
        """A packet is at a switch: to its next port."""
        port = self.ports[self.path_of(packet)[packet.hop]]
        if port.idle_ps <= now_ps:  # what had waited would have started at this instant or before: kind 0 is first
            assert not port.acks and not port.data
            self.transmit(port, packet, now_ps)
        elif packet.is_ack:
            port.acks.append(packet)
        else:
            port.data.append(packet)
            port.queued_bytes += packet.size_bytes
            port.max_queue_bytes = max(port.max_queue_bytes, port.queued_bytes)

    # Hosts.

    def post(self, flow: TwinFlow, now_ps: int) -> None:
        """A flow starts; its NIC may send at once, before the next flow of the same instant starts."""
        pair = self.pairs[flow.pair]
        pair.posted += flow.size_bytes
        pair.ends.append((pair.posted, flow.flow_id))
        pair.unacked.append((pair.posted, flow.flow_id))
        self.flows[flow.flow_id].start_ps = now_ps
        self.send_if_idle(self.ports[pair.data_path[0]], now_ps)

    def send_data(self, port: Port, now_ps: int) -> None:
        """Round robin over the pairs with bytes, room and their time come; else look again at the first such time."""
        able = [q.sent < q.posted and q.sent - q.acked < q.window_bytes for q in port.pairs]
        n = len(port.pairs)
        for i in [(port.turn + 1 + k) % n for k in range(n)]:
            if able[i] and port.pairs[i].next_send_ps <= now_ps:
                port.turn = i
                self.transmit(port, self.next_data(port.pairs[i], now_ps), now_ps)
                return
        if any(able):
            soon_ps = min(q.next_send_ps for q, a in zip(port.pairs, able, strict=True) if a)
            self.push(soon_ps, PORT_IDLE, port.port_id, 0, None)

    def next_data(self, pair: Pair, now_ps: int) -> Packet:
        """The pair's next bytes as a packet; the one after it is paced."""
        end, flow_id = pair.ends[0]
        first = pair.sent
        pair.sent = min(end, first + self.p.payload_bytes)
        if pair.sent == end:
            pair.ends.pop(0)
        size_bytes = pair.sent - first + self.p.header_bytes
        pair.next_send_ps = now_ps + wire_ps(size_bytes, pair.rate_bps)
        return Packet(pair, False, first, size_bytes, flow_id if pair.sent == end else -1)

    def receive(self, packet: Packet, now_ps: int) -> None:
        """A packet is at the host where its path ends."""
        pair = packet.pair
        assert packet.hop == len(self.path_of(packet))
        if packet.is_ack:
            self.take_ack(pair, packet, now_ps)
            self.send_if_idle(self.ports[pair.data_path[0]], now_ps)
            return
        assert packet.number == pair.received, "out of order"
        pair.received += packet.size_bytes - self.p.header_bytes
        if packet.ends_flow >= 0:
            self.flows[packet.ends_flow].delivered_ps = now_ps
        port = self.ports[pair.ack_path[0]]
        port.acks.append(Packet(pair, True, pair.received, self.p.ack_bytes, -1, packet.marked))
        self.send_if_idle(port, now_ps)

    def take_ack(self, pair: Pair, packet: Packet, now_ps: int) -> None:
        """The window moves, the oldest flow may be done, the congestion control learns."""
        pair.acked = packet.number
        end, flow_id = pair.unacked[0]
        self.flows[flow_id].ecn_marks += packet.marked
        if end <= pair.acked:
            pair.unacked.popleft()
            self.flows[flow_id].finish_ps = now_ps
        rate_bps = self.dctcp(pair, packet.marked)
        if rate_bps != pair.rate_bps:
            pair.rate_bps = rate_bps
            pair.window_bytes = max(1, pair.max_window_bytes * rate_bps // pair.line_rate_bps)

    def dctcp(self, pair: Pair, marked: bool) -> int:
        """The pair's rate after one ACK (Alizadeh et al. 2010, in the HPCC repository's form)."""
        payload = self.p.payload_bytes
        pair.marks_in_window += marked
        window_is_over = pair.acked > pair.window_ends_at
        if window_is_over and pair.window_ends_at == 0:  # the first ACK: its window starts, alpha stays 1
            pair.packets_in_window = pair.sent // payload + 1
        elif window_is_over:
            share = min(1.0, pair.marks_in_window / pair.packets_in_window)
            pair.alpha = (1.0 - self.p.dctcp_gain) * pair.alpha + self.p.dctcp_gain * share
            pair.marks_in_window = 0
            pair.packets_in_window = (pair.sent - pair.acked) // payload + 1
        if window_is_over:
            pair.window_ends_at = pair.sent
        if pair.in_cut and pair.acked > pair.cut_ends_at:
            pair.in_cut = False
        rate_bps = pair.rate_bps
        if marked and not pair.in_cut:
            least_bps = min(self.p.dctcp_min_rate_bps, pair.line_rate_bps)
            rate_bps = max(least_bps, int(rate_bps * (1.0 - pair.alpha / 2.0)))
            pair.in_cut, pair.cut_ends_at = True, pair.sent
        if window_is_over and not pair.in_cut:
            rate_bps = min(pair.line_rate_bps, rate_bps + self.p.dctcp_rate_increase_bps)
        return rate_bps
