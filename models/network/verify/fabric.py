"""Checks of ports, wires and pools: chains of packets, what waits where, and when each node has its next event.

For tests, at a round's end; see `verify`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from models.network.state.records import (
    FLAG_ACK,
    FLAG_FRAME,
    FLAG_LAST,
    FLAG_MARKER,
    FREE_PACKET,
    HEADER_BYTES,
    MARKER_COLUMN,
    MARKER_SIZE,
    N_DEPARTED,
    N_FREE_PACKET,
    N_FROZEN_PORT,
    N_QUEUE,
    NOT_CHAINED,
    TIMEOUT_PS,
    Fabric,
    Nic,
)
from models.network.state.switch_state import Buffers
from models.topology.graph import Topology
from models.workload.program import Work
from pdes.engine.bits import WORD_BITS
from pdes.engine.time_index import NEVER


class Held(NamedTuple):
    """A data packet or an acknowledgement that waits or is on a wire."""

    pair: int
    is_ack: bool
    sequence: int
    size_bytes: int
    is_last: bool
    label: int
    is_marker: bool = False  # it stands for a message, or the rest of one


Columns = dict[str, list[int]]
Chains = dict[str, list[int]]
"""Packets of one port by where they are: "link"; "ack" and "data", or "frame" and "queue 0", "queue 1", ..."""


WIRES = ("link", "frozen link")
"""Chains of packets that travel; the second one is of a port whose network partition is frozen."""


def expect(holds: object, else_what: str) -> None:
    """Raise AssertionError with who and what unless a fact holds; `assert` would vanish under -O."""
    if not holds:
        raise AssertionError(else_what)


def is_managed_state(fabric: Fabric, buffers: Buffers) -> bool:
    """Whether the switches of this state are `managed_switch`'s."""
    return len(buffers.queues) == len(fabric.ports) * int(fabric.constants[N_QUEUE])


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


def columns_of(fabric: Fabric) -> Columns:
    """The packets' fields as lists."""
    return {name: fabric.packets[name].tolist() for name in fabric.packets.dtype.names or ()}


def kept_ports(fabric: Fabric, topology: Topology, here: np.ndarray) -> np.ndarray:
    """int64[]: ports with records on this rank. Others, if any, are zeros, and none has an end here."""
    is_kept = fabric.port_info["rate_bps"] > 0
    expect(is_kept[here[topology.port_src] | here[topology.port_dst]].all(), "a port with an end here has no record")
    for table in (fabric.ports, fabric.port_info):
        words = table.view(np.ndarray).view(np.int64).reshape(topology.n_port, -1)
        expect(not words[~is_kept].any(), "a record of a port without an end here was written")
    return np.flatnonzero(is_kept)


def verify_frozen(fabric: Fabric, nic: Nic) -> None:
    """Frozen ports are counted, and nothing of their queue pairs is on their wires where receivers would look."""
    frozen = np.flatnonzero(nic.frozen_port == 1)
    n_frozen = int(fabric.counters[N_FROZEN_PORT])
    expect(len(frozen) == n_frozen, f"{len(frozen)} ports are frozen, {n_frozen} counted")
    is_frozen, packets = nic.is_frozen, fabric.packets
    for port in frozen.tolist():
        for packet in chain(int(fabric.ports["link_head"][port]), packets["next"].tolist(), {}, "a frozen wire"):
            pair = int(packets["queue_pair"][packet])
            expect(not is_frozen[pair], f"port {port} is frozen, and a packet of queue pair {pair} is on its wire")


def verify_packets(
    fabric: Fabric, buffers: Buffers, topology: Topology, here: np.ndarray, hidden: np.ndarray | None
) -> tuple[list[Held], dict[int, Chains]]:
    """Chains, pool, order on wires, queue lengths, mask bits; what this rank holds. here: bool[n_node].

    hidden: int[n_port], the first packet on a frozen port's link, else -1; None where nothing is ever frozen.
    """
    first_hidden = [-1] * topology.n_port if hidden is None else hidden.tolist()
    columns, seen = columns_of(fabric), {}
    held: list[Held] = []
    of_port: dict[int, Chains] = {}
    src, dst = topology.port_src.tolist(), topology.port_dst.tolist()
    for port in kept_ports(fabric, topology, here).tolist():
        name = f"port {port} ({topology.node_name[src[port]]} to {topology.node_name[dst[port]]})"
        is_managed = bool(topology.is_switch[src[port]]) and is_managed_state(fabric, buffers)
        chains = _chains(fabric, buffers, columns, seen, port, name, is_managed, first_hidden[port])
        of_port[port] = chains
        for items in chains.values():
            held += [_held(fabric, columns, port, i, name) for i in items if not columns["bits"][i] & FLAG_FRAME]
        is_here, moves = (bool(here[src[port]]), bool(here[dst[port]])), is_managed or hidden is not None
        _verify_port(name, fabric, columns, port, chains, is_here, moves)
        _verify_mask(fabric, topology, port, bool(chains["link"]), name)
    n_bit = sum(int(word).bit_count() for word in fabric.mask)
    n_link = sum(bool(chains["link"]) for chains in of_port.values())
    expect(n_bit == n_link, f"{n_bit} bits in the mask, {n_link} links that carry packets")
    free = chain(int(fabric.counters[FREE_PACKET]), columns["next"], seen, "the free packets")
    n_free = int(fabric.counters[N_FREE_PACKET])
    expect(len(free) == n_free, f"{len(free)} free packets, {n_free} counted")
    n_packet = len(fabric.packets)
    expect(len(seen) == n_packet, f"{len(seen)} packets free, waiting or on wires, {n_packet} in the pool")
    expect(fabric.counters[N_DEPARTED] == 0, f"{fabric.counters[N_DEPARTED]} ports departed and not packed")
    return held, of_port


def _chains(
    fabric: Fabric, buffers: Buffers, columns: Columns, seen: dict[int, str], port: int, name: str, is_managed: bool,
    hidden: int,
) -> Chains:  # fmt: skip
    """All packets of a port; their chains end where they say. hidden: the first packet on its link if it is frozen."""
    record = buffers.managed[port] if is_managed else fabric.ports[port]
    kinds = ("link", "frame") if is_managed else ("link", "ack", "data")
    ends = {kind: (int(record[f"{kind}_head"]), int(record[f"{kind}_tail"])) for kind in kinds}
    if is_managed:
        n_queue = int(fabric.constants[N_QUEUE])
        for q in range(n_queue):
            queue = buffers.queues[port * n_queue + q]
            ends[f"queue {q}"] = int(queue["head"]), int(queue["tail"])
    chains = {}
    for kind, (head, tail) in ends.items():
        items = chains[kind] = chain(head, columns["next"], seen, f"{name} {kind}")
        expect(not items or items[-1] == tail, f"{name}: the tail of {kind} is {tail}, it ends at {items[-1:]}")
    if hidden >= 0:  # beside what has strayed onto it; where it ends is found when it thaws
        chains["frozen link"] = chain(hidden, columns["next"], seen, f"{name} frozen link")
    return chains


def _held(fabric: Fabric, columns: Columns, port: int, i: int, name: str) -> Held:
    """A packet in short; it is where its path has it, unless switches choose its way."""
    flags, path = columns["bits"][i], columns["path"][i]
    on, following = int(fabric.path_port[path - 1]), int(fabric.path_port[path])
    expect(on == port or following < -1, f"packet {i} is in {name} and its path has it at port {on}")
    sequence, size_bytes = columns["sequence"][i], columns["size_bytes"][i]
    if flags & FLAG_MARKER:
        size = int(fabric.extra[i, int(fabric.constants[MARKER_COLUMN]) + MARKER_SIZE])
        sequence, size_bytes = sequence - size, size + int(fabric.constants[HEADER_BYTES])
    return Held(
        columns["queue_pair"][i], bool(flags & FLAG_ACK), sequence, size_bytes, bool(flags & FLAG_LAST),
        int(fabric.label[i]), bool(flags & FLAG_MARKER),
    )  # fmt: skip


def _verify_port(
    name: str, fabric: Fabric, columns: Columns, port: int, chains: Chains, is_here: tuple[bool, bool], moves: bool
) -> None:
    """One port's chains. is_here: whether the sending and the receiving node are on this rank.

    moves: free_at_ps of an idle port moves as time passes, with managed switches and with the memo.
    """
    sends, receives = is_here
    record, waiting = fabric.ports[port], [i for kind, items in chains.items() if kind not in WIRES for i in items]
    on_wires = [[columns["arrival_ps"][i] for i in chains[kind]] for kind in WIRES if chains.get(kind)]
    has_marker = any(columns["bits"][i] & FLAG_MARKER for kind in WIRES for i in chains.get(kind, []))
    # else something has strayed onto a frozen wire, or never left the port
    arrivals = on_wires[0] if len(on_wires) == 1 and not has_marker else []
    moves = moves or has_marker
    for at_ps in on_wires:
        ordered = all(a < b or (moves and a == b) for a, b in zip(at_ps, at_ps[1:], strict=False))
        expect(ordered, f"{name}: packets on the wire arrive at {at_ps}, out of order")
        expect(receives, f"{name}: {len(at_ps)} packets on a wire to another rank")
    expect(sends or not waiting, f"{name}: packets wait at a port of another rank")
    if arrivals and sends:
        last_ps = int(record["free_at_ps"] + record["delay_ps"])
        is_right = arrivals[-1] == last_ps or (moves and arrivals[-1] < last_ps)
        expect(is_right, f"{name}: last arrival at {arrivals[-1]} ps, last sent for {last_ps} ps")
    wanted = {"ack": FLAG_ACK, "data": 0, "frame": FLAG_FRAME, "queue 0": FLAG_ACK}
    for kind, items in chains.items():
        flag = wanted.get(kind, 0)
        wrong = [i for i in items if kind not in WIRES and columns["bits"][i] & (FLAG_ACK | FLAG_FRAME) != flag]
        expect(not wrong, f"{name}: packets {wrong} in the wrong class, {kind}")
        _verify_order(name, fabric, columns, items)
    queued = sum(columns["size_bytes"][i] for i in waiting if not columns["bits"][i] & (FLAG_ACK | FLAG_FRAME))
    expect(queued == record["queued_bytes"], f"{name}: {queued} B wait, queued_bytes is {record['queued_bytes']}")
    most = int(record["max_queued_bytes"])
    expect(queued <= most, f"{name}: {queued} B wait, the maximum is {most}")


def _verify_order(name: str, fabric: Fabric, columns: Columns, items: list[int]) -> None:
    """Packets of a queue pair follow on as they were made, on a fixed path; with resends that holds for ACKs alone."""
    newest: dict[tuple[int, int], int] = {}
    is_lossless = fabric.constants[TIMEOUT_PS] == 0
    for i in items:
        is_ack, sequence = columns["bits"][i] & FLAG_ACK, columns["sequence"][i]
        if columns["bits"][i] & (FLAG_FRAME | FLAG_MARKER) or int(fabric.path_port[columns["path"][i]]) < -1:
            continue
        key = (columns["queue_pair"][i], is_ack)
        last = newest.get(key, -1)
        follows = sequence > last if is_lossless else (sequence >= last or not is_ack)
        expect(follows, f"{name}: queue pair {key[0]} overtook itself at byte {sequence}")
        newest[key] = sequence


def _verify_mask(fabric: Fabric, topology: Topology, port: int, carries: bool, name: str) -> None:
    """The bit of a link at its receiver."""
    dst = topology.port_dst[port]
    bit = port - int(fabric.nodes["first_in"][dst])
    word = int(fabric.mask[int(fabric.nodes["first_mask"][dst]) + bit // WORD_BITS])
    is_set = bool(word >> (bit % WORD_BITS) & 1)
    expect(is_set == carries, f"{name}: mask bit {is_set}, packets on the wire: {carries}")


def waits(fabric: Fabric, buffers: Buffers, port: int) -> tuple[bool, bool]:
    """(something waits at a switch's port, something of it may go)."""
    if is_managed_state(fabric, buffers):
        record = buffers.managed[port]
        has_frame = record["frame_head"] >= 0
        return bool(has_frame or record["waiting"]), bool(has_frame or record["waiting"] & ~record["paused"])
    record = fabric.ports[port]
    some = bool(record["ack_head"] >= 0 or record["data_head"] >= 0)
    return some, some


def verify_waiting(fabric: Fabric, buffers: Buffers, nic: Nic, topology: Topology, here: np.ndarray) -> None:
    """Every switch has a chain of those of its ports where something waits, unless they are frozen."""
    wait_next, in_chain = fabric.port_info["wait_next"].tolist(), {}
    for node in np.flatnonzero(topology.is_switch):
        chain(int(fabric.nodes["wait_head"][node]), wait_next, in_chain, f"{topology.node_name[node]}'s waiters")
    for port in kept_ports(fabric, topology, here).tolist():
        node, name = int(topology.port_src[port]), f"port {port}"
        if topology.is_switch[node]:
            some = waits(fabric, buffers, port)[0] and nic.frozen_port[port] != 1
            chained = in_chain.get(port) == f"{topology.node_name[node]}'s waiters"
            expect(some == chained, f"{name}: packets wait: {some}; in its switch's chain: {chained}")
        expect(
            (wait_next[port] == NOT_CHAINED) == (port not in in_chain),
            f"{name}: wait_next is {wait_next[port]}, in a chain: {port in in_chain}",
        )


def verify_node_times(
    fabric: Fabric, buffers: Buffers, nic: Nic, work: Work, topology: Topology, here: np.ndarray
) -> None:
    """Every leaf of the time index is the least of what its node has, and every inner node the least of its two."""
    tree, heads = fabric.node_time, fabric.ports["link_head"]
    size = len(tree) // 2
    inner = np.minimum(tree[2::2], tree[3::2])
    expect((tree[1:size] == inner).all(), "an inner node of the time index is not the least of its children")
    least = np.full(size, NEVER, np.int64)
    kept = kept_ports(fabric, topology, here)
    full = kept[heads[kept] >= 0]
    np.minimum.at(least, topology.port_dst[full], fabric.packets["arrival_ps"][heads[full]])
    at_switch = kept[topology.is_switch[topology.port_src[kept]]]
    at_switch = at_switch[nic.frozen_port[at_switch] != 1]
    able = np.array([port for port in at_switch.tolist() if waits(fabric, buffers, port)[1]], np.int64)
    np.minimum.at(least, topology.port_src[able], fabric.ports["free_at_ps"][able])
    of_nic = kept[~topology.is_switch[topology.port_src[kept]]]
    np.minimum.at(least, topology.port_src[of_nic], nic.nic_ports["next_start_ps"][of_nic])
    timed = np.flatnonzero(fabric.nodes["n_timer"] > 0)
    np.minimum.at(least, timed, nic.timers[fabric.nodes["first_timer"][timed] + 1])
    wake_ps = np.full(topology.n_node, NEVER, np.int64)
    np.minimum.at(wake_ps, work.streams["node"], work.streams["wake_ps"])
    for node in range(topology.n_node):
        name = topology.node_name[node]
        stored = int(fabric.nodes["wake_ps"][node])
        expect(stored == wake_ps[node], f"{name}: wake_ps {stored}, its streams' least {wake_ps[node]}")
        least_ps = min(int(least[node]), stored) if here[node] else NEVER
        leaf_ps = int(tree[size + node])
        expect(leaf_ps == least_ps, f"{name}: next event {leaf_ps} ps in the time index, {least_ps} ps in its state")
    expect((tree[size + topology.n_node :] == NEVER).all(), "a leaf without a node has an event")
