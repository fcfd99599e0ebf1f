"""What a user asks of NCCL in a training job, as NCCL_ALGO and NCCL_PROTO do; the rest is its own choice.

The planner is the one of collectives (`models.workload.nccl`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from models.workload.nccl.options import CollectiveOptions
from models.workload.nccl.transports import Transport

FAMILY = {
    "tp": "tp", "cp": "cp", "ep": "ep", "etp": "tp", "dp": "dp", "edp": "dp", "embedding": "dp", "shard": "dp",
    "copies": "dp",
}  # fmt: skip
"""Groups of a stage by the parallelism that a user knows."""


@dataclass(frozen=True)
class KindTuning:
    """Of one kind of collective. channels 0: one for each NIC. groups: of which parallelism; (): of all."""

    algorithm: str = "auto"
    protocol: str = "auto"
    channels: int = 0
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tuning:
    """Of all kinds; of_kind: "all-reduce", ... before that. nvls: as `CollectiveOptions` has it."""

    protocol: str = "auto"
    channels: int = 0
    nvls: bool | None = None
    of_kind: Mapping[str, KindTuning] = field(default_factory=dict)

    def _of(self, group: str) -> dict[str, KindTuning]:
        return {kind: one for kind, one in self.of_kind.items() if not one.groups or FAMILY[group] in one.groups}

    def options(self, group: str, transports: tuple[Transport, ...], nic_goodput_bps: int) -> CollectiveOptions:
        """Options of the communicators of a group."""
        own = self._of(group).items()
        return CollectiveOptions(
            of_kind={kind: one.algorithm for kind, one in own if one.algorithm != "auto"},
            protocol=self.protocol,
            protocol_of_kind={kind: one.protocol for kind, one in own if one.protocol != "auto"},
            nvls=self.nvls,
            transports=transports,
            nic_goodput_bps=nic_goodput_bps,
        )

    def n_channel(self, group: str, kind: str) -> int:
        """Channels of a collective of a group; 0: one for each NIC."""
        own = self._of(group).get(kind)
        return own.channels if own is not None and own.channels else self.channels
