"""Checks of a memo's entry that an earlier run has found, before anything of it is put into the network.

An entry says what a network partition comes to that is in a known state now. So besides what holds in every state
(`verify`), all that has moved must have passed every port on its way, and what never changes must be as it is. Nothing
is lost here, as the memo is not used where switches have buffers or links lose packets.

It cannot see what another entry of the same state might say as well: an instant that is off by a little, the state of a
congestion control within its bounds, a skip of another length. That takes a simulation. Every failure is an
AssertionError.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from models.congestion.interface import FLOW_RATE, FLOW_WINDOW
from models.network.link.wire_time import transmission_ps
from models.network.skip.state_words import SKIPPED_WORDS
from models.network.state.pair_records import NO_WINDOW
from models.network.state.records import (
    ACK_BYTES,
    ACK_EVERY,
    CNP_INTERVAL_PS,
    FLAG_ACK,
    FLAG_CNP,
    FLAG_MARKED,
    FLAG_NACK,
    HEADER_BYTES,
    MAX_TIMEOUT_PS,
    PAYLOAD_BYTES,
    TIMEOUT_PS,
    WINDOW_BY_LAW,
    WINDOW_MODE,
)
from models.network.verify.carried import LawWords, Reach, verify_carried, verify_control, verify_stamps
from models.network.verify.entry_words import (
    ACKS,
    CHECK,
    CNP_AFTER,
    DATA,
    DEADLINE,
    EXPECTED,
    FIRST_QUEUE,
    FREE_AT,
    HIGH,
    LAST_SIZE,
    LAW_ROW,
    LINE_RATE,
    MAX_WINDOW,
    N_SENDER,
    N_UNACKED,
    NEXT,
    NEXT_SEND,
    NIC_TURN,
    PAUSED,
    PS_PER_BYTE_S,
    QUEUE,
    RATE,
    SWITCH_TURN,
    WINDOW,
    WIRE,
    Contents,
    InFlight,
    Shape,
    read_words,
)
from models.network.verify.fabric import Held, expect
from models.network.verify.network import verify_lossless, verify_lossy, verify_pair
from pdes.engine.time_index import NEVER
from pdes.skipping.replay.memo import Entry

MAX_STALL = 2**10  # round trips for a packet, or of time for what takes one at line rate: what is slower is wrong


@dataclass(frozen=True)
class Known:
    """What is known of a network partition that is in an entry's state now. Rows of its queue pairs and ports."""

    shape: Shape
    law: LawWords
    constants: np.ndarray
    rate_bps: list[int]  # of ports
    delay_ps: list[int]
    sent_bytes: list[int]  # by ports so far
    acked_byte: list[int]  # of queue pairs
    most_weight_bytes: int  # of a queue of a switch
    before: Contents

    def of(self, place: int) -> int:
        """One of the network's constants."""
        return int(self.constants[place])

    @property
    def is_lossless(self) -> bool:
        """Whether nothing is ever sent twice."""
        return self.of(TIMEOUT_PS) == 0

    def wire_bytes(self, is_ack: bool) -> int:
        """A packet's size: all data packets are full, as no message's last one is in an entry."""
        return self.of(ACK_BYTES) if is_ack else self.of(PAYLOAD_BYTES) + self.of(HEADER_BYTES)

    def wire_ps(self, port: int, size_bytes: int) -> int:
        """How long a port takes to send a packet."""
        return int(transmission_ps(size_bytes, self.rate_bps[port], 0))

    @cached_property
    def round_trip_ps(self) -> int:
        """The longest of any of its flows, when nothing waits."""
        hops = (((port, is_ack) for is_ack in (False, True) for port in way[is_ack]) for way in self.shape.ways)
        return max(sum(self.delay_ps[p] + self.wire_ps(p, self.wire_bytes(a)) for p, a in mine) for mine in hops)


def verify_entry(entry: Entry, known: Known) -> None:
    """Whether a network partition can come to this."""
    n_pair, n_port = len(known.shape.ways), len(known.shape.is_switch)
    of_pair = (entry.done_bytes, entry.sent_bytes, entry.marked, *(entry.progress or ())[2:])
    n_found = {len(column) for column in of_pair}, len(entry.port_bytes)
    expect(n_found == ({n_pair}, n_port), f"it is not of {n_pair} flows and {n_port} ports")
    expect(entry.n_draw == 0, f"{entry.n_draw} random numbers were drawn")
    after = read_words(entry.words, known.shape)
    _verify_progress(entry, known)
    for row in range(n_pair):
        _verify_ends(row, entry, known, after)
    since_ps, sent_bytes = _since_ps(entry, known), _sent(entry, known)
    for packet in after.packets:
        _verify_packet(packet, known, after)
        verify_carried(packet, known.shape, known.law, known.rate_bps, sent_bytes, since_ps)
    for port in range(n_port):
        _verify_port(port, known, after)
    verify_stamps(after, known.shape, known.law, known.rate_bps, known.wire_bytes(False))
    if known.is_lossless:
        _verify_order(after)
        _verify_passed(entry, known, after)


def _sent(entry: Entry, known: Known) -> list[int]:
    """What ports have sent at its end."""
    return [a + b for a, b in zip(known.sent_bytes, entry.port_bytes.tolist(), strict=True)]


def _since_ps(entry: Entry, known: Known) -> int:
    """Nothing that is in flight at its end was sent before."""
    return min([p.extra[0] for p in known.before.packets if p.extra], default=0) - entry.duration_ps


def _verify_progress(entry: Entry, known: Known) -> None:
    """What got done in what time, and how it would go on."""
    duration_ps, payload, round_ps = entry.duration_ps, known.of(PAYLOAD_BYTES), known.round_trip_ps
    columns = (entry.done_bytes.tolist(), entry.sent_bytes.tolist(), entry.marked.tolist())
    for done, sent, marked in zip(*columns, strict=True):
        whole = done >= 0 and sent >= 0 and done % payload == sent % payload == 0
        expect(whole, f"{done} B acknowledged and {sent} B sent, packets have {payload} B")
        expect(0 <= marked <= done // payload, f"{marked} of {done // payload} packets marked")
    busy_ps = 0
    for port, sent in enumerate(entry.port_bytes.tolist()):
        may_bytes = (duration_ps + known.wire_ps(port, known.wire_bytes(False))) * known.rate_bps[port] // PS_PER_BYTE_S
        expect(0 <= sent <= may_bytes, f"port {port} sent {sent} B, it can send {may_bytes} B in {duration_ps} ps")
        busy_ps = max(busy_ps, sent * PS_PER_BYTE_S // known.rate_bps[port])
    most_ps = MAX_STALL * (busy_ps + round_ps)
    expect(0 < duration_ps <= most_ps, f"it takes {duration_ps} ps, and its busiest port sends for {busy_ps} ps")
    if entry.progress is None:
        return
    for row, (packets, done_ps, marked) in enumerate(zip(*(c.tolist() for c in entry.progress[2:]), strict=True)):
        line_bps = known.before.senders[row][LINE_RATE]
        is_rate = packets * payload * PS_PER_BYTE_S <= 2 * line_bps * done_ps and 0 <= marked <= packets
        expect(is_rate, f"flow {row} is to go on with {packets} packets, {marked} of them marked, in {done_ps} ps")
        expect(done_ps <= packets * MAX_STALL * round_ps, f"flow {row} is to go on with {packets} in {done_ps} ps")


def _verify_ends(row: int, entry: Entry, known: Known, after: Contents) -> None:
    """A flow's ends, and what is in between: nothing is missing, so it can go on."""
    name, words, was = f"flow {row}", after.senders[row], known.before.senders[row]
    receiver, had = after.receivers[row], known.before.receivers[row]
    done, sent, payload = int(entry.done_bytes[row]), int(entry.sent_bytes[row]), known.of(PAYLOAD_BYTES)
    for word in (MAX_WINDOW, LINE_RATE, LAW_ROW, QUEUE):
        expect(words[word] == was[word], f"{name}: word {word} is {words[word]}, and never changes from {was[word]}")
    in_flight = words[NEXT]
    expect(done + in_flight == was[NEXT] + sent, f"{name}: {in_flight} B in flight, {sent} B sent, {done} acknowledged")
    expect(words[HIGH] == in_flight, f"{name}: {in_flight} B in flight, the last time {words[HIGH]}")
    expect(done + receiver[EXPECTED] >= had[EXPECTED], f"{name}: less is received than at the beginning")
    acked = known.acked_byte[row] + done
    expected, end = acked + receiver[EXPECTED], acked + in_flight
    posted = end + 2 * payload
    qp = {
        "acked_byte": acked, "next_byte": end, "high_byte": end, "posted_end": posted, "sent_bytes": end,
        "rate_bps": words[RATE], "line_rate_bps": words[LINE_RATE], "max_window_bytes": words[MAX_WINDOW],
        "window_bytes": words[WINDOW],
    }  # fmt: skip
    verify_pair(name, qp, expected, known.constants)
    held = [_held(p, acked) for p in after.of_flow(row)]
    check = verify_lossless if known.is_lossless else verify_lossy
    check(name, qp, expected, [(acked, posted, -1)], held, known.constants)
    _verify_instants(row, entry, known, after)
    control, sent_by = words[N_SENDER:-SKIPPED_WORDS], _sent(entry, known)
    is_same = control[FLOW_RATE] == words[RATE]
    if known.of(WINDOW_MODE) == WINDOW_BY_LAW:
        is_same &= words[WINDOW] == (control[FLOW_WINDOW] if control[FLOW_WINDOW] > 0 else NO_WINDOW)
    expect(is_same, f"{name}: its rate or window is not what its control has set")
    reach = Reach(-acked, in_flight + (words[WINDOW] if words[WINDOW] < NO_WINDOW else 0), entry.duration_ps)
    verify_control(name, control, was[N_SENDER:], known.law, known.shape.ways[row][0], sent_by, reach)


def _verify_instants(row: int, entry: Entry, known: Known, after: Contents) -> None:
    """When a flow may go on, and its timeouts."""
    name, words, was, receiver = f"flow {row}", after.senders[row], known.before.senders[row], after.receivers[row]
    packet_bytes = known.wire_bytes(False)
    slow_ps = max(entry.duration_ps + known.round_trip_ps, *(_gap_ps(w, packet_bytes) for w in (words, was)))
    expect(words[LAST_SIZE] == packet_bytes, f"{name}: its last packet has {words[LAST_SIZE]} B")
    expect(0 <= words[NEXT_SEND] <= slow_ps, f"{name}: its next packet may leave in {words[NEXT_SEND]} ps")
    is_slow = words[RATE] < was[RATE] and _gap_ps(words, packet_bytes) > entry.duration_ps + known.round_trip_ps
    expect(not is_slow, f"{name}: it sends {words[RATE]} bit/s, and a packet takes longer than the entry")
    acked_ps, n_marked = words[-SKIPPED_WORDS:]
    marked = n_marked - was[-1]
    expect(marked == entry.marked[row], f"{name}: {marked} packets marked, the entry has {entry.marked[row]}")
    first_ps = min(0, was[-SKIPPED_WORDS]) - entry.duration_ps
    expect(first_ps <= acked_ps <= 0, f"{name}: the last ACK at {acked_ps} ps, it begins at {first_ps} ps")
    expect(0 <= receiver[CNP_AFTER] <= known.of(CNP_INTERVAL_PS), f"{name}: no CNP before {receiver[CNP_AFTER]} ps")
    expect(0 <= receiver[N_UNACKED] < max(1, known.of(ACK_EVERY)), f"{name}: {receiver[N_UNACKED]} packets without ACK")
    if known.is_lossless:
        expect(words[DEADLINE] == words[CHECK] == NEVER, f"{name}: a timeout, and nothing is ever lost")
        return
    limit_ps = NEVER if words[NEXT] == 0 else max(known.of(TIMEOUT_PS), known.of(MAX_TIMEOUT_PS))
    is_right = 0 <= words[CHECK] <= words[DEADLINE] <= limit_ps
    expect(is_right, f"{name}: timeout at {words[DEADLINE]} ps, looked at {words[CHECK]} ps, limit {limit_ps} ps")


def _gap_ps(words: list[int], size_bytes: int) -> int:
    """Time that a sender's packet takes at its rate."""
    return -(-size_bytes * PS_PER_BYTE_S // max(1, words[RATE]))


def _held(packet: InFlight, acked_byte: int) -> Held:
    return Held(packet.pair, packet.is_ack, acked_byte + packet.sequence, packet.size_bytes, False, -1)


def _verify_packet(packet: InFlight, known: Known, after: Contents) -> None:
    """What a packet is, and the chain in which it is."""
    name, way = f"a packet of flow {packet.pair}", known.shape.ways[packet.pair][packet.is_ack]
    may = FLAG_MARKED
    if packet.is_ack:
        may |= FLAG_ACK | FLAG_CNP | (0 if known.is_lossless else FLAG_NACK)
    queue = 0 if packet.is_ack else after.senders[packet.pair][QUEUE]
    is_right = packet.bits & ~may == 0 and packet.size_bytes == known.wire_bytes(packet.is_ack)
    expect(is_right and packet.queue == queue, f"{name} has bits {packet.bits}, {packet.size_bytes} B")
    if packet.chain == WIRE:
        return
    if packet.chain >= FIRST_QUEUE:
        expect(packet.chain == FIRST_QUEUE + queue, f"{name} waits in queue {packet.chain - FIRST_QUEUE}, not {queue}")
    else:
        expect(packet.chain == (ACKS if packet.is_ack else DATA), f"{name} waits in the wrong class")
    is_data = packet.is_ack or known.shape.is_switch[packet.port]
    expect(is_data, f"{name} waits at its host, which makes packets as they leave")
    came_by = way[packet.hop - 1] if packet.chain > FIRST_QUEUE else 0
    expect(packet.where == came_by, f"{name} waits at port {packet.port} and came by {packet.where}, not {came_by}")


def _verify_port(port: int, known: Known, after: Contents) -> None:
    """When a port is free, what is on its wire, whose turn it is."""
    name, head, was = f"port {port}", after.egress[port], known.before.egress[port]
    most_ps = known.wire_ps(port, max(known.wire_bytes(False), known.wire_bytes(True)))
    free_ps = head[FREE_AT]
    expect(0 <= free_ps <= most_ps, f"{name} is free in {free_ps} ps, no packet takes more than {most_ps} ps")
    wire = after.of_chain(port, WIRE)
    last_ps = free_ps + known.delay_ps[port]
    expect(all(p.where >= 0 for p in wire), f"{name}: a packet has arrived and is on its wire")
    apart = all(b.where - a.where >= known.wire_ps(port, b.size_bytes) for a, b in pairwise(wire))
    expect(apart, f"{name}: packets on its wire arrive sooner than it sends them, or out of order")
    at_ps = [p.where for p in wire[-1:]]
    expect(
        at_ps == [last_ps] or (free_ps == 0 and at_ps <= [last_ps]),
        f"{name} is free in {free_ps} ps, and what it sent last has not left then",
    )
    n_served = sum(way[0][0] == port for way in known.shape.ways)
    expect(0 <= head[NIC_TURN] <= n_served, f"{name}: it is the turn of flow {head[NIC_TURN]} of {n_served}")
    if len(head) <= SWITCH_TURN:
        return
    expect(0 <= head[SWITCH_TURN] < known.shape.n_queue, f"{name}: it is the turn of queue {head[SWITCH_TURN]}")
    expect(head[PAUSED] == was[PAUSED], f"{name}: queues {head[PAUSED]:b} paused")
    most_bytes = known.most_weight_bytes + known.wire_bytes(False)
    for queue, deficit_bytes in enumerate(after.deficits[port]):
        expect(0 <= deficit_bytes <= most_bytes, f"{name}: queue {queue} may send {deficit_bytes} B")


def _verify_order(after: Contents) -> None:
    """No packet of a flow overtakes another on its way."""
    newest: dict[tuple[int, bool], int] = {}
    for packet in sorted(after.packets, key=lambda p: p.place, reverse=True):  # stable: chains stay as they are
        flow = packet.pair, packet.is_ack
        expect(flow not in newest or newest[flow] < packet.sequence, f"flow {packet.pair} overtook itself")
        newest[flow] = packet.sequence


def _verify_passed(entry: Entry, known: Known, after: Contents) -> None:
    """Each port has sent what it was still to send at the beginning and has come since, but for what it still is."""
    wanted, payload = [0] * len(known.shape.is_switch), known.of(PAYLOAD_BYTES)
    for row, way in enumerate(known.shape.ways):
        done, had, has = int(entry.done_bytes[row]), known.before.receivers[row], after.receivers[row]
        made = int(entry.sent_bytes[row]), done + has[EXPECTED] - had[EXPECTED]
        for is_ack in (False, True):
            for hop, port in enumerate(way[is_ack]):
                n = made[is_ack] // payload + known.before.n_before(row, is_ack, hop) - after.n_before(row, is_ack, hop)
                expect(n >= 0, f"port {port}: {n} packets of flow {row}")
                wanted[port] += n * known.wire_bytes(is_ack)
    for port, sent in enumerate(entry.port_bytes.tolist()):
        expect(sent == wanted[port], f"port {port} sent {sent} B, what has passed it has {wanted[port]} B")
