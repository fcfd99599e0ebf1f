"""Ports for which flows contend, and how much of them congestion controls use as time goes by.

A port is contended while the senders of its flows would send more over it than it has: each as much as its own port
lets through, in equal parts for its flows. There controls cut rates, often too far at first, and come back slowly. In
an exchange in which everybody sends to everybody no port is offered more than it has, and nothing is lost.

So flows have the share `use` of a contended port's rate, by how long it has been that, and no more than `reach` times
what their senders could send together: after a cut many can still fill the port, and two cannot. Time without
contention counts backwards: controls recover as long as they were cut. A port is looked at when rates of its flows are
solved, and so whenever a flow begins or ends on it.
"""

import numpy as np

from pdes.engine.jit import loop_kernel, step_kernel
from pdes.engine.time_index import NEVER, collect_before, set_time
from pdes.skipping.max_min.members import find
from pdes.skipping.max_min.table import N_PORT, N_TURNED, NOTHING, MaxMin

SLACK = 1 / 64  # of a port's rate: what is offered more by no more than that is no more
LEAST_USE = 1 / 64


@step_kernel
def _senders(m: MaxMin, port):
    """What senders of a contended port's flows could send together, of its rate; 0: it is not contended."""
    record, offered, most = m.ports[np.uint64(port)], 0.0, 0.0
    if record.n_flow < 2 or record.byte_per_ps == 0.0:
        return 0.0
    at = np.int64(record.first)
    while at != NOTHING:
        place = m.places[np.uint64(at)]
        first = np.int64(m.places[np.uint64(m.place_of[np.uint64(place.flow), 0])].port)
        if first == port:
            return 0.0
        sender = m.ports[np.uint64(first)]
        offered += place.usage * sender.byte_per_ps / sender.n_flow
        most += place.usage * sender.byte_per_ps
        at = np.int64(place.after)
    return most / record.byte_per_ps if offered > record.byte_per_ps * (1 + SLACK) else 0.0


@step_kernel
def _use(m: MaxMin, port, now_ps):
    """Find how much of a contended port is used from now on, and until when; whether that is another share."""
    record, phase = m.contention[np.uint64(port)], 0
    while phase + 1 < m.use.size and m.use_from_ps[np.uint64(phase + 1)] <= now_ps - record.since_ps:
        phase += 1
    use = min(m.use[np.uint64(phase)], max(LEAST_USE, m.reach[np.uint64(phase)] * record.senders))
    is_other, record.use = record.use != use, use
    is_last = phase + 1 == m.use.size
    set_time(m.phases, port, NEVER if is_last else record.since_ps + m.use_from_ps[np.uint64(phase + 1)])
    return is_other


@step_kernel
def _see(m: MaxMin, port, now_ps):
    """Look at a port; whether another share of it is used than before."""
    senders, record = _senders(m, port), m.contention[np.uint64(port)]
    was_on, record.senders = record.senders > 0.0, senders
    if senders > 0.0:
        if not was_on:
            record.since_ps = now_ps - max(0, record.forgotten_ps - now_ps)
        return _use(m, port, now_ps)
    if not was_on:
        return False
    record.forgotten_ps = 2 * now_ps - record.since_ps
    set_time(m.phases, port, NEVER)
    is_other, record.use = record.use != 1.0, 1.0
    return is_other


@step_kernel
def see_contention(m: MaxMin, now_ps):
    """Look at members' ports, and note those of which another share is used than before."""
    m.words[N_TURNED] = 0
    for i in range(m.words[N_PORT]):
        port = np.int64(m.found[np.uint64(i)])
        if _see(m, port, now_ps):
            m.turned[np.uint64(m.words[N_TURNED])] = port
            m.words[N_TURNED] += 1


@step_kernel
def find_turned(m: MaxMin):
    """Make those ports members' ports."""
    for i in range(m.words[N_TURNED]):
        find(m, np.int64(m.turned[np.uint64(i)]))
    m.words[N_TURNED] = 0


@loop_kernel
def enter_phases(m: MaxMin, now_ps):
    """Make ports members' ports that have been contended for so long that another share of them is used."""
    if m.phases[1] <= now_ps:
        for i in range(collect_before(m.phases, now_ps + 1, m.due)):
            port = m.due[np.uint64(i)]
            if _use(m, port, now_ps):
                find(m, port)
