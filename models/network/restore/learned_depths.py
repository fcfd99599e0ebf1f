"""What a trained model says of the queues of a network partition at its thaw, from what was seen before."""

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.restore.path_queues import PathQueues
from models.network.restore.restored_packets import Ways
from pdes.engine.exchange import World
from pdes.skipping.papers.queue_model import QueueModel


class LearnedDepths:
    """The last depths of every port at looks, and the model, which rank 0 asks for all."""

    def __init__(self, ways: Ways, n_step: int, sends_here: np.ndarray, world: World, model: QueueModel | None) -> None:
        """sends_here: bool[n_port], ports of this rank's nodes. model: on rank 0."""
        self._world, self._model = world, model
        n_hop = max([len(path) for path in ways.ports_of], default=1)
        self._port_at = np.full((len(ways.ports_of), n_hop), -1, np.int64)
        for pair, path in enumerate(ways.ports_of):
            self._port_at[pair, : len(path)] = path
        self._port_at[:, 0] = -1  # the host's own
        self._queues = PathQueues(n_hop, sends_here, world)
        self._trace = np.zeros((len(ways.rate_bps), n_step), np.int64)
        self._seen = np.full(len(ways.rate_bps), -2, np.int64)  # the last look at which a port was in use
        self._n_look = 0

    def compile(self, state: NetworkState) -> None:
        """Compile what samples queues."""
        self._queues.sample_own(state.fabric, state.nic, np.zeros(0, np.int64))

    def note(self, state: NetworkState, pairs: np.ndarray) -> None:
        """Append the depths of a look; a port that was not in use at the look before starts anew."""
        depth = self._queues.sample(state.fabric, state.nic, pairs)
        ports, first = np.unique(self._port_at[pairs], return_index=True)
        depth_bytes = depth.ravel()[first][ports >= 0]
        ports = ports[ports >= 0]
        is_new = self._seen[ports] != self._n_look - 1
        self._trace[ports, :-1] = self._trace[ports, 1:]
        self._trace[ports[is_new]] = depth_bytes[is_new, None]
        self._trace[ports, -1] = depth_bytes
        self._seen[ports] = self._n_look
        self._n_look += 1

    def predict(self, ports: np.ndarray) -> np.ndarray:
        """Bytes that will wait at each port; int64, the same on every rank."""
        own = None if self._model is None else self._model.predict(self._trace[ports])
        return self._world.bcast(own)
