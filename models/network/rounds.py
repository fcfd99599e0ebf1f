"""The network's part of a round: per-node windows inside, packets for other ranks packed at the end.

Inside a rank every node with work runs to begin + the least delay of a used link into it from its own LP, at most the
round's horizon (links between LPs are covered by the horizon). begin is the rank's least event time, so nothing can
arrive at a node before its bound: scheme P of per-node windows, without slots.
"""

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.host.host import run_hosts
from models.network.host.interrupts import is_interrupted, is_stopped, put_back, set_aside
from models.network.link.port import link_filled, put_in_order
from models.network.outputs import Outputs, earliest_output_ps
from models.network.state.records import (
    EXTRA_HOPS,
    EXTRA_N_HOP,
    FAULT,
    FLAG_LAST,
    FLAG_MARKER,
    FREE_PACKET,
    N_DEPARTED,
    N_EXTRA,
    N_FREE_PACKET,
    N_HOP_MASK,
    N_INT_WORD,
    N_UNSEEN,
    SLOT_PS,
    WORDS_PER_HOP,
    Fabric,
)
from models.network.streams.groups import hear_of_arrival
from models.network.switch.switch import run_switches
from models.workload.program import N_JOINED, Work
from pdes.engine.jit import inlined, loop_kernel, program_kernel, step_kernel
from pdes.engine.round import (
    HORIZON,
    INTERRUPTED,
    IS_INTERRUPTED,
    NEXT_LOOK,
    ROUND_DONE,
    ROUND_LOOK,
    UNKNOWN,
    close_round,
    leave_round,
    open_round,
)
from pdes.engine.round_exchange import HEADER_WORDS, ExchangeState
from pdes.engine.time_index import NEVER, collect_before

SHORT_OF_ARRIVING_PACKETS, STOPPED_BY_FAULT = 5, 6
PACKET_WORDS = 4
WORDS_PER_PACKET = PACKET_WORDS + 2  # at most, without what it carries beyond: its link's head and its label
WORDS_PER_ARRIVAL = 2  # of a member at its group: -1 - group, and when its own duration is over


@step_kernel
def collect_nodes(fabric: Fabric, begin_ps, horizon_ps):
    """Nodes with work from begin_ps on: (switches in found[1], hosts in found[2])."""
    found, nodes = fabric.found, fabric.nodes
    n_found = collect_before(fabric.node_time, min(horizon_ps, begin_ps + fabric.constants[SLOT_PS]), found[0])
    n_switch, n_host = np.int64(0), np.int64(0)
    for i in range(n_found):
        node = found[0, i]
        if is_stopped(fabric, node):
            set_aside(fabric, node)
        elif nodes[np.uint64(node)].is_switch:
            found[1, n_switch] = node
            n_switch += 1
        else:
            found[2, n_host] = node
            n_host += 1
    return n_switch, n_host


@step_kernel
def next_event_ps(fabric: Fabric, loop):
    """This rank's next event, INTERRUPTED if a freeze has to end first. What was posted at flow level wants a look."""
    if is_interrupted(fabric.counters):
        return INTERRUPTED
    return min(fabric.node_time[1], loop[NEXT_LOOK]) if fabric.counters[N_UNSEEN] > 0 else fabric.node_time[1]


@inlined
def run_all_hosts(state, hosts, begin_ps, horizon_ps):
    """See `advance`."""
    return run_hosts(state.fabric, state.buffers, state.nic, state.work, state.rows, hosts, begin_ps, horizon_ps)


@inlined
def advance(state, horizon_ps, serve, run):
    """Run this rank's events below horizon_ps; 0, or what ran short (then call again with the same horizon).

    serve(state, switches, begin_ps, horizon_ps) runs switches, run(state, hosts, begin_ps, horizon_ps) hosts; 0, or
    what ran short.
    """
    fabric, short = state.fabric, 0
    while fabric.node_time[1] < horizon_ps and short == 0:
        begin_ps = fabric.node_time[1]
        n_switch, n_host = collect_nodes(fabric, begin_ps, horizon_ps)
        if n_host > 0:
            hosts = fabric.found[2][:n_host]
            short = run(state, hosts, begin_ps, horizon_ps)
        if n_switch > 0 and short == 0:
            short = serve(state, fabric.found[1][:n_switch], begin_ps, horizon_ps)
        if fabric.counters[FAULT]:
            short = STOPPED_BY_FAULT
    return short


@step_kernel
def _n_stamped(constants, word):
    """Words of a packet's INT that hops have written so far. word: its EXTRA_N_HOP."""
    return min(constants[N_INT_WORD], EXTRA_HOPS + WORDS_PER_HOP * (word & N_HOP_MASK))


@step_kernel
def _carry_out(extra, constants, packet, box, at):
    """Write what a packet carries into box[at:], of INT what hops have stamped so far; how many words."""
    n_stamped = _n_stamped(constants, extra[np.uint64(packet), EXTRA_N_HOP]) if constants[N_INT_WORD] > 0 else 0
    for k in range(n_stamped):
        box[np.uint64(at + k)] = extra[np.uint64(packet), np.uint64(k)]
    at += n_stamped - constants[N_INT_WORD]
    for k in range(constants[N_INT_WORD], constants[N_EXTRA]):
        box[np.uint64(at + k)] = extra[np.uint64(packet), np.uint64(k)]
    return n_stamped + constants[N_EXTRA] - constants[N_INT_WORD]


@step_kernel
def _carry_in(extra, constants, packet, box, at):
    """Read what `_carry_out` wrote; how many words. What no hop has stamped stays what it was: nobody reads it."""
    n_stamped = _n_stamped(constants, box[np.uint64(at + EXTRA_N_HOP)]) if constants[N_INT_WORD] > 0 else 0
    for k in range(n_stamped):
        extra[np.uint64(packet), np.uint64(k)] = box[np.uint64(at + k)]
    at += n_stamped - constants[N_INT_WORD]
    for k in range(constants[N_INT_WORD], constants[N_EXTRA]):
        extra[np.uint64(packet), np.uint64(k)] = box[np.uint64(at + k)]
    return n_stamped + constants[N_EXTRA] - constants[N_INT_WORD]


@step_kernel
def pack_departures(fabric: Fabric, port_peer_row, ex: ExchangeState):
    """Move the packets on links to other ranks into the outboxes and free them here; their least arrival time.

    For each link: a word (port << 32 | packets), then the packets in order, 4 words each as they lie in memory, the
    words that a packet carries beyond (of INT those that are stamped), and one more, the label, behind a packet that
    ends a message.
    """
    n_extra = fabric.constants[N_EXTRA]
    ports, packets, words, counters = fabric.ports, fabric.packets, fabric.packet_words, fabric.counters
    least_ps = NEVER
    for i in range(counters[N_DEPARTED]):
        port = np.int64(fabric.departed[np.uint64(i)])
        peer = port_peer_row[np.uint64(port)]
        box, head_at = ex.outbox[np.uint64(peer)], ex.n_out[np.uint64(peer)] + HEADER_WORDS
        at, n_packet = head_at + 1, 0
        packet = np.int64(ports[np.uint64(port)].link_head)
        ports[np.uint64(port)].link_head = -1
        least_ps = min(least_ps, packets[np.uint64(packet)].arrival_ps)
        while packet >= 0:
            for k in range(PACKET_WORDS):
                box[np.uint64(at + k)] = words[np.uint64(packet), np.uint64(k)]
            at += PACKET_WORDS
            if n_extra > 0:
                at += _carry_out(fabric.extra, fabric.constants, packet, box, at)
            item = packets[np.uint64(packet)]
            if item.bits & FLAG_LAST:
                box[np.uint64(at)] = fabric.label[np.uint64(packet)]
                at += 1
            n_packet += 1
            following = np.int64(item.next)
            item.next = counters[FREE_PACKET]
            counters[FREE_PACKET] = packet
            packet = following
        counters[N_FREE_PACKET] += n_packet
        box[np.uint64(head_at)] = (port << 32) | n_packet
        ex.n_out[np.uint64(peer)] = at - HEADER_WORDS
    counters[N_DEPARTED] = 0
    return least_ps


@step_kernel
def pack_joined(work: Work, ex: ExchangeState):
    """Tell other ranks of the members that arrived at their groups. Whether there were any.

    Nobody knows then when the next event is, until all have heard: a reduction has to say.
    """
    n_joined = work.totals[N_JOINED]
    for i in range(n_joined):
        group = work.groups[np.uint64(work.joined[i, 0])]
        for k in range(group.first_peer, group.end_peer):
            peer = np.uint64(work.group_peer[np.uint64(k)])
            box, at = ex.outbox[peer], ex.n_out[peer] + HEADER_WORDS
            box[np.uint64(at)] = -1 - work.joined[i, 0]
            box[np.uint64(at + 1)] = work.joined[i, 1]
            ex.n_out[peer] += WORDS_PER_ARRIVAL
    work.totals[N_JOINED] = 0
    return n_joined > 0


@step_kernel
def pack(fabric: Fabric, work: Work, port_peer_row, ex: ExchangeState, least_ps):
    """All that leaves this rank, into the outboxes; the least time of what is pending, here or on its way."""
    least_ps = min(least_ps, pack_departures(fabric, port_peer_row, ex))
    if work.totals[N_JOINED] > 0 and pack_joined(work, ex):
        return min(least_ps, UNKNOWN)
    return least_ps


@step_kernel
def _unpack_link(fabric: Fabric, box, at, port, n_packet):
    """Append n_packet packets, packed from box[at] on, to a link; where the next link begins."""
    packets, words, counters = fabric.packets, fabric.packet_words, fabric.counters
    record, n_extra = fabric.ports[np.uint64(port)], fabric.constants[N_EXTRA]
    is_first = record.link_head < 0
    for _ in range(n_packet):
        packet = counters[FREE_PACKET]
        item = packets[np.uint64(packet)]
        counters[FREE_PACKET] = item.next
        for k in range(PACKET_WORDS):
            words[np.uint64(packet), np.uint64(k)] = box[np.uint64(at + k)]
        at += PACKET_WORDS
        if n_extra > 0:
            at += _carry_in(fabric.extra, fabric.constants, packet, box, at)
        item.next = -1
        if item.bits & FLAG_LAST:
            fabric.label[np.uint64(packet)] = box[np.uint64(at)]
            at += 1
        if record.link_head < 0:
            record.link_head = record.link_tail = packet
        elif item.bits & FLAG_MARKER or packets[np.uint64(record.link_tail)].arrival_ps > item.arrival_ps:
            is_first |= put_in_order(packets, record, packet)  # the last one there is a marker, or this one is
        else:
            packets[np.uint64(record.link_tail)].next = packet
            record.link_tail = packet
    counters[N_FREE_PACKET] -= n_packet
    if is_first:
        first = packets[np.uint64(record.link_head)]
        link_filled(
            port, first, fabric.port_info, fabric.nodes, fabric.mask, fabric.node_time, fabric.departed, counters
        )
    return at


@step_kernel
def unpack_arrivals(fabric: Fabric, work: Work, ex: ExchangeState):
    """Put received packets on their links; False if the pool is short (then grow it and call again).

    Members that have arrived at a group elsewhere are noted, too.
    """
    n_word = 0
    for i in range(ex.n_in.size):
        n_word += ex.n_in[i]
    if fabric.counters[N_FREE_PACKET] * PACKET_WORDS < n_word:
        return False
    low = (np.int64(1) << 32) - 1
    for i in range(ex.n_in.size):
        box, at = ex.inbox[i], np.int64(HEADER_WORDS)
        while at < ex.n_in[i] + HEADER_WORDS:
            head = box[at]
            if head < 0:
                hear_of_arrival(work, fabric.nodes, fabric.node_time, -1 - head, box[at + 1])
                at += WORDS_PER_ARRIVAL
            else:
                at = _unpack_link(fabric, box, at + 1, head >> 32, head & low)
        ex.n_in[i] = 0
    return True


@inlined
def _reduced_ps(loop, state, outputs):
    """The least time that this rank brings to the reduction in which all ranks agree on a round."""
    fabric = state.fabric
    return earliest_output_ps(loop, fabric, state.nic, state.work, outputs, next_event_ps(fabric, loop))


@inlined
def rounds(loop, ex, state, port_peer_row, outputs, serve):
    """Rounds until the run is over, until it is time to pause, or until something is short. serve: see `advance`."""
    fabric, work = state.fabric, state.work
    while True:
        if not unpack_arrivals(fabric, work, ex):
            return SHORT_OF_ARRIVING_PACKETS
        if not open_round(loop, ex, _reduced_ps(loop, state, outputs)):
            return ROUND_LOOK if loop[IS_INTERRUPTED] else ROUND_DONE
        short = advance(state, loop[HORIZON], serve, run_all_hosts)
        if short:
            leave_round(loop, ex)
            return short
        put_back(fabric)
        least_ps = _reduced_ps(loop, state, outputs)
        if ex.n_rank[0] > 1:
            least_ps = pack(fabric, work, port_peer_row, ex, least_ps)
        code = close_round(loop, ex, least_ps)
        if code != 0:
            return code


@inlined
def serve_plain(state, switches, begin_ps, horizon_ps):
    """See `advance`."""
    run_switches(state.fabric, switches, begin_ps, horizon_ps)
    return 0


@inlined
def plain_rounds(loop, ex, state, port_peer_row, outputs):
    """Rounds of a network of plain switches, see `rounds`."""
    return rounds(loop, ex, state, port_peer_row, outputs, serve_plain)


@program_kernel
def run_rounds(loop, ex: ExchangeState, state: NetworkState, port_peer_row, outputs: Outputs):
    """See `plain_rounds`."""
    return plain_rounds(loop, ex, state, port_peer_row, outputs)


@loop_kernel
def take_in(fabric: Fabric, work: Work, ex: ExchangeState):
    """Put what the last exchange brought on its links; False if the packets' pool is short."""
    return unpack_arrivals(fabric, work, ex)
