"""How the collectives of a communicator are planned; what is left open is chosen by size and topology."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from models.workload.nccl.transports import INFINIBAND, Transport

REDUCING = ("all-reduce", "reduce-scatter", "all-gather")
KINDS = (*REDUCING, "all-to-all", "broadcast", "ring")
REDUCING_ALGORITHMS = ("ring", "tree", "nvls", "hierarchical", "sharp")
EXCHANGE_ALGORITHMS = ("direct", "pairwise", "pxn")
ALGORITHMS = ("auto", *REDUCING_ALGORITHMS, *EXCHANGE_ALGORITHMS)
PROTOCOLS = ("auto", "LL", "LL128", "Simple")


@dataclass(frozen=True)
class CollectiveOptions:
    """Options of a communicator.

    algorithm: for the kinds that have it. of_kind: kind -> algorithm, before `algorithm`; protocol_of_kind alike.
    share: the communicator carries one of so many parts of each of its collectives; that many of them beside each other
    are channels.
    in_server: "timed" by `in_server`, or "packets" on the links of the topology. nvls None: where the GPU type has it.
    transports: of the members' servers; the one with which a collective takes longest counts.
    nic_goodput_bps: payload that a GPU's NIC carries at best; 0: not known, so that nothing is charged for what
    protocols leave unused of it. cross_rail_rings: see `Communicator`.
    """

    algorithm: str = "auto"
    of_kind: Mapping[str, str] = field(default_factory=dict)
    protocol: str = "auto"
    protocol_of_kind: Mapping[str, str] = field(default_factory=dict)
    share: int = 1
    in_server: str = "timed"
    nvls: bool | None = None
    transports: tuple[Transport, ...] = (INFINIBAND,)
    nic_goodput_bps: int = 0
    cross_rail_rings: bool = False

    def protocol_of(self, kind: str) -> str:
        """The protocol asked for."""
        return self.protocol_of_kind.get(kind, self.protocol)

    def algorithm_of(self, kind: str) -> str:
        """The algorithm asked for, if this kind has it; else "auto"."""
        asked = self.of_kind.get(kind, self.algorithm)
        known = EXCHANGE_ALGORITHMS if kind == "all-to-all" else REDUCING_ALGORITHMS
        return asked if asked in known else "auto"
