"""Weighted max-min fair shares of ports by progressive filling: the fullest port is shared out first."""

from typing import NamedTuple

import numpy as np

from pdes.engine.jit import loop_kernel

TIE = 1e-9


class Scratch(NamedTuple):
    """What `max_min` reads of flows, and what it needs by port."""

    weight: np.ndarray  # float64[n_flow], above 0: a flow gets so many times what one of weight 1 gets beside it
    left: np.ndarray  # float64[n_port]
    total: np.ndarray  # float64[n_port], weight of the flows that are not bound yet
    n_flow: np.ndarray  # int32[n_port], these flows; 0 between calls


def make_scratch(n_flow: int, n_port: int) -> Scratch:
    """All weights are 1."""
    return Scratch(np.ones(n_flow), np.zeros(n_port), np.zeros(n_port), np.zeros(n_port, np.int32))


@loop_kernel
def max_min(flows, port_start, port_of, byte_per_ps, s: Scratch, rate):
    """Write into rate (float64[n], bytes per ps) the max-min fair share of each flow; how many the fullest port has.

    flows: int64[n]. Ports of flow f: port_of[port_start[f]] .. . byte_per_ps: float64[n_port].
    """
    most, n_left = 0, flows.size
    for i in range(flows.size):
        rate[i] = 0.0
        for at in range(port_start[flows[i]], port_start[flows[i] + 1]):
            port = np.uint64(port_of[at])
            if s.n_flow[port] == 0:
                s.left[port], s.total[port] = byte_per_ps[port], 0.0
            s.total[port] += s.weight[flows[i]]
            s.n_flow[port] += 1
            most = max(most, s.n_flow[port])
    while n_left > 0:
        level = np.inf
        for i in range(flows.size):
            if rate[i] == 0.0:
                for at in range(port_start[flows[i]], port_start[flows[i] + 1]):
                    port = np.uint64(port_of[at])
                    level = min(level, s.left[port] / s.total[port])
        level = max(level, 1e-30)
        for i in range(flows.size):
            if rate[i] == 0.0:
                for at in range(port_start[flows[i]], port_start[flows[i] + 1]):
                    port = np.uint64(port_of[at])
                    if s.left[port] <= level * (1 + TIE) * s.total[port]:
                        rate[i] = -1.0
        for i in range(flows.size):
            if rate[i] < 0.0:
                weight = s.weight[flows[i]]
                rate[i] = level * weight
                n_left -= 1
                for at in range(port_start[flows[i]], port_start[flows[i] + 1]):
                    port = np.uint64(port_of[at])
                    s.left[port] -= rate[i]
                    s.total[port] -= weight
                    s.n_flow[port] -= 1
    return most
