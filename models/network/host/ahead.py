"""Asking for memory that the next hosts begin with, while others run: hints, without any effect on results.

In flow mode a host does little at a time: the end of a message, then a stream's next step. What it needs for that is a
chain (node, link, marker, queue pair's record), each part known when the one before it is there; with tens of thousands
of hosts none of it is in the cache. So hosts are run a few at a time, and each time one part is asked for of those
behind, another of those further behind.
"""

import numpy as np

from models.network.state.records import FLAG_ACK, Fabric, Nic
from models.workload.program import Work
from pdes.engine.jit import step_kernel
from pdes.engine.prefetch import prefetch

AT_ONCE = 8  # hosts
NODE_AHEAD, LINKS_AHEAD, MARKER_AHEAD, PAIR_AHEAD = 4 * AT_ONCE, 3 * AT_ONCE, 2 * AT_ONCE, AT_ONCE


@step_kernel
def ask_ahead(fabric: Fabric, nic: Nic, work: Work, todo, i_node):
    """Have in the cache soon what the hosts behind todo[i_node] begin with."""
    nodes, ports, packets, n = fabric.nodes, fabric.ports, fabric.packets, todo.size
    if i_node + NODE_AHEAD < n:
        prefetch(nodes, todo[np.uint64(i_node + NODE_AHEAD)])
    if i_node + LINKS_AHEAD < n:
        node = nodes[np.uint64(todo[np.uint64(i_node + LINKS_AHEAD)])]
        for port in range(node.first_in, node.end_in):
            prefetch(ports, port)
        for i_stream in range(node.first_stream, node.end_stream):
            prefetch(work.streams, np.int64(i_stream))
    if i_node + MARKER_AHEAD < n:
        node = nodes[np.uint64(todo[np.uint64(i_node + MARKER_AHEAD)])]
        for port in range(node.first_in, node.end_in):
            head = np.int64(ports[np.uint64(port)].link_head)
            if head >= 0:
                prefetch(packets, head)
    if i_node + PAIR_AHEAD < n:
        node = nodes[np.uint64(todo[np.uint64(i_node + PAIR_AHEAD)])]
        for port in range(node.first_in, node.end_in):
            head = np.int64(ports[np.uint64(port)].link_head)
            if head >= 0:
                pair = np.int64(packets[np.uint64(head)].queue_pair)
                if packets[np.uint64(head)].bits & FLAG_ACK:
                    prefetch(nic.queue_pairs, pair)
                else:
                    prefetch(nic.receivers, np.int64(nic.receiver_row[np.uint64(pair)]))
