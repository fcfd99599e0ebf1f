"""Flows at flow level: messages that are never sent packet by packet, as it is known what their flows get of ports.

Messages go at known rates from their posting on (HyGra section IV: flow level beside packet level). A set of flows that
share ports gets, whatever holds first:

- what was measured of just these messages together, when they went on packet by packet evenly (`seen`);
- alone, the rate that the times of such messages came to (`alone_rates`);
- what `shares` knows of flows of their forms: a part of their weighted max-min fair shares;
- what is left of a company of which that was known: the same parts of their new fair shares.

What changes at a tick, by messages that begin and end, is solved again there, for those alone who share ports with it.
A message whose flow comes to others waits, once, for what is in their queues; one that begins together with all others
fills these queues itself.

How a message ends is predicted as soon as that is before the tick after the next; until then nothing but its rate is
known, and nothing has to be taken back.

It all ends for a set of flows that share ports, and they go on packet by packet, when somebody packet by packet is
among them, or when none of these rates is known.

Flows and ports are numbers here; everything is alike on every rank. Times in ps, rates in bytes per ps.
"""

from typing import NamedTuple

import numpy as np

from pdes.engine.jit import loop_kernel, step_kernel
from pdes.engine.time_index import NEVER, collect_before, set_time
from pdes.skipping import prediction as m
from pdes.skipping.fluid.entering import (
    begin_first,
    count_acks,
    enter_table,
    follow_loads,
    forget_labels,
    hold_ports,
    note_reload,
)
from pdes.skipping.fluid.flow_table import (
    LAST_PS,
    LOADS_PS,
    N_DUE,
    N_FLOW,
    N_MESSAGE,
    N_RELOADED,
    NEXT_PS,
    NOBODY,
    TICKS_AHEAD,
    Table,
)
from pdes.skipping.fluid.max_min import max_min
from pdes.skipping.fluid.solve import company_of, meets_acks, solve
from pdes.skipping.fluid.stage_load import see_packets
from pdes.skipping.in_place_sort import sort_in_place
from pdes.skipping.leaving import leave_all, leave_together
from pdes.skipping.partitions import canonical


@step_kernel
def _touch(t: Table, n_touched, flow, at_ps):
    t.touched[n_touched, 0], t.touched[n_touched, 1] = flow, at_ps
    return n_touched + 1


@step_kernel
def _end_predicted(t: Table, holder, now_ps, n_touched):
    """Messages whose last bytes have left make room; how many flows were touched."""
    n_left, n_leaving = 0, 0
    for i in range(t.words[N_DUE]):
        flow = t.due[i]
        if t.n_message[flow] == 0 or t.is_predicted[flow] == 0:
            continue
        sent_ps = t.sent_ps[flow]
        if sent_ps > now_ps:
            t.due[n_left] = flow
            n_left += 1
            continue
        n_touched = _touch(t, n_touched, flow, sent_ps)
        n = t.n_message[flow] = t.n_message[flow] - 1
        if n > 0:
            for k in range(n):
                for column in range(m.N_POSTED):
                    t.message[flow, k, column] = t.message[flow, k + 1, column]
            begin_first(t, flow, max(sent_ps, t.message[flow, 0, m.POSTED_PS]))
            continue
        t.is_predicted[flow] = 0
        count_acks(t, flow, -1)
        t.members[n_leaving] = flow
        n_leaving += 1
        set_time(t.first_ps, np.int64(t.partitions.label_of_flow[flow]), NEVER)  # who stays is solved again
    t.words[N_DUE] = n_left
    leave_together(t.partitions, t.members[:n_leaving])
    t.words[N_FLOW] -= n_leaving
    for i in range(n_leaving):
        hold_ports(t, holder, t.members[i])
    return n_touched


@step_kernel
def _take_posts(t: Table, holder, posts, n_touched):
    """Messages that were posted at flow level; how many flows were touched."""
    for i in range(posts.shape[0]):
        flow = posts[i, m.FLOW]
        n = t.n_message[flow]
        for column in range(m.N_POSTED):
            t.message[flow, n, column] = posts[i, column]
        t.n_message[flow] = n + 1
        if n > 0:
            continue
        forget_labels(t, flow)
        enter_table(t, holder, flow)
        t.part[flow], t.is_shadow[flow] = 0.0, posts[i, m.HAS_SHADOW]
        begin_first(t, flow, posts[i, m.POSTED_PS])
        n_touched = _touch(t, n_touched, flow, posts[i, m.POSTED_PS])
    return n_touched


@step_kernel
def _list_labels(t: Table, n_touched):
    """Who shares ports with flows that were touched, and since when that counts; how many labels."""
    p, n_label = t.partitions, 0
    for i in range(n_touched):
        flow, at_ps = t.touched[i, 0], t.touched[i, 1]
        for at in range(p.port_start[flow], p.port_start[flow + 1]):
            label = np.int64(p.label_of_port[np.uint64(p.port_of[at])])
            if label < 0:
                continue
            if t.changed_ps[label] < 0:
                t.labels[n_label] = label
                n_label += 1
            t.changed_ps[label] = max(t.changed_ps[label], at_ps)
    return n_label


@step_kernel
def _predict(t: Table, label, now_ps, limit_ps, n_predicted):
    """Predict how messages of a label end whose last bytes leave before an instant; how many rows t.predicted has."""
    flow, first_ps = np.int64(t.partitions.first_member[label]), NEVER
    while flow >= 0:
        if t.is_predicted[flow] == 0:
            sent_ps = t.sent_ps[flow]
            if sent_ps < limit_ps:
                delivered_ps = max(sent_ps + t.late_ps[flow, 0] + t.waited_ps[flow], now_ps, t.last_ps[flow])
                t.last_ps[flow] = delivered_ps
                row = t.predicted[n_predicted]
                for column in range(m.N_POSTED):
                    row[column] = t.message[flow, 0, column]
                row[m.FREE_PS], row[m.DELIVERED_PS] = sent_ps, delivered_ps
                row[m.ENDED_PS] = delivered_ps + t.late_ps[flow, 1]
                t.is_predicted[flow] = 1
                t.due[t.words[N_DUE]] = flow
                t.words[N_DUE] += 1
                n_predicted += 1
            else:
                first_ps = min(first_ps, sent_ps)
        flow = np.int64(t.partitions.next_member[flow])
    set_time(t.first_ps, label, first_ps)
    return n_predicted


@step_kernel
def _break(t: Table, holder, label, n_broken, comer):
    """Flows of a label go on packet by packet; how many do now. What they had got done stays readable.

    comer: a flow that is simulated and shares ports with them, NOBODY: there is none. Those that were posted since the
    last tick count as having had their fair shares of what it leaves them from then on.
    """
    p = t.partitions
    n = canonical(p, label, t.broken[n_broken:])
    leave_all(p, label)
    n_all = n_broken + n
    if comer != NOBODY and n_all < t.broken.size:
        t.broken[n_all] = comer
        n_all += 1
    max_min(t.broken[n_broken:n_all], p.port_start, p.port_of, t.byte_per_ps, t.scratch, t.fair)
    set_time(t.first_ps, label, NEVER)
    for i in range(n_broken, n_broken + n):
        flow = t.broken[i]
        if t.rate[flow] == 0.0:
            t.rate[flow] = t.fair[i - n_broken]
        t.n_message[flow], t.n_beside[flow] = 0, n_all - n_broken - 1
        count_acks(t, flow, -1)
        hold_ports(t, holder, flow)
    t.words[N_FLOW] -= n
    return n_broken + n


@step_kernel
def _note_next(t: Table, now_ps, tick_ps):
    """When the next tick is, of those at multiples of tick_ps."""
    next_ps = t.first_ps[1] - TICKS_AHEAD * tick_ps if t.first_ps[1] < NEVER else NEVER
    for i in range(t.words[N_DUE]):
        flow = t.due[i]
        if t.n_message[flow] > 0 and t.is_predicted[flow]:
            next_ps = min(next_ps, t.sent_ps[flow])
    next_ps = min(next_ps, t.words[LOADS_PS])
    t.words[NEXT_PS] = NEVER if next_ps == NEVER else (max(next_ps, now_ps + 1) + tick_ps - 1) // tick_ps * tick_ps


@loop_kernel
def reload(t: Table, ports, now_ps, tick_ps):
    """Acknowledgements of flows that are not at flow level begin or cease to cross ports: who sends there, alone, is
    solved again at the next tick."""
    n_before = t.words[N_RELOADED]
    for i in range(ports.size):
        note_reload(t, np.int64(ports[i]))
    if t.words[N_RELOADED] > n_before:
        t.words[NEXT_PS] = min(t.words[NEXT_PS], (now_ps // tick_ps + 1) * tick_ps)


@loop_kernel
def see_loads(t: Table, flows, has_timer, is_mixed, now_ps, tick_ps):
    """These flows are simulated; see `see_packets`, and `follow_loads`."""
    n_before = t.words[N_RELOADED]
    see_packets(t.stages, flows, has_timer, is_mixed)
    follow_loads(t, now_ps, tick_ps)
    if t.words[N_RELOADED] > n_before:
        t.words[NEXT_PS] = min(t.words[NEXT_PS], (now_ps // tick_ps + 1) * tick_ps)


@step_kernel
def _list_reloaded(t: Table, n_label, now_ps):
    """Add the labels of flows whose load has changed to those that are solved; how many these are."""
    for i in range(t.words[N_RELOADED]):
        label = t.reloaded_label[i]
        kind, t.is_reloaded[label] = t.is_reloaded[label], 0
        if t.partitions.n_flow_of[label] != 1 and kind != 2 or t.partitions.n_flow_of[label] == 0:
            continue
        if t.changed_ps[label] < 0:
            t.labels[n_label] = label
            n_label += 1
        t.changed_ps[label] = max(t.changed_ps[label], now_ps)
    t.words[N_RELOADED] = 0
    return n_label


@loop_kernel
def tick(t: Table, holder, now_ps, tick_ps, posts, others):
    """Take what was posted, solve anew what has changed, predict what ends; (rows of t.predicted, of t.broken).

    posts: int64[n, N_POSTED], by flow and end. others: int64[], flows that are simulated packet by packet.
    holder: int32[n_port], NOBODY or SHARED.
    """
    p, n_broken = t.partitions, 0
    t.words[LAST_PS] = now_ps
    t.words[N_MESSAGE] += posts.shape[0]
    n_touched = _end_predicted(t, holder, now_ps, 0)
    n_touched = _take_posts(t, holder, posts, n_touched)
    follow_loads(t, now_ps, tick_ps)
    n_label = _list_reloaded(t, _list_labels(t, n_touched), now_ps)
    for i in range(others.size):
        for at in range(p.port_start[others[i]], p.port_start[others[i] + 1]):
            label = np.int64(p.label_of_port[np.uint64(p.port_of[at])])
            if label >= 0:
                n_broken = _break(t, holder, label, n_broken, others[i])
    sort_in_place(t.labels, n_label)
    for i in range(n_label):
        label = t.labels[i]
        as_of_ps = t.changed_ps[label]
        t.changed_ps[label] = -1
        if as_of_ps >= 0 and p.n_flow_of[label] > 0 and not solve(t, label, as_of_ps):
            n_broken = _break(t, holder, label, n_broken, NOBODY)
    limit_ps, n_predicted = now_ps + TICKS_AHEAD * tick_ps + 1, 0
    n_label = collect_before(t.first_ps, limit_ps, t.labels)
    for i in range(n_label):
        n_predicted = _predict(t, t.labels[i], now_ps, limit_ps, n_predicted)
    _note_next(t, now_ps, tick_ps)
    return n_predicted, n_broken


@loop_kernel
def interrupt(t: Table, holder, flows, now_ps, tick_ps):
    """Somebody sends packet by packet: those who share ports with flows do so, too; how many rows of t.broken."""
    p, n_broken = t.partitions, 0
    for i in range(flows.size):
        for at in range(p.port_start[flows[i]], p.port_start[flows[i] + 1]):
            label = np.int64(p.label_of_port[np.uint64(p.port_of[at])])
            if label >= 0:
                n_broken = _break(t, holder, label, n_broken, flows[i])
    _note_next(t, now_ps, tick_ps)
    return n_broken


class Comers(NamedTuple):
    """Flows that were simulated, and what is known of them. A row for each."""

    posts: np.ndarray  # int64[n, N_POSTED], their messages
    left: np.ndarray  # float64[n], bytes of these that have not left
    rates: np.ndarray  # float64[n, 2], without and with acknowledgements of others on their ways
    queued_ps: np.ndarray  # int64[n], that packets wait on their ways


@loop_kernel
def join(t: Table, holder, comers: Comers, part, now_ps, tick_ps):
    """Flows that were simulated go on at flow level.

    part: of their fair shares that their rates are, 0: these were measured, and hold for these flows together alone.
    """
    posts, left, rates, queued_ps = comers
    for i in range(posts.shape[0]):
        flow = posts[i, m.FLOW]
        for column in range(m.N_POSTED):
            t.message[flow, 0, column] = posts[i, column]
        t.n_message[flow] = 1
        forget_labels(t, flow)
        enter_table(t, holder, flow)
        begin_first(t, flow, now_ps)
        t.is_shadow[flow] = posts[i, m.HAS_SHADOW]
        t.left[flow], t.rate[flow], t.part[flow], t.queued_ps[flow] = left[i], rates[i, 0], part, queued_ps[i]
        t.waited_ps[flow], t.drawn_end[flow] = queued_ps[i], 0  # if it has drawn a part, this is not it
    last, digest = np.int64(-1), np.int64(0)
    for i in range(posts.shape[0]):
        flow = posts[i, m.FLOW]
        if meets_acks(t, flow):
            t.rate[flow] = rates[i, 1]
        t.sent_ps[flow] = now_ps + np.int64(left[i] / t.rate[flow])
        label = np.int64(t.partitions.label_of_flow[flow])
        if part == 0.0:
            if label != last:  # mostly it is one for all
                last, digest = label, company_of(t, t.members[: canonical(t.partitions, label, t.members)])
            t.own[flow, 0], t.own[flow, 1], t.company[flow] = rates[i, 0], rates[i, 1], digest
        at = t.first_ps.size // 2 + label
        set_time(t.first_ps, label, min(t.first_ps[at], t.sent_ps[flow]))
    _note_next(t, now_ps, tick_ps)


@loop_kernel
def give_up(t: Table, holder, flows, now_ps, tick_ps):
    """Flows at flow level, with who shares ports with them, go on packet by packet; how many rows of t.broken."""
    n_broken = 0
    for i in range(flows.size):
        if t.n_message[flows[i]] > 0:
            n_broken = _break(t, holder, np.int64(t.partitions.label_of_flow[flows[i]]), n_broken, NOBODY)
    _note_next(t, now_ps, tick_ps)
    return n_broken


@loop_kernel
def append(t: Table, posts):
    """Take messages that were posted behind others that are at flow level."""
    t.words[N_MESSAGE] += posts.shape[0]
    for i in range(posts.shape[0]):
        flow = posts[i, m.FLOW]
        for column in range(m.N_POSTED):
            t.message[flow, t.n_message[flow], column] = posts[i, column]
        t.n_message[flow] += 1
