"""The packets on a switch's in-links in one order, that of (arrival, port): design R2's at a node.

A winner tree over the in-links that carry packets has a key per link, its first packet's arrival and the link's slot.
A slot also has the key of the packet behind the first one, so that taking a packet waits for nothing but what is in the
slot: what comes two packets later is looked up meanwhile. While a switch runs, nobody else puts anything on its links.
"""

import numpy as np

from pdes.engine.bits import BIT_MASK, WORD_BITS, WORD_SHIFT, lowest_bit
from pdes.engine.jit import fast_step, record, step_kernel
from pdes.engine.prefetch import prefetch
from pdes.engine.time_index import NEVER

LINK_SLOT = record(
    [
        ("next_key", np.int64),  # of the packet behind the first one, NEVER: there is none
        ("port", np.int64),
        ("packet", np.int64),  # the first one, -1: none is left
        ("following", np.int64),  # the one behind it
    ]
)


@step_kernel
def gather_links(node, begin_ps, ports, packets, mask, slots, keys, shift):
    """Enter a switch's in-links that carry packets; (links, leaves of the tree). slots: LINK_SLOT[]; keys: int64[]."""
    n_link = 0
    first_word, first_port = node.first_mask, node.first_in
    for w in range((node.end_in - first_port + WORD_BITS - 1) // WORD_BITS):
        word = mask[np.uint64(first_word + w)]
        while word != 0:
            slot = slots[np.uint64(n_link)]
            slot.port = first_port + w * WORD_BITS + lowest_bit(word)
            n_link += 1
            word &= word - 1
    n_leaf = 1
    while n_leaf < n_link:
        n_leaf *= 2
    for i in range(n_leaf):
        key = NEVER
        if i < n_link:
            slot = slots[np.uint64(i)]
            packet = np.int64(ports[np.uint64(slot.port)].link_head)
            item = packets[np.uint64(packet)]
            key = ((item.arrival_ps - begin_ps) << shift) | i
            slot.packet = packet
            look_behind(packets, slot, np.int64(item.next), i, begin_ps, shift)
        keys[np.uint64(n_leaf + i)] = key
    for i in range(n_leaf - 1, 0, -1):
        keys[np.uint64(i)] = min(keys[np.uint64(2 * i)], keys[np.uint64(2 * i + 1)])
    return n_link, n_leaf


@fast_step
def look_behind(packets, slot, following, i, begin_ps, shift):
    """Note in slot i which packet is behind its first one, and that one's key."""
    slot.following = following
    if following >= 0:
        item = packets[np.uint64(following)]
        slot.next_key = ((item.arrival_ps - begin_ps) << shift) | i
        prefetch(packets, np.int64(item.next))
    else:
        slot.next_key = NEVER


@fast_step
def take_first(packets, slots, keys, i, n_leaf, begin_ps, shift):
    """Take the packet that arrives first, that of slot i."""
    slot = slots[np.uint64(i)]
    leaf, key = np.uint64(n_leaf + i), slot.next_key
    keys[leaf] = key
    while leaf > np.uint64(1):
        key = min(key, keys[leaf ^ np.uint64(1)])
        leaf >>= np.uint64(1)
        keys[leaf] = key
    packet, following = slot.packet, slot.following
    slot.packet = following
    if following >= 0:
        look_behind(packets, slot, np.int64(packets[np.uint64(following)].next), i, begin_ps, shift)
    return packet


@step_kernel
def leave_links(node, ports, mask, slots, n_link):
    """Leave on a switch's in-links what was not taken."""
    for i in range(n_link):
        slot = slots[np.uint64(i)]
        ports[np.uint64(slot.port)].link_head = slot.packet
        if slot.packet < 0:
            bit = slot.port - node.first_in
            mask[np.uint64(node.first_mask + (bit >> WORD_SHIFT))] &= ~(np.int64(1) << (bit & BIT_MASK))
