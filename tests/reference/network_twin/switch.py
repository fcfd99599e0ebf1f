"""A switch: store and forward, with a shared buffer and priority flow control."""

from collections import Counter
from typing import Any

from models.network.state.parameters import ADAPTIVE
from reference.network_twin.packet import FRAME, Packet
from reference.network_twin.port import Port

Place = tuple[int, int]  # an ingress port and a queue


class Switch:
    """A node that forwards. Every packet of a data queue is charged to the ingress port and queue it came by."""

    def __init__(self, run: Any, node_id: int, in_ports: list[int]) -> None:
        self.run, self.node_id = run, node_id
        self.buffer = run.parameters.buffer
        self.held_bytes: Counter[Place] = Counter()  # in the reserve and the shared pool
        self.headroom_bytes: Counter[Place] = Counter()
        self.pausing: set[Place] = set()
        if self.buffer is not None:
            n_queue = run.parameters.n_queue - 1
            aside = sum(int(self.buffer.headroom_bytes[i]) + self.buffer.reserve_bytes for i in in_ports) * n_queue
            self.pool_bytes = int(self.buffer.size_bytes[node_id]) - aside

    def note_event(self, now_ps: int) -> None:
        """The time of a run is that of its hosts."""

    def receive(self, packet: Packet, in_port: Port, now_ps: int) -> None:
        """A packet has come in: to its next port, if the buffer has room for it."""
        port = self.run.ports[packet.path.pop(0)] if packet.route is None else self.next_hop(packet, in_port, now_ps)
        if port is None:
            in_port.drops["link"] += 1
            return
        packet.in_port = in_port
        if self.buffer is not None and packet.queue > 0:
            place = (in_port.port_id, packet.queue)
            if not self.admit(place, packet.size_bytes):
                port.drops["buffer"] += 1
                return
            if self.buffer.pfc and place not in self.pausing and self.is_full(place):
                self.pausing.add(place)
                in_port.peer.add_frame(packet.queue, True, now_ps)
        port.add(packet, now_ps)

    def next_hop(self, packet: Packet, in_port: Port, now_ps: int) -> Port | None:
        """The port that routing chooses, None if no way is left."""
        routes = self.run.routes
        ways = routes.ways(self.node_id, packet.route, now_ps)
        policy = routes.policy_of(packet)
        if not ways:
            return None
        i = routes.choose(policy, self.node_id, packet.route, in_port.port_id, ways, now_ps)
        ports = [self.run.ports[way] for way in ways[i:] + ways[:i]]
        return min(ports, key=lambda port: port.busy_ps(packet.queue, now_ps)) if policy == ADAPTIVE else ports[0]

    def next_packet(self, port: Port, now_ps: int) -> Packet | None:
        """What a port sends next."""
        return port.take()

    def departs(self, port: Port, packet: Packet, now_ps: int) -> None:
        """A packet's transmission starts: it is marked, what it held is free, it is stamped."""
        if packet.kind == FRAME:
            return
        if packet.queue > 0:
            port.mark(packet)
        if self.buffer is not None and packet.queue > 0:
            place = (packet.in_port.port_id, packet.queue)
            self.release(place, packet.size_bytes)
            if place in self.pausing and self.may_resume(place):
                self.pausing.remove(place)
                packet.in_port.peer.add_frame(packet.queue, False, now_ps)
        port.stamp(packet, now_ps)

    # The shared buffer.

    def shared_of(self, place: Place) -> int:
        """Bytes that a place holds beyond its reserve."""
        return max(0, self.held_bytes[place] - self.buffer.reserve_bytes)

    def shared_bytes(self) -> int:
        """How much of the pool is in use."""
        return sum(map(self.shared_of, self.held_bytes))

    def limit(self, place: Place) -> int:
        """How much of the pool a place may hold now: its share of what is free."""
        return max(0, self.pool_bytes - self.shared_bytes()) * int(self.buffer.alpha_1024[place[0]]) // 1024

    def admit(self, place: Place, size_bytes: int) -> bool:
        """Charge a packet to the reserve and the pool if it fits there, else to the headroom, else refuse it."""
        limit_bytes = self.limit(place)
        self.held_bytes[place] += size_bytes
        shared = self.shared_of(place)
        if shared == 0 or (shared <= limit_bytes and self.shared_bytes() <= self.pool_bytes):
            return True
        self.held_bytes[place] -= size_bytes
        if self.headroom_bytes[place] + size_bytes > int(self.buffer.headroom_bytes[place[0]]):
            return False
        self.headroom_bytes[place] += size_bytes
        return True

    def release(self, place: Place, size_bytes: int) -> None:
        """Give back what a packet held: first headroom, then the rest."""
        from_headroom = min(self.headroom_bytes[place], size_bytes)
        self.headroom_bytes[place] -= from_headroom
        self.held_bytes[place] -= size_bytes - from_headroom

    def is_full(self, place: Place) -> bool:
        """Whether the sender is to pause: headroom is in use, or the threshold is reached."""
        return self.headroom_bytes[place] > 0 or self.shared_of(place) >= self.limit(place)

    def may_resume(self, place: Place) -> bool:
        """Whether the sender may go on: no headroom in use, and clear of the threshold by an offset."""
        if self.headroom_bytes[place] > 0:
            return False
        shared = self.shared_of(place)
        return shared == 0 or shared + self.buffer.resume_offset_bytes <= self.limit(place)
