"""Ports for which flows contend, and how much of them congestion controls use as time goes by.

A port is contended while the senders of its flows would send more over it than it has: each as much as its own port
lets through, in equal parts for the flows that it sends. There controls cut rates, often too far at first, and come
back slowly. In an exchange in which everybody sends to everybody no port is offered more than it has.

So flows have the share `use` of a contended port's rate, by how long it has been that, and no more than `reach` times
what their senders could send together: after a cut many can still fill the port, and two cannot. Time without
contention counts backwards: controls recover as long as they were cut.

What a port is offered follows from who is under way, not from rates. It is kept up to date: flows that end take back
what they offered at once, and before rates are solved each sender whose flows are others offers in new parts.
"""

import numpy as np

from pdes.engine.jit import loop_kernel, step_kernel
from pdes.engine.time_index import NEVER, collect_before, set_time
from pdes.skipping.max_min.members import find
from pdes.skipping.max_min.table import N_TOUCHED, NOTHING, MaxMin

SLACK = 1 / 64  # of a port's rate: what is offered more by no more than that is no more
LEAST_USE = 1 / 64


@step_kernel
def _touch(m: MaxMin, port):
    record = m.contention[np.uint64(port)]
    if record.is_touched == 0:
        record.is_touched = 1
        m.touched[np.uint64(m.words[N_TOUCHED])] = port
        m.words[N_TOUCHED] += 1


@step_kernel
def _offer(m: MaxMin, flow, offered, whole):
    """A flow offers its ports so much more than before, and its sender could send so much more."""
    for at in range(m.place_of[np.uint64(flow), 0] + 1, m.place_of[np.uint64(flow), 1]):
        place = m.places[np.uint64(at)]
        record = m.contention[np.uint64(place.port)]
        record.offered += offered * place.usage
        record.senders += whole * place.usage
        _touch(m, np.int64(place.port))


@step_kernel
def offers_anew(m: MaxMin, port):
    """What a port offers is other than before, as is its rate or what it sends."""
    m.contention[np.uint64(port)].is_sender = 1
    _touch(m, port)


@step_kernel
def sends(m: MaxMin, flow, more):
    """A flow begins (more: 1) or ends (-1): its sender offers in other parts. Not if it has no way."""
    first = m.place_of[np.uint64(flow), 0]
    if first < m.place_of[np.uint64(flow), 1]:
        port = np.int64(m.places[np.uint64(first)].port)
        m.contention[np.uint64(port)].n_sent += more
        offers_anew(m, port)


@step_kernel
def take_back(m: MaxMin, flow):
    """A flow ends, or has this way no more."""
    offer = m.offers[np.uint64(flow)]
    _offer(m, flow, -offer.part, -offer.whole)
    offer.part = offer.whole = 0.0
    sends(m, flow, -1)


@step_kernel
def _offer_anew(m: MaxMin, port):
    """A sender offers each of its flows' ports what it does now."""
    sender, record = m.contention[np.uint64(port)], m.ports[np.uint64(port)]
    sender.is_sender = 0
    at = np.int64(record.first) if sender.n_sent > 0 else np.int64(NOTHING)
    while at != NOTHING:
        place = m.places[np.uint64(at)]
        flow = np.int64(place.flow)
        if at == m.place_of[np.uint64(flow), 0]:  # it is sent from here
            offer = m.offers[np.uint64(flow)]
            part, whole = record.byte_per_ps / sender.n_sent, record.byte_per_ps
            if part != offer.part or whole != offer.whole:
                _offer(m, flow, part - offer.part, whole - offer.whole)
                offer.part, offer.whole = part, whole
        at = np.int64(place.after)


@step_kernel
def _use(m: MaxMin, port, now_ps):
    """Find how much of a contended port is used from now on, and until when; whether that is another share."""
    record, phase = m.contention[np.uint64(port)], 0
    while phase + 1 < m.use.size and m.use_from_ps[np.uint64(phase + 1)] <= now_ps - record.since_ps:
        phase += 1
    reach = m.reach[np.uint64(phase)] * (record.senders / m.ports[np.uint64(port)].byte_per_ps)
    use = min(m.use[np.uint64(phase)], max(LEAST_USE, reach))
    is_other, record.use = record.use != use, use
    is_last = phase + 1 == m.use.size
    set_time(m.phases, port, NEVER if is_last else record.since_ps + m.use_from_ps[np.uint64(phase + 1)])
    return is_other


@step_kernel
def _see(m: MaxMin, port, now_ps):
    """Look at a port; whether another share of it is used than before."""
    record, of_port = m.contention[np.uint64(port)], m.ports[np.uint64(port)]
    record.is_touched = 0
    if of_port.n_flow == 0:
        record.offered = record.senders = 0.0  # what rounding has left
    if of_port.byte_per_ps > 0.0 and record.offered > of_port.byte_per_ps * (1 + SLACK):
        if record.is_on == 0:
            record.is_on, record.since_ps = 1, now_ps - max(0, record.forgotten_ps - now_ps)
        return _use(m, port, now_ps)
    if record.is_on == 0:
        return False
    record.is_on, record.forgotten_ps = 0, 2 * now_ps - record.since_ps
    set_time(m.phases, port, NEVER)
    is_other, record.use = record.use != 1.0, 1.0
    return is_other


@step_kernel
def see_contention(m: MaxMin, now_ps):
    """Make ports members' ports of which another share is used by who is under way from now on."""
    for i in range(m.words[N_TOUCHED]):  # what is added meanwhile has nothing to offer anew
        port = np.int64(m.touched[np.uint64(i)])
        if m.contention[np.uint64(port)].is_sender:
            _offer_anew(m, port)
    for i in range(m.words[N_TOUCHED]):
        port = np.int64(m.touched[np.uint64(i)])
        if _see(m, port, now_ps):
            find(m, port)
    m.words[N_TOUCHED] = 0


@loop_kernel
def enter_phases(m: MaxMin, now_ps):
    """Make ports members' ports that have been contended for so long that another share of them is used."""
    if m.phases[1] <= now_ps:
        for i in range(collect_before(m.phases, now_ps + 1, m.due)):
            port = m.due[np.uint64(i)]
            if _use(m, port, now_ps):
                find(m, port)
