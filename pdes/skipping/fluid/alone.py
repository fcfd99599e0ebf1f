"""Which flows have the ports of their data's way to themselves."""

import numpy as np

from pdes.engine.jit import loop_kernel


@loop_kernel
def find_alone(flows, others, port_start, port_of, n_data, holder, is_alone):
    """Write whether no other flow's data uses a port of each flow's way: of these, of others, or with a lane.

    flows, others: int64[]. Ports of flow f: port_of[port_start[f]] .. . n_data: int32[n_port], zeros, left as they
    were. holder: int32[n_port], flow whose lane has it or -1.
    """
    for i in range(others.size):
        for at in range(port_start[others[i]], port_start[others[i] + 1]):
            n_data[np.uint64(port_of[at])] += 1
    for row in range(flows.size):
        for at in range(port_start[flows[row]], port_start[flows[row] + 1]):
            n_data[np.uint64(port_of[at])] += 1
    for row in range(flows.size):
        alone = True
        for at in range(port_start[flows[row]], port_start[flows[row] + 1]):
            port = np.uint64(port_of[at])
            alone &= n_data[port] == 1
            alone &= holder[port] == -1 or holder[port] == flows[row]
        is_alone[row] = alone
    for row in range(flows.size):
        for at in range(port_start[flows[row]], port_start[flows[row] + 1]):
            n_data[np.uint64(port_of[at])] = 0
    for i in range(others.size):
        for at in range(port_start[others[i]], port_start[others[i] + 1]):
            n_data[np.uint64(port_of[at])] = 0
