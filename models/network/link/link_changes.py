"""Links that change during a run: go down, come up, lose speed or packets.

Both ends of a link know its changes beforehand, so nothing has to be sent. At its sender a change sets the rate, at its
receiver what is lost; it happens before all other events of its instant at a node, and is carried out when the node
next does something. Routing follows later, by the epochs of `forwarding`.
"""

import numpy as np

from models.network.state.parameters import LinkChange
from models.network.state.switch_state import LINK_CHANGE, Buffers
from models.topology.graph import Topology
from pdes.engine.apart import apart
from pdes.engine.jit import step_kernel
from pdes.engine.time_index import NEVER


@step_kernel
def change_link(inlets, port_info, change):
    """Carry out one change at one end."""
    apart()
    if change.is_sender:
        port_info[np.uint64(change.port)].rate_bps = change.rate_bps
        return
    inlet = inlets[np.uint64(change.port)]
    inlet.loss_probability = change.loss_probability
    if change.is_up == 0:
        inlet.up_since_ps = NEVER
    elif inlet.up_since_ps == NEVER:
        inlet.up_since_ps = change.time_ps


@step_kernel
def apply_changes_at_host(buffers: Buffers, port_info, node, limit_ps):
    """Let the changes of a host's links up to limit_ps happen."""
    apart()
    while node.next_change < node.end_change:
        change = buffers.changes[np.uint64(node.next_change)]
        if change.time_ps > limit_ps:
            break
        change_link(buffers.inlets, port_info, change)
        node.next_change += 1


def make_changes(topology: Topology, changes: tuple[LinkChange, ...], nodes: np.ndarray) -> np.ndarray:
    """LINK_CHANGE rows of all nodes, and where each node's are into NODE. nodes: written."""
    rows = []
    for i, change in enumerate(changes):
        for port in (change.port, int(topology.port_peer[change.port])):
            values = (change.rate_bps, change.loss_probability, port, int(change.is_up))
            for node, is_sender in ((topology.port_src[port], 1), (topology.port_dst[port], 0)):
                rows.append((int(node), change.time_ps, i, values, is_sender))
    rows.sort(key=lambda row: row[:3])
    table = np.zeros(len(rows), LINK_CHANGE)
    for i, (_, time_ps, _, values, is_sender) in enumerate(rows):
        table[i] = (time_ps, *values, is_sender)
    owner = np.array([row[0] for row in rows], np.int64)
    nodes["next_change"] = np.searchsorted(owner, np.arange(len(nodes)))
    nodes["end_change"] = np.searchsorted(owner, np.arange(len(nodes)), side="right")
    if rows:
        nodes["is_lossy"][owner] = 1
    return table


def changing_ports(topology: Topology, changes: tuple[LinkChange, ...]) -> np.ndarray:
    """Ports whose rate may change, both directions of each link; int64[n]."""
    ports = np.array([change.port for change in changes], np.int64)
    return np.unique(np.concatenate([ports, topology.port_peer[ports]]))
