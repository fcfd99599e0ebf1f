"""Queue pairs, their congestion control, NIC ports and timers of one rank, before anything has happened."""

from typing import Any

import numpy as np

from models.congestion.interface import N_EVENT_WORD
from models.congestion.law import Handlers, Law
from models.network import state
from models.network.build import QueuePairs, grow_messages, make_nodes
from models.network.parameters import NetworkParameters
from models.network.state import MESSAGE, NIC_PORT, NO_WINDOW, NS3_PORT, QUEUE_PAIR, RANGE, Nic
from models.network.visits import set_of
from models.topology.graph import Topology
from models.workload.plan import WorkloadPlan
from pdes.engine.bits import n_set_word
from pdes.engine.foreign import call5
from pdes.engine.jit import aligned_zeros, kernel
from pdes.engine.time_index import NEVER
from pdes.errors import ConfigError

MAX_WINDOW_BYTES, MAX_RATE_BPS = 2**37, 2**42  # what `sender.window_at` can multiply
MAX_LANE_TIMES = 4096


def make_queue_pairs(
    topology: Topology,
    pairs: QueuePairs,
    plan: WorkloadPlan,
    max_window_bytes: np.ndarray,
    parameters: NetworkParameters,
) -> np.ndarray:
    """QUEUE_PAIR records at line rate with full windows, nothing posted.

    max_window_bytes: int64[n_pair], plan's order; 0: no window. Raises ConfigError.
    """
    order = pairs.pair_of_row
    table = aligned_zeros(len(order), QUEUE_PAIR)
    line_bps, window = topology.port_rate_bps[pairs.port], max_window_bytes[order]
    if len(window) and window.max() >= MAX_WINDOW_BYTES:
        raise ConfigError("[network] window", f"{int(window.max())} B", f"Accepted: below {MAX_WINDOW_BYTES} B")
    if len(line_bps) and line_bps.max() >= MAX_RATE_BPS:
        raise ConfigError("[topology]", f"a host's link of {int(line_bps.max())} bit/s", f"below {MAX_RATE_BPS} bit/s")
    table["rate_bps"] = table["line_rate_bps"] = line_bps
    table["max_window_bytes"] = window
    table["window_bytes"] = np.where(window > 0, window, NO_WINDOW)
    table["first_message"] = table["sending_message"] = table["last_message"] = -1
    table["check_ps"] = table["deadline_ps"] = NEVER
    table["sacked_range"] = table["held_range"] = table["early_end"] = -1
    table["port"], table["node"] = pairs.port, topology.port_src[pairs.port]
    table["data_path"] = pairs.path_start[:-1:2][order]
    table["ack_path"] = pairs.path_start[1::2][order]
    table["waiting_stream"] = plan.pair_stream[order]
    table["queue"] = 1 if parameters.pair_queue is None else parameters.pair_queue[order]
    table["law_row"] = np.unique(line_bps, return_inverse=True)[1]
    table["first_part"] = pairs.row_of_pair[order // plan.n_part * plan.n_part]
    table["timer_leaf"] = _rank_within(table["node"])
    return table


def _rank_within(key: np.ndarray) -> np.ndarray:
    """For each element, how many equal ones stand before it; int64[n]."""
    order = np.argsort(key, kind="stable")
    rank = np.empty(len(key), np.int64)
    rank[order] = np.arange(len(key)) - np.searchsorted(key[order], key[order])
    return rank


class Control:
    """The congestion control's memory and handlers on this rank; alive as long as anything may call them.

    Rows of queue pairs that send elsewhere stay zero, which takes no memory: only a sender has a control.
    """

    def __init__(
        self, law: Law, values: dict[str, Any], table: np.ndarray, payload_bytes: int, rtt_ps: Any, own: np.ndarray
    ) -> None:
        """own: int64[], the rows of queue pairs that send here."""
        self.law, self.handlers, self._own = law, law.compile(), own
        self.flows = law.make_flows(len(table), own)
        for name in ("rate_bps", "line_rate_bps", "max_window_bytes"):
            self.flows[name][own] = table[name][own]
        self.flows["window_bytes"][own], self.flows["base_rtt_ps"][own] = table["max_window_bytes"][own], rtt_ps
        self.flows["payload_bytes"][own] = payload_bytes
        self.parameters = law.make_parameters(values or law.parameter_values({}), np.unique(table["line_rate_bps"]))
        self.event, self.scratch = np.zeros(N_EVENT_WORD, np.int64), np.zeros(8, np.int64)
        n_word = self.flows.dtype.itemsize // 8
        self.words = self.flows.view(np.ndarray).view(np.int64).reshape(len(table), n_word)

    def law_words(self) -> np.ndarray:
        """`Nic.law`: addresses and sizes."""
        words = np.zeros(state.N_LAW, np.int64)
        words[state.LAW_FLOWS], words[state.LAW_FLOW_BYTES] = self.flows.ctypes.data, self.flows.dtype.itemsize
        words[state.LAW_EVENT], words[state.LAW_SCRATCH] = self.event.ctypes.data, self.scratch.ctypes.data
        words[state.LAW_PARAMETERS] = self.parameters.ctypes.data
        words[state.LAW_PARAMETER_BYTES] = self.parameters.dtype.itemsize
        h: Handlers = self.handlers
        words[state.LAW_ON_ACK], words[state.LAW_ON_CNP] = h.on_ack, h.on_cnp
        words[state.LAW_ON_TIMER], words[state.LAW_ON_TIMEOUT] = h.on_timer, h.on_timeout
        return words

    def start(self, law: np.ndarray, table: np.ndarray) -> None:
        """Run the control's `start` for every queue pair, and take over what it sets. Raises ConfigError."""
        own = self._own
        if self.handlers.start:
            row = int(_start_all(self.handlers.start, law, table, own))
            if row >= 0:
                p = self.parameters[int(table["law_row"][row])]
                event = self.event.view(np.ndarray)
                raise ConfigError("[network] congestion_control", self.law.explain("start", self.flows[row], event, p))
        table["rate_bps"][own] = np.clip(self.flows["rate_bps"][own], 1, table["line_rate_bps"][own])
        self.flows["rate_bps"][own] = table["rate_bps"][own]
        if self.law.controls_window:
            window_bytes = self.flows["window_bytes"][own]
            table["window_bytes"][own] = np.where(window_bytes > 0, window_bytes, NO_WINDOW)


@kernel
def _start_all(address, law, table, rows):
    """Call `start` for these rows; the first one for which it raised, -1 if none."""
    scratch = law[state.LAW_SCRATCH]
    for pair in rows:
        status = call5(
            address, scratch, scratch + 8, law[state.LAW_FLOWS] + pair * law[state.LAW_FLOW_BYTES],
            law[state.LAW_EVENT], law[state.LAW_PARAMETERS] + table[pair].law_row * law[state.LAW_PARAMETER_BYTES],
        )  # fmt: skip
        if status != 0 and status != -2:
            return pair
    return -1


def make_nic_ports(topology: Topology, pairs: QueuePairs, is_ns3: bool) -> tuple[np.ndarray, int]:
    """NIC_PORT records, and how many words their ready sets take."""
    nic_ports = aligned_zeros(topology.n_port, NIC_PORT)
    nic_ports["next_start_ps"], nic_ports["last_served"] = NEVER, 0 if is_ns3 else -1
    nic_ports["n_pair"] = np.bincount(pairs.port, minlength=topology.n_port)
    nic_ports["first_pair"] = np.cumsum(nic_ports["n_pair"]) - nic_ports["n_pair"]
    words = np.array([max(1, n_set_word(int(n))) for n in nic_ports["n_pair"]], np.int64)  # one is always read
    nic_ports["first_ready"] = np.cumsum(words) - words
    return nic_ports, int(words.sum())


def _parts(pairs: QueuePairs, n_part: int) -> np.ndarray:
    """`Nic.parts`: for each queue pair that is the first of those that share messages, all of them."""
    rows = pairs.row_of_pair.reshape(-1, n_part)
    parts = np.zeros((len(pairs.row_of_pair) if n_part > 1 else 1, n_part), np.int32)
    if n_part > 1:
        parts[rows[:, 0]] = rows
    return parts


def make_timers(nodes: np.ndarray, table: np.ndarray, is_timed: bool) -> tuple[np.ndarray, np.ndarray]:
    """(trees, queue pairs of their leaves), and where they are into NODE. nodes: written."""
    if not is_timed or len(table) == 0:
        return np.zeros(1, np.int64), np.zeros(1, np.int32)
    count = np.bincount(table["node"], minlength=len(nodes))
    leaves = np.array([1 << max(0, int(n) - 1).bit_length() if n else 0 for n in count], np.int64)
    nodes["n_timer"] = leaves
    nodes["first_timer"] = np.cumsum(2 * leaves) - 2 * leaves
    pair_of_leaf = np.zeros(int(2 * leaves.sum()), np.int32)
    pair_of_leaf[nodes["first_timer"][table["node"]] + table["timer_leaf"]] = np.arange(len(table))
    return np.full(int(2 * leaves.sum()), NEVER, np.int64), pair_of_leaf


def make_nic(
    topology: Topology,
    pairs: QueuePairs,
    plan: WorkloadPlan,
    max_window_bytes: np.ndarray,
    parameters: NetworkParameters,
    fabric: state.Fabric,
    here: np.ndarray,
) -> tuple[Nic, Control]:
    """NIC state of one rank, and the control that its addresses point into. here: bool[n_node], this rank's nodes."""
    table = make_queue_pairs(topology, pairs, plan, max_window_bytes, parameters)
    own = np.flatnonzero(here[table["node"]])
    rtt_ps = 0 if parameters.base_rtt_ps is None else parameters.base_rtt_ps[pairs.pair_of_row[own]]
    control = Control(parameters.law, parameters.law_values, table, parameters.payload_bytes, rtt_ps, own)
    law = control.law_words()
    control.start(law, table)
    is_timed = control.handlers.on_timer != 0 or (parameters.transport is not None and parameters.ns3 is None)
    timers, timer_pair = make_timers(fabric.nodes, table, is_timed)
    nic_ports, n_ready = make_nic_ports(topology, pairs, parameters.ns3 is not None)
    ns3_ports = np.zeros(topology.n_port if parameters.ns3 else 1, NS3_PORT)
    for name in ("poke_ps", "complete_ps", "timer_ps"):
        ns3_ports[name] = NEVER
    nic = Nic(
        queue_pairs=table,
        nic_ports=nic_ports,
        ready=np.zeros(n_ready + 1, np.int64),
        out_port=make_nodes(topology, plan, np.zeros(topology.n_node, np.int64))[1],
        messages=np.zeros(0, MESSAGE),
        control=control.words,
        event=control.event,
        law=law,
        ranges=np.zeros(0, RANGE),
        parts=_parts(pairs, plan.n_part),
        timers=timers,
        timer_pair=timer_pair,
        ns3_ports=ns3_ports,
        ns3_listed=np.zeros(len(table) if parameters.ns3 else 1, np.int32),
        acked_ps=np.zeros(len(table), np.int64),
        delivered_ps=np.zeros(len(table), np.int64),
        ended=np.zeros((len(table), 3), np.int64),
        flying=set_of(np.zeros(len(table), np.bool_)),
        active=set_of(np.ones(len(table), np.bool_)),
        frozen=set_of(np.zeros(len(table), np.bool_)),
        frozen_port=np.zeros(topology.n_port, np.uint8),
        interrupted=np.zeros(len(table), np.int32),
        interrupt_ps=np.full(len(table), NEVER, np.int64),
        lanes=aligned_zeros(len(table) if parameters.has_lanes else 1, state.LANE),
        lane_of_port=np.full(topology.n_port, -1, np.int32),
        lane_times=np.zeros((MAX_LANE_TIMES if parameters.has_lanes else 1, state.N_LANE_COLUMN), np.int64),
    )
    fabric.counters[state.FREE_MESSAGE] = fabric.counters[state.FREE_RANGE] = -1
    nic = grow_ranges(nic, fabric.counters, 1024 if fabric.constants[state.IS_SELECTIVE] else 1)
    return grow_messages(nic, fabric.counters, max(256, plan.burst + 2)), control


def grow_ranges(nic: Nic, counters: np.ndarray, n_range: int) -> Nic:
    """The same NIC state with a pool of n_range ranges, the new ones free."""
    n_old = len(nic.ranges)
    ranges = np.zeros(n_range, RANGE)
    ranges[:n_old] = nic.ranges
    ranges["next"][n_old:] = np.arange(n_old + 1, n_range + 1)
    ranges["next"][n_range - 1] = counters[state.FREE_RANGE]
    counters[state.FREE_RANGE] = n_old
    counters[state.N_FREE_RANGE] += n_range - n_old
    return nic._replace(ranges=ranges)
