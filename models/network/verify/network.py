"""Checks of the network's state: every fact that is stored twice is worked out again, slowly, and compared.

For tests, at a round's end (design R8): what a queue pair sent has arrived, was dropped, waits or is on wires. Without
loss recovery it is known packet by packet. `verify_network` is for a run on one rank; `verify_ranks` takes all ranks'
states; `verify_entry` asks of the memo's entries what holds of a queue pair here. Every failure is an AssertionError
that says who and what.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.rounds import PACKET_WORDS, WORDS_PER_ARRIVAL
from models.network.state.pair_records import NO_WINDOW
from models.network.state.parameters import WINDOW_FOLLOWS_RATE
from models.network.state.records import (
    ACK_BYTES,
    EXTRA_HOPS,
    EXTRA_N_HOP,
    FLAG_ACK,
    FLAG_FRAME,
    FLAG_LAST,
    FLAG_MARKER,
    HEADER_BYTES,
    IS_SELECTIVE,
    MARKER_COLUMN,
    MARKER_SIZE,
    N_EXTRA,
    N_HOP_MASK,
    N_INT_WORD,
    PACKET,
    PAYLOAD_BYTES,
    TIMEOUT_PS,
    WINDOW_BY_LAW,
    WINDOW_MODE,
    WORDS_PER_HOP,
)
from models.network.verify.buffers import verify_buffers
from models.network.verify.fabric import Held, expect, verify_frozen, verify_node_times, verify_packets, verify_waiting
from models.network.verify.nic import unfinished, verify_messages, verify_nic_ports, verify_timers
from models.network.verify.selective import verify_ranges, verify_selective
from models.topology.graph import Topology
from pdes.engine.round_exchange import HEADER_WORDS, ExchangeState


def verify_network(state: NetworkState, topology: Topology, link_head: np.ndarray | None = None) -> None:
    """Everything about a run on one rank, at a round's end. link_head: `Hidden`'s, of what may be frozen."""
    verify_ranks([state], [], topology, np.zeros(topology.n_node, np.int64), [] if link_head is None else [link_head])


def verify_ranks(
    states: Sequence[NetworkState], exchanges: Sequence[ExchangeState], topology: Topology, rank_of_node: np.ndarray,
    link_heads: Sequence[np.ndarray] = (),
) -> None:  # fmt: skip
    """Everything about a run, from all its ranks after the same round. exchanges: theirs, with inboxes not unpacked.

    link_heads: each rank's chains of packets on hidden links; without them nothing may be frozen.
    """
    held: list[Held] = []
    for rank, state in enumerate(states):
        fabric, buffers, nic, here = state.fabric, state.buffers, state.nic, rank_of_node == rank
        hidden = np.where(nic.frozen_port == 1, link_heads[rank], -1) if link_heads else None
        verify_frozen(fabric, nic)
        mine, of_port = verify_packets(fabric, buffers, topology, here, hidden)
        held += mine
        verify_waiting(fabric, buffers, nic, topology, here)
        verify_node_times(fabric, buffers, nic, state.work, topology, here)
        verify_nic_ports(fabric, nic, topology, here)
        verify_timers(fabric, nic, topology, here)
        verify_messages(nic, fabric.counters)
        verify_ranges(nic, fabric.counters)
        verify_buffers(fabric, buffers, nic, topology, here, of_port)
    constants = states[0].fabric.constants
    for ex in exchanges:
        held += in_inboxes(ex, constants)
    verify_conservation(states, topology, rank_of_node, held)


def in_inboxes(ex: ExchangeState, constants: np.ndarray) -> list[Held]:
    """Packets that were received from other ranks and are not on their links yet (layout: `rounds.pack`).

    PFC frames are left out.
    """
    held = []
    n_extra, n_int, marker_column, header_bytes = (
        int(constants[i]) for i in (N_EXTRA, N_INT_WORD, MARKER_COLUMN, HEADER_BYTES)
    )
    for box, n_in in zip(ex.inbox, ex.n_in.tolist(), strict=True):
        at = HEADER_WORDS
        while at < HEADER_WORDS + n_in:
            if box[at] < 0:
                at += WORDS_PER_ARRIVAL
                continue
            n_packet = int(box[at]) & 0xFFFFFFFF
            at += 1
            for _ in range(n_packet):
                item = box[at : at + PACKET_WORDS].view(PACKET)[0]
                at += PACKET_WORDS
                n_missing = 0  # of INT what no hop has stamped does not travel
                if n_int > 0:
                    n_hop = int(box[at + EXTRA_N_HOP]) & N_HOP_MASK
                    n_missing = n_int - min(n_int, EXTRA_HOPS + WORDS_PER_HOP * n_hop)
                words = box[at : at + n_extra - n_missing]
                at += n_extra - n_missing
                is_last = bool(item["bits"] & FLAG_LAST)
                label = int(box[at]) if is_last else 0
                at += is_last
                pair, sequence, size_bytes = (int(item[name]) for name in ("queue_pair", "sequence", "size_bytes"))
                if item["bits"] & FLAG_FRAME:
                    continue
                is_marker = bool(item["bits"] & FLAG_MARKER)
                if is_marker:
                    size = int(words[marker_column - n_missing + MARKER_SIZE])
                    sequence, size_bytes = sequence - size, size + header_bytes
                held.append(Held(pair, bool(item["bits"] & FLAG_ACK), sequence, size_bytes, is_last, label, is_marker))
    return held


def verify_conservation(
    states: Sequence[NetworkState], topology: Topology, rank_of_node: np.ndarray, held: list[Held]
) -> None:
    """R8 per queue pair, in bytes; without loss recovery also packet by packet."""
    constants = states[0].fabric.constants
    header = int(constants[HEADER_BYTES])
    of_pair: dict[int, list[Held]] = {}
    for packet in held:
        of_pair.setdefault(packet.pair, []).append(packet)
    facts = states[0].nic.facts
    dropped = np.sum([state.fabric.dropped for state in states], axis=0)
    for pair in range(len(facts)):
        sender, other = (states[int(rank_of_node[facts[name][pair]])].nic for name in ("node", "receiver"))
        qp, receiver = sender.queue_pairs[pair], other.receivers[other.receiver_row[pair]]
        mine = of_pair.get(pair, [])
        inside = sum(p.size_bytes - header for p in mine if not p.is_ack)
        sent, received, lost = int(qp["sent_bytes"]), int(receiver["received_bytes"]), int(dropped[pair, 0])
        books = f"{sent} B sent, {received} received, {lost} dropped, {inside} in the network"
        expect(sent == received + lost + inside, f"queue pair {pair}: {books}")
        if any(p.is_marker for p in mine):
            continue  # packet by packet there is nothing
        verify_pair(f"queue pair {pair}", qp, int(receiver["expected_byte"]), constants)
        messages = unfinished(sender, pair)
        if constants[IS_SELECTIVE]:
            verify_selective(f"queue pair {pair}", sender, other, pair, messages, mine, (header, lost))
        if constants[TIMEOUT_PS]:
            verify_lossy(f"queue pair {pair}", qp, int(receiver["expected_byte"]), messages, mine, constants)
        else:
            verify_lossless(f"queue pair {pair}", qp, int(receiver["expected_byte"]), messages, mine, constants)
            expect(not dropped[pair].any(), f"queue pair {pair}: {dropped[pair]} dropped, and nothing would resend it")


Message = tuple[int, int, int]  # first byte, end, flow id


def _cuts(messages: list[Message], payload: int) -> set[int]:
    """Where the packets of messages end."""
    inner = {at for first, end, _ in messages for at in range(first + payload, end, payload)}
    return inner | {end for _, end, _ in messages}


def verify_lossless(
    name: str, qp: Any, expected: int, messages: list[Message], mine: list[Held], constants: np.ndarray
) -> None:
    """Packets in the network are exactly those between what was sent, received and acknowledged."""
    payload, header, ack = (int(constants[i]) for i in (PAYLOAD_BYTES, HEADER_BYTES, ACK_BYTES))
    acked, sent = int(qp["acked_byte"]), int(qp["next_byte"])
    ends, cuts = {end: flow_id for _, end, flow_id in messages}, sorted(_cuts(messages, payload))
    whole = {int(qp["posted_end"]), *cuts, *(first for first, _, _ in messages)}
    inside = sorted({acked, expected, sent} - whole)
    expect(not inside, f"{name}: bytes {inside} sent, received or acknowledged, inside a packet")
    acks = sorted(p.sequence for p in mine if p.is_ack)
    missing = [at for at in cuts if acked < at <= expected]
    expect(acks == missing, f"{name}: ACKs of bytes {acks} in the network, {missing} outstanding")
    data = sorted((p.sequence, p.sequence + p.size_bytes - header) for p in mine if not p.is_ack)
    points = [expected, *(at for at in cuts if expected < at <= sent)]
    wanted = list(zip(points, points[1:], strict=False))
    expect(data == wanted, f"{name}: bytes {data} in the network, {wanted} sent and not received")
    for p in mine:
        expect(not p.is_ack or p.size_bytes == ack, f"{name}: an ACK of {p.size_bytes} B")
        end = p.sequence + p.size_bytes - header
        expect(
            p.is_ack or p.is_last == (end in ends) and (not p.is_last or p.label == ends[end]),
            f"{name}: the packet up to byte {end} ends a message: {p.is_last}, flow {p.label}",
        )


def verify_lossy(
    name: str, qp: Any, expected: int, messages: list[Message], mine: list[Held], constants: np.ndarray
) -> None:
    """Packets in the network are such as can have been sent, and acknowledgements of what has been received."""
    payload, header, ack = (int(constants[i]) for i in (PAYLOAD_BYTES, HEADER_BYTES, ACK_BYTES))
    acked, high = int(qp["acked_byte"]), int(qp["high_byte"])
    ends, cuts = {end: flow_id for _, end, flow_id in messages}, _cuts(messages, payload)
    whole = {int(qp["posted_end"]), *cuts, *(first for first, _, _ in messages)}
    inside = sorted({acked, expected, int(qp["next_byte"]), high} - whole)
    expect(not inside, f"{name}: bytes {inside} sent, received or acknowledged, inside a packet")
    for p in mine:
        if p.is_ack:
            is_right = p.size_bytes == ack and 0 <= p.sequence <= expected
            expect(is_right, f"{name}: an ACK of {p.size_bytes} B up to byte {p.sequence}, received {expected}")
            continue
        end = p.sequence + p.size_bytes - header
        expect(0 <= p.sequence < end <= high, f"{name}: bytes {p.sequence} to {end} in the network, sent {high}")
        if end <= acked:
            continue
        is_whole = end in whole and p.sequence in whole and end - p.sequence <= payload
        expect(is_whole, f"{name}: bytes {p.sequence} to {end} in the network are no packet")
        is_right = p.is_last == (end in ends) and (not p.is_last or p.label == ends[end])
        expect(is_right, f"{name}: the packet up to byte {end} ends a message: {p.is_last}, flow {p.label}")


def verify_pair(name: str, qp: Any, expected: int, constants: np.ndarray) -> None:
    """Order of a queue pair's byte counts, its window and its rate."""
    acked, sent, high, posted = (int(qp[field]) for field in ("acked_byte", "next_byte", "high_byte", "posted_end"))
    order = f"{name}: acknowledged {acked}, received {expected}, next {sent}, sent {high}, posted {posted}"
    expect(0 <= acked <= expected <= high <= posted and acked <= sent <= high, order)
    expect(constants[TIMEOUT_PS] or sent == high, order)
    resent = int(qp["sent_bytes"]) - high
    expect(resent >= 0, f"{name}: {qp['sent_bytes']} B sent in all, {high} different ones")
    rate_bps, line_bps, most = int(qp["rate_bps"]), int(qp["line_rate_bps"]), int(qp["max_window_bytes"])
    expect(0 < rate_bps <= line_bps, f"{name}: rate {rate_bps} bit/s, line rate {line_bps} bit/s")
    if constants[WINDOW_MODE] == WINDOW_BY_LAW:
        expect(qp["window_bytes"] > 0, f"{name}: a window of {qp['window_bytes']} B")
        return
    limit = most + int(constants[PAYLOAD_BYTES]) if most else NO_WINDOW
    expect(sent - acked < limit, f"{name}: {sent - acked} B unacknowledged, window and a packet are {limit} B")
    window = most or NO_WINDOW
    if most and constants[WINDOW_MODE] == WINDOW_FOLLOWS_RATE:
        window = max(1, most * rate_bps // line_bps)
    expect(int(qp["window_bytes"]) == window, f"{name}: window {qp['window_bytes']} B, by its rate {window} B")
