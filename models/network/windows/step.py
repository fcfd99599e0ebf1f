"""The three steps of a window, for one node, one chunk of nodes and one experiment: what a thread does."""

import numpy as np

from models.network.windows.hosts import run_host
from models.network.windows.links import head_of
from models.network.windows.state import Windows
from models.network.windows.switches import run_switch
from pdes.engine.jit import step_kernel
from pdes.engine.time_index import NEVER


@step_kernel
def run_node(w: Windows, node_id):
    """Run a node's events up to its bound."""
    node, spot = w.nodes[np.uint64(node_id)], w.spots[np.uint64(node_id)]
    begin_ps = w.experiments[np.uint64(spot.experiment)].begin_ps
    bound_ps = begin_ps + min(node.safe_ps, NEVER - begin_ps)
    if spot.next_ps >= bound_ps:
        return
    if node.is_switch:
        run_switch(w, node_id, begin_ps, bound_ps)
    else:
        run_host(w, node_id, bound_ps)


@step_kernel
def look_around(w: Windows, i_chunk):
    """Let a chunk's nodes see what has been put on the links into them and taken from them; their least next event."""
    chunk, least_ps = w.chunks[np.uint64(i_chunk)], NEVER
    for node_id in range(chunk.first_node, chunk.end_node):
        node, spot = w.nodes[np.uint64(node_id)], w.spots[np.uint64(node_id)]
        next_ps = spot.own_ps
        for port in range(node.first_in, node.end_in):
            wire = w.wires[np.uint64(port)]
            wire.seen_head, wire.seen_tail = wire.head, wire.tail
            if wire.head < wire.tail:
                next_ps = min(next_ps, w.packets[np.uint64(head_of(wire))].arrival_ps)
        spot.next_ps = next_ps
        least_ps = min(least_ps, next_ps)
    chunk.least_ps = least_ps


@step_kernel
def begin_window(w: Windows, i_experiment):
    """Where an experiment's next window begins."""
    experiment, least_ps = w.experiments[np.uint64(i_experiment)], NEVER
    for i_chunk in range(experiment.first_chunk, experiment.end_chunk):
        least_ps = min(least_ps, w.chunks[np.uint64(i_chunk)].least_ps)
    experiment.begin_ps = least_ps
