"""Checks of the hosts: what NIC ports may send and when, queue pairs' messages, timers.

For tests, at a round's end; see `verify`.
"""

from collections.abc import Iterator

import numpy as np

from models.congestion.interface import FLOW_TIMER, N_TIMER
from models.network.state.records import FREE_MESSAGE, N_FREE_MESSAGE, Fabric, Nic
from models.network.verify.fabric import chain, expect
from models.topology.graph import Topology
from pdes.engine.bits import WORD_BITS, n_word
from pdes.engine.time_index import NEVER


def verify_nic_ports(fabric: Fabric, nic: Nic, topology: Topology, here: np.ndarray) -> None:
    """Ready bits and next starts of this rank's hosts; a frozen port has none."""
    for port in np.flatnonzero(~topology.is_switch[topology.port_src]).tolist():
        record, name = fabric.ports[port], f"port {port}"
        if not here[topology.port_src[port]]:
            continue
        expect(record["data_head"] < 0, f"{name} of a NIC has data packets waiting")
        start_ps = int(record["free_at_ps"]) if record["ack_head"] >= 0 else NEVER
        for pair, is_ready in _ready_pairs(nic, port):
            qp = nic.queue_pairs[pair]
            may = qp["next_byte"] < qp["posted_end"] and qp["next_byte"] - qp["acked_byte"] < qp["window_bytes"]
            may = may or qp["resend_byte"] < qp["lost_byte"]
            expect(bool(may) == is_ready, f"queue pair {pair}: may send: {may}; ready bit: {is_ready}")
            if may and not int(nic.nic_ports["paused"][port]) >> int(qp["queue"]) & 1:
                posted_ps = int(nic.messages["posted_ps"][qp["sending_message"]]) if qp["sending_message"] >= 0 else 0
                start_ps = min(start_ps, max(int(record["free_at_ps"]), int(qp["next_send_ps"]), posted_ps))
        stored_ps = int(nic.nic_ports["next_start_ps"][port])
        if nic.frozen_port[port] == 1:
            start_ps = NEVER
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


def unfinished(nic: Nic, pair: int) -> list[tuple[int, int, int]]:
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
    for pair in nic.sends.tolist():
        qp, name = nic.queue_pairs[pair], f"queue pair {pair}"
        items = chain(int(qp["first_message"]), following, seen, name)
        last = items[-1] if items else -1
        expect(int(qp["last_message"]) == last, f"{name}: last_message {qp['last_message']}, the chain ends at {last}")
        at, sending = None, -1
        for i, (first, end, _) in zip(items, unfinished(nic, pair), strict=True):
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


def verify_timers(fabric: Fabric, nic: Nic, topology: Topology, here: np.ndarray) -> None:
    """A host's tree holds every queue pair's first timer: the control's only while it has something to do.

    A frozen one's is out of it.
    """
    for node in np.flatnonzero(fabric.nodes["n_timer"] > 0).tolist():
        if not here[node]:
            continue
        first, n_leaf = int(fabric.nodes["first_timer"][node]), int(fabric.nodes["n_timer"][node])
        tree, name = nic.timers[first : first + 2 * n_leaf], topology.node_name[node]
        inner = np.minimum(tree[2::2], tree[3::2])
        expect((tree[1:n_leaf] == inner).all(), f"{name}: an inner node of its timers is not the least of its children")
        rows = np.flatnonzero(nic.facts["node"] == node)
        for pair in rows.tolist():
            qp = nic.queue_pairs[pair]
            least_ps = int(qp["check_ps"])
            if nic.is_frozen[pair]:
                least_ps = NEVER
            elif qp["acked_byte"] < qp["posted_end"]:
                least_ps = min(least_ps, int(nic.control[pair, FLOW_TIMER : FLOW_TIMER + N_TIMER].min()))
            leaf_ps = int(tree[n_leaf + int(qp["timer_leaf"])])
            expect(leaf_ps == least_ps, f"queue pair {pair}: timer at {leaf_ps} ps in its host's tree, not {least_ps}")
