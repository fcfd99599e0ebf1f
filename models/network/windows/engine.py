"""Running experiments in windows to their ends, and handing back what came of them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from models.network.state.records import EVENTS, LAST_EVENT_PS, PACKET_HOPS
from models.network.windows.compiled import run_over_threads, run_serial
from models.network.windows.make import CHUNK_NODES, Network, make_windows
from models.network.windows.room import relieve
from models.network.windows.state import FLOW, OVERFLOWN, STOPPED, Windows
from models.workload.program import N_STREAM_DONE, WAITING_DONE
from pdes.errors import CapacityError

WINDOWS_AT_ONCE = 1024

Tick = Callable[[int], None]
"""Is told of the packet-hops so far."""


class CpuEngine:
    """Windows as compiled code of this CPU. n_thread: 1, or as many as Numba has."""

    chunk_nodes = CHUNK_NODES

    def __init__(self, n_thread: int = 0) -> None:
        self._run = run_serial if n_thread == 1 else run_over_threads

    def run(self, w: Windows, tick: Tick | None = None) -> Windows:
        """Run all experiments to their ends; the state as it is then."""
        w = relieve(w)
        while not self._run(w, WINDOWS_AT_ONCE):
            check_overflow(w.status)
            if w.status[STOPPED]:
                w = relieve(w)
            if tick is not None:
                tick(int(w.spots["n_hop"].sum()))
        check_overflow(w.status)
        return w


def check_overflow(status: np.ndarray) -> None:
    """Raise CapacityError if a queue has passed what there may be."""
    if status[OVERFLOWN]:
        raise CapacityError("a switch's queue passed 2 GB. Check the rates and the window of the config")


def run_networks(networks: Sequence[Network], engine: Any, tick: Tick | None = None) -> list[np.ndarray]:
    """Run experiments, and leave in each one's state what another engine would have left for its results.

    Returns each one's flows: FLOW[].
    """
    w = engine.run(make_windows(networks, engine.chunk_nodes), tick)
    found, node, port, pair, flow = [], 0, 0, 0, 0
    for network in networks:
        t, n_pair, n_flow = network.topology, len(network.state.nic.facts), len(network.state.work.operations)
        _hand_back(network, w, node, port)
        queue_pairs = network.state.nic.queue_pairs
        for name in ("acked_byte", "posted_end", "next_byte", "sent_bytes"):
            queue_pairs[name] = w.queue_pairs[name][pair : pair + n_pair]
        flows = w.flows[flow : flow + n_flow].copy()
        flows["queue_pair"] -= pair
        found.append(flows)
        node, port, pair, flow = node + t.n_node, port + t.n_port, pair + n_pair, flow + n_flow
    return found


def _hand_back(network: Network, w: Windows, node: int, port: int) -> None:
    """Ports, counters and streams of one experiment, whose rows begin at node and port."""
    state, t = network.state, network.topology
    ports, spots = slice(port, port + t.n_port), w.spots[node : node + t.n_node]
    for name in ("free_at_ps", "tx_bytes", "queued_bytes", "max_queued_bytes"):
        state.fabric.ports[name] = w.ports[name][ports]
    for name in ("busy_ps", "ecn_marks", "ecn_draws"):
        state.fabric.port_info[name] = w.port_info[name][ports]
    counters, streams = state.fabric.counters, state.work.streams
    counters[PACKET_HOPS], counters[EVENTS] = spots["n_hop"].sum(), spots["n_event"].sum()
    counters[LAST_EVENT_PS] = spots["last_ps"].max(initial=0)
    is_done = spots["next_flow"][streams["node"]] == spots["end_flow"][streams["node"]]
    streams["waiting_for"][is_done] = WAITING_DONE
    state.work.totals[N_STREAM_DONE] = is_done.sum()


def rows_of(flows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of finished and of delivered flows, as kernels of the other engine write them. flows: FLOW[]."""
    assert flows.dtype == FLOW
    names = ("flow_id", "queue_pair", "size_bytes", "posted_ps", "finish_ps", "n_marked", "tag")
    columns = [flows[name].astype(np.int64) for name in names] + [np.zeros(len(flows), np.int64)]
    done = np.stack(columns, axis=1)[flows["finish_ps"] >= 0]
    delivered = np.stack([flows["flow_id"], flows["delivered_ps"]], axis=1)[flows["delivered_ps"] >= 0]
    return done, delivered
