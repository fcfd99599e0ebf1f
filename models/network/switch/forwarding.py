"""The next port of a packet whose path is not fixed beforehand: chosen at every switch among equal shortest ways.

ECMP hashes the header, as ns-3 does, so without link changes packets take the very paths of `topology.routing`.
Spraying draws a way for each packet; flowlets keep their way until the flow has paused for a while (Vanini et al. 2017,
LetFlow: the next way is drawn; where there is one way alone, the table is left as it is); adaptive takes the way whose
port has the least to send (the first such one from a drawn one on). Draws are functions of the ingress port and of how
often was drawn for packets that came in there (design R3): where there is one way alone, nothing is drawn. ACKs always
take ECMP's hash, by weight where candidates have weights.

At the last switch the candidates are the links to the host, without weights: the first of those that are up, and those
that follow it without a gap.
"""

from typing import NamedTuple

import numpy as np

from models.network.state.parameters import ADAPTIVE, ECMP, FLOWLET, SPRAY
from models.network.state.records import FIRST_PORT, FLAG_ACK, SEED
from models.network.state.switch_state import ECMP_SEED, FIRST_ROUTE, FLOWLET_GAP_PS
from models.topology.ecmp import murmur3_32
from pdes.engine.jit import inlined, step_kernel
from pdes.engine.rng import uniform
from pdes.random_plain import PURPOSE_ROUTE

NO_WAY, ADAPTIVE_WAY = -1, -2


class Ways(NamedTuple):
    """Candidates for a packet's next hop, see `find_ways`."""

    port: np.ndarray  # Routing.way_port
    first: int  # rows first .. end - 1 of it, or, at the last switch, these ports themselves
    end: int
    is_direct: bool


@step_kernel
def epoch_at(epoch_ps, now_ps):
    """The epoch whose tables hold now."""
    epoch = epoch_ps.size - 1
    while epoch_ps[np.uint64(epoch)] > now_ps:
        epoch -= 1
    return np.uint64(epoch)


@step_kernel
def _group_row(attach_start, attach_group, group_component, group_first, component, local, epoch, dst):
    """Where the candidates of a switch towards a host stand in way_start, -1 if no way leads there.

    component, local: the switch's in this epoch.
    """
    for i in range(attach_start[epoch, np.uint64(dst)], attach_start[epoch, np.uint64(dst + 1)]):
        group = np.uint64(attach_group[np.uint64(i)])
        if group_component[group] == component:
            return group_first[group] + local
    return np.int64(-1)


@step_kernel
def _direct(in_start, port_src, is_up, epoch, node_id, dst):
    """The ports that lead straight from a switch to a host: they stand together, the first run of those that are up."""
    low, end = in_start[np.uint64(dst)], in_start[np.uint64(dst + 1)]
    while low < end and not (port_src[np.uint64(low)] == node_id and is_up[epoch, np.uint64(low)]):
        low += 1
    high = low
    while high < end and port_src[np.uint64(high)] == node_id and is_up[epoch, np.uint64(high)]:
        high += 1
    return low, high


@inlined
def find_ways(routing, node_id, dst, now_ps):
    """(first, end, is_direct): candidates in way_port, or, at the last switch, among the ports into dst."""
    epoch = epoch_at(routing.epoch_ps, now_ps)
    component, local = routing.component[epoch, np.uint64(node_id)], routing.local[epoch, np.uint64(node_id)]
    row = _group_row(
        routing.attach_start, routing.attach_group, routing.group_component, routing.group_first, component, local,
        epoch, dst,
    )  # fmt: skip
    low, high, is_direct = np.int64(0), np.int64(0), False
    if row >= 0:
        low, high = routing.way_start[np.uint64(row)], routing.way_start[np.uint64(row + 1)]
        if high == low:
            is_direct = True
            low, high = _direct(routing.in_start, routing.port_src, routing.is_up, epoch, node_id, dst)
    return low, high, is_direct


@step_kernel
def way_at(way_port, i, is_direct):
    """The port of candidate i."""
    return np.int64(i) if is_direct else np.int64(way_port[np.uint64(i)])


@step_kernel
def draw_way(inlets, constants, in_port, n_way):
    """A way for this packet alone, 0 .. n_way - 1; the draw is counted at the port that it came in by."""
    inlet = inlets[np.uint64(in_port)]
    draw = inlet.n_route_draw
    inlet.n_route_draw = draw + 1
    return np.int64(uniform(constants[SEED], in_port - constants[FIRST_PORT], PURPOSE_ROUTE, draw) * n_way)


@step_kernel
def hash_way(settings, route, node_id, n_way):
    """A flow's way at this switch, by ns-3's ECMP hash."""
    seed = (node_id ^ settings[ECMP_SEED]) & 0xFFFFFFFF
    return murmur3_32(route.header_0, route.header_1, route.header_2, seed) % n_way


@step_kernel
def is_flowlet_over(flowlet, ways: Ways, now_ps, gap_ps):
    """Whether a flow's next packet may take another way: the flow has paused long enough, or its port is no candidate.

    flowlet: int64[2], its row of `Routing.flowlets`.
    """
    is_candidate = False
    for i in range(ways.first, ways.end):
        is_candidate = is_candidate or way_at(ways.port, i, ways.is_direct) == flowlet[0] - 1
    return not is_candidate or now_ps - flowlet[1] > gap_ps


@step_kernel
def flowlet_way(flowlet, ways: Ways, inlets, constants, in_port, now_ps, gap_ps):
    """The port of a flow's flowlet, drawn anew if that is over."""
    if is_flowlet_over(flowlet, ways, now_ps, gap_ps):
        i_way = draw_way(inlets, constants, in_port, ways.end - ways.first)
        flowlet[0] = way_at(ways.port, ways.first + i_way, ways.is_direct) + 1
    flowlet[1] = now_ps
    return flowlet[0] - 1


@inlined
def choose_way(routing, inlets, constants, item, node_id, code, in_port, now_ps):
    """(port, ways) of a packet's next hop; NO_WAY: none; ADAPTIVE_WAY: the caller looks at queues.

    item: the packet's record; code: what path_port has in place of a port.
    """
    i_route = FIRST_ROUTE - code
    route = routing.routes[np.uint64(i_route)]
    low, high, is_direct = find_ways(routing, node_id, route.dst, now_ps)
    policy = np.int64(ECMP) if item.bits & FLAG_ACK else route.policy
    way_port, n_way, port = routing.way_port, high - low, np.int64(NO_WAY)
    ways = Ways(way_port, low, high, is_direct)
    if n_way == 1:
        port = way_at(way_port, low, is_direct)
    elif n_way > 1 and policy == SPRAY:
        port = way_at(way_port, low + draw_way(inlets, constants, in_port, n_way), is_direct)
    elif n_way > 1 and policy == FLOWLET:
        flowlet = routing.flowlets[np.uint64(node_id), np.uint64(i_route % routing.flowlets.shape[1])]
        port = flowlet_way(flowlet, ways, inlets, constants, in_port, now_ps, routing.settings[FLOWLET_GAP_PS])
    elif n_way > 1 and policy == ADAPTIVE:
        port = np.int64(ADAPTIVE_WAY)
    elif n_way > 1:
        port = way_at(way_port, low + hash_way(routing.settings, route, node_id, n_way), is_direct)
    return port, ways
