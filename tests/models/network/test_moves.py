"""Markers of messages at flow level, once their ends are known: each comes then, and lies in order on its link."""

from typing import NamedTuple

import numpy as np
from hypothesis import event, given
from hypothesis import strategies as st

from models.network.host.nic import take_packet
from models.network.link.port import put_in_order
from models.network.model import NetworkModel
from models.network.skip.fluid_moves import Moves, make_moves, move_markers
from models.network.skip.suspend.hidden import ControlWords, Hidden, make_hidden, mark_link
from models.network.state.records import (
    FLAG_ACK,
    FLAG_MARKER,
    FLUID,
    MARKER_COLUMN,
    MARKER_DELIVERED_PS,
    N_MARKER_WORD,
    Fabric,
    Nic,
)
from models.network.state.switch_state import Buffers
from models.topology.graph import make_topology
from pdes.engine.jit import loop_kernel
from pdes.engine.time_index import NEVER
from pdes.skipping import prediction as m
from reference.network_case import US, Outcome, make_flow_case

N_HOST, SWITCH, SLACK_PS = 3, 3, 7
TOPOLOGY = make_topology(
    "star", ["a", "b", "c", "switch"], [False, False, False, True], [0, 1, 2, -1],
    [(host, SWITCH, 10**11, US) for host in range(N_HOST)],
)  # fmt: skip
PAIRS = [(i, k) for i in range(N_HOST) for k in range(N_HOST) if i != k]
instants = st.integers(1, 5)


class Message(NamedTuple):
    """A message with two markers. They come at some instants; those of a queue pair's first one are moved to others."""

    pair: int
    end_byte: int
    delivered_ps: int
    ended_ps: int
    new: tuple[int, int]
    is_there: bool


messages = st.lists(
    st.builds(
        Message, st.integers(0, len(PAIRS) - 1), st.integers(1, 3), instants, instants,
        st.tuples(instants, instants), st.sampled_from([True, True, True, False]),
    ),
    min_size=6, max_size=14, unique_by=lambda one: (one.pair, one.end_byte),
)  # fmt: skip
packets = st.lists(st.tuples(st.integers(0, N_HOST - 1), instants), max_size=6)


@loop_kernel
def put(fabric: Fabric, port, pair, bits, end_byte, arrival_ps):
    """Put a packet or a marker on a link."""
    packet = take_packet(fabric.packets, fabric.counters)
    item, record = fabric.packets[np.uint64(packet)], fabric.ports[np.uint64(port)]
    item.queue_pair, item.bits, item.sequence, item.arrival_ps, item.next = pair, bits, end_byte, arrival_ps, -1
    if record.link_head < 0:
        record.link_head = record.link_tail = packet
        mark_link(fabric, port, True)
    else:
        put_in_order(fabric.packets, record, packet)


@loop_kernel
def move(fabric: Fabric, buffers: Buffers, nic: Nic, hidden: Hidden, predicted, is_shadow, moves: Moves):
    """Call the step."""
    return move_markers(fabric, buffers, nic, hidden, predicted, is_shadow, moves)


def parts() -> tuple[NetworkModel, Fabric, Nic, Hidden]:
    """A star in which messages may go at flow level, and nothing is on its way."""
    case = make_flow_case(TOPOLOGY, [(src, dst, 1000, 0) for src, dst in PAIRS], queue_pairs="per-pair")
    model, _ = case.model(case.thresholds_ps()[0], Outcome())
    fabric, nic = model.state.fabric, model.state.nic
    fabric = fabric._replace(extra=np.zeros((len(fabric.packets), N_MARKER_WORD), np.int64))
    fabric.constants[MARKER_COLUMN] = 0
    nic = nic._replace(fluid=np.zeros(len(PAIRS), FLUID))
    nic.fluid["slack_ps"], nic.queue_pairs["next_send_ps"] = SLACK_PS, NEVER
    fabric.nodes["wake_ps"], nic.nic_ports["next_start_ps"], fabric.node_time[:] = NEVER, NEVER, NEVER
    hidden = make_hidden(TOPOLOGY, len(PAIRS), np.ones(4, np.bool_), ControlWords([], [], [], []), False)
    return model, fabric, nic, hidden


def chain(fabric: Fabric, port: int) -> list[tuple[int, int, int, int]]:
    """(arrival, 0: a marker, or 1, queue pair, end) of all on a link, in its order."""
    found, packet = [], int(fabric.ports[port].link_head)
    while packet >= 0:
        item = fabric.packets[packet]
        found.append(
            (int(item.arrival_ps), int(item.bits & FLAG_MARKER == 0), int(item.queue_pair), int(item.sequence))
        )
        assert item.next >= 0 or fabric.ports[port].link_tail == packet
        packet = int(item.next)
    return found


@given(messages, packets, st.sets(st.integers(0, len(PAIRS) - 1), max_size=2), st.randoms(use_true_random=False))
def test_markers_come_when_their_messages_end_and_links_stay_in_order(listed, others, shadows, drawn) -> None:
    """Of a queue pair the first message whose end is known at most; those with shadows have no markers."""
    model, fabric, nic, hidden = parts()
    port_into = {int(TOPOLOGY.port_dst[port]): int(port) for port in np.flatnonzero(TOPOLOGY.port_src == SWITCH)}
    pair_of = {(int(row["node"]), int(row["receiver"])): i for i, row in enumerate(nic.facts)}
    expected: dict[int, list[tuple[int, int, int, int]]] = {port: [] for port in port_into.values()}
    rows, n_missing, spared_ps, n_packet = [], 0, np.zeros(len(PAIRS), np.int64), 0
    for host, at_ps in sorted(others):  # packets lie behind those of their instant that came before
        put(fabric, port_into[host], 0, FLAG_ACK, 100 + n_packet, at_ps)
        expected[port_into[host]].append((at_ps, 1, 0, 100 + n_packet))
        n_packet += 1
    drawn.shuffle(listed)
    moved: dict[int, Message] = {}
    for one in listed:
        src, dst = PAIRS[one.pair]
        pair, places = pair_of[src, dst], ((port_into[dst], 0), (port_into[src], FLAG_ACK))
        is_shadow, new = pair in shadows, one.new if pair not in moved else None
        if new is not None:
            moved[pair] = one
            row = np.zeros(m.N_COLUMN, np.int64)
            row[[m.FLOW, m.END, m.FREE_PS, m.DELIVERED_PS, m.ENDED_PS]] = pair, one.end_byte, new[0], *new
            rows.append(row)
        for k, (port, bits) in enumerate(places):
            was_ps = (one.delivered_ps, one.ended_ps)[k]
            if not one.is_there or is_shadow:
                n_missing += new is not None and not is_shadow
                continue
            put(fabric, port, pair, bits | FLAG_MARKER, one.end_byte, was_ps)
            at_ps = was_ps if new is None else new[k]
            expected[port].append((at_ps, 0, pair, one.end_byte))
            spared_ps[pair] += (at_ps - was_ps) * (bits == FLAG_ACK)
    nic.queue_pairs["next_byte"] = [moved[pair].end_byte if pair in moved else 0 for pair in range(len(PAIRS))]
    is_shadow = np.array([pair in shadows for pair in range(len(PAIRS))], np.uint8)
    predicted = np.array(rows, np.int64).reshape(-1, m.N_COLUMN)
    moves = make_moves(len(PAIRS), TOPOLOGY.n_port)
    assert move(fabric, model.state.buffers, nic, hidden, predicted, is_shadow, moves) == n_missing
    for host, port in port_into.items():
        order = sorted(expected[port])
        assert chain(fabric, port) == order
        if any(host in PAIRS[one.pair] and pair not in shadows for pair, one in moved.items()):
            first_ps = order[0][0] if order else NEVER
            assert fabric.node_time[(len(fabric.node_time) >> 1) + host] == first_ps
    assert (nic.fluid["spared_ps"] == spared_ps).all()
    for pair, one in moved.items():
        has_ended = one.is_there and pair not in shadows
        assert nic.fluid["free_ps"][pair] == (one.new[0] if has_ended else 0)
        assert nic.queue_pairs["next_send_ps"][pair] == (one.new[0] + SLACK_PS if has_ended else NEVER)
    assert (moves.row_of == -1).all() and (moves.n_of == 0).all()
    for item, words in zip(fabric.packets, fabric.extra, strict=True):
        if item.bits == FLAG_MARKER and (one := moved.get(int(item.queue_pair))) and one.end_byte == item.sequence:
            assert words[MARKER_DELIVERED_PS] == item.arrival_ps
    event(f"markers are missing: {n_missing > 0}")
