"""Water filling: levels of members beside those of all other flows, which stay."""

import numpy as np

from pdes.engine.jit import step_kernel
from pdes.skipping.max_min.members import capacity
from pdes.skipping.max_min.table import MARK, N_MEMBER, N_PORT, NOBODY, NOTHING, UNKNOWN, MaxMin


@step_kernel
def _sift_down(ports, heap, n_open, at, port):
    key = ports[np.uint64(port)].key
    while True:
        below = 2 * at + 1
        if below >= n_open:
            break
        other = np.int64(heap[np.uint64(below)])
        if below + 1 < n_open:
            second = np.int64(heap[np.uint64(below + 1)])
            if ports[np.uint64(second)].key < ports[np.uint64(other)].key:
                below, other = below + 1, second
        if ports[np.uint64(other)].key >= key:
            break
        heap[np.uint64(at)] = other
        at = below
    heap[np.uint64(at)] = port


@step_kernel
def _see_others(m: MaxMin, port):
    """What flows on a port have that are no members."""
    record, mark = m.ports[np.uint64(port)], m.words[MARK]
    rate, most, least = 0.0, 0.0, NOBODY
    at = np.int64(record.first) if record.n_member < record.n_flow else np.int64(NOTHING)
    while at != NOTHING:
        place = m.places[np.uint64(at)]
        flow = m.flows[np.uint64(place.flow)]
        if flow.mark != mark:
            rate += flow.level * flow.weight * place.usage
            most = max(most, flow.level)
            if np.int64(flow.limit) == port:
                least = min(least, flow.level)
        at = np.int64(place.after)
    record.others_rate, record.others_most, record.bound_least = rate, most, least


@step_kernel
def _open_port(m: MaxMin, port):
    """What members can have of a port, beside the others."""
    record = m.ports[np.uint64(port)]
    if record.others_rate < 0.0:
        _see_others(m, port)
    elif record.n_member == record.n_flow:
        record.others_rate = 0.0
    record.left = capacity(m, port) - record.others_rate
    record.weight = record.members_weight
    record.n_open, record.level, record.top = record.n_member, UNKNOWN, 0.0
    if record.n_member > 0:
        record.key = max(record.left, 0.0) / record.weight


@step_kernel
def _open_ports(m: MaxMin):
    """Put the ports into the heap that may limit a member; how many: of those that it has alone the first one only."""
    n_open = 0
    for i in range(m.words[N_PORT]):
        port = np.int64(m.found[np.uint64(i)])
        _open_port(m, port)
        if m.ports[np.uint64(port)].n_member > 1:
            m.heap[np.uint64(n_open)] = port
            n_open += 1
    for i in range(m.words[N_MEMBER]):
        flow, alone, least = m.member[np.uint64(i)], np.int64(NOTHING), NOBODY
        for at in range(m.place_of[np.uint64(flow), 0], m.place_of[np.uint64(flow), 1]):
            port = np.int64(m.places[np.uint64(at)].port)
            record = m.ports[np.uint64(port)]
            if record.n_member == 1 and record.key < least:
                alone, least = port, record.key
        if alone != NOTHING:
            m.heap[np.uint64(n_open)] = alone
            n_open += 1
    for at in range((n_open >> 1) - 1, -1, -1):
        _sift_down(m.ports, m.heap, n_open, at, np.int64(m.heap[np.uint64(at)]))
    return n_open


@step_kernel
def _share_out(m: MaxMin, port, level):
    """Members on a port that have no level yet get what is left of it; how many."""
    mark, n_member = m.words[MARK], 0
    m.ports[np.uint64(port)].level = level
    at = np.int64(m.ports[np.uint64(port)].first)
    while at != NOTHING:
        place = m.places[np.uint64(at)]
        at, flow = np.int64(place.after), np.int64(place.flow)
        record = m.flows[np.uint64(flow)]
        if record.mark == mark:
            record.mark = -mark
            n_member += 1
            record.new_level, record.limit = level, port
            for k in range(m.place_of[np.uint64(flow), 0], m.place_of[np.uint64(flow), 1]):
                taken = record.weight * m.places[np.uint64(k)].usage
                other = m.ports[np.uint64(m.places[np.uint64(k)].port)]
                other.left -= level * taken
                other.weight -= taken
                other.n_open -= 1
                other.top = level
    return n_member


@step_kernel
def fill(m: MaxMin):
    """Levels of members: the port that has least for each of them comes first."""
    n_open, n_left = _open_ports(m), m.words[N_MEMBER]
    while n_left > 0 and n_open > 0:  # a flow without a way has no port
        port = np.int64(m.heap[0])
        record = m.ports[np.uint64(port)]
        if record.n_open > 0:
            level = max(record.left, 0.0) / record.weight
            if level > record.key:  # others have got less than it thought
                record.key = level
                _sift_down(m.ports, m.heap, n_open, 0, port)
                continue
            n_left -= _share_out(m, port, level)
        n_open -= 1
        if n_open > 0:
            _sift_down(m.ports, m.heap, n_open, 0, np.int64(m.heap[np.uint64(n_open)]))
    for i in range(m.words[N_MEMBER]):
        m.flows[np.uint64(m.member[np.uint64(i)])].mark = m.words[MARK]
