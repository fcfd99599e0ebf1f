"""Checks of the network's state: every fact that is stored twice is worked out again, slowly, and compared.

For tests, at a round's end (design R8): nothing is lost in this version, so what a queue pair sent and its receiver
does not have is waiting or on wires. `verify_network` is for a run on one rank; `verify_ranks` takes all ranks' states.
Every failure is an AssertionError that says who and what.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from models.network.build import NetworkState
from models.network.rounds import PACKET_WORDS
from models.network.state import (
    ACK_BYTES,
    FLAG_ACK,
    FLAG_LAST,
    FREE_MESSAGE,
    FREE_PACKET,
    HEADER_BYTES,
    N_DEPARTED,
    N_FREE_MESSAGE,
    N_FREE_PACKET,
    NOT_CHAINED,
    PACKET,
    PAYLOAD_BYTES,
    Fabric,
    Nic,
)
from models.topology.graph import Topology
from pdes.engine.bits import WORD_BITS, n_word
from pdes.engine.exchange import HEADER_WORDS, ExchangeState
from pdes.engine.time_index import NEVER


class Held(NamedTuple):
    """A packet that waits or is on a wire."""

    pair: int
    is_ack: bool
    sequence: int
    size_bytes: int
    is_last: bool
    label: int


def expect(holds: object, else_what: str) -> None:
    """Raise AssertionError with who and what unless a fact holds; `assert` would vanish under -O."""
    if not holds:
        raise AssertionError(else_what)


def verify_network(state: NetworkState, topology: Topology) -> None:
    """Everything about a run on one rank, at a round's end."""
    verify_ranks([state], [], topology, np.zeros(topology.n_node, np.int64))


def verify_ranks(
    states: Sequence[NetworkState], exchanges: Sequence[ExchangeState], topology: Topology, rank_of_node: np.ndarray
) -> None:
    """Everything about a run, from all its ranks after the same round. exchanges: theirs, with inboxes not unpacked."""
    held: list[Held] = []
    for rank, state in enumerate(states):
        here = rank_of_node == rank
        held += verify_packets(state.fabric, topology, here)
        verify_node_times(state, topology, here)
        verify_ports(state, topology, here)
        verify_messages(state.nic, state.fabric.counters)
    for ex in exchanges:
        held += in_inboxes(ex)
    verify_conservation(states, topology, rank_of_node, held)


def chain(head: int, following: Sequence[int], seen: dict[int, str], name: str) -> list[int]:
    """Items of a linked list. seen: where items were found before; none may be in two lists."""
    items = []
    while head >= 0:
        if head in seen:
            raise AssertionError(f"item {head} is in {name} and in {seen[head]}")
        seen[head] = name
        items.append(head)
        head = following[head]
    return items


def verify_packets(fabric: Fabric, topology: Topology, here: np.ndarray) -> list[Held]:
    """Chains, pool, order on wires, queue lengths, mask bits; what this rank holds. here: bool[n_node]."""
    columns = {name: fabric.packets[name].tolist() for name in fabric.packets.dtype.names or ()}
    ports, label, seen, held = fabric.ports, fabric.label.tolist(), {}, []
    src, dst = topology.port_src.tolist(), topology.port_dst.tolist()
    for port in range(topology.n_port):
        record, name = ports[port], f"port {port} ({topology.node_name[src[port]]} to {topology.node_name[dst[port]]})"
        lists = {}
        for kind in ("link", "ack", "data"):
            items = chain(int(record[f"{kind}_head"]), columns["next"], seen, f"{name} {kind}")
            tail = int(record[f"{kind}_tail"])
            expect(not items or items[-1] == tail, f"{name}: {kind}_tail is {tail}, the chain ends at {items[-1:]}")
            lists[kind] = items
            for i in items:
                flags = columns["bits"][i]
                held.append(
                    Held(
                        columns["queue_pair"][i], bool(flags & FLAG_ACK), columns["sequence"][i],
                        columns["size_bytes"][i], bool(flags & FLAG_LAST), label[i],
                    )
                )  # fmt: skip
                on = int(fabric.path_port[columns["path"][i] - 1])
                expect(on == port, f"packet {i} is in {name} {kind} and its path has it at port {on}")
        _verify_port(name, record, lists, columns, fabric, bool(here[src[port]]), bool(here[dst[port]]))
        bit = port - int(fabric.nodes["first_in"][dst[port]])
        word = int(fabric.mask[int(fabric.nodes["first_mask"][dst[port]]) + bit // WORD_BITS])
        is_set = bool(word >> (bit % WORD_BITS) & 1)
        expect(is_set == bool(lists["link"]), f"{name}: mask bit {is_set}, {len(lists['link'])} packets on the wire")
    n_bit = sum(int(word).bit_count() for word in fabric.mask)
    n_link = int((ports["link_head"] >= 0).sum())
    expect(n_bit == n_link, f"{n_bit} bits in the mask, {n_link} links that carry packets")
    free = chain(int(fabric.counters[FREE_PACKET]), columns["next"], seen, "the free packets")
    n_free = int(fabric.counters[N_FREE_PACKET])
    expect(len(free) == n_free, f"{len(free)} free packets, {n_free} counted")
    n_packet = len(fabric.packets)
    expect(len(seen) == n_packet, f"{len(seen)} packets free, waiting or on wires, {n_packet} in the pool")
    expect(fabric.counters[N_DEPARTED] == 0, f"{fabric.counters[N_DEPARTED]} ports departed and not packed")
    return held


def _verify_port(
    name: str, record: Any, lists: dict[str, list[int]], columns: dict, fabric: Fabric, sends: bool, receives: bool
) -> None:
    """One port's chains. sends, receives: whether the sending and the receiving node are on this rank."""
    arrivals = [columns["arrival_ps"][i] for i in lists["link"]]
    ordered = all(a < b for a, b in zip(arrivals, arrivals[1:], strict=False))
    expect(ordered, f"{name}: packets on the wire arrive at {arrivals}, out of order")
    expect(receives or not arrivals, f"{name}: {len(arrivals)} packets on a wire to another rank")
    expect(sends or not lists["ack"] + lists["data"], f"{name}: packets wait at a port of another rank")
    if arrivals and sends:
        last_ps = int(record["free_at_ps"] + record["delay_ps"])
        expect(arrivals[-1] == last_ps, f"{name}: last arrival at {arrivals[-1]} ps, last sent for {last_ps} ps")
    for kind, wanted in (("ack", True), ("data", False)):
        wrong = [i for i in lists[kind] if bool(columns["bits"][i] & FLAG_ACK) != wanted]
        expect(not wrong, f"{name}: packets {wrong} in the wrong class, {kind}")
    queued = sum(columns["size_bytes"][i] for i in lists["data"])
    expect(queued == record["queued_bytes"], f"{name}: {queued} B wait, queued_bytes is {record['queued_bytes']}")
    most = int(record["max_queued_bytes"])
    expect(queued <= most, f"{name}: {queued} B wait, the maximum is {most}")
    for items in lists.values():
        newest: dict[tuple[int, int], int] = {}
        for i in items:
            key, sequence = (columns["queue_pair"][i], columns["bits"][i] & FLAG_ACK), columns["sequence"][i]
            expect(sequence > newest.get(key, -1), f"{name}: queue pair {key[0]} overtook itself at byte {sequence}")
            newest[key] = sequence


def verify_node_times(state: NetworkState, topology: Topology, here: np.ndarray) -> None:
    """Every leaf of the time index is the least of what its node has, and every inner node the least of its two."""
    fabric, nic, streams = state.fabric, state.nic, state.work.streams
    tree, heads = fabric.node_time, fabric.ports["link_head"]
    size = len(tree) // 2
    inner = np.minimum(tree[2::2], tree[3::2])
    expect((tree[1:size] == inner).all(), "an inner node of the time index is not the least of its children")
    least = np.full(size, NEVER, np.int64)
    full = np.flatnonzero(heads >= 0)
    np.minimum.at(least, topology.port_dst[full], fabric.packets["arrival_ps"][heads[full]])
    waits = np.flatnonzero((fabric.ports["ack_head"] >= 0) | (fabric.ports["data_head"] >= 0))
    waits = waits[topology.is_switch[topology.port_src[waits]]]
    np.minimum.at(least, topology.port_src[waits], fabric.ports["free_at_ps"][waits])
    of_nic = np.flatnonzero(~topology.is_switch[topology.port_src])
    np.minimum.at(least, topology.port_src[of_nic], nic.nic_ports["next_start_ps"][of_nic])
    wake_ps = np.full(topology.n_node, NEVER, np.int64)
    np.minimum.at(wake_ps, streams["node"], streams["wake_ps"])
    for node in range(topology.n_node):
        name = topology.node_name[node]
        stored = int(fabric.nodes["wake_ps"][node])
        expect(stored == wake_ps[node], f"{name}: wake_ps {stored}, its streams' least {wake_ps[node]}")
        least_ps = min(int(least[node]), stored) if here[node] else NEVER
        leaf_ps = int(tree[size + node])
        expect(leaf_ps == least_ps, f"{name}: next event {leaf_ps} ps in the time index, {least_ps} ps in its state")
    expect((tree[size + topology.n_node :] == NEVER).all(), "a leaf without a node has an event")


def verify_ports(state: NetworkState, topology: Topology, here: np.ndarray) -> None:
    """Chains of waiting ports, ready bits and next starts."""
    fabric, nic, in_chain = state.fabric, state.nic, {}
    wait_next = fabric.port_info["wait_next"].tolist()
    for node in np.flatnonzero(topology.is_switch):
        chain(int(fabric.nodes["wait_head"][node]), wait_next, in_chain, f"{topology.node_name[node]}'s waiters")
    for port in range(topology.n_port):
        record, node, name = fabric.ports[port], int(topology.port_src[port]), f"port {port}"
        waits = bool(record["ack_head"] >= 0 or record["data_head"] >= 0)
        if topology.is_switch[node]:
            chained = in_chain.get(port) == f"{topology.node_name[node]}'s waiters"
            expect(waits == chained, f"{name}: packets wait: {waits}; in its switch's chain: {chained}")
        expect(
            (wait_next[port] == NOT_CHAINED) == (port not in in_chain),
            f"{name}: wait_next is {wait_next[port]}, in a chain: {port in in_chain}",
        )
        if topology.is_switch[node] or not here[node]:
            continue
        expect(record["data_head"] < 0, f"{name} of a NIC has data packets waiting")
        start_ps = int(record["free_at_ps"]) if record["ack_head"] >= 0 else NEVER
        for pair, is_ready in _ready_pairs(nic, port):
            qp = nic.queue_pairs[pair]
            may = qp["next_byte"] < qp["posted_end"] and qp["next_byte"] - qp["acked_byte"] < qp["window_bytes"]
            expect(bool(may) == is_ready, f"queue pair {pair}: may send: {may}; ready bit: {is_ready}")
            if may:
                start_ps = min(start_ps, max(int(record["free_at_ps"]), int(qp["next_send_ps"])))
        stored_ps = int(nic.nic_ports["next_start_ps"][port])
        expect(stored_ps == start_ps, f"{name}: next_start_ps {stored_ps}, and it can start at {start_ps}")


def _ready_pairs(nic: Nic, port: int) -> Iterator[tuple[int, bool]]:
    first_pair, n_pair, first_ready = (int(nic.nic_ports[n][port]) for n in ("first_pair", "n_pair", "first_ready"))
    if n_pair > WORD_BITS:
        low = nic.ready[first_ready : first_ready + n_word(n_pair)] != 0
        for i, filled in enumerate(low):
            word = int(nic.ready[first_ready + len(low) + i // WORD_BITS])
            expect(bool(word >> (i % WORD_BITS) & 1) == filled, f"port {port}: upper level of its ready set, word {i}")
    for i in range(n_pair):
        word = int(nic.ready[first_ready + i // WORD_BITS])
        yield first_pair + i, bool(word >> (i % WORD_BITS) & 1)


def _unfinished(nic: Nic, pair: int) -> list[tuple[int, int, int]]:
    """(first byte, end, flow id) of a queue pair's messages that are not acknowledged whole, oldest first."""
    out, place = [], int(nic.queue_pairs["first_message"][pair])
    while place >= 0:
        message = nic.messages[place]
        end = int(message["end_byte"])
        out.append((end - int(message["size_bytes"]), end, int(message["flow_id"])))
        place = int(message["next"])
    return out


def verify_messages(nic: Nic, counters: np.ndarray) -> None:
    """Message chains of the queue pairs and the free ones: disjoint, complete, and the bytes follow on."""
    following, seen = nic.messages["next"].tolist(), {}
    for pair, qp in enumerate(nic.queue_pairs):
        name = f"queue pair {pair}"
        items = chain(int(qp["first_message"]), following, seen, name)
        last = items[-1] if items else -1
        expect(int(qp["last_message"]) == last, f"{name}: last_message {qp['last_message']}, the chain ends at {last}")
        at, sending = None, -1
        for i, (first, end, _) in zip(items, _unfinished(nic, pair), strict=True):
            expect(at in (None, first), f"{name}: a message begins at byte {first}, the one before ends at {at}")
            at = end
            if sending < 0 and end > qp["next_byte"]:
                sending = i
                expect(qp["message_end"] == end, f"{name}: message_end {qp['message_end']}, its message ends at {end}")
        expect(at in (None, int(qp["posted_end"])), f"{name}: messages end at byte {at}, posted {qp['posted_end']}")
        expect(int(qp["sending_message"]) == sending, f"{name}: sends message {qp['sending_message']}, not {sending}")
    free = chain(int(counters[FREE_MESSAGE]), following, seen, "the free messages")
    expect(len(free) == counters[N_FREE_MESSAGE], f"{len(free)} free messages, {counters[N_FREE_MESSAGE]} counted")
    expect(len(seen) == len(following), f"{len(seen)} messages free or in use, {len(following)} in the pool")


def in_inboxes(ex: ExchangeState) -> list[Held]:
    """Packets that were received from other ranks and are not on their links yet (layout: `rounds.pack_departures`)."""
    held = []
    for box, n_in in zip(ex.inbox, ex.n_in.tolist(), strict=True):
        at = HEADER_WORDS
        while at < HEADER_WORDS + n_in:
            n_packet = int(box[at]) & 0xFFFFFFFF
            at += 1
            for _ in range(n_packet):
                item = box[at : at + PACKET_WORDS].view(PACKET)[0]
                at += PACKET_WORDS
                is_last = bool(item["bits"] & FLAG_LAST)
                label = int(box[at]) if is_last else 0
                at += is_last
                pair, sequence, size_bytes = (int(item[name]) for name in ("queue_pair", "sequence", "size_bytes"))
                held.append(Held(pair, bool(item["bits"] & FLAG_ACK), sequence, size_bytes, is_last, label))
    return held


def verify_conservation(
    states: Sequence[NetworkState], topology: Topology, rank_of_node: np.ndarray, held: list[Held]
) -> None:
    """R8 per queue pair: packets in the network are exactly those between what was sent, received and acknowledged."""
    constants, path_port = states[0].fabric.constants, states[0].fabric.path_port
    payload, header, ack = (int(constants[i]) for i in (PAYLOAD_BYTES, HEADER_BYTES, ACK_BYTES))
    of_pair: dict[int, list[Held]] = {}
    for packet in held:
        of_pair.setdefault(packet.pair, []).append(packet)
    pairs = states[0].nic.queue_pairs
    for pair in range(len(pairs)):
        src = int(topology.port_src[pairs["port"][pair]])
        dst = int(topology.port_src[path_port[pairs["ack_path"][pair]]])
        sender = states[int(rank_of_node[src])].nic
        qp, received = sender.queue_pairs[pair], states[int(rank_of_node[dst])].nic.queue_pairs[pair]
        _verify_pair(f"queue pair {pair}", qp, int(received["expected_byte"]), payload)
        messages, acked = _unfinished(sender, pair), int(qp["acked_byte"])
        ends = {end: flow_id for _, end, flow_id in messages}
        cuts = sorted({*ends, *(at for first, end, _ in messages for at in range(first + payload, end, payload))})
        expected, sent = int(received["expected_byte"]), int(qp["next_byte"])
        whole = {int(qp["posted_end"]), *cuts, *(first for first, _, _ in messages)}
        inside = sorted({acked, expected, sent} - whole)
        expect(not inside, f"queue pair {pair}: bytes {inside} sent, received or acknowledged, inside a packet")
        mine = of_pair.get(pair, [])
        acks = sorted(p.sequence for p in mine if p.is_ack)
        missing = [at for at in cuts if acked < at <= expected]
        expect(acks == missing, f"queue pair {pair}: ACKs of bytes {acks} in the network, {missing} outstanding")
        data = sorted((p.sequence, p.sequence + p.size_bytes - header) for p in mine if not p.is_ack)
        points = [expected, *(at for at in cuts if expected < at <= sent)]
        wanted = list(zip(points, points[1:], strict=False))
        expect(data == wanted, f"queue pair {pair}: bytes {data} in the network, {wanted} sent and not received")
        for p in mine:
            expect(not p.is_ack or p.size_bytes == ack, f"queue pair {pair}: an ACK of {p.size_bytes} B")
            end = p.sequence + p.size_bytes - header
            expect(
                p.is_ack or p.is_last == (end in ends) and (not p.is_last or p.label == ends[end]),
                f"queue pair {pair}: the packet up to byte {end} ends a message: {p.is_last}, flow {p.label}",
            )


def _verify_pair(name: str, qp: Any, expected: int, payload: int) -> None:
    """Order of a queue pair's byte counts, its window and its rate."""
    acked, sent, posted = int(qp["acked_byte"]), int(qp["next_byte"]), int(qp["posted_end"])
    order = f"{name}: acknowledged {acked}, received {expected}, sent {sent}, posted {posted}"
    expect(0 <= acked <= expected <= sent <= posted, order)
    limit = int(qp["max_window_bytes"]) + payload
    expect(sent - acked < limit, f"{name}: {sent - acked} B unacknowledged, window and a packet are {limit} B")
    rate_bps, line_bps, most = int(qp["rate_bps"]), int(qp["line_rate_bps"]), int(qp["max_window_bytes"])
    expect(0 < rate_bps <= line_bps, f"{name}: rate {rate_bps} bit/s, line rate {line_bps} bit/s")
    window = max(1, most * rate_bps // line_bps)
    expect(int(qp["window_bytes"]) == window, f"{name}: window {qp['window_bytes']} B, by its rate {window} B")
