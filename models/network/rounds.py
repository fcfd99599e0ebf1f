"""The network's part of a round: per-node windows inside, packets for other ranks packed at the end.

Inside a rank every node with work runs to begin + the least delay of a used link into it from its own LP, at most the
round's horizon (links between LPs are covered by the horizon). begin is the rank's least event time, so nothing can
arrive at a node before its bound: scheme P of per-node windows, without slots.
"""

import numpy as np

from models.network.host import run_hosts
from models.network.port import link_filled, put_on_wire
from models.network.state import (
    FAULT,
    FREE_PACKET,
    N_DEPARTED,
    N_FREE_PACKET,
    SLOT_PS,
    Fabric,
    Nic,
    Rows,
)
from models.network.switch import run_switches
from models.workload.program import Work
from pdes.engine.exchange import ExchangeState
from pdes.engine.jit import loop_kernel
from pdes.engine.round import HORIZON, ROUND_DONE, ROUND_PAUSE, close_round, leave_round, open_round
from pdes.engine.time_index import collect_before

SHORT_OF_ARRIVING_PACKETS, STOPPED_BY_FAULT = 5, 6
WORDS_PER_PACKET = 6


@loop_kernel
def advance(fabric: Fabric, nic: Nic, work: Work, rows: Rows, horizon_ps):
    """Run this rank's events below horizon_ps; 0, or what ran short (then call again with the same horizon)."""
    found, node_time, nodes = fabric.found, fabric.node_time, fabric.nodes
    switches, hosts = found[1], found[2]
    slot_ps = fabric.constants[SLOT_PS]
    while True:
        begin_ps = node_time[1]
        if begin_ps >= horizon_ps:
            return 0
        n_found = collect_before(node_time, min(horizon_ps, begin_ps + slot_ps), found[0])
        n_switch, n_host = np.int64(0), np.int64(0)
        for i in range(n_found):
            node = found[0, i]
            if nodes[np.uint64(node)].is_switch:
                switches[n_switch] = node
                n_switch += 1
            else:
                hosts[n_host] = node
                n_host += 1
        if n_host > 0:
            short = run_hosts(fabric, nic, work, rows, hosts, n_host, begin_ps, horizon_ps)
            if short:
                return short
        if n_switch > 0:
            run_switches(fabric, switches, n_switch, begin_ps, horizon_ps)
        if fabric.counters[FAULT]:
            return STOPPED_BY_FAULT


@loop_kernel
def pack_departures(fabric: Fabric, port_peer_row, ex: ExchangeState):
    """Move the packets on links to other ranks into the outboxes, link by link in order, and free them here."""
    ports, packets, counters = fabric.ports, fabric.packets, fabric.counters
    for i in range(counters[N_DEPARTED]):
        port = np.int64(fabric.departed[i])
        peer = port_peer_row[port]
        box, at = ex.outbox[peer], ex.n_out[peer] + 1
        packet = np.int64(ports[port].link_head)
        ports[port].link_head = -1
        while packet >= 0:
            item = packets[packet]
            box[at] = item.arrival_ps
            box[at + 1] = item.sequence
            box[at + 2] = (np.int64(item.queue_pair) << 32) | np.int64(item.path)
            box[at + 3] = (port << 32) | (np.int64(item.size_bytes) << 8) | np.int64(item.flags)
            box[at + 4] = fabric.stamp_ps[packet]
            box[at + 5] = fabric.label[packet]
            at += WORDS_PER_PACKET
            following = np.int64(item.next)
            item.next = counters[FREE_PACKET]
            counters[FREE_PACKET] = packet
            counters[N_FREE_PACKET] += 1
            packet = following
        ex.n_out[peer] = at - 1
    counters[N_DEPARTED] = 0


@loop_kernel
def unpack_arrivals(fabric: Fabric, ex: ExchangeState):
    """Put received packets on their links; False if the pool is short (then grow it and call again)."""
    packets, counters = fabric.packets, fabric.counters
    n_word = 0
    for i in range(ex.n_in.size):
        n_word += ex.n_in[i]
    if counters[N_FREE_PACKET] * WORDS_PER_PACKET < n_word:
        return False
    low = (np.int64(1) << 32) - 1
    for i in range(ex.n_in.size):
        box = ex.inbox[i]
        for at in range(1, ex.n_in[i] + 1, WORDS_PER_PACKET):
            packet = counters[FREE_PACKET]
            item = packets[packet]
            counters[FREE_PACKET] = item.next
            counters[N_FREE_PACKET] -= 1
            item.sequence = box[at + 1]
            item.queue_pair = box[at + 2] >> 32
            item.path = box[at + 2] & low
            port = box[at + 3] >> 32
            item.size_bytes = (box[at + 3] >> 8) & 0xFFFF
            item.flags = box[at + 3] & 0xFF
            fabric.stamp_ps[packet] = box[at + 4]
            fabric.label[packet] = box[at + 5]
            if put_on_wire(fabric.ports, packets, port, packet, box[at]):
                link_filled(
                    port,
                    box[at],
                    fabric.port_info,
                    fabric.nodes,
                    fabric.mask,
                    fabric.node_time,
                    fabric.departed,
                    counters,
                )
        ex.n_in[i] = 0
    return True


@loop_kernel
def run_rounds(loop, ex: ExchangeState, fabric: Fabric, nic: Nic, work: Work, rows: Rows, port_peer_row):
    """Rounds until the run is over, until it is time to pause, or until something is short."""
    while True:
        if not unpack_arrivals(fabric, ex):
            return SHORT_OF_ARRIVING_PACKETS
        if not open_round(loop, ex, fabric.node_time[1]):
            return ROUND_DONE
        short = advance(fabric, nic, work, rows, loop[HORIZON])
        if short:
            leave_round(loop, ex)
            return short
        if ex.n_rank[0] > 1:
            pack_departures(fabric, port_peer_row, ex)
        if close_round(loop, ex):
            return ROUND_PAUSE
