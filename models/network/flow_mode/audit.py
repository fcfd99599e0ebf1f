"""How far flow mode is off, measured: in stretches of time that are drawn all messages are simulated as packets.

What is posted in such a stretch is posted a second time, at the same instant, where nothing but flow mode is: in
`Audit.predicted`, of which no host hears. The workload goes on from what packets do. When both have ended, a message's
two times are compared.

A run is divided into stretches, of which a share is drawn by the seed. One begins where the one before it ends, and its
time counts from the first message that is posted in it. It lasts LENGTH times the longest that any message has taken so
far. Where one is drawn behind one that is not, messages under way go on as packets, from what they have got done
(`hybrid`), and flow mode goes on beside them as though nothing had happened. Until they are over either way, nothing is
compared; from then on all that is posted is. Where a stretch ends and the next is not drawn, messages go as packets
until all are over that are compared, so that long ones are compared as often as short ones. Two drawn stretches in a
row are one. Then a queue pair goes at rates again with the first message that is posted when all before it has been
sent, whatever its control has come to: in flow mode a control is as fast as it may be at once.

All is decided at the ends of rounds, by what all ranks know.
"""

import numpy as np

from models.network.flow_mode.audit_state import (
    AT_RATES,
    BEGIN_PS,
    DRAINED,
    DRAWN_PS,
    LONGEST_PS,
    MEASURED,
    N_DRAWN,
    N_FOLLOWED,
    N_OLD,
    N_OLD_PREDICTED,
    N_OPEN,
    NOBODY,
    PHASE,
    SEED,
    SHORT_OF_FOLLOWED,
    STRETCH,
    UNKNOWN_PS,
    WARM,
    Audit,
    AuditedNetwork,
)
from models.network.flow_mode.flow_rounds import flow_rounds
from models.network.flow_mode.hybrid import TURNED, count_posts, order_posts, touch, turn_into_packets
from models.network.flow_mode.shared_ports import move_shadows, share_ports
from models.network.flow_mode.state import (
    N_AS_PACKETS,
    N_ENDED,
    N_FREE_WAITING,
    N_POST_COLUMN,
    POST_END,
    POST_ID,
    POST_KIND,
    POST_PAIR,
    POST_POSTED_PS,
    FlowMode,
)
from models.network.flow_mode.traced_rates import trace_rates
from models.network.flow_mode.transfers import (
    SHORT_OF_WAITING,
    carry_on,
    enter,
    gather_posts,
    next_transfer_ps,
)
from models.network.rounds import advance, run_all_hosts, serve_plain
from models.network.state.records import (
    AS_PACKETS,
    GOES_AS_PACKETS,
    OVER,
    WANTS_PACKETS,
    Fabric,
    Nic,
)
from models.network.watch.tracing import IS_TRACED
from pdes.engine.jit import inlined, loop_kernel, step_kernel
from pdes.engine.rng import uniform
from pdes.engine.round_exchange import ExchangeState
from pdes.engine.time_index import NEVER
from pdes.random_plain import PURPOSE_AUDIT
from pdes.skipping.max_min.solve import begin_change, leave, solve

LENGTH = 4
ORDER_MASK = 2**32 - 1


@step_kernel
def _end_up_to(audit: Audit, pair, byte, at_ps):
    """Messages of a queue pair up to a byte of its stream are over in the network."""
    words, row = audit.words, np.int64(audit.first_over[np.uint64(pair)])
    while row != NOBODY and audit.followed[np.uint64(row)].end_byte <= byte:
        item = audit.followed[np.uint64(row)]
        item.over_ps = at_ps
        words[LONGEST_PS] = max(words[LONGEST_PS], at_ps - item.posted_ps)
        words[N_OPEN] -= item.ended_ps != UNKNOWN_PS
        row = np.int64(item.next)
    audit.first_over[np.uint64(pair)] = row
    old_end = audit.old_end[np.uint64(pair)]
    if 0 < old_end <= byte:
        audit.old_end[np.uint64(pair)] = 0
        words[N_OLD] -= 1


@step_kernel
def _end_predicted(audit: Audit, pair, byte, at_ps):
    """A queue pair's message up to a byte of its stream would be over."""
    row = np.int64(audit.first_ended[np.uint64(pair)])
    if row == NOBODY or audit.followed[np.uint64(row)].end_byte != byte:
        return
    item = audit.followed[np.uint64(row)]
    item.ended_ps = at_ps
    audit.words[N_OPEN] -= item.over_ps != UNKNOWN_PS
    audit.first_ended[np.uint64(pair)] = item.next


@step_kernel
def _follow(audit: Audit, post):
    """A message was posted that is compared."""
    words, pair, row = audit.words, np.uint64(post[POST_PAIR]), audit.words[N_FOLLOWED]
    item = audit.followed[np.uint64(row)]
    item.flow_id, item.end_byte, item.posted_ps = post[POST_ID], post[POST_END], post[POST_POSTED_PS]
    item.over_ps = item.ended_ps = UNKNOWN_PS
    item.unit, item.next = words[STRETCH], NOBODY
    if audit.last[pair] != NOBODY:
        audit.followed[np.uint64(audit.last[pair])].next = row
    audit.last[pair] = row
    if audit.first_over[pair] == NOBODY:
        audit.first_over[pair] = row
    if audit.first_ended[pair] == NOBODY:
        audit.first_ended[pair] = row
    words[N_FOLLOWED] += 1
    words[N_OPEN] += 1


@step_kernel
def _carry_on_predicted(fabric: Fabric, audit: Audit, horizon_ps):
    """What would begin and end below horizon_ps; 0, or what ran short."""
    flow, words, short = audit.predicted, audit.words, 0
    while short == 0 and next_transfer_ps(flow) < horizon_ps:
        short = carry_on(fabric, flow, next_transfer_ps(flow) + 1)
        for i in range(flow.words[N_ENDED]):
            pair, end_byte = flow.ended[np.uint64(i), 0], flow.ended[np.uint64(i), 1]
            posted_ps, at_ps = flow.ended[np.uint64(i), 2], flow.ended[np.uint64(i), 3]
            words[N_OLD_PREDICTED] -= posted_ps < words[DRAWN_PS]
            _end_predicted(audit, pair, end_byte, at_ps)
        flow.words[N_ENDED] = 0
    return short


@loop_kernel
def finish_predicted(fabric: Fabric, audit: Audit):
    """The run is over: see to it that all ends that would have; 0, or what ran short (then call again)."""
    return 0 if audit.words[PHASE] == AT_RATES else _carry_on_predicted(fabric, audit, NEVER)


@step_kernel
def _carry_on_both(fabric: Fabric, flow: FlowMode, audit: Audit, horizon_ps):
    """What begins and ends below horizon_ps, and what would; 0, or what ran short."""
    words, short = audit.words, 0
    while short == 0 and next_transfer_ps(flow) < horizon_ps:
        short = carry_on(fabric, flow, next_transfer_ps(flow) + 1)
        for i in range(flow.words[N_ENDED]):
            pair, at_ps = flow.ended[np.uint64(i), 0], flow.ended[np.uint64(i), 3]
            words[LONGEST_PS] = max(words[LONGEST_PS], at_ps - flow.ended[np.uint64(i), 2])
            _end_up_to(audit, pair, flow.ended[np.uint64(i), 1], at_ps)
        flow.words[N_ENDED] = 0
    if short == 0 and words[PHASE] != AT_RATES:
        short = _carry_on_predicted(fabric, audit, horizon_ps)
    return short


@step_kernel
def _enter_posts(fabric: Fabric, nic: Nic, flow: FlowMode, audit: Audit, n_post, now_ps):
    """Let messages that were posted go on, and those that are compared also as they would."""
    hybrid, phase = flow.hybrid, audit.words[PHASE]
    wants = 0 if phase == AT_RATES else WANTS_PACKETS
    for k in range(n_post):
        at = N_POST_COLUMN * (flow.order[np.uint64(k)] & ORDER_MASK)
        post = flow.posts[np.uint64(at) : np.uint64(at + N_POST_COLUMN)]
        pair, kind = post[POST_PAIR], post[POST_KIND]
        if kind == OVER:
            _end_up_to(audit, pair, post[POST_END], post[POST_POSTED_PS])
            continue
        audit.posted_end[np.uint64(pair)] = post[POST_END]
        if kind != AS_PACKETS:
            if hybrid.is_touched[np.uint64(pair)] == TURNED:
                hybrid.n_packet[np.uint64(pair)] += 1
                flow.words[N_AS_PACKETS] += 1
            else:
                enter(flow, fabric.constants, post)
        is_rate = flow.transfers[np.uint64(pair)].size_bytes > 0
        nic.goes[np.uint64(pair)] = wants | (0 if is_rate else GOES_AS_PACKETS)
        if phase == AT_RATES:
            continue
        enter(audit.predicted, fabric.constants, post)
        if phase == MEASURED and kind == AS_PACKETS:
            _follow(audit, post)
        if is_rate and hybrid.n_packet[np.uint64(pair)] == 0:
            turn_into_packets(fabric, nic, flow, pair, now_ps)


@step_kernel
def _copy(flow: FlowMode, other: FlowMode):
    """Have in other what is under way in flow: all that goes at a rate."""
    m, to = flow.max_min, other.max_min
    for i in range(m.offers.size):
        to.offers[np.uint64(i)] = m.offers[np.uint64(i)]
    for i in range(m.flows.size):
        to.flows[np.uint64(i)] = m.flows[np.uint64(i)]
        to.ends[np.uint64(i)] = m.ends[np.uint64(i)]
        other.transfers[np.uint64(i)] = flow.transfers[np.uint64(i)]
        other.transfers[np.uint64(i)].data_link = other.transfers[np.uint64(i)].ack_link = NOBODY
    for i in range(m.ports.size):
        to.ports[np.uint64(i)] = m.ports[np.uint64(i)]
    for i in range(m.contention.size):
        to.contention[np.uint64(i)] = m.contention[np.uint64(i)]
    for i in range(m.places.size):
        to.places[np.uint64(i)] = m.places[np.uint64(i)]
    for i in range(m.words.size):
        to.words[np.uint64(i)] = m.words[np.uint64(i)]
    for i in range(m.phases.size):
        to.phases[np.uint64(i)] = m.phases[np.uint64(i)]
    for i in range(flow.starts.size):
        other.starts[np.uint64(i)] = flow.starts[np.uint64(i)]
    for i in range(flow.waiting.size):
        other.waiting[np.uint64(i)] = flow.waiting[np.uint64(i)]
    for i in range(flow.words.size):
        other.words[np.uint64(i)] = flow.words[np.uint64(i)]


@step_kernel
def _begin_drawn(fabric: Fabric, nic: Nic, flow: FlowMode, audit: Audit, now_ps):
    """From now on messages go as packets, those under way, too; what these would have done goes on as it was."""
    hybrid, predicted, words, n_touched = flow.hybrid, audit.predicted, audit.words, np.int64(0)
    _copy(flow, predicted)
    begin_change(predicted.max_min)
    words[PHASE], words[DRAWN_PS], words[N_OLD], words[N_OLD_PREDICTED] = WARM, now_ps, 0, 0
    begin_change(flow.max_min)
    for pair in range(nic.goes.size):
        transfer = flow.transfers[np.uint64(pair)]
        nic.goes[np.uint64(pair)] |= WANTS_PACKETS
        if hybrid.is_shadow[np.uint64(pair)]:
            leave(predicted.max_min, pair)
        if transfer.size_bytes > 0:
            words[N_OLD_PREDICTED] += 1
            row = np.int64(transfer.first_waiting)
            while row >= 0:
                words[N_OLD_PREDICTED] += 1
                row = np.int64(flow.waiting[np.uint64(row)].next)
            if hybrid.n_packet[np.uint64(pair)] == 0:
                n_touched = touch(flow, n_touched, pair)
                turn_into_packets(fabric, nic, flow, pair, now_ps)
        if transfer.size_bytes > 0 or hybrid.n_packet[np.uint64(pair)] > 0:
            audit.old_end[np.uint64(pair)] = audit.posted_end[np.uint64(pair)]
            words[N_OLD] += 1
    solve(predicted.max_min, now_ps)
    move_shadows(flow, n_touched, now_ps)
    share_ports(fabric, flow)


@step_kernel
def _end_drawn(nic: Nic, words):
    """What is posted from now on goes at rates, on queue pairs that are as fast as if they had met nobody."""
    words[PHASE], words[BEGIN_PS] = AT_RATES, UNKNOWN_PS
    for pair in range(nic.goes.size):
        nic.goes[np.uint64(pair)] &= GOES_AS_PACKETS


@step_kernel
def _go_on(fabric: Fabric, nic: Nic, flow: FlowMode, audit: Audit, n_post, now_ps):
    """See whether a stretch is over."""
    words = audit.words
    phase = words[PHASE]
    if words[BEGIN_PS] == UNKNOWN_PS and n_post > 0:
        words[BEGIN_PS] = now_ps
    if phase == WARM and words[N_OLD] == 0 and words[N_OLD_PREDICTED] == 0:
        words[PHASE], words[BEGIN_PS] = MEASURED, UNKNOWN_PS
    if phase == DRAINED and words[N_OPEN] == 0:
        _end_drawn(nic, words)
    if phase == WARM or phase == DRAINED or words[BEGIN_PS] == UNKNOWN_PS:
        return
    if words[LONGEST_PS] > 0 and now_ps - words[BEGIN_PS] >= LENGTH * words[LONGEST_PS]:
        words[STRETCH] += 1
        words[BEGIN_PS] = UNKNOWN_PS
        is_drawn = uniform(words[SEED], words[STRETCH], PURPOSE_AUDIT, 0) < audit.share[0]
        words[N_DRAWN] += is_drawn
        if phase == AT_RATES and is_drawn:
            _begin_drawn(fabric, nic, flow, audit, now_ps)
        if phase == MEASURED and not is_drawn:
            words[PHASE] = DRAINED


@step_kernel
def take_audited_posts(fabric: Fabric, nic: Nic, flow: FlowMode, audit: Audit, now_ps):
    """`take_posts`, at the end of a round, with an audit."""
    n_room = flow.own.size // N_POST_COLUMN
    if audit.words[PHASE] != AT_RATES and audit.predicted.words[N_FREE_WAITING] < n_room:
        return SHORT_OF_WAITING
    if audit.followed.size - audit.words[N_FOLLOWED] < n_room:
        return SHORT_OF_FOLLOWED
    n_post, short = gather_posts(fabric, nic, flow)
    if short != 0:
        return short
    if n_post > 0:
        order_posts(flow, n_post)
        n_touched = count_posts(flow, n_post)
        begin_change(flow.max_min)
        _enter_posts(fabric, nic, flow, audit, n_post, now_ps)
        move_shadows(flow, n_touched, now_ps)
        if IS_TRACED:
            trace_rates(fabric.counters, flow, now_ps)
        share_ports(fabric, flow)
    _go_on(fabric, nic, flow, audit, n_post, now_ps)
    return 0


@inlined
def _begin(state, flow, horizon_ps):
    short = _carry_on_both(state.fabric, flow, state.audit, horizon_ps)
    if short == 0:
        share_ports(state.fabric, flow)
    return short


@inlined
def _run(state, horizon_ps):
    return advance(state.network, horizon_ps, serve_plain, run_all_hosts)


@inlined
def _hear(state, flow, horizon_ps):
    return take_audited_posts(state.fabric, state.nic, flow, state.audit, horizon_ps)


@loop_kernel
def run_audited_rounds(loop, ex: ExchangeState, state: AuditedNetwork, port_peer_row, flow: FlowMode):
    """Rounds of a network of plain switches, with an audit."""
    return flow_rounds(loop, ex, state, port_peer_row, flow, _begin, _run, _hear)
