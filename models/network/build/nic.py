"""Queue pairs, their congestion control, NIC ports and timers of one rank, before anything has happened."""

from typing import Any

import numpy as np

from models.congestion.interface import N_EVENT_WORD
from models.congestion.law import Handlers, Law
from models.network.build.arrays import QueuePairs, grow_messages, make_nodes
from models.network.host.visits import set_of
from models.network.state import records as state
from models.network.state.pair_facts import PairFacts
from models.network.state.pair_records import MESSAGE, NO_WINDOW, QUEUE_PAIR, RANGE, RECEIVER
from models.network.state.parameters import NetworkParameters
from models.network.state.records import N_POSTED_COLUMN, NIC_PORT, NS3_PORT, Nic
from models.topology.graph import Topology
from models.workload.plan import WorkloadPlan
from pdes.engine.bits import n_set_word
from pdes.engine.foreign import call5
from pdes.engine.jit import aligned_zeros, kernel, zeros_for
from pdes.engine.time_index import NEVER
from pdes.errors import ConfigError

MAX_WINDOW_BYTES, MAX_RATE_BPS = 2**37, 2**42  # what `sender.window_at` can multiply


def line_rates(topology: Topology, facts: np.ndarray) -> np.ndarray:
    """int64[]: the rates of the ports that queue pairs send on, ascending, each once. Raises ConfigError.

    facts: PAIR_FACTS[n_qp].
    """
    is_used = np.zeros(topology.n_port, np.bool_)
    is_used[facts["port"]] = True
    rates_bps, most_bytes = np.unique(topology.port_rate_bps[is_used]), int(facts["max_window_bytes"].max(initial=0))
    if most_bytes >= MAX_WINDOW_BYTES:
        raise ConfigError("[network] window", f"{most_bytes} B", f"Accepted: below {MAX_WINDOW_BYTES} B")
    if len(rates_bps) and rates_bps[-1] >= MAX_RATE_BPS:
        raise ConfigError("[topology]", f"a host's link of {int(rates_bps[-1])} bit/s", f"below {MAX_RATE_BPS} bit/s")
    return rates_bps


def make_queue_pairs(topology: Topology, facts: np.ndarray, rates_bps: np.ndarray, own: np.ndarray) -> np.ndarray:
    """QUEUE_PAIR records at line rate with full windows, nothing posted; zeros outside `own`.

    facts: PAIR_FACTS[n_qp]. rates_bps: `line_rates`. own: int64[], queue pairs of this rank's senders, all of a host.
    """
    table, mine = zeros_for(len(own), len(facts), QUEUE_PAIR), facts[own]
    line_bps, window = topology.port_rate_bps[mine["port"]], mine["max_window_bytes"]
    values = {
        "rate_bps": line_bps, "line_rate_bps": line_bps, "max_window_bytes": window,
        "window_bytes": np.where(window > 0, window, NO_WINDOW), "first_message": -1, "sending_message": -1,
        "last_message": -1, "check_ps": NEVER, "deadline_ps": NEVER, "sacked_range": -1, "port": mine["port"],
        "node": mine["node"], "data_path": mine["data_path"], "queue": mine["queue"],
        "law_row": np.searchsorted(rates_bps, line_bps), "timer_leaf": _rank_within(mine["node"]),
    }  # fmt: skip
    for name, value in values.items():
        table[name][own] = value
    return table


def make_receivers(facts: np.ndarray, receiver_row: np.ndarray, own: np.ndarray) -> np.ndarray:
    """RECEIVER records, nothing arrived; zeros but for `own`: int64[], queue pairs of this rank's receivers."""
    table, rows = zeros_for(len(own), len(facts), RECEIVER), receiver_row[own]
    table["held_range"][rows] = table["early_end"][rows] = -1
    table["ack_path"][rows], table["waiting_stream"][rows] = facts["ack_path"][own], facts["waiting_stream"][own]
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
        self, law: Law, parameters: np.ndarray, table: np.ndarray, payload_bytes: int, rtt_ps: Any, own: np.ndarray
    ) -> None:
        """own: int64[], the rows of queue pairs that send here. parameters: of each rate of a port (`line_rates`)."""
        self.law, self.handlers, self.parameters = law, law.compile(), parameters
        self.flows = law.make_flows(len(table), own)
        for name in ("rate_bps", "line_rate_bps", "max_window_bytes"):
            self.flows[name][own] = table[name][own]
        self.flows["window_bytes"][own], self.flows["base_rtt_ps"][own] = table["max_window_bytes"][own], rtt_ps
        self.flows["payload_bytes"][own] = payload_bytes
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

    def start(self, law: np.ndarray, table: np.ndarray, own: np.ndarray) -> None:
        """Run the control's `start` for every queue pair of `own`, and take over what it sets. Raises ConfigError."""
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


def make_nic_ports(topology: Topology, pairs: QueuePairs, here: np.ndarray, is_ns3: bool) -> tuple[np.ndarray, int]:
    """NIC_PORT records, and how many words their ready sets take; zeros where no host of this rank sends.

    here: bool[n_node], this rank's nodes.
    """
    own = np.flatnonzero(here[topology.port_src] & ~topology.is_switch[topology.port_src])
    nic_ports = zeros_for(topology.n_port if here.all() else len(own), topology.n_port, NIC_PORT)
    n_pair = np.bincount(pairs.port, minlength=topology.n_port)
    words = np.maximum(1, n_set_word(n_pair))  # one is always read
    values = {
        "next_start_ps": NEVER, "last_served": 0 if is_ns3 else -1, "n_pair": n_pair[own],
        "first_pair": (np.cumsum(n_pair) - n_pair)[own], "first_ready": (np.cumsum(words) - words)[own],
    }  # fmt: skip
    for name, value in values.items():
        nic_ports[name][own] = value
    return nic_ports, int(words.sum())


def make_timers(
    nodes: np.ndarray, facts: np.ndarray, table: np.ndarray, own: np.ndarray, is_timed: bool
) -> tuple[np.ndarray, np.ndarray]:
    """(trees, queue pairs of their leaves), and where they are into NODE. nodes: written.

    own: int64[], queue pairs of this rank's senders; trees of others are zeros.
    """
    if not is_timed or len(table) == 0:
        return np.zeros(1, np.int64), np.zeros(1, np.int32)
    count = np.bincount(facts["node"], minlength=len(nodes))
    leaves = np.array([1 << max(0, int(n) - 1).bit_length() if n else 0 for n in count], np.int64)
    nodes["n_timer"] = leaves
    nodes["first_timer"] = np.cumsum(2 * leaves) - 2 * leaves
    here = np.unique(facts["node"][own])
    n_place, n_own = int(2 * leaves.sum()), 2 * leaves[here]
    trees, pair_of_leaf = zeros_for(int(n_own.sum()), n_place, np.int64), zeros_for(len(own), n_place, np.int32)
    trees[np.repeat(nodes["first_timer"][here] - (np.cumsum(n_own) - n_own), n_own) + np.arange(n_own.sum())] = NEVER
    pair_of_leaf[nodes["first_timer"][facts["node"][own]] + table["timer_leaf"][own]] = own
    return trees, pair_of_leaf


def make_nic(
    topology: Topology,
    pairs: QueuePairs,
    shared: PairFacts,
    plan: WorkloadPlan,
    parameters: NetworkParameters,
    fabric: state.Fabric,
    here: np.ndarray,
) -> tuple[Nic, Control]:
    """NIC state of one rank, and the control that its addresses point into. here: bool[n_node], this rank's nodes."""
    facts, rates_bps = shared.facts, line_rates(topology, shared.facts)
    own, received = np.flatnonzero(here[facts["node"]]), np.flatnonzero(here[facts["receiver"]])
    n_pair, n_own = len(facts), len(own)
    table = make_queue_pairs(topology, facts, rates_bps, own)
    rtt_ps = 0 if parameters.base_rtt_ps is None else parameters.base_rtt_ps[pairs.pair_of_row[own]]
    of_law = _law_parameters(parameters, rates_bps)
    table["law_row"][own] += _law_sets(parameters, n_pair)[pairs.pair_of_row[own]] * len(rates_bps)
    control = Control(parameters.law, of_law, table, parameters.payload_bytes, rtt_ps, own)
    law = control.law_words()
    control.start(law, table, own)
    is_timed = control.handlers.on_timer != 0 or (parameters.transport is not None and parameters.ns3 is None)
    timers, timer_pair = make_timers(fabric.nodes, facts, table, own, is_timed)
    interrupt_ps = zeros_for(n_own, n_pair, np.int64)
    interrupt_ps[own] = NEVER
    nic_ports, n_ready = make_nic_ports(topology, pairs, here, parameters.ns3 is not None)
    ns3_ports = np.zeros(topology.n_port if parameters.ns3 else 1, NS3_PORT)
    for name in ("poke_ps", "complete_ps", "timer_ps"):
        ns3_ports[name] = NEVER
    nic = Nic(
        queue_pairs=table,
        receivers=make_receivers(facts, shared.receiver_row, received),
        receiver_row=shared.receiver_row,
        facts=facts,
        sends=own.astype(np.int32),
        receives=np.sort(shared.receiver_row[received]),
        nic_ports=nic_ports,
        ready=np.zeros(n_ready + 1, np.int64),
        out_port=make_nodes(topology, plan, np.zeros(topology.n_node, np.int64))[1],
        messages=np.zeros(0, MESSAGE),
        posted=np.zeros((0 if parameters.flow else 1, N_POSTED_COLUMN), np.int64),
        goes=np.zeros(n_pair if parameters.is_hybrid else 1, np.uint8),
        control=control.words,
        event=control.event,
        law=law,
        ranges=np.zeros(0, RANGE),
        parts=shared.parts,
        timers=timers,
        timer_pair=timer_pair,
        ns3_ports=ns3_ports,
        ns3_listed=zeros_for(n_own, n_pair, np.int32) if parameters.ns3 else np.zeros(1, np.int32),
        acked_ps=zeros_for(n_own, n_pair, np.int64),
        delivered_ps=zeros_for(len(received), n_pair, np.int64),
        ended=zeros_for(3 * n_own, 3 * n_pair, np.int64).reshape(-1, 3),
        withdrawn=set_of(np.zeros(n_pair, np.bool_)),
        unseen=set_of(np.zeros(n_pair, np.bool_)),
        active=set_of(here[facts["node"]]),
        frozen=set_of(np.zeros(n_pair, np.bool_)),
        is_frozen=zeros_for(0, n_pair, np.uint8),
        frozen_port=np.zeros(topology.n_port, np.uint8),
        interrupted=zeros_for(0, n_pair, np.int32),
        interrupt_ps=interrupt_ps,
        fluid=aligned_zeros(n_pair if parameters.has_fluid else 1, state.FLUID),
        fluid_port=np.full(topology.n_port, -1, np.int32),
    )
    fabric.counters[state.FREE_MESSAGE] = fabric.counters[state.FREE_RANGE] = -1
    nic = grow_ranges(nic, fabric.counters, 1024 if fabric.constants[state.IS_SELECTIVE] else 1)
    return grow_messages(nic, fabric.counters, max(256, plan.burst + 2)), control


def _law_parameters(parameters: NetworkParameters, rates_bps: np.ndarray) -> np.ndarray:
    """A record for each rate of a port (`line_rates`), of each set of values."""
    law, values = parameters.law, parameters.law_values or parameters.law.parameter_values({})
    sets = [own for own, _ in parameters.law_sets] or [values]
    return np.concatenate([law.make_parameters(own, rates_bps) for own in sets])


def _law_sets(parameters: NetworkParameters, n_pair: int) -> np.ndarray:
    """int64[n_pair], plan's order: which set of values of the control a queue pair has."""
    counts = [n for _, n in parameters.law_sets] or [n_pair]
    return np.repeat(np.arange(len(counts)), counts)


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
