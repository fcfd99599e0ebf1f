"""Flows that leave their network partition (`partitions`): what is left of it may be several.

The search for parts starts at all ports of the flow at once and stops when the parts have met, or all but one are
whole, so that the last part, mostly the largest, is left as it was.
"""

import numpy as np

from pdes.engine.jit import loop_kernel, step_kernel
from pdes.skipping.components import root_of
from pdes.skipping.partitions import Partitions, enter, free_label, label_flow, link_member, take_label

LEAVES = 0  # instead of a seed


@loop_kernel
def leave(partitions: Partitions, flow):
    """Make an active flow inactive; return the number of partitions that the others of its partition now form.

    Returns -1, changing nothing, if the flow is inactive; 0 if it was alone. One part keeps the label and the others
    get free ones; all have new versions. Every part uses a port of the flow, so their labels stand, after the call, in
    `label_of_port` of the flow's ports. Costs at most the ports of all flows of the partition.
    """
    label = np.int64(partitions.label_of_flow[flow])
    if label < 0:
        return np.int64(-1)
    n_before = partitions.n_partition[0]
    _unlink_member(partitions, label, flow)
    partitions.label_of_flow[flow] = -1
    partitions.version[label] += 1
    n_seed = _unlink_uses(partitions, flow, label)
    if partitions.n_flow_of[label] == 0:
        free_label(partitions, label)
        return np.int64(0)
    n_reached, n_found = _search(partitions, n_seed)
    _move_found(partitions, label, n_reached, n_found)
    return partitions.n_partition[0] - n_before + 1


@loop_kernel
def leave_together(partitions: Partitions, flows):
    """Make active flows inactive, int64[], each of them once: as `leave` does one by one, but for labels.

    Where at least half of a partition leaves, those that stay enter anew, which costs what they do.
    """
    for i in range(flows.size):
        partitions.n_leaving[partitions.label_of_flow[flows[i]]] += 1
        partitions.seed_of_flow[flows[i]] = LEAVES
    for i in range(flows.size):
        label = np.int64(partitions.label_of_flow[flows[i]])
        if label < 0 or partitions.n_leaving[label] == 0:
            continue
        n_leaving = partitions.n_leaving[label]
        partitions.n_leaving[label] = 0
        if n_leaving > 1 and 2 * n_leaving >= partitions.n_flow_of[label]:
            _begin_anew(partitions, label)
    for i in range(flows.size):
        partitions.seed_of_flow[flows[i]] = -1
    for i in range(flows.size):
        leave(partitions, flows[i])


@step_kernel
def _begin_anew(partitions: Partitions, label):
    """Make all flows of a partition inactive, and have those enter that do not leave."""
    n_stay, flow = 0, np.int64(partitions.first_member[label])
    while flow >= 0:
        if partitions.seed_of_flow[flow] != LEAVES:
            partitions.found[n_stay] = flow
            n_stay += 1
        flow = np.int64(partitions.next_member[flow])
    leave_all(partitions, label)
    for i in range(n_stay):
        enter(partitions, np.int64(partitions.found[i]))


@step_kernel
def leave_all(partitions: Partitions, label):
    """Make all flows of a partition inactive."""
    flow = np.int64(partitions.first_member[label])
    while flow >= 0:
        following = np.int64(partitions.next_member[flow])
        partitions.label_of_flow[flow] = -1
        for slot in range(partitions.port_start[flow], partitions.port_start[flow + 1]):
            port = partitions.port_of[slot]
            partitions.label_of_port[port], partitions.first_use[port] = -1, -1
        flow = following
    partitions.first_member[label], partitions.n_flow_of[label] = -1, 0
    free_label(partitions, label)


@step_kernel
def _take_out(first, following, before, key, row):
    """Take a row out of the chain first[key]."""
    if before[row] >= 0:
        following[before[row]] = following[row]
    else:
        first[key] = following[row]
    if following[row] >= 0:
        before[following[row]] = before[row]


@step_kernel
def _unlink_member(partitions: Partitions, label, flow):
    """Take a flow out of its partition, but for its label and its ports."""
    _take_out(partitions.first_member, partitions.next_member, partitions.prev_member, label, flow)
    partitions.n_flow_of[label] -= 1


@step_kernel
def _unlink_uses(partitions: Partitions, flow, label):
    """End a leaving flow's use of its ports, and make a seed of each that others use; return the number of seeds."""
    first, end = partitions.port_start[flow], partitions.port_start[flow + 1]
    for slot in range(first, end):
        port = partitions.port_of[slot]
        _take_out(partitions.first_use, partitions.next_use, partitions.prev_use, port, slot)
    n_seed = 0
    for slot in range(first, end):
        port = partitions.port_of[slot]
        if partitions.first_use[port] < 0:
            partitions.label_of_port[port] = -1
        elif partitions.seed_of_port[port] < 0:
            partitions.seed_of_port[port] = n_seed
            partitions.reached[n_seed] = port
            partitions.parent[n_seed], partitions.n_pending[n_seed] = n_seed, 1
            partitions.label_of_seed[n_seed] = label
            n_seed += 1
    return n_seed


@step_kernel
def _search(partitions: Partitions, n_seed):
    """Grow the parts around all seeds in turn, until all but one are whole; return how many ports and flows that took.

    Parts that meet are one. A part that is whole gets a label of its own, the part that is left keeps the old one.
    """
    n_open, i_port, n_reached, n_found = n_seed, 0, n_seed, 0
    while n_open > 1:
        port = partitions.reached[i_port]
        i_port += 1
        slot = partitions.first_use[port]
        while slot >= 0 and n_open > 1:
            flow = partitions.flow_of[slot]
            if partitions.seed_of_flow[flow] < 0:
                partitions.seed_of_flow[flow] = partitions.seed_of_port[port]
                partitions.found[n_found] = flow
                n_found += 1
                n_met, n_reached = _reach_ports(partitions, flow, n_reached)
                n_open -= n_met
            slot = partitions.next_use[slot]
        root = root_of(partitions.parent, partitions.seed_of_port[port])
        partitions.n_pending[root] -= 1
        if partitions.n_pending[root] == 0:  # a part that has just met another has still that one's ports to search
            partitions.label_of_seed[root] = take_label(partitions)
            n_open -= 1
    return n_reached, n_found


@step_kernel
def _reach_ports(partitions: Partitions, flow, n_reached):
    """Give a found flow's ports to its part; return how many other parts that meets, and the ports reached so far."""
    n_met = 0
    root = root_of(partitions.parent, partitions.seed_of_flow[flow])
    for slot in range(partitions.port_start[flow], partitions.port_start[flow + 1]):
        port = partitions.port_of[slot]
        if partitions.seed_of_port[port] < 0:
            partitions.seed_of_port[port] = root
            partitions.reached[n_reached] = port
            n_reached += 1
            partitions.n_pending[root] += 1
            continue
        other = root_of(partitions.parent, partitions.seed_of_port[port])
        if other != root:
            partitions.parent[other] = root
            partitions.n_pending[root] += partitions.n_pending[other]
            n_met += 1
    return n_met, n_reached


@step_kernel
def _move_found(partitions: Partitions, label, n_reached, n_found):
    """Move the flows of parts with labels of their own into their partitions, and clear what `_search` wrote."""
    for i_found in range(n_found):
        flow = partitions.found[i_found]
        root = root_of(partitions.parent, partitions.seed_of_flow[flow])
        partitions.seed_of_flow[flow] = -1
        new = np.int64(partitions.label_of_seed[root])
        if new != label:
            _unlink_member(partitions, label, flow)
            link_member(partitions, new, flow)
            label_flow(partitions, new, flow)
    for i_reached in range(n_reached):
        partitions.seed_of_port[partitions.reached[i_reached]] = -1
