"""Messages as packets and messages at max-min fair rates, in one network at one time (HyGra's hybrid, section IV).

A message goes as packets where its rate is not sure enough. Three cases are told apart, by the ports of its way and how
many queue pairs have messages there, if all of a port had the same part of it: it has the port that limits it to
itself; that port is its own NIC's, which takes the NIC's queue pairs in turn; or it is another, where queues build up
and the congestion control decides: incasts, ways that collide. Which of these need packets was decided beforehand, by
how far off each was where the control was calibrated.

This is judged at the end of the round in which the message is posted, when all ranks hear of it. A queue pair whose
last message was judged so sends at once; any other that needs packets begins then, up to a round late. Messages under
way at rates that are limited by the same port go on as packets, too, from what they have got done. A queue pair goes at
rates again when its last message needed no packets, all of it has been sent, and its control is as fast as if it had
met nobody (`messages`).

Each takes capacity from the other on ports that both use (`shared_ports`), and neither is told what the other does
packet by packet. Deviations from HyGra: its flows get what packets leave over on average; and here a rate holds from
the beginning of a round, up to a lookahead too early.
"""

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.flow_mode.flow_rounds import flow_rounds
from models.network.flow_mode.shared_ports import move_shadows, share_ports
from models.network.flow_mode.state import (
    ALONE,
    AT_SOURCE,
    IN_NETWORK,
    N_AS_PACKETS,
    N_POST_COLUMN,
    POST_KIND,
    POST_PAIR,
    FlowMode,
)
from models.network.flow_mode.traced_rates import trace_rates
from models.network.flow_mode.transfers import (
    carry_on,
    count_pair,
    enter,
    gather_posts,
    take_next,
)
from models.network.host.nic import next_start, set_ready
from models.network.host.sender import find_sending_message
from models.network.host.timers import set_timers
from models.network.rounds import advance, run_all_hosts, serve_plain
from models.network.state.records import (
    AS_PACKETS,
    GOES_AS_PACKETS,
    HEADER_BYTES,
    OVER,
    PAYLOAD_BYTES,
    WANTS_PACKETS,
    Fabric,
    Nic,
)
from models.network.watch.tracing import IS_TRACED
from pdes.engine.jit import inlined, loop_kernel, step_kernel
from pdes.engine.round_exchange import ExchangeState
from pdes.engine.time_index import NEVER, set_time
from pdes.skipping.in_place_sort import sort_in_place
from pdes.skipping.max_min.solve import begin_change, leave, left_of
from pdes.skipping.max_min.table import NOTHING

TIE = 1e-9
ORDER_BITS = 32
ORDER_MASK = 2**ORDER_BITS - 1
HAS_RATE, TURNED = 2, 3  # Hybrid.is_touched: a message was posted that goes at a rate; goes as packets from now on


@step_kernel
def _unsure_at(flow: FlowMode, pair):
    """The port for which a queue pair's message needs packets, NOTHING if it needs none."""
    m, hybrid = flow.max_min, flow.hybrid
    first, end = m.place_of[np.uint64(pair), 0], m.place_of[np.uint64(pair), 1]
    least, n_least, of_source, limit = np.inf, np.int64(1), np.inf, np.int64(NOTHING)
    for at in range(first, end):
        port = np.uint64(m.places[np.uint64(at)].port)
        n = np.int64(hybrid.n_pair[port])
        share = m.ports[port].byte_per_ps / n
        if at == first:
            of_source = share
        if share < least * (1 - TIE):
            least, n_least, limit = share, n, np.int64(port)
    case = ALONE if n_least == 1 else AT_SOURCE if of_source <= least * (1 + TIE) else IN_NETWORK
    return np.int64(NOTHING) if hybrid.trusts[case] else limit


@step_kernel
def touch(flow: FlowMode, n_touched, pair):
    hybrid = flow.hybrid
    if hybrid.is_touched[np.uint64(pair)] == 0:
        hybrid.is_touched[np.uint64(pair)] = 1
        hybrid.touched[np.uint64(n_touched)] = pair
        return n_touched + 1
    return n_touched


@step_kernel
def order_posts(flow: FlowMode, n_post):
    """Find the order of posts in which ranks do not matter: by queue pair, and as each has posted them."""
    for i in range(n_post):
        flow.order[np.uint64(i)] = (flow.posts[np.uint64(N_POST_COLUMN * i + POST_PAIR)] << ORDER_BITS) + i
    sort_in_place(flow.order, n_post)


@step_kernel
def count_posts(flow: FlowMode, n_post):
    """Count messages that were posted or are over at the ports of their ways; queue pairs that were touched."""
    hybrid, n_touched = flow.hybrid, np.int64(0)
    for k in range(n_post):
        at = N_POST_COLUMN * (flow.order[np.uint64(k)] & ORDER_MASK)
        pair, kind = flow.posts[np.uint64(at + POST_PAIR)], flow.posts[np.uint64(at + POST_KIND)]
        n_touched = touch(flow, n_touched, pair)
        if kind == OVER:
            hybrid.n_packet[np.uint64(pair)] -= 1
        elif kind == AS_PACKETS:
            hybrid.n_packet[np.uint64(pair)] += 1
            flow.words[N_AS_PACKETS] += 1
        else:
            hybrid.is_touched[np.uint64(pair)] = HAS_RATE
    for i in range(n_touched):
        pair = np.int64(hybrid.touched[np.uint64(i)])
        has_rate = hybrid.is_touched[np.uint64(pair)] == HAS_RATE or flow.transfers[np.uint64(pair)].size_bytes > 0
        has_message = has_rate or hybrid.n_packet[np.uint64(pair)] > 0
        if has_message != (hybrid.is_counted[np.uint64(pair)] != 0):
            count_pair(flow, pair, 1 if has_message else -1)
    return n_touched


@step_kernel
def _send_packets(fabric: Fabric, nic: Nic, pair, from_byte, at_ps):
    """What a queue pair has posted goes as packets from a byte of its stream on, from an instant on; what is before has
    been acknowledged."""
    record = nic.queue_pairs[np.uint64(pair)]
    record.sent_bytes -= record.posted_end - from_byte
    record.acked_byte = record.next_byte = record.high_byte = from_byte
    find_sending_message(record, nic.messages)
    set_ready(nic.nic_ports, nic.queue_pairs, nic.ready, pair)
    node_id, port = np.int64(record.node), np.int64(record.port)
    node = fabric.nodes[np.uint64(node_id)]
    if node.n_timer > 0:
        set_timers(nic.timers, node, nic.control, record, pair)
    start_ps = max(at_ps, next_start(fabric.ports, nic.nic_ports, nic.queue_pairs, nic.ready, port))
    nic.nic_ports[np.uint64(port)].next_start_ps = start_ps
    if start_ps < fabric.node_time[np.uint64((fabric.node_time.size >> 1) + node_id)]:
        set_time(fabric.node_time, node_id, start_ps)


@step_kernel
def turn_into_packets(fabric: Fabric, nic: Nic, flow: FlowMode, pair, now_ps):
    """What is left of a message that goes at a rate goes as packets, with what waits behind it."""
    transfer, n_message = flow.transfers[np.uint64(pair)], np.int64(1)
    payload, header = fabric.constants[PAYLOAD_BYTES], fabric.constants[HEADER_BYTES]
    start, n_done = flow.starts[np.uint64((flow.starts.size >> 1) + pair)], np.int64(0)
    if start == NEVER:
        left_bytes = left_of(flow.max_min, pair, now_ps)
        n_all = (transfer.size_bytes + payload - 1) // payload
        n_done = max(np.int64(0), n_all - np.int64(left_bytes / (payload + header)) - 1)
        leave(flow.max_min, pair)
    set_time(flow.starts, pair, NEVER)
    from_byte = transfer.end_byte - transfer.size_bytes + n_done * payload
    transfer.packets += n_done
    transfer.bytes += n_done * (payload + header)
    while take_next(flow, transfer):
        n_message += 1
    nic.goes[np.uint64(pair)] = GOES_AS_PACKETS | WANTS_PACKETS
    flow.hybrid.n_packet[np.uint64(pair)], flow.hybrid.is_touched[np.uint64(pair)] = n_message, TURNED
    flow.words[N_AS_PACKETS] += n_message
    if transfer.data_link >= 0:
        receiver = nic.receivers[np.uint64(nic.receiver_row[np.uint64(pair)])]
        receiver.received_bytes += from_byte - receiver.expected_byte
        receiver.expected_byte = from_byte
    if transfer.ack_link >= 0:
        _send_packets(fabric, nic, pair, from_byte, now_ps)


@step_kernel
def _meet(fabric: Fabric, nic: Nic, flow: FlowMode, port, n_touched, now_ps):
    """Somebody has come to a port for which messages need packets: so do those that go at rates there and are limited
    by it; queue pairs that were touched."""
    m = flow.max_min
    at = np.int64(m.ports[np.uint64(port)].first)
    while at != NOTHING:
        place = m.places[np.uint64(at)]
        at, pair = np.int64(place.after), np.int64(place.flow)
        may_turn = flow.hybrid.is_shadow[np.uint64(pair)] == 0 and flow.hybrid.n_packet[np.uint64(pair)] == 0
        if may_turn and _unsure_at(flow, pair) == np.int64(port):
            n_touched = touch(flow, n_touched, pair)
            turn_into_packets(fabric, nic, flow, pair, now_ps)
    return n_touched


@step_kernel
def _enter_posts(fabric: Fabric, nic: Nic, flow: FlowMode, n_post, n_touched, now_ps):
    """Let messages that were posted go on as they are judged; what waits behind them follows. Queue pairs that were
    touched."""
    hybrid = flow.hybrid
    for k in range(n_post):
        at = N_POST_COLUMN * (flow.order[np.uint64(k)] & ORDER_MASK)
        post = flow.posts[np.uint64(at) : np.uint64(at + N_POST_COLUMN)]
        pair, kind = post[POST_PAIR], post[POST_KIND]
        if kind == OVER:
            continue
        if kind != AS_PACKETS:
            if hybrid.is_touched[np.uint64(pair)] == TURNED:
                hybrid.n_packet[np.uint64(pair)] += 1
                flow.words[N_AS_PACKETS] += 1
            else:
                enter(flow, fabric.constants, post)
        unsure_at = _unsure_at(flow, pair)
        is_rate = flow.transfers[np.uint64(pair)].size_bytes > 0
        goes = 0 if is_rate else GOES_AS_PACKETS
        nic.goes[np.uint64(pair)] = goes if unsure_at == NOTHING else goes | WANTS_PACKETS
        if unsure_at != NOTHING:
            if is_rate and hybrid.n_packet[np.uint64(pair)] == 0:
                turn_into_packets(fabric, nic, flow, pair, now_ps)
            n_touched = _meet(fabric, nic, flow, unsure_at, n_touched, now_ps)
    return n_touched


@step_kernel
def take_all_posts(fabric: Fabric, nic: Nic, flow: FlowMode, now_ps):
    """`take_posts`, at the end of a round, where messages may go as packets."""
    n_post, short = gather_posts(fabric, nic, flow)
    if n_post > 0:
        order_posts(flow, n_post)
        n_touched = count_posts(flow, n_post)
        begin_change(flow.max_min)
        n_touched = _enter_posts(fabric, nic, flow, n_post, n_touched, now_ps)
        move_shadows(flow, n_touched, now_ps)
        if IS_TRACED:
            trace_rates(fabric.counters, flow, now_ps)
        share_ports(fabric, flow)
    return short


@inlined
def _begin(state, flow, horizon_ps):
    short = carry_on(state.fabric, flow, horizon_ps)
    if short == 0:
        share_ports(state.fabric, flow)
    return short


@inlined
def _run(state, horizon_ps):
    return advance(state, horizon_ps, serve_plain, run_all_hosts)


@inlined
def _hear(state, flow, horizon_ps):
    return take_all_posts(state.fabric, state.nic, flow, horizon_ps)


@loop_kernel
def run_hybrid_rounds(loop, ex: ExchangeState, state: NetworkState, port_peer_row, flow: FlowMode):
    """Rounds of a network of plain switches."""
    return flow_rounds(loop, ex, state, port_peer_row, flow, _begin, _run, _hear)
