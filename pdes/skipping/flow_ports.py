"""The ports of many flows at once."""

import numpy as np

from pdes.engine.jit import loop_kernel
from pdes.skipping.in_place_sort import sort_in_place


def ports_of(flows: np.ndarray, start: np.ndarray, port_of: np.ndarray) -> np.ndarray:
    """int64[]: ports of flows, one flow after the other. Those of flow f are port_of[start[f] : start[f + 1]]."""
    n_port = start[flows + 1] - start[flows]
    end = np.cumsum(n_port)
    rows = np.arange(int(end[-1]) if len(end) else 0) + np.repeat(start[flows] - end + n_port, n_port)
    return port_of[rows].astype(np.int64)


class PortsOfGroups:
    """The ports of groups of flows, of each group ascending and once."""

    def __init__(self, start: np.ndarray, port_of: np.ndarray, n_port: int) -> None:
        """start, port_of: see `ports_of`."""
        self._start, self._port_of, self._is_seen = start, port_of, np.zeros(n_port, np.bool_)

    def of(self, flows: np.ndarray, cut: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(ports, where each group's begin and the last's end). Group i is flows[cut[i] : cut[i + 1]]."""
        ports = np.zeros(int((self._start[flows + 1] - self._start[flows]).sum()), np.int64)
        end = np.zeros(len(cut), np.int64)
        ports_of_groups(self._start, self._port_of, flows, cut, self._is_seen, ports, end)
        return ports[: end[-1]].copy(), end


@loop_kernel
def ports_of_groups(start, port_of, flows, cut, is_seen, out, end):
    """The ports of groups of flows, of each group ascending and once.

    start, port_of: see `ports_of`. cut: int64[n + 1], group i is flows[cut[i] : cut[i + 1]]. is_seen: bool[n_port],
    False between calls. Written: out, int64[], with room for the ports of all flows; end, int64[n + 1], where each
    group's begin there.
    """
    at = 0
    for i in range(end.size - 1):
        end[i] = first = at
        for flow in flows[cut[i] : cut[i + 1]]:
            for port in port_of[start[flow] : start[flow + 1]]:
                if not is_seen[port]:
                    is_seen[port], out[at] = True, port
                    at += 1
        sort_in_place(out[first:], at - first)
        for port in out[first:at]:
            is_seen[port] = False
    end[end.size - 1] = at
