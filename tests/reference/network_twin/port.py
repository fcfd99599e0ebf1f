"""One direction of a link at the node that sends on it: queues, transmitter, marks, telemetry, wire, loss."""

from collections import Counter, deque
from typing import Any

from models.congestion.hpcc_pint import encode_utilisation, next_utilisation
from models.network.state.parameters import NO_MARKING, ROUND_ROBIN, STRICT, LinkChange, NetworkParameters
from pdes.random_plain import PURPOSE_ECN, PURPOSE_LOSS, uniform_plain
from reference.network_twin.events import ARRIVAL, START
from reference.network_twin.packet import ACK, DATA, FRAME, Packet, wire_ps


class Port:
    """A port; node and far are what it leads from and to, peer is the port back."""

    def __init__(self, run: Any, port_id: int, rate_bps: int, delay_ps: int) -> None:
        self.run, self.port_id, self.rate_bps, self.delay_ps = run, port_id, rate_bps, delay_ps
        self.node: Any = None
        self.far: Any = None
        self.peer: Any = None
        p: NetworkParameters = run.parameters
        self.idle_ps = self.n_sent = 0
        self.frames: deque[Packet] = deque()
        self.queues: list[deque[Packet]] = [deque() for _ in range(p.n_queue)]
        self.queue_bytes = [0] * p.n_queue
        self.paused: set[int] = set()
        self.paused_since_ps = 0
        self.turn = 0
        self.deficit_bytes = [0] * p.n_queue
        self.ecn = marking(p, port_id, rate_bps)
        self.loss_probability = 0.0 if p.loss_probability is None else float(p.loss_probability[port_id])
        self.n_draw = {PURPOSE_ECN: 0, PURPOSE_LOSS: 0}
        self.up_since_ps: int | None = 0  # None: the link is down
        self.utilisation, self.last_start_ps, self.last_bytes = 0.0, 0, 0  # of PINT
        # Results.
        self.tx_bytes = self.max_queue_bytes = self.ecn_marks = self.paused_ps = self.n_pause = 0
        self.drops: Counter[str] = Counter()

    def draw(self, purpose: int) -> float:
        """A random number by the port's own count (design R3)."""
        self.n_draw[purpose] += 1
        return uniform_plain(self.run.parameters.seed, self.port_id, purpose, self.n_draw[purpose] - 1)

    # The transmitter.

    def add(self, packet: Packet, now_ps: int) -> None:
        """A packet is to leave: at once, or it waits in its queue. What leaves at once has not waited."""
        queue = self.queues[packet.queue]
        queue.append(packet)
        self.queue_bytes[packet.queue] += packet.size_bytes
        self.look(now_ps)
        if packet.queue > 0 and queue and queue[-1] is packet:
            self.max_queue_bytes = max(self.max_queue_bytes, sum(self.queue_bytes[1:]))

    def pop(self, queue: int) -> Packet:
        """Remove the first packet of a queue."""
        packet = self.queues[queue].popleft()
        self.queue_bytes[queue] -= packet.size_bytes
        return packet

    def add_frame(self, queue: int, is_pause: bool, now_ps: int) -> None:
        """A PFC frame is to leave, before everything else."""
        self.frames.append(Packet(FRAME, self.run.parameters.buffer.pfc_bytes, queue, number=int(is_pause)))
        self.look(now_ps)

    def look(self, now_ps: int) -> None:
        """Start the next packet if the transmitter is idle and something may go."""
        if self.idle_ps > now_ps:
            return
        packet = self.frames.popleft() if self.frames else self.node.next_packet(self, now_ps)
        if packet is not None:
            self.start(packet, now_ps)

    def start(self, packet: Packet, now_ps: int) -> None:
        """A packet's transmission starts: two events, the port falls idle and the packet arrives."""
        self.node.departs(self, packet, now_ps)
        self.idle_ps = now_ps + wire_ps(packet.size_bytes, self.rate_bps)
        self.tx_bytes += packet.size_bytes
        self.n_sent += 1
        self.run.n_hop += 1
        self.run.events.push(self.idle_ps, START, self.port_id, 0, self.look)
        arrival_ps = self.idle_ps + self.delay_ps
        self.run.events.push(arrival_ps, ARRIVAL, self.port_id, self.n_sent, lambda at_ps: self.arrive(packet, at_ps))

    # The far end.

    def arrive(self, packet: Packet, now_ps: int) -> None:
        """A packet has come over the link. Frames are immune to loss, but they take a draw."""
        self.far.note_event(now_ps)
        left_ps = now_ps - self.delay_ps  # the last bit
        was_down = self.up_since_ps is None or left_ps < self.up_since_ps
        if was_down and packet.kind != FRAME:
            self.drops["link"] += 1
        elif self.loss_probability > 0 and self.draw(PURPOSE_LOSS) < self.loss_probability and packet.kind != FRAME:
            self.drops["loss"] += 1
        elif packet.kind == FRAME:
            self.peer.obey(packet.queue, packet.number == 1, now_ps)
        else:
            self.far.receive(packet, self, now_ps)

    def change(self, change: LinkChange) -> None:
        """The link has another rate from the next packet on, loses otherwise what arrives, goes down or comes up."""
        self.rate_bps, self.loss_probability = change.rate_bps, change.loss_probability
        if not change.is_up:
            self.up_since_ps = None
        elif self.up_since_ps is None:
            self.up_since_ps = change.time_ps

    def busy_ps(self, queue: int, now_ps: int) -> int:
        """How long until all that waits has left, for adaptive routing: a pause of the queue counts as 2**50 ps."""
        wait_ps = max(0, self.idle_ps - now_ps) + wire_ps(sum(self.queue_bytes), self.rate_bps)
        return wait_ps + (2**50 if queue in self.paused else 0)

    def obey(self, queue: int, is_pause: bool, now_ps: int) -> None:
        """The other side has paused a queue or lets it go on. The port counts as paused while any queue is."""
        was_paused = bool(self.paused)
        if is_pause:
            self.n_pause += 1
            self.paused.add(queue)
            if not was_paused:
                self.paused_since_ps = now_ps
        else:
            self.paused.discard(queue)
            if was_paused and not self.paused:
                self.paused_ps += now_ps - self.paused_since_ps
        self.look(now_ps)

    # What a switch's port does besides.

    def take(self) -> Packet | None:
        """Remove the packet that goes next: ACKs first, then the data queues by the scheduler."""
        ready = [q for q, queue in enumerate(self.queues) if queue and q not in self.paused]
        if not ready:
            return None
        queue = ready[0] if ready[0] == 0 or self.run.parameters.scheduler == STRICT else self.in_turn(ready)
        packet = self.pop(queue)
        if not self.queues[queue]:
            self.deficit_bytes[queue] = 0
        return packet

    def in_turn(self, ready: list[int]) -> int:
        """Round robin: the next ready queue. Weighted: the same queue while its deficit lasts (Shreedhar 1995)."""
        p = self.run.parameters
        after = [q for q in ready if q > self.turn] + [q for q in ready if q <= self.turn]
        if p.scheduler == ROUND_ROBIN:
            self.turn = after[0]
            return self.turn
        if self.turn in ready and self.pays(self.turn):
            return self.turn
        self.turn = after[0]
        self.deficit_bytes[self.turn] += p.queue_weight[self.turn] * (p.payload_bytes + p.header_bytes)
        assert self.pays(self.turn), "a turn is worth a packet at least"
        return self.turn

    def pays(self, queue: int) -> bool:
        """Whether a queue's deficit is enough for its first packet, which it is then charged for."""
        size_bytes = self.queues[queue][0].size_bytes
        if self.deficit_bytes[queue] < size_bytes:
            return False
        self.deficit_bytes[queue] -= size_bytes
        return True

    def mark(self, packet: Packet) -> None:
        """RED on the bytes that stay behind in the packet's queue."""
        low, high, most = self.ecn
        behind = self.queue_bytes[packet.queue]
        if packet.kind == DATA and behind > low:
            if behind > high or self.draw(PURPOSE_ECN) < most * (behind - low) / (high - low):
                packet.is_marked = True
                self.ecn_marks += 1

    def stamp(self, packet: Packet, now_ps: int) -> None:
        """Telemetry: INT's record, or the largest code of PINT's utilisation."""
        p = self.run.parameters
        waiting = sum(self.queue_bytes)
        if "int" in p.law.needs and packet.kind == DATA:
            packet.hops.append((now_ps, self.tx_bytes, waiting, self.rate_bps, self.port_id))
        if "pint" in p.law.needs:
            if packet.kind != ACK:
                self.utilisation = next_utilisation(
                    self.utilisation, now_ps - self.last_start_ps, waiting, self.last_bytes, self.rate_bps,
                    self.run.largest_rtt_ps,
                )  # fmt: skip
                code = encode_utilisation(self.utilisation, p.law_values.get("log_base", 1.05))
                packet.pint_code = max(packet.pint_code, int(code))
            self.last_start_ps, self.last_bytes = now_ps, packet.size_bytes


def marking(p: NetworkParameters, port_id: int, rate_bps: int) -> tuple[int, int, float]:
    """A port's (least bytes, most bytes, largest probability); what is not given is the control's, by rate."""
    at_100g: Any = p.law.ecn_at_100g
    low, high = (
        int(given[port_id]) if given is not None
        else NO_MARKING if at_100g is None
        else at_100g[i] * rate_bps // 10**11
        for i, given in enumerate((p.ecn_min_bytes, p.ecn_max_bytes))
    )  # fmt: skip
    most = p.ecn_max_probability
    if most is None:
        most = 0.0 if at_100g is None else at_100g[2]
    return low, high, float(most if isinstance(most, (int, float)) else most[port_id])
