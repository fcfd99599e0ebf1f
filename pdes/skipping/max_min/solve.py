"""Weighted max-min fair rates, solved anew only as far as the begin or the end of a flow reaches.

Rates are max-min fair if every flow has a port that limits it: one that is full, and on which no other flow gets more
for its weight. So who begins, and who was limited by a port of one that begins or ends, are the first *members*: their
rates are filled up (water filling: the port that has least for each is shared out first) beside the rates of all
others, which stay. Then it is seen whether all flows on the members' ports still have a port that limits them. Who has
none, or gets more than members on a port that limits these, becomes a member, and rates are filled again. As soon as
nobody is added the rates of the whole network are max-min fair, and there is one such set of rates.

Acknowledgements come back before all data of their ports: what a flow's rate makes of them is *reserved* there. A rate
that changes moves what is reserved elsewhere, by a few hundredths, so rates are solved again, until what would be
reserved is within RESERVE_FRAC of the port's rate of what is. Of a port for which flows contend not all may be used,
see `contention`.

This is Arcadia's flow rate update (its Algorithm 1), for the flows that a change reaches instead of all. Rates, and
what is left of a flow, are real numbers: a deviation from R1, which has whole bytes. They come of the same steps on
every rank. Instants are whole ps, and a flow's end is rounded up.
"""

import numpy as np

from pdes.engine.jit import loop_kernel, step_kernel
from pdes.engine.time_index import NEVER
from pdes.skipping.max_min.contention import offers_anew, see_contention, sends, take_back
from pdes.skipping.max_min.ends import drop_end, put_end
from pdes.skipping.max_min.fill import fill
from pdes.skipping.max_min.members import add, add_all, add_limited, find
from pdes.skipping.max_min.table import (
    BACK_SHARE,
    ENDLESS,
    MARK,
    N_MEMBER,
    N_MOVED,
    N_PORT,
    N_SOLVED,
    NOBODY,
    NOTHING,
    MaxMin,
)

TIE = 1e-9  # what differs by less is the same
RESERVE_FRAC, MOST_RESERVED = 1 / 1024, 0.75
MOST_TURNS = 16  # each leaves about as much of what the last one left as acknowledgements are of packets
LONGEST_PS = 2.0**61  # that a flow can take at its rate


@step_kernel
def _come_back(m: MaxMin, flow, more, n_more):
    """What comes back of a flow changes with its rate, by `more`. n_more: 1, -1: it begins, ends."""
    is_told = m.ended_back.size > 0 and m.flows[np.uint64(flow)].left < ENDLESS / 2
    for at in range(m.place_of[np.uint64(flow), 2], m.place_of[np.uint64(flow), 3]):
        port = m.back_port[np.uint64(at)]
        record = m.ports[np.uint64(port)]
        record.n_back += n_more
        if is_told:
            m.ended_back[np.uint64(port)] += more * m.facts[BACK_SHARE]
        record.back_rate = record.back_rate + more * m.facts[BACK_SHARE] if record.n_back > 0 else 0.0
        is_far = abs(record.back_rate - record.reserved) > RESERVE_FRAC * record.byte_per_ps
        if record.has_moved == 0 and (is_far or record.n_back == 0):
            record.has_moved = 1
            m.moved[np.uint64(m.words[N_MOVED])] = port
            m.words[N_MOVED] += 1


@step_kernel
def _reserve(m: MaxMin):
    """Reserve what comes back where it has moved, and make members' ports of these."""
    for i in range(m.words[N_MOVED]):
        port = np.int64(m.moved[np.uint64(i)])
        record = m.ports[np.uint64(port)]
        record.has_moved = 0
        reserved = min(record.back_rate, MOST_RESERVED * record.byte_per_ps)
        if record.reserved != reserved:
            record.reserved = reserved
            find(m, port)
    m.words[N_MOVED] = 0


@loop_kernel
def begin_change(m: MaxMin):
    """Flows begin and end at one instant: `join` and `leave`, then `solve`."""
    m.words[MARK] += 1
    m.words[N_MEMBER] = m.words[N_PORT] = 0


@loop_kernel
def join(m: MaxMin, flow, size_bytes, now_ps):
    """A flow begins. After those that leave at this instant."""
    record, places, ports = m.flows[np.uint64(flow)], m.places, m.ports
    record.left, record.since_ps, record.level = size_bytes, now_ps, 0.0
    for at in range(m.place_of[np.uint64(flow), 0], m.place_of[np.uint64(flow), 1]):
        port = ports[np.uint64(places[np.uint64(at)].port)]
        first = np.int64(port.first)
        places[np.uint64(at)].after, places[np.uint64(at)].before = first, NOTHING
        if first != NOTHING:
            places[np.uint64(first)].before = at
        port.first = at
        port.n_flow += 1
    if m.contention.size > 0:
        sends(m, flow, 1)
    add(m, flow)
    _come_back(m, flow, 0.0, 1)


@loop_kernel
def leave(m: MaxMin, flow):
    """A flow ends."""
    drop_end(m.flows, m.ends, m.words, flow)
    if m.contention.size > 0:
        take_back(m, flow)
    record = m.flows[np.uint64(flow)]
    _come_back(m, flow, -record.level * record.weight, -1)
    record.level = 0.0
    for at in range(m.place_of[np.uint64(flow), 0], m.place_of[np.uint64(flow), 1]):
        place = m.places[np.uint64(at)]
        port, after, before = np.int64(place.port), np.int64(place.after), np.int64(place.before)
        if before == NOTHING:
            m.ports[np.uint64(port)].first = after
        else:
            m.places[np.uint64(before)].after = after
        if after != NOTHING:
            m.places[np.uint64(after)].before = before
        m.ports[np.uint64(port)].n_flow -= 1
        find(m, port)


@loop_kernel
def set_rate(m: MaxMin, port, byte_per_ps):
    """A port has another rate; at 0 what uses it stands still."""
    m.ports[np.uint64(port)].byte_per_ps = byte_per_ps
    if m.contention.size > 0:
        offers_anew(m, port)
    find(m, port)


@loop_kernel
def left_of(m: MaxMin, flow, now_ps):
    """Bytes that are left of a flow under way."""
    record = m.flows[np.uint64(flow)]
    return max(0.0, record.left - record.level * record.weight * (now_ps - record.since_ps))


@loop_kernel
def reroute(m: MaxMin, flow, places, is_under_way, now_ps):
    """A flow has another way. places: int64[4], see MaxMin.place_of."""
    left = left_of(m, flow, now_ps)
    if is_under_way:
        leave(m, flow)
    for k in range(4):
        m.place_of[np.uint64(flow), np.uint64(k)] = places[np.uint64(k)]
    if is_under_way:
        join(m, flow, left, now_ps)


@step_kernel
def _end_ps(left, rate, now_ps):
    """When so many bytes are gone at a rate, bytes per ps; NEVER at none, and of an endless flow."""
    return now_ps + np.int64(min(np.ceil(left / rate), LONGEST_PS)) if rate > 0.0 and left < ENDLESS / 2 else NEVER


@loop_kernel
def go_on(m: MaxMin, flow, size_bytes, now_ps):
    """A flow that was taken off the heap begins anew as it ends, at its rate."""
    record = m.flows[np.uint64(flow)]
    record.left, record.since_ps = size_bytes, now_ps
    put_end(m.flows, m.ends, m.words, flow, _end_ps(size_bytes, record.level * record.weight, now_ps))


@step_kernel
def _look_at(m: MaxMin, port):
    """Make members of those on a port that have no port which limits them, or have more than it leaves to members."""
    record, mark = m.ports[np.uint64(port)], m.words[MARK]
    if record.n_member == record.n_flow:
        return
    if record.left < -record.byte_per_ps * TIE:  # more is reserved than there was left
        add_all(m, port)
        return
    is_full, top = record.left <= record.byte_per_ps * TIE, record.top * (1 - TIE)
    most = record.level * (1 + TIE) if record.level >= 0.0 else NOBODY
    frees = record.bound_least < NOBODY and (not is_full or record.bound_least < top)
    if not frees and record.others_most <= most:
        return
    others_most, least = 0.0, NOBODY
    at = np.int64(record.first)
    while at != NOTHING:
        place = m.places[np.uint64(at)]
        at, id_ = np.int64(place.after), np.int64(place.flow)
        flow = m.flows[np.uint64(id_)]
        if flow.mark == mark:
            continue
        is_bound = np.int64(flow.limit) == port
        if (is_bound and (not is_full or flow.level < top)) or flow.level > most:
            add(m, id_)
            continue
        others_most = max(others_most, flow.level)
        if is_bound:
            least = min(least, flow.level)
    record.others_most, record.bound_least = others_most, least


@step_kernel
def _settle(m: MaxMin):
    """Levels of members, and of those that these make members."""
    words, n_before = m.words, np.int64(-1)
    while words[N_MEMBER] > n_before:
        n_before, n_port = words[N_MEMBER], words[N_PORT]
        fill(m)
        for i in range(n_port):
            _look_at(m, np.int64(m.found[np.uint64(i)]))
    words[N_SOLVED] += n_before


@step_kernel
def _take_over(m: MaxMin, now_ps):
    """From now on members go at their new levels."""
    for i in range(m.words[N_MEMBER]):
        flow = np.int64(m.member[np.uint64(i)])
        record = m.flows[np.uint64(flow)]
        if record.new_level != record.level:
            rate = record.new_level * record.weight
            record.left = left_of(m, flow, now_ps)
            _come_back(m, flow, rate - record.level * record.weight, 0)
            record.level, record.since_ps = record.new_level, now_ps
            put_end(m.flows, m.ends, m.words, flow, _end_ps(record.left, rate, now_ps))


@loop_kernel
def solve(m: MaxMin, now_ps):
    """Rates after what has begun and ended at an instant, and when flows end at these."""
    if m.contention.size > 0:
        see_contention(m, now_ps)
    for _ in range(MOST_TURNS):
        _reserve(m)
        add_limited(m)
        _settle(m)
        _take_over(m, now_ps)
        if m.words[N_MOVED] == 0:
            return
        begin_change(m)
