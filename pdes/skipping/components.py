"""Connected components: which flows share ports, directly or through others.

This finds them from nothing, of any flows and ports: of a look's flows (`fluid.seen`), of those that share busy ports
(`similar.busy_ports`), of all flows of a run (`fluid.stretches`). `partitions` keeps them as flows come and go.
"""

import numpy as np

from pdes.engine.jit import loop_kernel, step_kernel

FREE, CLOSED = -1, -2  # of a port: no row has it yet; sharing it does not count


@step_kernel
def root_of(part, row):
    """The row that stands for all of a part. part[row]: another row of it, or itself if it is the one."""
    while part[row] != row:
        part[row] = part[part[row]]
        row = part[row]
    return row


@step_kernel
def mark_ports(flows, port_start, port_of, first_row, value):
    """Set first_row of all ports of flows, int64[]."""
    for i in range(flows.size):
        for at in range(port_start[flows[i]], port_start[flows[i] + 1]):
            first_row[np.uint64(port_of[at])] = value


@loop_kernel
def find_components(flows, port_start, port_of, first_row, part):
    """Write into part[row] the first row with whose flow flows[row] shares ports, directly or through others.

    flows: int64[n_row]; the ports of flow f are port_of[port_start[f] : port_start[f + 1]]. first_row: int64[n_port],
    FREE or CLOSED before; afterwards a row where it was FREE, if it is a port of these flows (see `mark_ports`).
    """
    for row in range(flows.size):
        part[row] = row
        for at in range(port_start[flows[row]], port_start[flows[row] + 1]):
            port = np.uint64(port_of[at])
            first = first_row[port]
            if first == FREE:
                first_row[port] = row
            elif first != CLOSED:
                one, other = root_of(part, first), root_of(part, np.int64(row))
                part[max(one, other)] = min(one, other)
    for row in range(flows.size):
        part[row] = root_of(part, np.int64(row))


@loop_kernel
def number_components(part, n_row):
    """Number parts that are known by their first rows 0, 1, .. in the order of these, in place; how many there are."""
    n = np.int64(0)
    for row in range(n_row):  # a first row comes before the others of its part, and has its number when these do
        if part[row] == row:
            part[row] = n
            n += 1
        else:
            part[row] = part[part[row]]
    return n


def components_of(ways: tuple[np.ndarray, np.ndarray], n_port: int) -> np.ndarray:
    """int64[n_flow]: which flows share ports, directly or by others; 0, 1, .. in the order of their first flows.

    ways: ports of flow f are ways[1][ways[0][f] : ways[0][f + 1]].
    """
    n_flow = len(ways[0]) - 1
    component = np.zeros(n_flow, np.int64)
    find_components(np.arange(n_flow), *ways, np.full(n_port, FREE, np.int64), component)
    number_components(component, n_flow)
    return component
