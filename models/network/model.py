"""The packet network as a model of the engine: one rank's state, its shortages, its rows."""

from collections.abc import Callable

import numpy as np

from models.network.build import (
    NetworkParameters,
    NetworkState,
    QueuePairs,
    arrange_pairs,
    grow_messages,
    grow_packets,
    make_fabric,
    make_nic,
    make_rows,
    make_work,
    smallest_packet_bytes,
)
from models.network.host import SHORT_OF_MESSAGES, SHORT_OF_PACKETS, SHORT_OF_ROWS
from models.network.rounds import SHORT_OF_ARRIVING_PACKETS, STOPPED_BY_FAULT, WORDS_PER_PACKET, run_rounds
from models.network.state import FAULT, FAULT_NODE, N_ARRIVAL_ROW, N_FLOW_ROW, N_TASK_ROW
from models.network.switch import FAULT_QUEUE_OVERFLOW
from models.topology.closed_form import tx_ps
from models.topology.graph import Topology
from models.topology.routing import Paths
from models.workload.plan import WorkloadPlan
from pdes.engine.exchange import ExchangeState, World, make_exchange
from pdes.engine.round import make_loop
from pdes.errors import CapacityError, CausalityError, SimError

RowSink = Callable[[np.ndarray, np.ndarray, np.ndarray], None]
"""Takes (flow rows, arrival rows, task rows), int64[n, columns of `state`]; the arrays are reused afterwards."""


class NetworkModel:
    """The share of one rank: `run_rounds` and `relieve` for the engine, `state` for tests and results."""

    def __init__(
        self,
        topology: Topology,
        paths: Paths,
        plan: WorkloadPlan,
        max_window_bytes: np.ndarray,
        lp_of_node: np.ndarray,
        rank_of_lp: np.ndarray,
        lookahead_ps: int,
        world: World,
        parameters: NetworkParameters,
        sink: RowSink,
    ) -> None:
        self.topology, self.plan, self.sink = topology, plan, sink
        self.rank_of_node = rank_of_lp[lp_of_node]
        here = self.rank_of_node == world.rank
        self.pairs: QueuePairs = arrange_pairs(paths)
        fabric = make_fabric(topology, self.pairs, plan, lp_of_node, here, parameters)
        nic = make_nic(topology, self.pairs, plan, max_window_bytes, parameters, fabric.counters)
        work = make_work(topology, self.pairs, plan, fabric, here)
        self.state = NetworkState(fabric, nic, work, make_rows(plan.burst))
        peers, self.port_peer_row = self._neighbours(world.rank)
        self.exchange = make_exchange(world, peers, self._exchange_words(lookahead_ps, peers, parameters))

    def _neighbours(self, rank: int) -> tuple[list[int], np.ndarray]:
        """Ranks at the other end of this rank's links, and for each port to another rank its row among them."""
        src, dst = self.rank_of_node[self.topology.port_src], self.rank_of_node[self.topology.port_dst]
        peers = sorted({int(r) for r in dst[src == rank]} - {rank})
        row = np.full(int(max(self.rank_of_node.max(), rank)) + 1, -1, np.int64)
        row[peers] = np.arange(len(peers))
        return peers, np.where(src == rank, row[dst], -1)

    def _exchange_words(self, lookahead_ps: int, peers: list[int], parameters: NetworkParameters) -> int:
        """Room for every packet that can start on the links to one neighbour within a round."""
        small = smallest_packet_bytes(parameters)
        most = 0
        for i in range(len(peers)):
            ports = np.flatnonzero(self.port_peer_row == i)
            back = self.topology.port_peer[ports]
            for direction in (ports, back):
                rates = self.topology.port_rate_bps[direction]
                most = max(most, sum(lookahead_ps // int(tx_ps(small, int(r))) + 2 for r in rates))
        return int(most) * WORDS_PER_PACKET + WORDS_PER_PACKET

    def run_rounds(self, loop: np.ndarray, ex: ExchangeState) -> int:
        """Compiled rounds, see `models.network.rounds`."""
        return run_rounds(loop, ex, *self.state, self.port_peer_row)

    def compile(self) -> None:
        """Compile the kernels, or load them from the cache, without running anything or talking to other ranks."""
        loop = make_loop(1, stop_ps=-1)  # no event lies at or before the stop
        run_rounds(loop, make_exchange(World(), [], 1), *self.state, self.port_peer_row)

    def relieve(self, code: int) -> None:
        """Grow what ran short, or write out rows; raise on a fault."""
        state = self.state
        if code == SHORT_OF_ROWS:
            self.flush()
        elif code in (SHORT_OF_PACKETS, SHORT_OF_ARRIVING_PACKETS):
            self.state = state._replace(fabric=grow_packets(state.fabric, 2 * len(state.fabric.packets)))
        elif code == SHORT_OF_MESSAGES:
            nic = grow_messages(state.nic, state.fabric.counters, 2 * len(state.nic.messages))
            self.state = state._replace(nic=nic)
        elif code == STOPPED_BY_FAULT:
            raise self._fault()
        else:
            raise AssertionError(f"unexpected code {code}")

    def _fault(self) -> SimError:
        counters = self.state.fabric.counters
        name = self.topology.node_name[int(counters[FAULT_NODE])]
        if counters[FAULT] == FAULT_QUEUE_OVERFLOW:
            return CapacityError(
                f"a queue of {name} passed 2 GiB. Lower [network] window or the number of flows into one port"
            )
        return CausalityError(
            f"a packet arrived out of order at {name}: an error of the simulator, please report the config"
        )

    def flush(self) -> None:
        """Hand the finished rows to the sink and empty the buffers."""
        counters, rows = self.state.fabric.counters, self.state.rows
        n_flow, n_arrival, n_task = (int(counters[i]) for i in (N_FLOW_ROW, N_ARRIVAL_ROW, N_TASK_ROW))
        self.sink(rows.flow[:n_flow], rows.arrival[:n_arrival], rows.task[:n_task])
        counters[[N_FLOW_ROW, N_ARRIVAL_ROW, N_TASK_ROW]] = 0
