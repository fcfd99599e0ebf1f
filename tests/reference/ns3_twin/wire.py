"""Packets, ports and links: a packet leaves, the port falls idle, the packet arrives, or is lost on the way."""

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from reference.ns3_twin.draws import Draws
from reference.ns3_twin.event_queue import ARRIVAL, PORT_IDLE, WIRE, EventQueue
from reference.ns3_twin.quantities import wire_ns

if TYPE_CHECKING:
    from reference.ns3_twin.host import QueuePair

N_PRIORITY = 8


class Kind(Enum):
    """What a packet is."""

    DATA = 0
    ACK = 1
    NACK = 2
    PAUSE = 3
    RESUME = 4


IntRecord = tuple[int, int, int, int]
"""Telemetry of one hop: (time in ns, 24 bits; bytes sent and bytes queued, in ticks, 20 and 17 bits; rate in bit/s)."""


@dataclass(slots=True, eq=False)
class Packet:
    """A packet on its way. number: of data its first byte, of an ACK or NACK the next byte expected."""

    kind: Kind
    size_bytes: int
    priority: int  # the queue it takes in switches; of a pause or resume the one it is about
    number: int = 0
    pair: "QueuePair | None" = None
    path: list["Port"] = field(default_factory=list)
    payload_bytes: int = 0
    hop: int = 1  # path[hop] is the port that it is to leave by next
    is_marked: bool = False  # data: congestion experienced; ACK: the data was marked
    sent_ns: int = 0
    telemetry: tuple[IntRecord, ...] = ()
    came_by: "Port | None" = None  # the port of the switch where it came in


class Node(ABC):
    """A host or a switch: what happens at its ports."""

    @abstractmethod
    def serve(self, port: "Port") -> None:
        """Let a port send its next packet, if it is idle and has one that may go."""

    @abstractmethod
    def arrive(self, port: "Port", packet: Packet) -> None:
        """Take a packet, no PFC frame, that has come in at `port`."""


@dataclass(slots=True, eq=False)
class Port:
    """One end of a link: it sends to `peer` and takes what `peer` sends. Counters are about what it sends."""

    port_id: int  # place among all directions of links, sorted by (receiving node, sending node)
    node_id: int
    peer_id: int
    i_link: int
    rate_bps: int
    delay_ns: int
    error_rate: float
    node: Node = field(init=False)
    peer: "Port" = field(init=False)
    is_busy: bool = False
    is_paused: list[bool] = field(default_factory=lambda: [False] * N_PRIORITY)
    paused_since_ns: list[int] = field(default_factory=lambda: [-1] * N_PRIORITY)
    paused_ns: list[int] = field(default_factory=lambda: [0] * N_PRIORITY)
    tx_bytes: int = 0  # of packets whose transmission has started
    n_sent: int = 0
    n_arrived: int = 0  # at the other end, lost ones too
    n_lost: int = 0  # by the link's error rate
    n_draw: int = 0  # for ECN
    # A NIC:
    acks: deque[Packet] = field(default_factory=deque)
    pairs: list["QueuePair"] = field(default_factory=list)
    wake_ns: int = 0
    wake_event: int | None = None
    # A switch, sending:
    queues: list[deque[Packet]] = field(default_factory=lambda: [deque() for _ in range(N_PRIORITY)])
    queued_bytes: int = 0
    egress_bytes: list[int] = field(default_factory=lambda: [0] * N_PRIORITY)
    turn: int = 0  # the queue, or the NIC's pair, that was served last
    n_marked: int = 0
    # A switch, receiving: what of this port's arrivals is still in the buffer.
    ingress_bytes: list[int] = field(default_factory=lambda: [0] * N_PRIORITY)
    headroom_used_bytes: list[int] = field(default_factory=lambda: [0] * N_PRIORITY)
    has_paused_peer: list[bool] = field(default_factory=lambda: [False] * N_PRIORITY)
    n_dropped: int = 0
    pauses_sent: int = 0
    resumes_sent: int = 0
    pauses_received: int = 0
    resumes_received: int = 0


class Wires:
    """All links of a run."""

    def __init__(self, events: EventQueue, draws: Draws, pfc_is_heeded: bool) -> None:
        self.events, self.draws, self.pfc_is_heeded = events, draws, pfc_is_heeded
        self.pfc_log: list[tuple[int, int, int, bool]] = []  # (time in ns, port that is told, priority, is a pause)

    def transmit(self, port: Port, packet: Packet) -> None:
        """Start a packet on an idle port. That the port falls idle is scheduled before the arrival."""
        port.is_busy = True
        port.tx_bytes += packet.size_bytes
        idle_ns = self.events.now_ns + wire_ns(packet.size_bytes, port.rate_bps)
        self.events.push(idle_ns, (WIRE, port.port_id, PORT_IDLE), self._fall_idle, port)
        self.events.push(idle_ns + port.delay_ns, (ARRIVAL, port.port_id, port.n_sent), self._arrive, port, packet)
        port.n_sent += 1

    def _fall_idle(self, port: Port) -> None:
        port.is_busy = False
        port.node.serve(port)

    def _arrive(self, sender: Port, packet: Packet) -> None:
        n_before, port = sender.n_arrived, sender.peer
        sender.n_arrived += 1
        if sender.error_rate > 0 and self.draws.for_loss(sender, n_before) < sender.error_rate:
            sender.n_lost += 1
        elif packet.kind is Kind.PAUSE or packet.kind is Kind.RESUME:
            self._take_pfc(port, packet.priority, packet.kind is Kind.PAUSE)
        else:
            port.node.arrive(port, packet)

    def _take_pfc(self, port: Port, priority: int, is_pause: bool) -> None:
        """A pause holds until its resume; a packet on the wire is not cut."""
        port.pauses_received += is_pause
        port.resumes_received += not is_pause
        if not self.pfc_is_heeded:
            return
        now_ns = self.events.now_ns
        self.pfc_log.append((now_ns, port.port_id, priority, is_pause))
        if is_pause and not port.is_paused[priority]:
            port.paused_since_ns[priority] = now_ns
        elif not is_pause and port.is_paused[priority]:
            port.paused_ns[priority] += now_ns - port.paused_since_ns[priority]
            port.paused_since_ns[priority] = -1
        port.is_paused[priority] = is_pause
        if not is_pause and not port.is_busy:
            port.node.serve(port)
