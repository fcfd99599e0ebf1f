"""Members: flows of which rates are solved anew, and their ports."""

import numpy as np

from pdes.engine.jit import step_kernel
from pdes.skipping.max_min.table import ALONE_FRAC, MARK, N_MEMBER, N_PORT, NOTHING, SHARED_FRAC, UNKNOWN, MaxMin


@step_kernel
def capacity(m: MaxMin, port):
    """What flows on a port can have of it together, bytes per ps."""
    record = m.ports[np.uint64(port)]
    rate = record.byte_per_ps * m.facts[ALONE_FRAC if record.n_flow < 2 else SHARED_FRAC]
    if m.contention.size > 0:
        rate *= m.contention[np.uint64(port)].use
    return rate - record.reserved


@step_kernel
def find(m: MaxMin, port):
    """Make a port one of members' ports, with no member on it."""
    record, words = m.ports[np.uint64(port)], m.words
    if record.mark != words[MARK]:
        record.mark = words[MARK]
        record.members_weight, record.n_member, record.others_rate = 0.0, 0, UNKNOWN
        m.found[np.uint64(words[N_PORT])] = port
        words[N_PORT] += 1


@step_kernel
def add(m: MaxMin, flow):
    """Make a flow a member, and its ports members' ports."""
    record, words = m.flows[np.uint64(flow)], m.words
    if record.mark == words[MARK]:
        return
    record.mark, record.new_level = words[MARK], 0.0
    m.member[np.uint64(words[N_MEMBER])] = flow
    words[N_MEMBER] += 1
    for at in range(m.place_of[np.uint64(flow), 0], m.place_of[np.uint64(flow), 1]):
        port, usage = np.int64(m.places[np.uint64(at)].port), m.places[np.uint64(at)].usage
        find(m, port)
        of_port = m.ports[np.uint64(port)]
        of_port.members_weight += record.weight * usage
        of_port.n_member += 1
        if of_port.others_rate > 0.0:
            of_port.others_rate = max(0.0, of_port.others_rate - record.level * record.weight * usage)


@step_kernel
def add_limited(m: MaxMin):
    """Make members of all that ports limit on which a flow has begun or ended."""
    for i in range(m.words[N_PORT]):
        port = np.int64(m.found[np.uint64(i)])
        at = np.int64(m.ports[np.uint64(port)].first)
        while at != NOTHING:
            place = m.places[np.uint64(at)]
            flow = np.int64(place.flow)
            if np.int64(m.flows[np.uint64(flow)].limit) == port:
                add(m, flow)
            at = np.int64(place.after)


@step_kernel
def add_all(m: MaxMin, port):
    """Make members of all flows on a port."""
    at = np.int64(m.ports[np.uint64(port)].first)
    while at != NOTHING:
        place = m.places[np.uint64(at)]
        add(m, np.int64(place.flow))
        at = np.int64(place.after)
