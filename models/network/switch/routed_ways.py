"""Ways of queue pairs where switches choose them by flow: all packets of a flow take one until routing changes.

Wormhole (section 5.3) thaws what a reroute touches, and skips again after it has settled. So here: from the instant of
a link's change until all switches route by it nothing is skipped; then network partitions are found anew, by the ways
that hold from there on, and what is to be skipped has to be found steady again. Deviation: that goes for all network
partitions, not only for those that the change touches.

Packets are forwarded as ever, switch by switch; what is here only says where they come by.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from models.network.build.arrays import NetworkState, QueuePairs
from models.network.state.pair_records import PAIR_FACTS
from models.network.state.parameters import LinkChange
from models.network.state.switch_state import Routing
from models.network.switch.forwarding import way_at
from models.network.watch.ideal_routes import allowed
from models.topology.graph import Topology
from pdes.engine.jit import aligned_zeros, kernel
from pdes.engine.time_index import NEVER


def _facts_of(n: int) -> Any:
    """PAIR_FACTS[n], all zeros."""
    return aligned_zeros(n, PAIR_FACTS)


def _cannot_remake(pairs: QueuePairs) -> Any:
    raise AssertionError("no way to make a controller has been given")


class RoutedWays:
    """Ways by epoch, and the pauses between links' changes and the epochs that answer them; the same on every rank."""

    def __init__(
        self, topology: Topology, pairs: QueuePairs, routing: Routing, changes: tuple[LinkChange, ...],
        convergence_ps: int,
    ) -> None:  # fmt: skip
        """pairs: with ways of which only the first port holds where path_port says that switches choose the others."""
        begin_ps = np.array([change.time_ps for change in changes], np.int64)
        self._pause_ps = np.sort(begin_ps), np.sort(begin_ps) + convergence_ps
        self._epoch_ps, self.epoch = routing.epoch_ps, 0
        self.pause_ps = int(begin_ps.min(initial=NEVER))  # when the next pause begins; 0: one lasts
        self.by_epoch = [_resolve(topology, pairs, routing, epoch) for epoch in range(len(routing.epoch_ps))]
        self.remake: Callable[[QueuePairs], Any] = _cannot_remake  # whoever decides what is skipped, for other ways
        self._first_row, self._facts = np.zeros(0, np.int64), _facts_of(0)  # see `install`

    @property
    def pairs(self) -> QueuePairs:
        """Queue pairs with their ways of the present epoch."""
        return self.by_epoch[self.epoch]

    @property
    def ends_ps(self) -> list[int]:
        """Instants that no skip may pass: the last before each change."""
        return [int(time_ps) - 1 for time_ps in self._pause_ps[0]]

    def install(self, state: NetworkState) -> NetworkState:
        """Have the ways of the first epoch stand in `Nic.facts`, for all that asks where a queue pair's packets go."""
        fabric, facts = state.fabric, state.nic.facts
        paths = [fabric.path_port, *(pairs.path_port for pairs in self.by_epoch)]
        self._first_row = np.cumsum([len(path) for path in paths])[:-1]
        path_port = np.concatenate(paths).astype(np.int32)
        path_port.flags.writeable = fabric.path_port.flags.writeable  # else kernels are compiled anew
        self._facts = _facts_of(len(facts))
        self._facts[:] = facts
        self.enter(0)
        shown = self._facts.view()
        shown.flags.writeable = facts.flags.writeable
        return state._replace(fabric=fabric._replace(path_port=path_port), nic=state.nic._replace(facts=shown))

    def enter(self, epoch: int) -> None:
        """From now on ways are those of an epoch."""
        self.epoch = epoch
        pairs = self.by_epoch[epoch]
        first = self._first_row[epoch] + pairs.path_start
        self._facts["data_path"] = first[:-1:2][pairs.pair_of_row]
        self._facts["ack_path"] = first[1::2][pairs.pair_of_row]

    def epoch_at(self, now_ps: int) -> int:
        """The epoch whose tables hold at an instant."""
        return int(np.searchsorted(self._epoch_ps, now_ps, side="right")) - 1

    def resumes_ps(self, now_ps: int) -> int:
        """When something may be skipped again; now_ps: now."""
        begin_ps, end_ps = self._pause_ps
        i = int(np.searchsorted(begin_ps, now_ps, side="right"))
        return max(now_ps, int(end_ps[i - 1])) if i > 0 else now_ps

    def move(self, now_ps: int) -> bool:
        """Have the ways of the epoch that holds now, unless a pause lasts; whether these are others."""
        begin_ps = self._pause_ps[0]
        i = int(np.searchsorted(begin_ps, now_ps, side="right"))
        is_paused, epoch = self.resumes_ps(now_ps) > now_ps, self.epoch_at(now_ps)
        self.pause_ps = 0 if is_paused else int(begin_ps[i]) if i < len(begin_ps) else NEVER
        if is_paused or epoch == self.epoch:
            return False
        self.enter(epoch)
        return True


def _resolve(topology: Topology, pairs: QueuePairs, routing: Routing, epoch: int) -> QueuePairs:
    start, n_row = pairs.path_start, len(pairs.path_start) - 1
    length = np.zeros(n_row, np.int64)
    links, path_port = (topology.port_dst, topology.is_switch), np.zeros(0, np.int32)
    walk(routing, links, pairs.path_port, start, epoch, np.zeros(n_row + 1, np.int64), length, path_port)
    new_start = np.concatenate([[0], np.cumsum(length + 1)]).astype(np.int64)
    path_port = np.full(int(new_start[-1]), -1, np.int32)
    walk(routing, links, pairs.path_port, start, epoch, new_start, length, path_port)
    return replace(pairs, path_start=new_start, path_port=path_port)


@kernel
def walk(routing: Routing, links, path_port, path_start, epoch, start, length, out):
    """Write the ports of every path into out[start[row]:], and how many into length; out of no size: only that.

    links: (port_dst, is_switch). path_port, path_start: as packets have them, with routes. A path ends where no way
    leads on.
    """
    port_dst, is_switch = links
    for row in range(length.size):
        place, n, is_routed = path_start[row], 0, False
        port = np.int64(path_port[place])
        while port >= 0:
            if out.size > 0:
                out[start[row] + n] = port
            n += 1
            node = port_dst[port]
            if not is_routed:
                place += 1
                port = np.int64(path_port[place])
                is_routed = port < -1
            if is_routed:
                port = np.int64(-1)
                low, high, is_direct = np.int64(0), np.int64(0), False
                if is_switch[node]:
                    low, high, is_direct = allowed(routing, row, node, epoch)
                if high > low:
                    port = way_at(routing.way_port, low, is_direct)
        length[row] = n
