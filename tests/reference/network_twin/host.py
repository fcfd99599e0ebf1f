"""A host: its NIC ports send acknowledgements first, then the queue pairs take turns packet by packet."""

from typing import Any

from reference.network_twin.events import START
from reference.network_twin.packet import ACK, Packet
from reference.network_twin.port import Port
from reference.network_twin.sender import Sender


class Host:
    """A node that sends and receives."""

    def __init__(self, run: Any) -> None:
        self.run = run
        self.senders: dict[int, list[Sender]] = {}  # by port, in the plan's order
        self.served: dict[int, int] = {}  # by port: whose turn was last

    def note_event(self, now_ps: int) -> None:
        """Something happens here: the run lasts until now at least."""
        self.run.last_event_ps = max(self.run.last_event_ps, now_ps)

    def add_sender(self, port: Port, sender: Sender) -> None:
        """A queue pair that sends by one of the host's ports."""
        self.senders.setdefault(port.port_id, []).append(sender)
        self.served[port.port_id] = -1

    def receive(self, packet: Packet, in_port: Port, now_ps: int) -> None:
        """A packet is at the end of its path."""
        assert not packet.path
        if packet.kind == ACK:
            packet.pair.sender.take_ack(packet, now_ps)
            packet.pair.sender.port.look(now_ps)
            return
        answer = packet.pair.receiver.take(packet, now_ps)
        if answer is not None:
            self.run.ports[packet.pair.ack_path[0]].add(answer, now_ps)

    def next_packet(self, port: Port, now_ps: int) -> Packet | None:
        """An ACK, or the next queue pair's packet; if all are paced, the port looks again when the first may send."""
        if port.queues[0]:
            return port.pop(0)
        senders = self.senders.get(port.port_id, [])
        able = [i for i, s in enumerate(senders) if s.may_send() and s.queue not in port.paused]
        last = self.served.get(port.port_id, -1)
        for i in [i for i in able if i > last] + [i for i in able if i <= last]:
            if senders[i].next_send_ps <= now_ps:
                self.served[port.port_id] = i
                return senders[i].make_packet(now_ps)
        if able:
            self.run.events.push(min(senders[i].next_send_ps for i in able), START, port.port_id, 0, port.look)
        return None

    def departs(self, port: Port, packet: Packet, now_ps: int) -> None:
        """Nothing to do: packets are made when they leave."""
