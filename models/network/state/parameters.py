"""What the network model is told besides topology, paths and workload: plain units, one value or one array per port.

The defaults are a network without loss: unlimited buffers, one data class, no pauses. Who reads a config into this is
`pdes.scenario`; who turns it into state is `build`.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from models.congestion.law import Law, find_law
from models.topology.graph import Topology
from pdes.skipping.max_min.table import WHOLE, Use

NO_MARKING = 2**31 - 1  # an ecn_min_bytes that no queue passes

STRICT, ROUND_ROBIN, WEIGHTED = range(3)  # how a switch's port chooses among its data queues
GO_BACK_N, SELECTIVE_REPEAT = range(2)
WINDOW_FOLLOWS_RATE, WINDOW_FIXED = range(2)  # a law with `controls_window` sets it itself instead


@dataclass(frozen=True)
class BufferParameters:
    """A switch's shared buffer with dynamic thresholds, and PFC. Arrays are per port that leads into a switch."""

    size_bytes: np.ndarray  # int64[n_node]  0: a host
    alpha_1024: np.ndarray  # int64[n_port]  share of the free pool that one queue may take, in 1/1024
    headroom_bytes: np.ndarray  # int64[n_port]  per queue that PFC protects; all 0 without PFC
    reserve_bytes: int = 4096  # per port and queue
    pfc: bool = True
    pfc_bytes: int = 43
    resume_offset_bytes: int = 3072


@dataclass(frozen=True)
class TransportParameters:
    """Loss recovery and acknowledgements of queue pairs."""

    recovery: int = GO_BACK_N
    timeout_ps: int = 10**9  # retransmission timeout, doubled each time nothing came
    max_timeout_ps: int = 64 * 10**9
    reorder_bytes: int = 0  # selective repeat: how far behind the highest byte received a hole counts as lost
    nack_interval_ps: int = 500 * 10**6  # a NACK for the same byte again only after this
    ack_every: int = 1  # data packets per ACK
    cnp_interval_ps: int = 0  # least time between two CNPs of a queue pair


@dataclass(frozen=True)
class Ns3Quirks:
    """What `compatibility = "ns3-hpcc"` takes from an ns-3 config beyond the rest (MODEL.md sections 4, 5, 7, 10)."""

    ack_queue_mask: int = 0  # ACK_HIGH_PRIO 0: bit of priority 3's queue, whose pause then stops a host's ACKs
    chunk_bytes: int = 4000  # L2_CHUNK_SIZE
    ack_interval_bytes: int = 1  # L2_ACK_INTERVAL
    back_to_zero: bool = False
    ignore_pfc: bool = False  # X_QBB_ENABLED 0: frames are sent, and ignored where they arrive
    int_multi: int = 1
    rate_bound: bool = True  # RATE_BOUND 0: packets are paced at the line rate


ECMP, SPRAY, FLOWLET, ADAPTIVE, WEIGHTED_ECMP = range(5)  # how switches choose among next hops of equal distance
BY_FLOW = (ECMP, WEIGHTED_ECMP)  # policies that send all packets of a flow one way, while no link changes


@dataclass(frozen=True)
class LinkChange:
    """From time_ps on a port and the one back have this rate and this loss, or carry nothing."""

    time_ps: int
    port: int
    rate_bps: int
    loss_probability: float = 0.0
    is_up: bool = True


@dataclass(frozen=True)
class RoutingParameters:
    """Switches that look up the next hop of each packet, instead of paths fixed beforehand."""

    policy: int = ECMP  # of data packets; ACKs take ECMP
    ecmp_seed: int = 0
    flowlet_gap_ps: int = 50 * 10**6
    n_flowlet: int = 4096  # places of a switch's flowlet table
    fixed_pair: np.ndarray | None = None  # bool[n_pair], plan's order: keeps its given path
    header: np.ndarray | None = None  # int64[n_pair, 4]  (src, dst, sport, dport), plan's order
    convergence_ps: int = 10**9  # from a link's change until all switches route by it


@dataclass(frozen=True)
class FlowParameters:
    """A network without packets. Times of a message besides its bytes and the links' delays: what is modelled."""

    fracs: tuple[float, float] = (1.0, 1.0)  # of a port's rate: what one message has alone, what several have
    use: Use = WHOLE  # of a port for which messages contend
    weight: np.ndarray | None = None  # float64[n_pair], plan's order; None: 1, as many times what others get
    queue_ps: float = 0.0  # how long a message's last packet waits at a port which messages share
    forwards: bool = True  # one packet is stored and forwarded at all ports but the slowest
    acknowledges: bool = True  # the acknowledgement goes back
    facts: dict[str, Any] = field(default_factory=dict)  # where the numbers come from, for people and results
    trusts: tuple[bool, bool, bool] | None = None  # hybrid: see `hybrid`; None: there are no packets at all
    audited: float = 0.0  # share of the time in which messages go as packets, to compare; above 0: in a hybrid


@dataclass(frozen=True)
class NetworkParameters:
    """What the network model takes from the config."""

    payload_bytes: int = 1000
    header_bytes: int = 48  # of a data packet, with what the law adds
    ack_bytes: int = 60
    seed: int = 1
    ecn_min_bytes: np.ndarray | None = None  # int64[n_port], NO_MARKING: no marks; default: the law's, scaled
    ecn_max_bytes: np.ndarray | None = None
    ecn_max_probability: float | np.ndarray | None = None
    law: Law = field(default_factory=lambda: find_law("dctcp"))
    law_values: dict[str, Any] = field(default_factory=dict)  # of `Law.parameter_values`; {}: its defaults
    law_sets: tuple[tuple[dict[str, Any], int], ...] = ()  # of experiments in one network: such values, and of how
    # many queue pairs, in plan's order
    window_mode: int = WINDOW_FOLLOWS_RATE
    base_rtt_ps: np.ndarray | None = None  # int64[n_pair], plan's order; what the law is told
    pair_queue: np.ndarray | None = None  # int64[n_pair], plan's order: 1 .. n_queue - 1, a lower number goes first
    n_queue: int = 2  # of a port; queue 0 is for ACKs, and in ns-3 mode for PFC frames and priority 0
    scheduler: int = STRICT
    queue_weight: tuple[int, ...] = ()  # WEIGHTED: for each queue, packets' worth of bytes per turn; queue 0 unused
    buffer: BufferParameters | None = None  # None: unlimited
    loss_probability: np.ndarray | None = None  # float64[n_port]  random loss of what a port sends
    transport: TransportParameters | None = None  # None: nothing can be lost, so nothing is timed
    routing: RoutingParameters | None = None  # None: every pair keeps its path
    link_changes: tuple[LinkChange, ...] = ()
    ns3: Ns3Quirks | None = None
    rtt_flow: int = -1  # flow whose packets' round-trip times are kept; -1: none
    may_skip: bool = False  # fast-forwarding is on
    has_fluid: bool = False  # messages may go at flow level, see `models.network.host.fluid`
    has_shares: bool = False  # and at shares that are known, see `pdes.skipping.fluid.shares`
    flow: FlowParameters | None = None  # messages go at max-min fair rates, see `models.network.flow_mode`

    @property
    def is_by_packet(self) -> bool:
        """Whether packets of one flow may go different ways while no link changes."""
        return self.routing is not None and self.routing.policy not in BY_FLOW

    @property
    def is_hybrid(self) -> bool:
        """Whether some messages go at max-min fair rates, others as packets."""
        return self.flow is not None and self.flow.trusts is not None

    @property
    def has_packets(self) -> bool:
        """Whether messages may go as packets."""
        return self.flow is None or self.is_hybrid


def used_ports(topology: Topology, path_port: np.ndarray, parameters: NetworkParameters) -> np.ndarray:
    """Ports that may carry something, bool[n_port]. path_port: all that are on some path, in any order.

    PFC frames go the way back. Where switches choose the ways, all ports may.
    """
    used = np.full(topology.n_port, parameters.routing is not None)
    used[path_port] = True
    has_pfc = parameters.buffer is not None and parameters.buffer.pfc
    return used | used[topology.port_peer] if has_pfc else used
