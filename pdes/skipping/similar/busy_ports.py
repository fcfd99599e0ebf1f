"""Which flows share busy ports, directly or through others: those are a wave together (`waves`)."""

from typing import NamedTuple

import numpy as np

from pdes.engine.jit import loop_kernel, step_kernel
from pdes.skipping.components import CLOSED, FREE, find_components, mark_ports, number_components

BUSY = 0.8  # of the time that what is on its way takes at another port: then flows do not wait for each other


class Scratch(NamedTuple):
    """What `find_waves` needs and leaves as it was. Rows for every port; `part` and `most` for every flow."""

    first_row: np.ndarray  # int64, FREE
    load_ps: np.ndarray  # float64, 0
    least_ps: np.ndarray  # float64, inf
    is_busy: np.ndarray  # uint8: what the last call has found of the ports of its flows
    most_ps: np.ndarray  # float64
    part: np.ndarray  # int64


@step_kernel
def _find_busy(flows, size_bytes, port_start, port_of, byte_ps, s: Scratch):
    """A port is busy unless each of its flows has another on its way that takes much longer for what it has to send."""
    for row in range(flows.size):
        for at in range(port_start[flows[row]], port_start[flows[row] + 1]):
            port = np.uint64(port_of[at])
            s.load_ps[port] += size_bytes[row] * byte_ps[port]
    for row in range(flows.size):
        s.most_ps[row] = 0.0
        for at in range(port_start[flows[row]], port_start[flows[row] + 1]):
            s.most_ps[row] = max(s.most_ps[row], s.load_ps[np.uint64(port_of[at])])
        for at in range(port_start[flows[row]], port_start[flows[row] + 1]):
            port = np.uint64(port_of[at])
            s.least_ps[port] = min(s.least_ps[port], s.most_ps[row])
    for row in range(flows.size):
        for at in range(port_start[flows[row]], port_start[flows[row] + 1]):
            port = np.uint64(port_of[at])
            if s.load_ps[port] > 0.0:
                s.is_busy[port] = s.load_ps[port] > BUSY * s.least_ps[port]
                s.load_ps[port], s.least_ps[port] = 0.0, np.inf


@loop_kernel
def find_waves(flows, size_bytes, port_start, port_of, ends, byte_ps, s: Scratch):
    """Write into s.part[row] which flows share busy ports, directly or through others: 0, 1, .. by first row; how many.

    Ports at hosts count as busy. flows, size_bytes: int64[n_row]. ends: int64[n_flow, 4], hosts' ports of each flow.
    byte_ps: float64[n_port], time that a byte takes.
    """
    _find_busy(flows, size_bytes, port_start, port_of, byte_ps, s)
    for row in range(flows.size):
        for k in range(ends.shape[1]):
            s.is_busy[np.uint64(ends[flows[row], k])] = 1
    for row in range(flows.size):
        for at in range(port_start[flows[row]], port_start[flows[row] + 1]):
            port = np.uint64(port_of[at])
            s.first_row[port] = FREE if s.is_busy[port] else CLOSED
    find_components(flows, port_start, port_of, s.first_row, s.part)
    mark_ports(flows, port_start, port_of, s.first_row, FREE)
    return number_components(s.part, flows.size)
