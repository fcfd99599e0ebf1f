"""[network] and its tables: packets, congestion control, marking, buffers, pauses, scheduling, transport, loss.

What "auto" stands for depends on the topology and the congestion control, which only `pdes.scenario` knows. The tables
of congestion controls are kept as they are in the file: each control checks its own.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from pdes.config.fields import (
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
    PositiveDuration,
    Rate,
    Size,
    SizeFromZero,
    Table,
    WindowSize,
    only,
    quantity,
)
from pdes.config.routing import LinkEventConfig, PathConfig, RoutingConfig
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


class BufferConfig(Table):
    """[network.buffer]: memory that a switch's ports share. headroom_bytes, alpha None: "auto"."""

    size: BufferSize = "unlimited"
    alpha: AutoShare = Field(default=None)
    reserve_bytes: SizeFromZero = quantity("4096B", "reserve")
    headroom_bytes: AutoSizeFromZero = quantity("auto", "headroom")

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


class SchedulerConfig(Table):
    """[network.scheduler]: which of its data queues a switch's port serves next."""

    kind: Literal["strict", "round-robin", "weighted"] = "strict"
    weights: Annotated[dict[int, int], BeforeValidator(_weights)] = {}


class TransportConfig(Table):
    """[network.transport]: what queue pairs do about loss. timeout_ps, reorder_bytes None: "auto"."""

    recovery: Literal["go-back-n", "selective-repeat"] = "go-back-n"
    timeout_ps: AutoDuration = quantity("auto", "timeout")
    max_timeout_ps: PositiveDuration = quantity("64ms", "max_timeout")
    nack_interval_ps: Duration = quantity("500us", "nack_interval")
    ack_every: Count = 1
    cnp_interval_ps: Duration = quantity("0s", "cnp_interval")
    reorder_bytes: AutoSize = quantity("auto", "reorder")


class LossConfig(Table):
    """[network.loss]: random loss of links for which the topology's file gives none."""

    probability: Probability = 0.0


class Ns3Config(Table):
    """[network.ns3]: keys of an ns-3 config.txt that have no meaning outside compatibility = "ns3-hpcc"."""

    ack_high_priority: bool = True
    chunk_bytes: Size = quantity("4000B", "chunk")
    ack_interval_bytes: SizeFromZero = quantity("1B", "ack_interval")
    back_to_zero: bool = False
    ignore_pfc: bool = False
    int_multi: Count = 1
    rate_bound: bool = True


class NetworkConfig(Table):
    """[network]. None: "auto". transport, ns3 None: the file has no such table."""

    congestion_control: str = Field(default="dctcp", min_length=1)
    compatibility: Literal["none", "ns3-hpcc"] = "none"
    constants: str = Field(default="run.py", min_length=1)
    payload_bytes: Size = quantity("1000B", "payload")
    header_bytes: Size = quantity("48B", "header")
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

    @property
    def law_table(self) -> str:
        """The key, below [network], of the table with the congestion control's parameters."""
        return self.congestion_control if self.congestion_control in LAW_TABLES else "parameters"

    def law_parameters(self) -> dict[str, Parameters]:
        """The tables of congestion controls that hold something, by the control's name; the chosen one always."""
        tables = {name: getattr(self, attribute) for name, attribute in LAW_TABLES.items()}
        tables[self.congestion_control] = tables.get(self.congestion_control, self.parameters)
        return {name: table for name, table in tables.items() if table or name == self.congestion_control}
