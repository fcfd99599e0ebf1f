"""Queues, shared buffers and PFC state of the switches, before anything has happened."""

import numpy as np

from models.network.build.arrays import is_managed, ports_kept
from models.network.link.link_changes import make_changes
from models.network.state.parameters import NetworkParameters
from models.network.state.switch_state import EGRESS, INGRESS, INLET, MANAGED_PORT, QUEUE, SWITCH, Buffers
from models.topology.graph import Topology
from pdes.engine.jit import zeros_for
from pdes.engine.time_index import NEVER

UNLIMITED_BYTES = 2**62


def make_buffers(
    topology: Topology, parameters: NetworkParameters, ports: np.ndarray, nodes: np.ndarray, here: np.ndarray
) -> Buffers:
    """Everything empty. ports, nodes: of Fabric, written. Without managed switches only what hosts need has rows.

    here: bool[n_node], this rank's nodes.
    """
    n_port, n_queue = topology.n_port, parameters.n_queue
    kept = ports_kept(topology, parameters, here)
    n_row, n_own = (n_port * n_queue, len(kept) * n_queue) if is_managed(parameters) else (1, 1)
    egress, queues = zeros_for(len(kept), n_port, EGRESS), zeros_for(n_own, n_row, QUEUE)
    rows = (kept[:, None] * n_queue + np.arange(n_queue)).ravel() if is_managed(parameters) else slice(None)
    queues["head"][rows] = queues["tail"][rows] = -1
    managed = ports.view(MANAGED_PORT)
    if is_managed(parameters):
        at_switch = kept[topology.is_switch[topology.port_src[kept]]]
        for name in ("waiting", "paused"):
            managed[name][at_switch] = 0
    read = kept if is_managed(parameters) else kept[~topology.is_switch[topology.port_dst[kept]]]
    inlets = zeros_for(n_port if here.all() else len(read), n_port, INLET)
    inlets["peer"][read] = topology.port_peer[read]
    if parameters.loss_probability is not None:
        inlets["loss_probability"][kept] = parameters.loss_probability[kept]
    switches = np.zeros(topology.n_node, SWITCH)
    switches["pool_bytes"] = UNLIMITED_BYTES
    if parameters.buffer is not None:
        inlets["headroom_bytes"][kept] = parameters.buffer.headroom_bytes[kept]
        inlets["alpha_1024"][kept] = parameters.buffer.alpha_1024[kept]
        switches["pool_bytes"] = pool_bytes(topology, parameters)
    switches["limit_bytes"], switches["interrupt_ps"] = switches["pool_bytes"], NEVER
    largest = parameters.payload_bytes + parameters.header_bytes
    weights = parameters.queue_weight or (1,) * n_queue
    return Buffers(
        managed=managed,
        egress=egress,
        queues=queues,
        inlets=inlets,
        ingress=zeros_for(n_own, n_row, INGRESS),
        switches=switches,
        drops=zeros_for(0, 3 * n_port, np.int64).reshape(-1, 3),
        weight_bytes=np.array(weights, np.int64) * largest,
        changes=make_changes(topology, parameters.link_changes, nodes),
        utilisation=np.zeros((n_port, 3), np.float64),
    )


def pool_bytes(topology: Topology, parameters: NetworkParameters) -> np.ndarray:
    """What is left of each buffer for the shared pool, int64[n_node].

    A reserve and a headroom are set aside for every ingress port and data queue; ns-3 sets them aside once per port.
    """
    buffer = parameters.buffer
    assert buffer is not None
    n_share = 1 if parameters.ns3 else parameters.n_queue - 1
    aside = (buffer.headroom_bytes + buffer.reserve_bytes) * n_share
    return buffer.size_bytes - np.bincount(topology.port_dst, weights=aside, minlength=topology.n_node).astype(np.int64)
