"""A case of ns-3's RoCE simulator as plain values: network, flows, paths, and the config keys that the model knows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

DCQCN, HPCC, TIMELY, DCTCP = 1, 3, 7, 8  # CC_MODE
INT_BYTES = {HPCC: 42, TIMELY: 8}  # telemetry or time stamp in every header; 0 for the others
L2_BYTES, IPV4_BYTES, UDP_BYTES, SEQUENCE_BYTES, ACK_HEADER_BYTES = 14, 20, 8, 6, 12
MIN_ACK_BYTES = 60
PFC_BYTES = L2_BYTES + IPV4_BYTES + 9
FIRST_SPORT = 10000


@dataclass(frozen=True)
class Ns3Link:
    """A line of topology.txt. error_rate: the probability that a packet is lost, in either direction."""

    end_a: int
    end_b: int
    rate_bps: int
    delay_ns: int
    error_rate: float = 0.0


@dataclass(frozen=True)
class Ns3Flow:
    """A line of flow.txt: one message on a queue pair of its own. priority 0..7: its queue in switches."""

    src: int
    dst: int
    priority: int
    dport: int
    size_bytes: int
    start_ns: int


@dataclass(frozen=True)
class Ns3Config:
    """What config.txt says; the keys' names stand in `files.py`. Defaults: run.py's DCTCP at 100 Gbps."""

    congestion_control: int = DCTCP
    payload_bytes: int = 1000
    stop_ns: int = 4 * 10**9
    buffer_mib: int = 32
    pfc_is_heeded: bool = True
    """X_QBB_ENABLED: without it pauses are still sent, but nobody stops."""
    ecn_is_on: bool = True
    ecn_min_bytes: Mapping[int, int] = field(default_factory=lambda: {10**11: 300_000})
    """Whole kB, by link rate in bit/s, as the next two."""
    ecn_max_bytes: Mapping[int, int] = field(default_factory=lambda: {10**11: 300_000})
    ecn_max_probability: Mapping[int, float] = field(default_factory=lambda: {10**11: 1.0})
    has_window: bool = True
    window_follows_rate: bool = True
    window_is_global: bool = True
    """GLOBAL_T: window and base RTT are the largest of all pairs of hosts, not the flow's own."""
    is_paced_by_rate: bool = True
    """RATE_BOUND; without it packets are paced at line rate."""
    ack_ignores_pause: bool = False
    """ACK_HIGH_PRIO: at hosts; in switches ACKs always share their data's queue."""
    ack_interval_bytes: int = 1
    chunk_bytes: int = 4000
    back_to_zero: bool = False
    """A loss throws sender and receiver back to the start of the chunk."""
    min_rate_bps: int = 10**9
    gain: float = 0.0625
    rate_increase_bps: int = 10**7
    fast_rate_increase_bps: int = 10**7
    dctcp_rate_increase_bps: int = 615 * 10**6
    alpha_interval_us: int = 1
    decrease_interval_us: int = 4
    increase_interval_us: int = 300
    fast_recovery_times: int = 1
    clamps_target_rate: bool = False
    fast_react: bool = False
    target_utilisation: float = 0.95
    mi_threshold: int = 0
    int_multiplier: int = 1

    def __post_init__(self) -> None:
        if self.congestion_control not in (DCQCN, HPCC, TIMELY, DCTCP):
            raise ValueError(f"CC_MODE {self.congestion_control} is not in this twin. Accepted: 1, 3, 7, 8")
        if self.congestion_control == HPCC and not self.has_window:
            raise ValueError("HAS_WIN 0 with CC_MODE 3: HPCC divides by its window. Accepted: HAS_WIN 1")

    @property
    def data_header_bytes(self) -> int:
        """Bytes of a data packet besides its payload."""
        return L2_BYTES + IPV4_BYTES + UDP_BYTES + SEQUENCE_BYTES + INT_BYTES.get(self.congestion_control, 0)

    @property
    def ack_bytes(self) -> int:
        """Bytes of an ACK or NACK, padded to the least frame."""
        header_bytes = L2_BYTES + IPV4_BYTES + ACK_HEADER_BYTES + INT_BYTES.get(self.congestion_control, 0)
        return max(header_bytes, MIN_ACK_BYTES)


NextHops = dict[tuple[int, int], tuple[int, ...]]
"""{(switch, destination host): neighbours in table order}"""


@dataclass(frozen=True)
class Ns3Case:
    """One run. paths: for every flow the nodes of its data and of its ACKs, ends included."""

    n_node: int
    switches: tuple[int, ...]
    links: tuple[Ns3Link, ...]
    flows: tuple[Ns3Flow, ...]
    next_hops: NextHops
    paths: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    config: Ns3Config

    @property
    def hosts(self) -> list[int]:
        """Nodes that are no switch, ascending."""
        return sorted(set(range(self.n_node)) - set(self.switches))


def source_ports(flows: tuple[Ns3Flow, ...]) -> Iterator[int]:
    """The UDP source port of every flow: a running number for each (src, dst)."""
    n_used: dict[tuple[int, int], int] = {}
    for flow in flows:
        pair = flow.src, flow.dst
        yield FIRST_SPORT + n_used.get(pair, 0)
        n_used[pair] = n_used.get(pair, 0) + 1
