"""Room for packets: who wants how much, and moving in. In the beginning all links and nodes want some.

Where packets lie nobody else sees, so that room may grow between any two windows and results do not depend on it.
"""

from typing import Any

import numpy as np

from models.network.windows.state import N_USED, ROOM, STOPPED, Windows
from pdes.engine.jit import aligned_zeros, program_kernel, step_kernel


def wanted_room(wires: np.ndarray, spots: np.ndarray, status: np.ndarray) -> np.ndarray:
    """ROOM[]: what is given to those that want some, behind all that is in use; status then counts it, too."""
    ports, nodes = np.flatnonzero(wires["n_wanted"]), np.flatnonzero(spots["n_wanted"])
    rows = np.zeros(len(ports) + len(nodes), ROOM)
    rows["owner"] = np.concatenate([ports, nodes])
    rows["is_node"][len(ports) :] = 1
    rows["n_place"] = np.concatenate([wires["n_wanted"][ports], spots["n_wanted"][nodes]])
    rows["first"] = status[N_USED] + np.cumsum(rows["n_place"]) - rows["n_place"]
    status[N_USED] += rows["n_place"].sum()
    status[STOPPED] = 0
    return rows


def places_for(status: np.ndarray, n_old: int) -> int:
    """Rows that `packets` gets: it grows by half at least, so seldom."""
    n_used = int(status[N_USED])
    return n_old if n_used <= n_old else max(n_used, n_old + n_old // 2)


@step_kernel
def give_room(w: Windows, rows, i):
    """A link's packets go into its longer ring, which is a power of two; a node's new places become its first ones."""
    row = rows[np.uint64(i)]
    first, n_place = row.first, row.n_place
    if row.is_node:
        spot = w.spots[np.uint64(row.owner)]
        for place in range(first, first + n_place):
            w.packets[np.uint64(place)].next = place + 1
        w.packets[np.uint64(first + n_place - 1)].next = spot.free
        spot.free = first
        spot.n_place += n_place
        spot.n_wanted = 0
        return
    wire = w.wires[np.uint64(row.owner)]
    for at in range(wire.head, wire.tail):
        source, target = wire.first + (at & wire.mask), first + (at & (n_place - 1))
        item, other = w.packets[np.uint64(source)], w.packets[np.uint64(target)]
        other.arrival_ps, other.sequence, other.queue_pair = item.arrival_ps, item.sequence, item.queue_pair
        other.path, other.size_bytes, other.bits, other.queue = item.path, item.size_bytes, item.bits, item.queue
        w.label[np.uint64(target)] = w.label[np.uint64(source)]
        for k in range(w.extra.shape[1]):
            w.extra[np.uint64(target), np.uint64(k)] = w.extra[np.uint64(source), np.uint64(k)]
    wire.first, wire.mask, wire.n_wanted = first, n_place - 1, 0


@program_kernel
def _give_all(w: Windows, rows):
    for i in range(rows.size):
        give_room(w, rows, i)
    return np.int64(0)


def relieve(w: Windows) -> Windows:
    """The same with room for all who want some."""
    rows, n_old = wanted_room(w.wires, w.spots, w.status), len(w.packets)
    n_new = places_for(w.status, n_old)
    if n_new > n_old:
        packets: Any = aligned_zeros(n_new, w.packets.dtype)
        label, extra = np.zeros(n_new, np.int64), np.zeros((n_new, w.extra.shape[1]), np.int64)
        packets[:n_old], label[:n_old], extra[:n_old] = w.packets, w.label, w.extra
        w = w._replace(packets=packets, label=label, extra=extra)
    _give_all(w, rows)
    return w
