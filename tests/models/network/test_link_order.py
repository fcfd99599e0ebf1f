"""The order in which a switch takes what is on its in-links: by arrival, then by port, up to where it stops."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from models.network.link.link_order import LINK_SLOT, gather_links, leave_links, take_first
from models.network.link.port import put_marker_on_wire
from models.network.state.records import FLAG_MARKER, NODE, PACKET, PORT
from pdes.engine.bits import n_word
from pdes.engine.jit import loop_kernel
from pdes.engine.time_index import NEVER

SHIFT, FIRST_IN = 8, 3
MARKERS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 9)), unique=True, max_size=12)
links = st.lists(st.lists(st.integers(0, 40), max_size=6).map(sorted), min_size=1, max_size=70)


@loop_kernel
def take_until(nodes, begin_ps, bound_ps, ports, packets, mask, slots, keys, taken):
    """Take packets that arrive before bound_ps into taken; how many."""
    node, n = nodes[0], 0
    n_link, n_leaf = gather_links(node, begin_ps, ports, packets, mask, slots, keys, SHIFT)
    while begin_ps + (keys[1] >> SHIFT) < bound_ps:
        slot = keys[1] & ((1 << SHIFT) - 1)
        taken[n] = take_first(packets, slots, keys, slot, n_leaf, begin_ps, SHIFT)
        n += 1
    leave_links(node, ports, mask, slots, n_link)
    return n


def chain(ports: tuple[np.ndarray, np.ndarray], port: int) -> list[int]:
    found, packet = [], int(ports[0][port])
    while packet >= 0:
        found.append(packet)
        packet = int(ports[1]["next"][packet])
    return found


@given(links, st.integers(0, 45), st.integers(100, 2**40))
def test_packets_are_taken_by_arrival_and_port_and_the_rest_stays(arrivals, bound_ps, begin_ps) -> None:
    nodes, ports = np.zeros(1, NODE), np.zeros(FIRST_IN + len(arrivals), PORT)
    nodes["first_in"], nodes["end_in"] = FIRST_IN, FIRST_IN + len(arrivals)
    packets, mask = np.zeros(sum(map(len, arrivals)) + 1, PACKET), np.zeros(n_word(len(arrivals)) + 1, np.int64)
    ports["link_head"], n, expected = -1, 0, []
    for i, times in enumerate(arrivals):
        for k, time_ps in enumerate(times):
            packets[n]["arrival_ps"], packets[n]["next"] = begin_ps + time_ps, n + 1 if k + 1 < len(times) else -1
            if k == 0:
                ports[FIRST_IN + i]["link_head"] = n
                mask[i >> 5] |= 1 << (i & 31)
            expected.append((time_ps, i, n))
            n += 1
    slots, keys, taken = np.zeros(128, LINK_SLOT), np.full(258, NEVER), np.zeros(n + 1, np.int64)
    n_taken = take_until(nodes, begin_ps, begin_ps + bound_ps, ports, packets, mask, slots, keys, taken)
    assert taken[:n_taken].tolist() == [packet for time_ps, _, packet in sorted(expected) if time_ps < bound_ps]
    for i in range(len(arrivals)):
        left = [packet for time_ps, link, packet in expected if link == i and time_ps >= bound_ps]
        assert chain((ports["link_head"], packets), FIRST_IN + i) == left
        assert bool(mask[i >> 5] >> (i & 31) & 1) == bool(left)


@loop_kernel
def put_markers(ports, packets, order):
    """Put markers on a link in this order; how often the first one there was another then."""
    n_first = 0
    for i in range(order.size):
        n_first += put_marker_on_wire(packets, ports[0], order[i])
    return n_first


@given(st.lists(st.integers(0, 5), max_size=5).map(sorted), MARKERS, st.randoms(use_true_random=False))
def test_markers_lie_by_arrival_queue_pair_and_end_whoever_came_first(arrivals, markers, drawn) -> None:
    """Before packets of the same instant."""
    n_packet, ports = len(arrivals), np.zeros(1, PORT)
    packets = np.zeros(n_packet + len(markers) + 1, PACKET)
    for i, arrival_ps in enumerate(arrivals):
        packets[i]["arrival_ps"], packets[i]["next"] = arrival_ps, i + 1 if i + 1 < n_packet else -1
    ports["link_head"], ports["link_tail"] = (0, n_packet - 1) if arrivals else (-1, -1)
    for i, (arrival_ps, pair, end_byte) in enumerate(markers, n_packet):
        item = packets[i]
        item["arrival_ps"], item["queue_pair"], item["sequence"] = arrival_ps, pair, end_byte
        item["bits"] = FLAG_MARKER
    order = list(range(n_packet, n_packet + len(markers)))
    drawn.shuffle(order)
    keys = {i: (arrival_ps, 1, i, 0) for i, arrival_ps in enumerate(arrivals)}
    keys |= {i: (arrival_ps, 0, pair, end) for i, (arrival_ps, pair, end) in enumerate(markers, n_packet)}
    there, n_first = list(range(n_packet)), 0
    for marker in order:
        there.append(marker)
        n_first += min(there, key=keys.__getitem__) == marker
    assert put_markers(ports, packets, np.array(order, np.int64)) == n_first
    assert chain((ports["link_head"], packets), 0) == sorted(keys, key=keys.__getitem__)
    assert not keys or int(ports[0]["link_tail"]) == max(keys, key=keys.__getitem__)
