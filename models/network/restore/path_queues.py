"""The queues on the ways of flows at a decision instant, for criteria of steadiness that look at them."""

import numpy as np

from models.network.state.records import Fabric, Nic
from pdes.engine.exchange import World
from pdes.engine.jit import loop_kernel


@loop_kernel
def sample_queues(fabric: Fabric, nic: Nic, sends_here, pairs, out):
    """Write the data that waits at each port of queue pairs' ways, in bytes, without the packet in transmission.

    sends_here: bool[n_port], ports of this rank's nodes. pairs: int64[n], rows of queue pairs. out: int64[n, n_hop],
    in the order of the way of the pair's data, whose ports are fixed; -1 at other ranks' ports and behind its end.
    """
    for i in range(pairs.size):
        first = np.int64(nic.facts[np.uint64(pairs[i])].data_path)
        row = out[np.uint64(i)]
        row[:] = -1
        for k in range(row.size):
            port = np.int64(fabric.path_port[np.uint64(first + k)])
            if port < 0:
                break
            if sends_here[np.uint64(port)]:
                row[np.uint64(k)] = fabric.ports[np.uint64(port)].queued_bytes


class PathQueues:
    """Queues of all ranks along the ways of flows, n_hop of them at most."""

    def __init__(self, n_hop: int, sends_here: np.ndarray, world: World) -> None:
        self._n_hop, self._sends_here, self._world = n_hop, sends_here, world

    def sample(self, fabric: Fabric, nic: Nic, pairs: np.ndarray) -> np.ndarray:
        """int64[n, n_hop], see `sample_queues`; the same on every rank. pairs: int64[n], the same on every rank."""
        return np.max(self._world.allgather(self.sample_own(fabric, nic, pairs)), axis=0)

    def sample_own(self, fabric: Fabric, nic: Nic, pairs: np.ndarray) -> np.ndarray:
        """This rank's part of it, without talking to the others."""
        own = np.zeros((len(pairs), self._n_hop), np.int64)
        sample_queues(fabric, nic, self._sends_here, pairs, own)
        return own
