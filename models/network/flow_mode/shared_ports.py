"""Ports that packets and messages at rates share: see `hybrid`.

A queue pair that sends packets has a share among the max-min fair rates, as if its messages went at them: it is their
shadow. The others get what that leaves them. On a port that packets use, these have the rest of its rate, whatever the
others do not: it serves them as a slower link would. Acknowledgements of the others take their part of it, too.
"""

import numpy as np

from models.network.flow_mode.state import N_SHARED, SHARED_AT, FlowMode
from models.network.state.records import Fabric
from pdes.engine.jit import step_kernel
from pdes.skipping.max_min.solve import join, leave, solve
from pdes.skipping.max_min.table import ENDLESS, MARK, NOTHING
from pdes.units import BITS_PER_BYTE, PS_PER_S

LEAST_PART = 1 / 64  # of a port's rate that packets have there at least
BPS = BITS_PER_BYTE * PS_PER_S  # of a byte per ps


@step_kernel
def _share_with(flow: FlowMode, pair, more):
    """Packets of a queue pair use its ports from now on (more: 1), or no more (-1)."""
    m, hybrid = flow.max_min, flow.hybrid
    for at in range(m.place_of[np.uint64(pair), 0], m.place_of[np.uint64(pair), 1]):
        port = np.uint64(m.places[np.uint64(at)].port)
        hybrid.n_shadow[port] += more
        if hybrid.is_shared[port] == 0:
            hybrid.is_shared[port] = 1
            hybrid.shared[np.uint64(flow.words[N_SHARED])] = port
            flow.words[N_SHARED] += 1


@step_kernel
def _has_shadow(flow: FlowMode, pair):
    """Whether a queue pair sends packets; not if all are on their way and a message that goes at a rate is next."""
    return flow.hybrid.n_packet[np.uint64(pair)] > 0 and flow.transfers[np.uint64(pair)].size_bytes == 0


@step_kernel
def move_shadows(flow: FlowMode, n_touched, now_ps):
    """Queue pairs that have begun to send packets get a share; those that have ended have none any more."""
    m, hybrid, n_moved = flow.max_min, flow.hybrid, 0
    for i in range(n_touched):  # who leaves comes first
        pair = np.int64(hybrid.touched[np.uint64(i)])
        hybrid.is_touched[np.uint64(pair)] = 0
        if hybrid.is_shadow[np.uint64(pair)] and not _has_shadow(flow, pair):
            hybrid.is_shadow[np.uint64(pair)] = 0
            leave(m, pair)
            _share_with(flow, pair, -1)
            n_moved += 1
    for i in range(n_touched):
        pair = np.int64(hybrid.touched[np.uint64(i)])
        if hybrid.is_shadow[np.uint64(pair)] == 0 and _has_shadow(flow, pair):
            hybrid.is_shadow[np.uint64(pair)] = 1
            join(m, pair, ENDLESS, now_ps)
            _share_with(flow, pair, 1)
            n_moved += 1
    if n_moved > 0:
        solve(m, now_ps)


@step_kernel
def _taken(flow: FlowMode, port):
    """What messages that go at rates have of a port, with acknowledgements of others, bytes per ps."""
    m, taken = flow.max_min, max(0.0, flow.max_min.ended_back[port])
    at = np.int64(m.ports[np.uint64(port)].first)
    while at != NOTHING:
        place = m.places[np.uint64(at)]
        at, pair = np.int64(place.after), np.uint64(place.flow)
        if flow.hybrid.is_shadow[pair] == 0:
            taken += m.flows[pair].level * m.flows[pair].weight * place.usage
    return taken


@step_kernel
def share_ports(fabric: Fabric, flow: FlowMode):
    """Give packets what messages that go at rates leave them of the ports that they use."""
    m, hybrid, words = flow.max_min, flow.hybrid, flow.words
    if words[N_SHARED] == 0 or words[SHARED_AT] == m.words[MARK]:
        return
    words[SHARED_AT], i = m.words[MARK], 0
    while i < words[N_SHARED]:
        port = np.uint64(hybrid.shared[np.uint64(i)])
        info, rate_bps = fabric.port_info[port], hybrid.rate_bps[port]
        taken = _taken(flow, port) if hybrid.n_shadow[port] > 0 else 0.0
        if info.rate_bps > 0:  # it is kept here
            info.rate_bps, fabric.ports[port].ps_per_byte = rate_bps, hybrid.ps_per_byte[port]
            if taken * BPS >= 1.0:
                left_bps = max(rate_bps - np.int64(taken * BPS), np.int64(rate_bps * LEAST_PART))
                info.rate_bps, fabric.ports[port].ps_per_byte = left_bps, 0
        if hybrid.n_shadow[port] == 0:
            hybrid.is_shared[port] = 0
            words[N_SHARED] -= 1
            hybrid.shared[np.uint64(i)] = hybrid.shared[np.uint64(words[N_SHARED])]
        else:
            i += 1
