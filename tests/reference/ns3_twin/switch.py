"""A switch: shared buffer with dynamic thresholds, pauses, eight queues per port, ECN marks and telemetry."""

from reference.ns3_twin.case import HPCC, PFC_BYTES, Ns3Config
from reference.ns3_twin.quantities import NS_PER_S
from reference.ns3_twin.wire import N_PRIORITY, IntRecord, Kind, Node, Packet, Port, Wires

RESERVE_BYTES = 4096  # of every port, and within it of every queue
RESUME_OFFSET_BYTES = 3072
LARGEST_SHIFT = 3
MASK_32 = 0xFFFFFFFF
TIME_MASK, SENT_MASK, QUEUED_MASK = (1 << 24) - 1, (1 << 20) - 1, (1 << 17) - 1  # INT's fields
SENT_TICK_BYTES, QUEUED_TICK_BYTES = 128, 80  # times INT_MULTI


def headroom_bytes(port: Port) -> int:
    """What may still come in at a port after it has paused its peer: 3 times the link's content, cut to bytes first."""
    return port.rate_bps * port.delay_ns // 8 // NS_PER_S * 3


def threshold_shift(port_bps: int, nic_bps: int) -> int:
    """A queue may have 2^-shift of the free buffer: an eighth, doubled for each halving down to the NIC's rate."""
    shift = LARGEST_SHIFT
    while port_bps > nic_bps and shift > 0:
        shift, port_bps = shift - 1, port_bps // 2
    return shift


class Switch(Node):
    """Store and forward, without any delay of its own. Priority 0, and PFC frames, neither wait nor are accounted."""

    def __init__(self, config: Ns3Config, wires: Wires, ports: list[Port], nic_bps: int) -> None:
        self.config, self.wires = config, wires
        self.headroom_bytes = {port: headroom_bytes(port) for port in ports}
        self.shift = {port: threshold_shift(port.rate_bps, nic_bps) for port in ports}
        reserved_bytes = sum(self.headroom_bytes.values()) + RESERVE_BYTES * len(ports)
        self.pool_bytes = (config.buffer_mib << 20) - reserved_bytes  # below zero it wraps: see threshold_bytes
        self.shared_used_bytes = 0

    # Buffer.

    def threshold_bytes(self, port: Port) -> int:
        """What one queue of an incoming port may hold in the shared buffer; unsigned 32 bits, as in ns-3."""
        return ((self.pool_bytes - self.shared_used_bytes) & MASK_32) >> self.shift[port]

    def arrive(self, port: Port, packet: Packet) -> None:
        """Admit a packet to the buffer, pause its sender if need be, and put it into its queue."""
        out, q = packet.path[packet.hop], packet.priority
        packet.hop += 1
        packet.came_by = port
        if q and not self._admit(port, q, packet.size_bytes):
            port.peer.n_dropped += 1
            return
        if q:
            out.egress_bytes[q] += packet.size_bytes
            if not port.has_paused_peer[q] and self._is_full(port, q):
                self._send_pfc(port, q, Kind.PAUSE)
        self._enqueue(out, q, packet)

    def _admit(self, port: Port, q: int, size_bytes: int) -> bool:
        """Account a packet to reserve and shared buffer, or to headroom; False: there is no room."""
        threshold_bytes = self.threshold_bytes(port)
        headroom_full = size_bytes + port.headroom_used_bytes[q] > self.headroom_bytes[port]
        if headroom_full and size_bytes + shared_part(port, q) > threshold_bytes:
            return False
        new_bytes = port.ingress_bytes[q] + size_bytes
        if new_bytes > RESERVE_BYTES and new_bytes - RESERVE_BYTES > threshold_bytes:
            port.headroom_used_bytes[q] += size_bytes
            return True
        port.ingress_bytes[q] = new_bytes
        self.shared_used_bytes += min(size_bytes, max(new_bytes - RESERVE_BYTES, 0))
        return True

    def _is_full(self, port: Port, q: int) -> bool:
        return port.headroom_used_bytes[q] > 0 or shared_part(port, q) >= self.threshold_bytes(port)

    def _release(self, port: Port, q: int, size_bytes: int) -> None:
        """A packet that came in by `port` leaves: it gives back headroom first."""
        from_headroom = min(port.headroom_used_bytes[q], size_bytes)
        self.shared_used_bytes -= min(size_bytes - from_headroom, shared_part(port, q))
        port.headroom_used_bytes[q] -= from_headroom
        port.ingress_bytes[q] -= size_bytes - from_headroom

    def _may_resume(self, port: Port, q: int) -> bool:
        shared_bytes = shared_part(port, q)
        has_room = shared_bytes == 0 or shared_bytes + RESUME_OFFSET_BYTES <= self.threshold_bytes(port)
        return port.has_paused_peer[q] and port.headroom_used_bytes[q] == 0 and has_room

    def _send_pfc(self, port: Port, q: int, kind: Kind) -> None:
        """Tell the peer of `port` to stop or to go on: before all data, after the packet on the wire."""
        port.has_paused_peer[q] = kind is Kind.PAUSE
        port.pauses_sent += kind is Kind.PAUSE
        port.resumes_sent += kind is Kind.RESUME
        self.wires.draws.note_pfc_frame()
        self._enqueue(port, 0, Packet(kind, PFC_BYTES, q))

    # Sending.

    def _enqueue(self, port: Port, q: int, packet: Packet) -> None:
        port.queues[q].append(packet)
        port.queued_bytes += packet.size_bytes
        self.serve(port)

    def serve(self, port: Port) -> None:
        if port.is_busy or not port.queued_bytes:
            return
        q = next_queue(port)
        if q < 0:
            return
        packet = port.queues[q].popleft()
        port.queued_bytes -= packet.size_bytes
        if q:
            self._leave_buffer(port, q, packet)
        if packet.kind is Kind.DATA and self.config.congestion_control == HPCC:
            packet.telemetry += (self._telemetry(port),)
        self.wires.transmit(port, packet)

    def _leave_buffer(self, port: Port, q: int, packet: Packet) -> None:
        """What ns-3 does when a packet starts: account, mark, resume, in this order."""
        came_by = packet.came_by
        assert came_by is not None, "only PFC frames are made by a switch"
        self._release(came_by, q, packet.size_bytes)
        port.egress_bytes[q] -= packet.size_bytes
        if self.config.ecn_is_on and self._is_to_be_marked(port, port.egress_bytes[q]):
            port.n_marked += 1
            if packet.kind is Kind.DATA:  # ns-3 marks ACKs too, without any effect; in our ACKs the field is the echo
                packet.is_marked = True
        if self._may_resume(came_by, q):
            self._send_pfc(came_by, q, Kind.RESUME)

    def _is_to_be_marked(self, port: Port, queue_bytes: int) -> bool:
        """RED on the bytes of the queue that stay behind; a number is drawn only between the thresholds."""
        low, high = self.config.ecn_min_bytes[port.rate_bps], self.config.ecn_max_bytes[port.rate_bps]
        if queue_bytes <= low or queue_bytes > high:
            return queue_bytes > low and queue_bytes > high
        probability = self.config.ecn_max_probability[port.rate_bps] * float(queue_bytes - low) / (high - low)
        number = self.wires.draws.for_mark(port)
        port.n_draw += 1
        return number < probability

    def _telemetry(self, port: Port) -> IntRecord:
        """INT as the packet starts: its own bytes are in neither field."""
        m = self.config.int_multiplier
        sent = port.tx_bytes // (SENT_TICK_BYTES * m) & SENT_MASK
        queued = port.queued_bytes // (QUEUED_TICK_BYTES * m) & QUEUED_MASK
        return self.wires.events.now_ns & TIME_MASK, sent, queued, port.rate_bps


def shared_part(port: Port, q: int) -> int:
    """The bytes of an incoming port's queue beyond its reserve."""
    return max(port.ingress_bytes[q] - RESERVE_BYTES, 0)


def next_queue(port: Port) -> int:
    """The queue to serve, -1 if none may go: queue 0 first, then one packet each in turn, paused ones left out."""
    if port.queues[0]:
        return 0
    for k in range(1, N_PRIORITY + 1):
        q = (port.turn + k) % N_PRIORITY
        if port.queues[q] and not port.is_paused[q]:
            port.turn = q
            return q
    return -1
