"""[workload.parallel]: how a training job is spread over GPUs. Keys only: `models.compute.checks` knows what fits."""

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator

from pdes.config.tables.fields import Count, FieldError, Meaning, Table
from pdes.units import shown

MOST_SHARE = 2**20  # layers of a stage, microbatches of a replica


def _count_or_auto(value: object) -> object:
    if value == "auto" or (type(value) is int and value >= 1):
        return value
    raise FieldError(f"found {shown(value)}", 'Accepted: "auto" or a whole number from 1')


def _shares(value: object) -> object:
    if value in ("even", "auto"):
        return value
    if isinstance(value, list) and value and all(type(n) is int and 1 <= n <= MOST_SHARE for n in value):
        return tuple(value)
    raise FieldError(f"found {shown(value)}", 'Accepted: "even", "auto", or a list of whole numbers from 1')


def _stage_tp(value: object) -> object:
    if value is None:
        return None
    rows = value if isinstance(value, list) and value else [0]
    if all(type(n) is int and 1 <= n <= MOST_SHARE for n in rows):
        return tuple(rows)
    if all(isinstance(row, list) and row and all(type(n) is int and 1 <= n <= MOST_SHARE for n in row) for row in rows):
        return tuple(tuple(row) for row in rows if isinstance(row, list))
    accepted = "Accepted: a list of whole numbers from 1, of each stage, or of a list of each stage's replicas"
    raise FieldError(f"found {shown(value)}", accepted)


CountOrAuto = Annotated[Literal["auto"] | int, BeforeValidator(_count_or_auto)]
Shares = Annotated[Literal["even", "auto"] | tuple[int, ...], BeforeValidator(_shares)]
StageTp = Annotated[tuple[int, ...] | tuple[tuple[int, ...], ...] | None, BeforeValidator(_stage_tp)]


class ParallelConfig(Table):
    """[workload.parallel]: sizes of tensor, data, pipeline, context, expert parallelism; ep * etp is of tp * cp * dp.

    vpp: chunks of layers per stage, interleaved. stage_layers: of each chunk in the order of the model, or "auto": by
    the speed and the memory of the stages' GPUs. replica_microbatches: of each replica, or "auto": by its GPUs' speed.
    stage_tp: tensor-parallel size of each stage, or of each stage in each replica, of which tp is the largest.
    shard: hybrid sharding; FSDP, or a distributed optimizer, over so many GPUs, with dp * cp / shard copies.
    """

    tp: Count
    dp: Count
    pp: Count
    ep: Count = 1
    etp: Count = 1
    cp: Count = 1
    vpp: CountOrAuto = 1
    stage_layers: Shares = "even"
    replica_microbatches: Shares = "even"
    stage_tp: StageTp = None
    shard: Count | None = None
    MEANING: ClassVar[Meaning] = {
        "tp": "tensor parallelism: GPUs that share each layer, inside a server",
        "dp": "data parallelism: replicas",
        "pp": "pipeline stages",
        "ep": "GPUs that share a layer's experts: a divisor of tp * cp * dp / etp",
        "etp": "expert tensor parallelism: GPUs that share each expert's matrices, next to each other",
        "cp": "context parallelism: GPUs that share each sequence",
        "vpp": "chunks of layers per stage, interleaved",
        "stage_tp": "tp of each stage, or of each stage in each replica, where they differ; tp is the largest of them",
        "replica_microbatches": "microbatches of each replica: as many, by its GPUs' speed (auto), or as listed",
        "shard": "GPUs over which zero splits, of dp * cp; default: all; the copies of a share sum its gradients",
        "stage_layers": "layers of each stage: as even as can be, by its GPUs' speed and memory (auto), or as listed",
    }

    @property
    def n_gpu(self) -> int:
        if self.stage_tp is not None:
            return self.cp * sum(map(sum, self.sizes))
        return self.tp * self.dp * self.pp * self.cp

    @property
    def sizes(self) -> tuple[tuple[int, ...], ...]:
        """stage_tp, of each stage in each replica; (): the same for all."""
        return tuple(one if isinstance(one, tuple) else (one,) * self.dp for one in self.stage_tp or ())
