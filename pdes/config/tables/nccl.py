"""[workload.nccl] of a training job: what NCCL is told about algorithms, protocols and channels. Keys only."""

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from pdes.config.tables.fields import AutoBool, FieldError, Meaning, Table
from pdes.units import shown

GROUPS = ("tp", "dp", "ep")
Protocol = Literal["auto", "LL", "LL128", "Simple"]
Channels = Annotated[int, Field(ge=1, le=64)]


def _groups(value: object) -> object:
    if isinstance(value, list | tuple) and value and set(value) <= set(GROUPS) and len(set(value)) == len(value):
        return tuple(value)
    raise FieldError(f"found {shown(value)}", f"Accepted: a list of {', '.join(map(shown, GROUPS))}, each once")


class KindConfig(Table):
    """[workload.nccl.KIND]: one kind of collective, of all parallelisms or of `groups`. channels None: see above it."""

    protocol: Protocol = "auto"
    channels: Channels | None = None
    groups: Annotated[tuple[str, ...], BeforeValidator(_groups)] = GROUPS
    MEANING: ClassVar[Meaning] = {
        "protocol": "NCCL's for this kind; auto: as for all",
        "channels": "for this kind; without it, as for all",
        "groups": "of these parallelisms only",
    }


class AllReduceConfig(KindConfig):
    """[workload.nccl.all-reduce]"""

    algorithm: Literal["auto", "ring", "tree", "nvls", "hierarchical", "sharp"] = "auto"
    MEANING: ClassVar[Meaning] = {
        "algorithm": "of all-reduces; auto: the one with the least estimate",
    }


class HalfConfig(KindConfig):
    """[workload.nccl.reduce-scatter], [workload.nccl.all-gather]"""

    algorithm: Literal["auto", "ring", "hierarchical"] = "auto"
    MEANING: ClassVar[Meaning] = {
        "algorithm": "of reduce-scatters or all-gathers; auto: the one with the least estimate",
    }


class AllToAllConfig(KindConfig):
    """[workload.nccl.all-to-all]"""

    algorithm: Literal["auto", "direct", "pairwise", "pxn"] = "auto"
    MEANING: ClassVar[Meaning] = {
        "algorithm": "of all-to-alls; auto: the one with the least estimate",
    }


class NcclConfig(Table):
    """[workload.nccl]: of all kinds. channels None: one for each NIC. nvls: reductions in the NVSwitch."""

    protocol: Protocol = "auto"
    channels: Channels | None = None
    nvls: AutoBool = None
    all_reduce: AllReduceConfig | None = Field(default=None, alias="all-reduce")
    reduce_scatter: HalfConfig | None = Field(default=None, alias="reduce-scatter")
    all_gather: HalfConfig | None = Field(default=None, alias="all-gather")
    all_to_all: AllToAllConfig | None = Field(default=None, alias="all-to-all")
    MEANING: ClassVar[Meaning] = {
        "protocol": "NCCL's, for all kinds; auto: as NCCL would choose",
        "channels": "for all kinds; without it, one for each NIC that a group has in a server",
        "nvls": "reductions in the NVSwitch; auto: if the type can",
        "all_reduce": "of all-reduces alone",
        "reduce_scatter": "of reduce-scatters alone",
        "all_gather": "of all-gathers alone",
        "all_to_all": "of all-to-alls alone",
    }

    @property
    def of_kind(self) -> dict[str, KindConfig]:
        """What is given for single kinds, by their names."""
        kinds = {
            "all-reduce": self.all_reduce, "reduce-scatter": self.reduce_scatter, "all-gather": self.all_gather,
            "all-to-all": self.all_to_all,
        }  # fmt: skip
        return {kind: one for kind, one in kinds.items() if one is not None}
