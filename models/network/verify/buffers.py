"""Checks of managed switches (design R8): queues, the shared buffer's books, and pauses.

For tests, at a round's end; see `verify`. Ports are served lazily, so the state holds up to the horizon.
"""

from collections import Counter

import numpy as np

from models.network.state.parameters import WEIGHTED
from models.network.state.records import FLAG_FRAME, HAS_BUFFER, N_QUEUE, RESERVE_BYTES, SCHEDULER, Fabric, Nic
from models.network.state.switch_state import Buffers
from models.network.verify.fabric import WIRES, Chains, Columns, columns_of, expect, is_managed_state
from models.topology.graph import Topology


def verify_buffers(
    fabric: Fabric, buffers: Buffers, nic: Nic, topology: Topology, here: np.ndarray, of_port: dict[int, Chains]
) -> None:
    """Everything about the managed switches of a rank. here: bool[n_node]; of_port: from `verify_packets`."""
    if not is_managed_state(fabric, buffers):
        return
    columns = columns_of(fabric)
    for port in np.flatnonzero(topology.is_switch[topology.port_src] & here[topology.port_src]).tolist():
        _verify_queues(fabric, buffers, columns, port, of_port[port])
    if not fabric.constants[HAS_BUFFER]:
        return
    for node in np.flatnonzero(topology.is_switch & here).tolist():
        _verify_books(fabric, buffers, columns, topology, node, of_port)
        for port in topology.in_ports(node):
            if here[topology.port_src[port]]:
                _verify_pauses(fabric, buffers, nic, columns, topology, port, of_port)


def _verify_queues(fabric: Fabric, buffers: Buffers, columns: Columns, port: int, chains: Chains) -> None:
    """Lengths, waiting bits and deficits of one port's queues."""
    n_queue, record = int(fabric.constants[N_QUEUE]), buffers.managed[port]
    for q in range(n_queue):
        queue, items, name = buffers.queues[port * n_queue + q], chains[f"queue {q}"], f"port {port} queue {q}"
        queued = sum(columns["size_bytes"][i] for i in items)
        expect(queued == queue["queued_bytes"], f"{name}: {queued} B wait, queued_bytes is {queue['queued_bytes']}")
        is_waiting = bool(int(record["waiting"]) >> q & 1)
        expect(is_waiting == bool(items), f"{name}: {len(items)} packets wait, waiting bit {is_waiting}")
        strangers = [i for i in items if columns["queue"][i] != q]
        expect(not strangers, f"{name}: packets {strangers} of other queues")
        deficit = int(queue["deficit_bytes"])
        is_fair = deficit >= 0 if items and fabric.constants[SCHEDULER] == WEIGHTED else deficit == 0
        expect(is_fair, f"{name}: a deficit of {deficit} B, {len(items)} packets wait")
    expect(int(record["waiting"]) >> n_queue == 0, f"port {port}: waiting is {record['waiting']}, {n_queue} queues")


def _verify_books(
    fabric: Fabric, buffers: Buffers, columns: Columns, topology: Topology, node: int, of_port: dict[int, Chains]
) -> None:
    """A switch has charged each ingress port and queue for what waits of it; what they share is the pool's use."""
    n_queue, reserve = int(fabric.constants[N_QUEUE]), int(fabric.constants[RESERVE_BYTES])
    waiting: Counter[tuple[int, int]] = Counter()
    for port in np.flatnonzero(topology.port_src == node).tolist():
        for q in range(1, n_queue):
            for i in of_port[port][f"queue {q}"]:
                waiting[columns["arrival_ps"][i], q] += columns["size_bytes"][i]
    shared = aside = n_pausing = 0
    for port in topology.in_ports(node):
        most = int(buffers.inlets["headroom_bytes"][port])
        aside += (reserve + most) * (n_queue - 1)
        for q in range(1, n_queue):
            held, name = buffers.ingress[port * n_queue + q], f"{topology.node_name[node]}: port {port} queue {q}"
            total = int(held["held_bytes"] + held["headroom_bytes"])
            found = waiting.pop((port, q), 0)
            expect(total == found, f"{name}: charged for {total} B, {found} B of it wait")
            expect(0 <= held["headroom_bytes"] <= most, f"{name}: {held['headroom_bytes']} B in a headroom of {most} B")
            expect(held["held_bytes"] >= 0, f"{name}: {held['held_bytes']} B held")
            expect(found or not held["is_pausing"], f"{name}: pauses its sender and holds nothing of it")
            shared += max(0, int(held["held_bytes"]) - reserve)
            n_pausing += int(held["is_pausing"])
    expect(not waiting, f"{topology.node_name[node]}: packets of {dict(waiting)} (port, queue), which do not lead here")
    switch, name = buffers.switches[node], topology.node_name[node]
    counted = int(switch["shared_bytes"] - switch["frozen_bytes"])
    expect(shared == counted, f"{name}: {shared} B shared, {counted} B counted")
    expect(n_pausing == switch["n_pausing"], f"{name}: {n_pausing} queues pause, {switch['n_pausing']} counted")
    pool = int(switch["pool_bytes"])
    expect(shared <= pool, f"{name}: {shared} B in a pool of {pool} B, of a buffer of {pool + aside} B")


def _verify_pauses(
    fabric: Fabric, buffers: Buffers, nic: Nic, columns: Columns, topology: Topology, port: int,
    of_port: dict[int, Chains],
) -> None:  # fmt: skip
    """A sender is paused if its receiver wants it, or will be by the last frame that is on its way."""
    n_queue, back = int(fabric.constants[N_QUEUE]), of_port[int(topology.port_peer[port])]
    if topology.is_switch[topology.port_src[port]]:
        paused = int(buffers.managed["paused"][port])
    else:
        paused = int(nic.nic_ports["paused"][port])
    expect(not paused & 1, f"port {port}: queue 0, which holds nothing of the buffer, is paused")
    for q in range(1, n_queue):
        frames = [i for kind in (*WIRES, "frame") for i in back.get(kind, ()) if columns["bits"][i] & FLAG_FRAME]
        told = [bool(columns["sequence"][i]) for i in frames if columns["queue"][i] == q]
        will_be = told[-1] if told else bool(paused >> q & 1)
        wanted = bool(buffers.ingress["is_pausing"][port * n_queue + q])
        expect(will_be == wanted, f"port {port} queue {q}: to be paused: {wanted}; paused after {told}: {will_be}")
        now = [bool(paused >> q & 1), *told]
        expect(all(a != b for a, b in zip(now, now[1:], strict=False)), f"port {port} queue {q}: told {now} in turn")
