"""The tables that have one form only: simulation, network, partition, wormhole, output."""

from typing import Annotated, Literal

from pydantic import Field

from pdes.config.fields import (
    AutoDuration,
    AutoRate,
    AutoSize,
    Count,
    OptionalDuration,
    Rate,
    Size,
    Table,
    WindowSize,
    only,
    quantity,
)

GBPS = 10**9
ECN_REFERENCE_RATE_BPS = 100 * GBPS  # ecn_kmin and ecn_kmax are given for a port of this rate and scale with it
AUTO_ECN_BYTES = 300_000  # HPCC repository, run.py: DCTCP marks above 3 KB per Gbit/s
AUTO_RATE_INCREASE_BPS_PER_GBPS = 6_150_000  # HPCC repository, run.py: 615 Mbps at 100 Gbps


class SimulationConfig(Table):
    """[simulation]: what is drawn, how often, and when to stop. stop_time_ps None: when nothing is left to do."""

    seed: int = Field(default=1, ge=0, le=2**63 - 1)
    iterations: Count = 1
    stop_time_ps: OptionalDuration = quantity(None, "stop_time")


class DctcpConfig(Table):
    """[network.dctcp]. rate_increase_bps None: "auto", in proportion to the line rate."""

    gain: float = Field(default=0.0625, gt=0, le=1)
    rate_increase_bps: AutoRate = quantity("auto", "rate_increase")
    min_rate_bps: Rate = quantity("1Gbps", "min_rate")

    def rate_increase_at(self, line_rate_bps: int) -> int:
        """Additive increase, bit/s, of a sender whose line rate is `line_rate_bps`."""
        if self.rate_increase_bps is not None:
            return self.rate_increase_bps
        return line_rate_bps * AUTO_RATE_INCREASE_BPS_PER_GBPS // GBPS


class NetworkConfig(Table):
    """[network]: packets, congestion control, marking. Thresholds None: "auto"."""

    congestion_control: Annotated[str, only("dctcp")] = "dctcp"
    compatibility: Annotated[str, only("none")] = "none"
    payload_bytes: Size = quantity("1000B", "payload")
    header_bytes: Size = quantity("48B", "header")
    ack_bytes: Size = quantity("60B", "ack")
    ecmp_seed: int = Field(default=0, ge=0, le=2**32 - 1)
    next_hops_file: str | None = None
    paths_file: str | None = None
    window: WindowSize = "max-bdp"
    ecn_kmin_bytes: AutoSize = quantity("auto", "ecn_kmin")
    ecn_kmax_bytes: AutoSize = quantity("auto", "ecn_kmax")
    ecn_pmax: float = Field(default=1.0, gt=0, le=1)
    dctcp: DctcpConfig = DctcpConfig()

    @property
    def window_kind(self) -> str:
        """ "max-bdp", "pair-bdp", or "fixed"."""
        return self.window if isinstance(self.window, str) else "fixed"

    @property
    def window_bytes(self) -> int:
        """The window if it is fixed, else 0."""
        return self.window if isinstance(self.window, int) else 0

    def ecn_thresholds_bytes(self, rate_bps: int) -> tuple[int, int]:
        """(kmin, kmax) of a port of this rate: the configured sizes hold at 100 Gbps and scale, rounded down."""
        kmin_bytes, kmax_bytes = (
            (AUTO_ECN_BYTES if size is None else size) * rate_bps // ECN_REFERENCE_RATE_BPS
            for size in (self.ecn_kmin_bytes, self.ecn_kmax_bytes)
        )
        return kmin_bytes, kmax_bytes


class PartitionConfig(Table):
    """[partition]. delay_threshold_ps None: "auto". The placement never changes a result."""

    delay_threshold_ps: AutoDuration = quantity("auto", "delay_threshold")
    placement: Literal["metis", "block", "round-robin"] = "metis"


class WormholeConfig(Table):
    """[wormhole]: fast-forwarding."""

    mode: Annotated[str, only("off")] = "off"


class OutputConfig(Table):
    """[output]. dir: relative to the folder in which the program runs."""

    dir: str = Field(default="results", min_length=1)
