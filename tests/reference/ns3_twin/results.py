"""What a run gives: rows of flows and ports, and the totals."""

from dataclasses import dataclass


@dataclass(frozen=True)
class FlowRow:
    """One flow. Times in ns, -1: did not happen before the stop."""

    src: int
    dst: int
    sport: int
    dport: int
    size_bytes: int
    start_ns: int
    fct_ns: int  # until the sender has the ACK of all bytes
    delivered_ns: int  # when the receiver has all bytes, in absolute time
    sent_bytes: int  # payload, resends too
    marked_acks: int  # ACKs and NACKs with a congestion notification, until the flow ended
    nacks: int  # that the sender took


@dataclass(frozen=True)
class PortRow:
    """One direction of a link, at its sender. Rows stand in the engine's order of port ids.

    Lost and dropped packets are those that this port sent; pauses and resumes count at the port that sends or takes
    them, heeded or not.
    """

    src: int
    dst: int
    tx_bytes: int  # of packets whose transmission has started
    tx_packets: int
    lost: int  # on the link
    dropped: int  # by the buffer of the switch at the other end
    marked: int
    draws: int  # random numbers for ECN
    paused_ns: tuple[int, ...]  # by priority, of pauses that have ended
    paused_since_ns: tuple[int, ...]  # by priority, -1: not paused at the end
    pauses_sent: int
    resumes_sent: int
    pauses_received: int
    resumes_received: int


@dataclass(frozen=True)
class Ns3Result:
    """A whole run. pfc_log: (time in ns, id of the port that is told, priority, is a pause), if pauses are heeded."""

    flows: list[FlowRow]
    ports: list[PortRow]
    n_event: int
    end_ns: int  # time of the last event
    pfc_log: list[tuple[int, int, int, bool]]

    @property
    def fct_ns(self) -> list[int]:
        """Of every flow, -1: unfinished."""
        return [flow.fct_ns for flow in self.flows]

    @property
    def dropped(self) -> int:
        """Packets that found no buffer."""
        return sum(port.dropped for port in self.ports)

    @property
    def lost(self) -> int:
        """Packets that links lost."""
        return sum(port.lost for port in self.ports)

    @property
    def marked(self) -> int:
        """Marks of all ports, on data and on ACKs."""
        return sum(port.marked for port in self.ports)

    @property
    def pauses_sent(self) -> int:
        """Pauses that switches made."""
        return sum(port.pauses_sent for port in self.ports)

    @property
    def pauses_received(self) -> int:
        """Pauses that arrived, heeded or not."""
        return sum(port.pauses_received for port in self.ports)
