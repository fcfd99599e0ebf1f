"""Links to another rank: noted once a round for the exchange, in whatever order packets and markers come onto them."""

from typing import NamedTuple

import numpy as np
from hypothesis import event, example, given
from hypothesis import strategies as st

from models.network.host.nic import take_packet
from models.network.link.port import link_filled, put_marker_on_wire, put_on_wire
from models.network.model import LogicalProcesses, NetworkModel
from models.network.rounds import WORDS_PER_PACKET, pack_departures, take_in
from models.network.state.records import (
    FLAG_ACK,
    FLAG_LAST,
    FLAG_MARKER,
    MAY_OVERTAKE,
    N_DEPARTED,
    N_FREE_PACKET,
    Fabric,
)
from models.topology.graph import make_topology
from pdes.engine.exchange import World
from pdes.engine.jit import loop_kernel
from pdes.engine.round_exchange import HEADER_WORDS, ExchangeState, make_exchange
from pdes.engine.time_index import NEVER
from reference.network_case import US, NetworkCase, make_flow_case

N_HOST, MOST_PACKETS = 3, 12
LINKS = [(host, N_HOST, 10**11, US) for host in range(N_HOST)]
SWITCH = N_HOST


class Put(NamedTuple):
    """Something that comes onto the link into a host."""

    host: int
    arrival_ps: int
    is_marker: bool


puts = st.builds(Put, st.integers(0, N_HOST - 1), st.integers(1, 6), st.booleans())


def star() -> NetworkCase:
    """Hosts around a switch, which sends to each of them."""
    names = [*(f"host{i}" for i in range(N_HOST)), "switch"]
    topology = make_topology("star", names, [*[False] * N_HOST, True], [*range(N_HOST), -1], LINKS)
    return make_flow_case(topology, [(i, (i + 1) % N_HOST, 1000, 0) for i in range(N_HOST)])


def model_of(case: NetworkCase, switch_is_here: bool) -> NetworkModel:
    """One of the two ranks of a star whose switch is on a rank of its own."""
    lp_of_node = np.arange(N_HOST + 1)
    rank_of_lp = np.where((lp_of_node == SWITCH) == switch_is_here, 0, 1)
    return NetworkModel(
        case.topology,
        case.paths,
        case.plan,
        case.window_bytes,
        LogicalProcesses(lp_of_node, rank_of_lp, US),
        World(),
        case.parameters,
        lambda *_: None,
    )


def boxes() -> ExchangeState:
    """What a rank with one neighbour exchanges, with room for MOST_PACKETS."""
    shape = (1, HEADER_WORDS + MOST_PACKETS * WORDS_PER_PACKET)
    ex = make_exchange(World(), [], 1)
    return ex._replace(
        outbox=np.zeros(shape, np.int64), inbox=np.zeros(shape, np.int64),
        n_out=np.zeros(1, np.int64), n_in=np.zeros(1, np.int64),
    )  # fmt: skip


@loop_kernel
def put_on_link(fabric: Fabric, port, arrival_ps, is_marker, sequence):
    """Put a packet or a marker on a link, as `send_now` and `lanes` do."""
    packet = take_packet(fabric.packets, fabric.counters)
    item, record = fabric.packets[np.uint64(packet)], fabric.ports[np.uint64(port)]
    item.queue_pair, item.sequence, item.size_bytes, item.path, item.arrival_ps = 0, sequence, 60, 0, arrival_ps
    item.bits = FLAG_ACK | FLAG_MARKER | FLAG_LAST if is_marker else FLAG_ACK
    if is_marker:
        is_first = put_marker_on_wire(fabric.packets, record, packet)
    else:
        is_first = put_on_wire(fabric.ports, fabric.packets, fabric.counters, port, packet, arrival_ps)
    if is_first:
        link_filled(
            port, item, fabric.port_info, fabric.nodes, fabric.mask, fabric.node_time, fabric.departed, fabric.counters
        )


@loop_kernel
def pack(fabric: Fabric, port_peer_row, ex: ExchangeState):
    """Pack what departs; its least arrival time."""
    return pack_departures(fabric, port_peer_row, ex)


def on_link(fabric: Fabric, port: int) -> list[tuple[int, bool, int]]:
    """(arrival, whether it is a marker, sequence) of all on a link, in its order."""
    found, packet = [], int(fabric.ports[port].link_head)
    while packet >= 0:
        item = fabric.packets[packet]
        found.append((int(item.arrival_ps), bool(item.bits & FLAG_MARKER), int(item.sequence)))
        packet = int(item.next)
    return found


def in_order(listed: list[tuple[int, Put]]) -> list[tuple[int, bool, int]]:
    """The same by definition: by arrival, markers before packets of that instant, else as they came."""
    rows = [(put.arrival_ps, put.is_marker, sequence) for sequence, put in listed]
    return sorted(rows, key=lambda row: (row[0], not row[1], row[2]))


@given(st.lists(puts, min_size=1, max_size=MOST_PACKETS))
@example([Put(0, 5, True), Put(0, 3, False)])  # a packet that arrives before a marker
@example([Put(0, 5, True), Put(0, 3, True), Put(1, 2, False), Put(0, 1, False)])
def test_what_departs_is_noted_once_for_each_link_and_arrives_in_order(listed: list[Put]) -> None:
    case = star()
    here, there = model_of(case, True), model_of(case, False)
    fabric, other = here.state.fabric, there.state.fabric
    fabric.counters[MAY_OVERTAKE] = other.counters[MAY_OVERTAKE] = 1  # as fast-forwarding says where it is on
    src, dst = case.topology.port_src, case.topology.port_dst
    port_into = {int(dst[port]): int(port) for port in np.flatnonzero(src == SWITCH)}
    n_free = int(fabric.counters[N_FREE_PACKET]), int(other.counters[N_FREE_PACKET])
    for sequence, put in enumerate(listed):
        put_on_link(fabric, port_into[put.host], put.arrival_ps, put.is_marker, sequence)
    used = {port_into[put.host] for put in listed}
    n_departed = int(fabric.counters[N_DEPARTED])
    assert n_departed == len(used) and set(fabric.departed[:n_departed].tolist()) == used

    ex = boxes()
    least_ps = pack(fabric, here.port_peer_row, ex)
    assert least_ps == min(put.arrival_ps for put in listed)
    assert fabric.counters[N_DEPARTED] == 0 and fabric.counters[N_FREE_PACKET] == n_free[0]
    assert not any(on_link(fabric, port) for port in used)

    ex.inbox[:], ex.n_in[:] = ex.outbox, ex.n_out
    other.node_time[:] = NEVER  # else the hosts' flows begin first
    assert take_in(other, there.state.work, ex)
    assert other.counters[N_FREE_PACKET] == n_free[1] - len(listed)
    for host, port in port_into.items():
        mine = [(sequence, put) for sequence, put in enumerate(listed) if put.host == host]
        assert on_link(other, port) == in_order(mine)
        first_ps = min((put.arrival_ps for _, put in mine), default=NEVER)
        assert other.node_time[(len(other.node_time) >> 1) + host] == first_ps
    went_first = any(
        (earlier := [one.arrival_ps for one in listed[:i] if one.host == put.host]) and put.arrival_ps < min(earlier)
        for i, put in enumerate(listed)
    )
    event(f"something came to lie before the rest: {went_first}")
