"""From networks that another engine would run to one state of the window engine, and back."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from models.congestion.interface import EVENT, N_EVENT_WORD
from models.network.build.arrays import NetworkState, safe_times
from models.network.build.nic import Control
from models.network.state.parameters import NetworkParameters, used_ports
from models.network.state.records import (
    LAW_ON_ACK,
    LAW_ON_CNP,
    LAW_ON_TIMER,
    N_EXTRA,
    PACKET,
    Nic,
)
from models.network.windows.laws import know
from models.network.windows.state import CHUNK, EXPERIMENT, FLOW, SPOT, WIRE, Windows
from models.topology.graph import Topology
from models.workload.program import Work
from pdes.engine.jit import aligned_zeros
from pdes.engine.time_index import NEVER

FIRST_PLACES, CHUNK_NODES = 64, 32  # of a node for packets that wait; of a chunk


class Network:
    """One experiment's part, before anything has happened in it."""

    def __init__(self, topology: Topology, state: NetworkState, control: Control, parameters: NetworkParameters):
        self.topology, self.state, self.control, self.parameters = topology, state, control, parameters


def make_windows(networks: Sequence[Network], chunk_nodes: int) -> Windows:
    """The state of all experiments, the first window of each at its first event, without room for packets (`room`).

    Their laws are one.
    """
    know(networks[0].control.law)
    first = _Offsets()
    parts: list[dict[str, np.ndarray]] = []
    for i, network in enumerate(networks):
        parts.append(_part(network, i, first))
        first.count(network, parts[-1])
    tables: dict[str, Any] = {name: _joined([part[name] for part in parts]) for name in parts[0]}
    experiments, chunks = _clocks(networks, tables["spots"], chunk_nodes)
    law, flow_dtype = networks[0].state.nic.law, networks[0].control.flows.dtype
    tables["controlled"] = tables["control"].reshape(-1).view(flow_dtype)
    words = np.zeros((len(tables["nodes"]), N_EVENT_WORD), np.int64)
    w = Windows(
        **tables,
        packets=np.zeros(0, PACKET),
        label=np.zeros(0, np.int64),
        extra=np.zeros((0, tables["constants"][0, N_EXTRA]), np.int64),
        event_words=words,
        events=words.reshape(-1).view(EVENT),
        handlers=np.array([law[k] != 0 for k in (LAW_ON_ACK, LAW_ON_CNP, LAW_ON_TIMER)], np.int64),
        experiments=experiments,
        chunks=chunks,
        status=np.zeros(3, np.int64),
    )
    w.wires["n_wanted"], w.spots["n_wanted"] = _first_places(networks), FIRST_PLACES
    return w


class _Offsets:
    """How many rows of each kind the experiments before have."""

    def __init__(self) -> None:
        self.node = self.port = self.pair = self.path = self.ready = self.timer = self.flow = self.law = self.key = 0
        self.out = 0

    def count(self, network: Network, part: dict[str, np.ndarray]) -> None:
        self.node += len(part["nodes"])
        self.port += len(part["ports"])
        self.pair += len(part["queue_pairs"])
        self.path += len(part["path_port"])
        self.ready += len(part["ready"])
        self.timer += len(part["timers"])
        self.flow += len(part["flows"])
        self.law += len(part["parameters"])
        self.key += len(part["keys"])
        self.out += len(part["out_port"])


def _moved(table: np.ndarray, **by: int) -> np.ndarray:
    """A copy whose named fields are larger by so much."""
    table = table.copy()
    for name, offset in by.items():
        table[name] += offset
    return table


def _part(network: Network, i_experiment: int, at: _Offsets) -> dict[str, np.ndarray]:
    """Tables of one experiment with indices that count through. at: rows before it."""
    fabric, nic = network.state.fabric, network.state.nic
    nodes = _moved(
        fabric.nodes, first_in=at.port, end_in=at.port, first_timer=at.timer, first_out=at.out, end_out=at.out
    )
    used = used_ports(network.topology, fabric.path_port[fabric.path_port >= 0], network.parameters)
    one_lp = np.zeros(network.topology.n_node, np.int64)
    nodes["safe_ps"] = safe_times(network.topology, one_lp, used, network.parameters)
    degree = nodes["end_in"] - nodes["first_in"]
    n_leaf = np.array([1 << max(0, int(n) - 1).bit_length() for n in degree], np.int64)
    flows = _flows(network.state.work, at.pair)
    return {
        "ports": fabric.ports.copy(),
        "port_info": _moved(fabric.port_info, receiver=at.node),
        "nodes": nodes,
        "wires": np.zeros(network.topology.n_port, WIRE),
        "spots": _spots(network.state.work, i_experiment, n_leaf, at),
        "path_port": np.where(fabric.path_port >= 0, fabric.path_port + at.port, -1).astype(np.int32),
        "keys": np.zeros(int(2 * n_leaf.sum()), np.int64),
        "flows": flows,
        "constants": fabric.constants[None].copy(),
        **_of_nic(nic, network.control, at),
    }


def _of_nic(nic: Nic, control: Control, at: _Offsets) -> dict[str, np.ndarray]:
    return {
        "nic_ports": _moved(nic.nic_ports, first_pair=at.pair, first_ready=at.ready),
        "ready": nic.ready.copy(),
        "out_port": nic.out_port + np.int32(at.port),
        "queue_pairs": _moved(nic.queue_pairs, port=at.port, data_path=at.path, law_row=at.law, node=at.node),
        "receivers": _moved(nic.receivers, ack_path=at.path),
        "receiver_row": nic.receiver_row + np.int32(at.pair),
        "control": control.words.copy(),
        "parameters": control.parameters.copy(),
        "timers": nic.timers.copy(),
        "timer_pair": nic.timer_pair + np.int32(at.pair),
    }


def _flows(work: Work, first_pair: int) -> np.ndarray:
    """FLOW rows in the order of the program's operations, all of which begin flows."""
    flows, operations = np.zeros(len(work.operations), FLOW), work.operations
    for name, source in (("time_ps", "time_ps"), ("size_bytes", "size_bytes"), ("flow_id", "flow"), ("tag", "tag")):
        flows[name] = operations[source]
    flows["queue_pair"] = work.slots[operations["slot"] + _first_slots(work)] + first_pair
    flows["next"], flows["posted_ps"], flows["delivered_ps"], flows["finish_ps"] = -1, -1, -1, -1
    return flows


def _first_slots(work: Work) -> np.ndarray:
    """int64[n_operation]: where the slots of the stream begin that runs it."""
    first = np.zeros(len(work.operations), np.int64)
    for stream in work.streams:
        first[stream["first_operation"] : stream["end_operation"]] = stream["first_slot"]
    return first


def _spots(work: Work, i_experiment: int, n_leaf: np.ndarray, at: _Offsets) -> np.ndarray:
    spots, streams = np.zeros(len(n_leaf), SPOT), work.streams
    spots["wake_ps"], spots["free"], spots["experiment"] = NEVER, -1, i_experiment
    spots["n_leaf"], spots["first_key"] = n_leaf, np.cumsum(2 * n_leaf) - 2 * n_leaf + at.key
    node = streams["node"]
    spots["wake_ps"][node] = streams["wake_ps"]
    spots["next_flow"][node] = streams["first_operation"] + at.flow
    spots["end_flow"][node] = streams["end_operation"] + at.flow
    spots["own_ps"] = spots["next_ps"] = spots["wake_ps"]
    return spots


def _joined(tables: list[np.ndarray]) -> np.ndarray:
    """One table of several, whose first row begins a cache line."""
    out = aligned_zeros(sum(table.size for table in tables), tables[0].dtype)
    joined = out.view(np.ndarray) if tables[0].dtype.names is None else out
    joined = joined.reshape(-1, *tables[0].shape[1:])
    np.concatenate(tables, out=joined)
    return joined


def _clocks(networks: Sequence[Network], spots: np.ndarray, chunk_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """EXPERIMENT and CHUNK records."""
    experiments, rows = np.zeros(len(networks), EXPERIMENT), []
    first_node = first_port = 0
    for i, network in enumerate(networks):
        n_node, n_first = network.topology.n_node, len(rows)
        for node in range(0, n_node, chunk_nodes):
            rows.append((first_node + node, first_node + min(node + chunk_nodes, n_node), 0))
        begin_ps = int(spots["next_ps"][first_node : first_node + n_node].min())
        experiments[i] = (begin_ps, first_port, n_first, len(rows))
        first_node, first_port = first_node + n_node, first_port + network.topology.n_port
    return experiments, np.array(rows, CHUNK)


def _first_places(networks: Sequence[Network]) -> np.ndarray:
    """int64[n_port]: places of each link, for full packets that follow each other.

    A link holds what its delay holds; its sender learns two windows late of what has been taken.
    """
    found = []
    for network in networks:
        t, p = network.topology, network.parameters
        least_ps = (p.payload_bytes + p.header_bytes) * 8 * 10**12 // t.port_rate_bps + 1
        used = used_ports(t, network.state.fabric.path_port[network.state.fabric.path_port >= 0], p)
        full = 4 * (t.port_delay_ps // least_ps + 2)
        found.append(np.where(used, [1 << int(n - 1).bit_length() for n in full], 1))
    return np.concatenate(found)
