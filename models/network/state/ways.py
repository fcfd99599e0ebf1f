"""The ports on the ways of queue pairs, and on those of their ACKs."""

import numpy as np

from models.network.build.arrays import NetworkState, QueuePairs

Ways = tuple[np.ndarray, np.ndarray]
"""(int64[n_qp + 1], int32[]): the ports of queue pair i are the second's from the first's i-th to its next."""


def ports_of_pairs(pairs: QueuePairs, port_peer: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """(int64[n_pair + 1], int32[]): the ports of each queue pair's way and of its ACKs', by row.

    port_peer: the port back of each, with PFC: then these count as well, as pauses go there.
    """
    begin = pairs.path_start[0:-1:2][pairs.pair_of_row]
    length = pairs.path_start[2::2][pairs.pair_of_row] - begin  # with the end marks of both ways
    slots = np.arange(int(length.sum())) + np.repeat(begin - (np.cumsum(length) - length), length)
    port_of = pairs.path_port[slots]
    start, port_of = np.concatenate([[0], np.cumsum(length - 2)]), port_of[port_of >= 0]
    if port_peer is not None:
        start, port_of = 2 * start, np.stack([port_of, port_peer[port_of]], axis=1).ravel()
    return start.astype(np.int64), port_of.astype(np.int32)


def data_ways(state: NetworkState) -> Ways:
    """The ports of each queue pair's way, without those of its acknowledgements."""
    return _ways(state, "data_path")


def ack_ways(state: NetworkState) -> Ways:
    """The ports of the way of each queue pair's acknowledgements."""
    return _ways(state, "ack_path")


def _ways(state: NetworkState, name: str) -> Ways:
    path, first = state.fabric.path_port, state.nic.facts[name].astype(np.int64)
    closed = np.flatnonzero(path < 0)
    end = closed[np.searchsorted(closed, first)]
    start = np.concatenate([[0], np.cumsum(end - first)]).astype(np.int64)
    rows = np.arange(int(start[-1])) + np.repeat(first - start[:-1], end - first)
    return start, path[rows].astype(np.int32)


def path_ports(path_port: np.ndarray, first: int) -> np.ndarray:
    """The ports of the path that begins at a row of path_port."""
    end = first
    while path_port[end] >= 0:
        end += 1
    return path_port[first:end].astype(np.int64)
