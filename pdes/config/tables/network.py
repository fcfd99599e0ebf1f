"""[network] and its tables: packets, congestion control, marking, buffers, pauses, scheduling, transport, loss.

What "auto" stands for depends on the topology and the congestion control, which only `pdes.scenario` knows. The tables
of congestion controls are kept as they are in the file: each control checks its own.
"""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from pdes.config.tables.fields import (
    AutoBool,
    AutoDuration,
    AutoProbability,
    AutoShare,
    AutoSize,
    AutoSizeFromZero,
    BufferSize,
    CheckInterval,
    Count,
    Duration,
    FieldError,
    Meaning,
    PositiveDuration,
    Rate,
    Size,
    SizeFromZero,
    Table,
    WindowSize,
    only,
    quantity,
)
from pdes.config.tables.routing import LinkEventConfig, PathConfig, RoutingConfig
from pdes.units import shown

N_PRIORITY = 8
ECN_REFERENCE_RATE_BPS = 100 * 10**9  # ecn_kmin and ecn_kmax are given for a port of this rate and scale with it
DEADLOCK_CHECK_PS = 10**9
LAW_TABLES = {  # of the built-in congestion controls: table in the file -> attribute
    "dctcp": "dctcp",
    "dcqcn": "dcqcn",
    "hpcc": "hpcc",
    "hpcc-pint": "hpcc_pint",
    "timely": "timely",
    "swift": "swift",
    "fixed-window": "fixed_window",
    "none": "none",
    "nscc": "nscc",
}
Priority = Annotated[int, Field(ge=0, le=N_PRIORITY - 1)]
Probability = Annotated[float, Field(ge=0, le=1)]
Parameters = dict[str, Any]


def _weights(value: object) -> object:
    """{priority: packets per turn} with the priorities as numbers; a TOML key is always text."""
    weights = {}
    for key, weight in value.items() if isinstance(value, dict) else ():
        if str(key) not in map(str, range(N_PRIORITY)) or type(weight) is not int or not 1 <= weight <= 2**20:
            found = f"found {shown(key)} = {shown(weight)}"
            raise FieldError(found, "Accepted: priorities 0 to 7, each with a whole number from 1 to 1048576")
        weights[int(key)] = weight
    return weights if isinstance(value, dict) else value


class EcnRateConfig(Table):
    """One [[network.ecn_rate]]: the thresholds of ports of this rate, as they are."""

    rate_bps: Rate = Field(alias="rate")
    kmin_bytes: SizeFromZero = Field(alias="kmin")
    kmax_bytes: SizeFromZero = Field(alias="kmax")
    pmax: Probability = 1.0
    MEANING: ClassVar[Meaning] = {
        "rate_bps": "of the ports that have these thresholds",
        "kmin_bytes": "queue at or below which nothing is marked",
        "kmax_bytes": "queue above which every packet is marked",
        "pmax": "probability of a mark at kmax; it grows linearly from kmin",
    }


class BufferConfig(Table):
    """[network.buffer]: memory that a switch's ports share. headroom_bytes, alpha None: "auto"."""

    size: BufferSize = "unlimited"
    alpha: AutoShare = Field(default=None)
    reserve_bytes: SizeFromZero = quantity("4096B", "reserve")
    headroom_bytes: AutoSizeFromZero = quantity("auto", "headroom")
    MEANING: ClassVar[Meaning] = {
        "size": "memory that a switch's ports share; auto: 16 MiB per 50 Gbps of the hosts' rate",
        "alpha": (
            "share of the free pool that a queue may take (dynamic threshold); auto: 1/8, twice that per "
            "halving to the hosts' rate"
        ),
        "reserve_bytes": "of each queue of each ingress port, not shared",
        "headroom_bytes": (
            "for what arrives after a pause was sent; auto: 2 x delay x rate + 3 packets + a PFC frame per queue"
        ),
    }

    @property
    def is_limited(self) -> bool:
        """Can packets find the buffer full?"""
        return self.size != "unlimited"


class PfcConfig(Table):
    """[network.pfc]: pauses. enabled None: "auto", if the buffer is limited."""

    enabled: AutoBool = None
    frame_bytes: Size = quantity("43B", "frame")
    resume_offset_bytes: SizeFromZero = quantity("3072B", "resume_offset")
    deadlock_check: CheckInterval = "auto"
    MEANING: ClassVar[Meaning] = {
        "enabled": "whether switches pause their senders; auto: with a limited buffer",
        "frame_bytes": "of a pause on the wire",
        "resume_offset_bytes": "how far below its threshold a queue must be before its sender may go on",
        "deadlock_check": (
            "how often to look for circles of pauses, in simulated time; auto: 1 ms, never by ns-3's rules"
        ),
    }


class SchedulerConfig(Table):
    """[network.scheduler]: which of its data queues a switch's port serves next."""

    kind: Literal["strict", "round-robin", "weighted"] = "strict"
    weights: Annotated[dict[int, int], BeforeValidator(_weights)] = {}
    MEANING: ClassVar[Meaning] = {
        "kind": "how a port chooses among its data queues, one per priority in use",
        "weights": "kind weighted: {priority: full packets per turn}; 1 for those not named",
    }


class TransportConfig(Table):
    """[network.transport]: what queue pairs do about loss. timeout_ps, reorder_bytes None: "auto"."""

    recovery: Literal["go-back-n", "selective-repeat"] = "go-back-n"
    timeout_ps: AutoDuration = quantity("auto", "timeout")
    max_timeout_ps: PositiveDuration = quantity("64ms", "max_timeout")
    nack_interval_ps: Duration = quantity("500us", "nack_interval")
    ack_every: Count = 1
    cnp_interval_ps: Duration = quantity("0s", "cnp_interval")
    reorder_bytes: AutoSize = quantity("auto", "reorder")
    MEANING: ClassVar[Meaning] = {
        "recovery": "what a queue pair does about loss",
        "timeout_ps": (
            "retransmission timeout, doubled each time nothing came; auto: 1 ms, 64 ms where PFC is on "
            "and links lose nothing"
        ),
        "max_timeout_ps": "the most that the timeout is doubled to",
        "nack_interval_ps": "a NACK for the same byte again only after this",
        "ack_every": "data packets per acknowledgement",
        "cnp_interval_ps": "least time between two congestion notifications of a queue pair",
        "reorder_bytes": (
            "selective repeat: how far behind the newest byte a hole counts as lost; auto: 0 where "
            "packets keep to one path, else the window"
        ),
    }


class LossConfig(Table):
    """[network.loss]: random loss of links for which the topology's file gives none."""

    probability: Probability = 0.0
    MEANING: ClassVar[Meaning] = {
        "probability": "that a packet is lost on a link, for links to which the topology gives none",
    }


class Ns3Config(Table):
    """[network.ns3]: keys of an ns-3 config.txt that have no meaning outside compatibility = "ns3-hpcc"."""

    ack_high_priority: bool = True
    chunk_bytes: Size = quantity("4000B", "chunk")
    ack_interval_bytes: SizeFromZero = quantity("1B", "ack_interval")
    back_to_zero: bool = False
    ignore_pfc: bool = False
    int_multi: Count = 1
    rate_bound: bool = True
    MEANING: ClassVar[Meaning] = {
        "ack_high_priority": "ACK_HIGH_PRIO: acknowledgements go before data",
        "chunk_bytes": "L2_CHUNK_SIZE",
        "ack_interval_bytes": "L2_ACK_INTERVAL, which ns-3 compares with bytes",
        "back_to_zero": "L2_BACK_TO_ZERO: a NACK goes back to the begin of the chunk",
        "ignore_pfc": "X_QBB_ENABLED 0: pauses are counted and not obeyed",
        "int_multi": "INT_MULTI: the unit of telemetry's counters",
        "rate_bound": "RATE_BOUND: packets are paced by the rate",
    }


class NetworkConfig(Table):
    """[network]. None: "auto". transport, ns3 None: the file has no such table."""

    congestion_control: str = Field(default="dctcp", min_length=1)
    compatibility: Literal["none", "ns3-hpcc"] = "none"
    constants: str = Field(default="run.py", min_length=1)
    payload_bytes: Size = quantity("1000B", "payload")
    header_bytes: SizeFromZero = quantity("48B", "header")
    ack_bytes: Size = quantity("60B", "ack")
    ack_class: Annotated[str, only("own")] = "own"
    priority: Priority = 3
    ecmp_seed: int = Field(default=0, ge=0, le=2**32 - 1)
    next_hops_file: str | None = None
    paths_file: str | None = None
    switch_latency_ps: Duration = quantity("0s", "switch_latency")
    window: WindowSize = "auto"
    window_follows_rate: bool = True
    base_rtt: Literal["auto", "max", "pair"] = "auto"
    ecn: AutoBool = None
    ecn_kmin_bytes: AutoSize = quantity("auto", "ecn_kmin")
    ecn_kmax_bytes: AutoSize = quantity("auto", "ecn_kmax")
    ecn_pmax: AutoProbability = None
    ecn_rate: list[EcnRateConfig] = []
    buffer: BufferConfig = BufferConfig()
    pfc: PfcConfig = PfcConfig()
    scheduler: SchedulerConfig = SchedulerConfig()
    transport: TransportConfig | None = None
    loss: LossConfig = LossConfig()
    routing: RoutingConfig = RoutingConfig()
    path: list[PathConfig] = []
    link_event: list[LinkEventConfig] = []
    ns3: Ns3Config | None = None
    parameters: Parameters = {}
    dctcp: Parameters = {}
    dcqcn: Parameters = {}
    hpcc: Parameters = {}
    hpcc_pint: Parameters = Field(default={}, alias="hpcc-pint")
    timely: Parameters = {}
    swift: Parameters = {}
    fixed_window: Parameters = Field(default={}, alias="fixed-window")
    none: Parameters = {}
    nscc: Parameters = {}
    MEANING: ClassVar[Meaning] = {
        "congestion_control": (
            "a built-in one (dctcp, dcqcn, hpcc, hpcc-pint, timely, swift, nscc, fixed-window, none), or "
            'yours: "file.py:Class"'
        ),
        "compatibility": "by whose rules packets go: ours, or ns-3's (HPCC), quirk by quirk",
        "constants": (
            'of the congestion control: "run.py", the HPCC repository\'s, scaled to the line rate; or "paper"'
        ),
        "payload_bytes": "of a full data packet",
        "header_bytes": "of a data packet, besides what the congestion control adds",
        "ack_bytes": "of an acknowledgement; more, if it echoes telemetry",
        "ack_class": "acknowledgements have a class of strict priority",
        "priority": "of traffic that names none; 7 is the highest",
        "ecmp_seed": "of the hash by which switches choose among equal ways",
        "next_hops_file": "ns-3's nexthops.txt: the next hops of every switch, relative to the config",
        "paths_file": "paths of all pairs of hosts, relative to the config",
        "switch_latency_ps": "of every packet in a switch, before it queues",
        "window": (
            "of a queue pair: as the control asks, the largest or the pair's own bandwidth-delay product, "
            "none, or a size"
        ),
        "window_follows_rate": "the window is in proportion to the rate; false: always the whole window",
        "base_rtt": (
            'that the control is told: the largest of all pairs, the pair\'s own; auto: own with window = "pair-bdp"'
        ),
        "ecn": "whether switches mark packets; auto: if the control heeds marks",
        "ecn_kmin_bytes": (
            "queue at or below which nothing is marked, at 100 Gbps, scaled to each port's rate; auto: the control's"
        ),
        "ecn_kmax_bytes": (
            "queue above which every packet is marked, at 100 Gbps, scaled to each port's rate; auto: the control's"
        ),
        "ecn_pmax": "probability of a mark at ecn_kmax; auto: the control's",
        "ecn_rate": "thresholds of ports of one rate, as they are",
        "buffer": "shared memory of a switch",
        "pfc": "pauses (priority flow control)",
        "scheduler": "which queue a port serves next",
        "transport": "what queue pairs do about loss; defaults hold where packets can be lost",
        "loss": "random loss on links",
        "routing": "how switches choose a way",
        "path": "fixed paths between two hosts",
        "link_event": "links that change during the run",
        "ns3": "keys of ns-3's config.txt that have no other meaning",
        "parameters": "of a congestion control of your own: what its class declares",
        "dctcp": "parameters of DCTCP",
        "dcqcn": "parameters of DCQCN",
        "hpcc": "parameters of HPCC",
        "hpcc_pint": "parameters of HPCC-PINT",
        "timely": "parameters of TIMELY",
        "swift": "parameters of Swift",
        "fixed_window": "parameters of a fixed window",
        "none": "parameters of no control at all: there are none",
        "nscc": "parameters of NSCC",
    }

    @property
    def is_ns3(self) -> bool:
        """Are ns-3's rules asked for?"""
        return self.compatibility == "ns3-hpcc"

    @property
    def has_pfc(self) -> bool:
        """Do switches send pauses?"""
        return self.buffer.is_limited if self.pfc.enabled is None else self.pfc.enabled

    @property
    def deadlock_check_ps(self) -> int | None:
        """How often to look for deadlocks while the network runs; None: never. "auto": ns-3 would run on."""
        check = self.pfc.deadlock_check
        if check == "auto":
            check = "off" if self.is_ns3 else DEADLOCK_CHECK_PS
        return check if self.has_pfc and isinstance(check, int) else None

    def law_parameters(self) -> dict[str, Parameters]:
        """The tables of congestion controls that hold something, by the control's name; the chosen one always."""
        tables = {name: getattr(self, attribute) for name, attribute in LAW_TABLES.items()}
        tables[self.congestion_control] = tables.get(self.congestion_control, self.parameters)
        return {name: table for name, table in tables.items() if table or name == self.congestion_control}
