"""Refuse layouts that do not fit their model, or the memory of their GPU, with one message."""

from collections.abc import Sequence
from dataclasses import fields, replace

from models.compute.layer_graph import part_graph
from models.compute.layout import DTYPE_BYTES, Layout
from models.compute.memory import GIB, Schedule, memory_of
from models.compute.model_shape import ModelShape
from models.compute.recompute import RECOMPUTE_MODULES, modules_of
from pdes.errors import ConfigError

PARALLEL, MODEL = "[workload.parallel]", "[workload.model]"


def check_layout(shape: ModelShape, layout: Layout) -> None:
    """Raise ConfigError if the sizes of a layout do not divide what they split."""
    _check_sizes(layout)
    if layout.stage_tp:
        _check_stage_tp(shape, layout)
        for tp in sorted({tp for sizes in layout.stage_tp for tp in sizes}):
            check_layout(shape, replace(layout, tp=tp, stage_tp=()))
        return
    tp, cp, ep = layout.tp, layout.cp, layout.ep
    _divides(f"{PARALLEL} tp", tp, shape.heads, "heads")
    if shape.n_kv % tp and tp % shape.n_kv:
        found = f"{tp} GPUs for {shape.n_kv} heads of keys and values"
        raise ConfigError(f"{PARALLEL} tp", found, "a divisor or a multiple of them")
    if any(shape.layer_kind(i) == "dense" for i in range(shape.layers)) or shape.shared_experts:
        _divides(f"{PARALLEL} tp", tp, shape.d_ffn, "values of the feed-forward network")
    _divides(f"{PARALLEL} cp", cp, shape.sequence, "tokens of a sequence")
    if layout.sequence_parallel or not shape.is_dense:
        _divides(f"{PARALLEL} tp", tp, shape.sequence // cp, "tokens that sequence parallelism splits")
    for key in ("ep", "etp"):
        if shape.is_dense and (n := getattr(layout, key)) > 1:
            raise ConfigError(f"{PARALLEL} {key}", f"{n}, and the model has no experts", "1 for a dense model")
    if not shape.is_dense:
        _divides(f"{PARALLEL} ep", ep, shape.n_expert, "experts")
        _divides(f"{PARALLEL} etp", layout.etp, shape.d_expert, "values of an expert")
        _divides(f"{PARALLEL} etp", layout.etp, tp * layout.dp * cp, "GPUs of a stage")
        left = tp * layout.dp * cp // layout.etp
        _divides(f"{PARALLEL} ep", ep, left, "GPUs of a stage" + " over etp" * (layout.etp > 1))
        if not 1 <= shape.top_k <= shape.n_expert:
            found = f"{shape.top_k} experts per token of {shape.n_expert}"
            raise ConfigError(f"{MODEL} top_k", found, f"1 to {shape.n_expert}")
    _check_pipeline(shape, layout)
    _check_recompute(shape, layout)
    if layout.shard:
        _check_shard(shape, layout)


def _check_shard(shape: ModelShape, layout: Layout) -> None:
    where = f"{PARALLEL} shard"
    if not layout.zero:
        raise ConfigError(where, f"{layout.shard}, and nothing is split with zero = 0", "with zero of 1, 2 or 3")
    if layout.dual or not shape.is_dense:
        found = 'schedule "dualpipe"' if layout.dual else "a model with experts"
        raise ConfigError(where, f"{layout.shard} with {found}", "a dense model and another schedule")
    _divides(where, layout.shard, layout.n_sharer, "GPUs that hold the same parameters (dp x cp)")


def _check_recompute(shape: ModelShape, layout: Layout) -> None:
    if isinstance(layout.recompute, str):
        return
    kinds = {shape.layer_kind(i) for i in range(shape.layers)}
    there = set().union(*(modules_of(part_graph(shape, layout.without_layers, kind)) for kind in kinds))
    for name in layout.recompute:
        if name not in there:
            accepted = ", ".join(f'"{one}"' for one in RECOMPUTE_MODULES if one in there)
            raise ConfigError("[workload] recompute", f'"{name}", which no layer of this model has', accepted)


def _check_sizes(layout: Layout) -> None:
    for name in ("tp", "dp", "pp", "cp", "ep", "etp", "vpp", "microbatch", "n_microbatch"):
        if getattr(layout, name) < 1:
            raise ConfigError(f"{PARALLEL} {name}", str(getattr(layout, name)), "a whole number from 1")
    for name in (field.name for field in fields(layout) if field.name.endswith("_dtype")):
        dtype = getattr(layout, name)
        if dtype and dtype not in DTYPE_BYTES:
            raise ConfigError(f"{PARALLEL} {name}", repr(dtype), f"one of {', '.join(DTYPE_BYTES)}")


def _divides(where: str, size: int, whole: int, what: str) -> None:
    if whole % size:
        raise ConfigError(where, f"{size} for {whole} {what}", f"a divisor of {whole}")


def _check_pipeline(shape: ModelShape, layout: Layout) -> None:
    n_chunk = layout.pp * layout.vpp
    if n_chunk > max(shape.layers, (shape.layers + 2) * (layout.vpp > 1)):
        found = f"{layout.pp} stages of {layout.vpp} chunks for {shape.layers} layers"
        raise ConfigError(f"{PARALLEL} pp", found, "no more chunks than layers")
    if layout.stage_layers:
        _check_stage_layers(shape, layout)
    if layout.replica_microbatches:
        _check_replicas(layout)
    if layout.dual:
        _check_dual(layout)
    if layout.vpp > 1 and layout.pp == 1:
        raise ConfigError(f"{PARALLEL} vpp", f"{layout.vpp} chunks on one stage", "1 without pipeline stages")
    if layout.vpp > 1 and layout.n_microbatch % layout.pp:
        found = f"{layout.n_microbatch} microbatches for {layout.pp} stages of {layout.vpp} chunks"
        raise ConfigError("[workload] microbatches", found, "a multiple of the stages if these have several chunks")


def _check_stage_layers(shape: ModelShape, layout: Layout) -> None:
    where, given, n_chunk = f"{PARALLEL} stage_layers", layout.stage_layers, layout.pp * layout.vpp
    if len(given) != n_chunk:
        chunks = f"{layout.pp} stages" + (f" of {layout.vpp} chunks" if layout.vpp > 1 else "")
        raise ConfigError(where, f"{len(given)} numbers for {chunks}", f"a list of {n_chunk}")
    if min(given) < 1:
        raise ConfigError(where, f"{min(given)} layers in one of them", "1 or more in each")
    if sum(given) != shape.layers:
        raise ConfigError(where, f"{sum(given)} layers in all", f"{shape.layers}, which the model has")


def _check_replicas(layout: Layout) -> None:
    where, given = f"{PARALLEL} replica_microbatches", layout.replica_microbatches
    if len(given) != layout.dp:
        raise ConfigError(where, f"{len(given)} numbers for {layout.dp} replicas", f"a list of {layout.dp}")
    if min(given) < 1:
        raise ConfigError(where, f"{min(given)} microbatches of one of them", "1 or more of each")
    if layout.zero > 1:
        found = f"is there with zero = {layout.zero}, by which replicas exchange in every microbatch"
        raise ConfigError(where, found, "zero = 0 or 1")
    if layout.tp * layout.cp % (layout.ep * layout.etp):
        sizes, key = (
            (f"ep x etp = {layout.ep * layout.etp}", "ep x etp") if layout.etp > 1 else (f"ep = {layout.ep}", "ep")
        )
        raise ConfigError(where, f"is there with {sizes}, groups of which are in several replicas",
                          f"{key} of a divisor of tp x cp = {layout.tp * layout.cp}")  # fmt: skip
    if layout.dual or layout.vpp > 1:
        found = "is there with " + ('schedule "dualpipe"' if layout.dual else f"vpp = {layout.vpp}")
        raise ConfigError(where, found, "other schedules, and vpp = 1")


def _check_stage_tp(shape: ModelShape, layout: Layout) -> None:
    """Sizes of stages and replicas, and what they do not go with."""
    where, given = f"{PARALLEL} stage_tp", layout.stage_tp
    if len(given) != layout.pp or {len(sizes) for sizes in given} != {layout.dp}:
        replicas = "/".join(map(str, sorted({len(sizes) for sizes in given})))
        found = f"sizes of {len(given)} x {replicas} stages and replicas"
        raise ConfigError(where, found, f"{layout.pp} sizes, or {layout.pp} lists of {layout.dp}")
    largest = max(map(max, given))
    if layout.tp != largest:
        found = f"{layout.tp}, and stage_tp has sizes up to {largest}"
        raise ConfigError(f"{PARALLEL} tp", found, f"{largest}, the largest of them")
    not_with = {
        f"shard = {layout.shard}": layout.shard > 0, f"vpp = {layout.vpp}": layout.vpp > 1,
        'schedule "dualpipe"': layout.dual, f"cp = {layout.cp}": layout.cp > 1,
        "experts": not shape.is_dense, f"zero = {layout.zero}": layout.zero > 1,
    }  # fmt: skip
    for what, is_there in not_with.items():
        if is_there:
            raise ConfigError(where, f"is there with {what}", "a dense model, zero of 0 or 1, cp and vpp of 1")
    if layout.zero and any(len(set(sizes)) > 1 for sizes in given):
        found = "has a stage whose replicas are unequal, with zero = 1, by which they split its optimizer's states"
        raise ConfigError(where, found, "equal sizes in each stage, or zero = 0")


def _check_dual(layout: Layout) -> None:
    where = 'with schedule "dualpipe"'
    if layout.pp % 2:
        raise ConfigError(f"{PARALLEL} pp", f"{layout.pp} {where}", "an even number of stages")
    if layout.n_microbatch % 2 or layout.n_microbatch < 2 * layout.pp:
        found = f"{layout.n_microbatch} microbatches {where} and {layout.pp} stages"
        raise ConfigError("[workload] microbatches", found, "an even number, at least two for each stage")
    if layout.zero > 1:
        raise ConfigError("[workload] zero", f"{layout.zero} {where}", "0 or 1")


def check_memory(
    shape: ModelShape, layout: Layout, memory_bytes: int | Sequence[int], schedule: Schedule = "1f1b", replica: int = 0
) -> None:
    """Raise ConfigError with the breakdown of the stage that needs most beyond what its GPUs have.

    memory_bytes: of a GPU, or of the smallest GPU of each stage. replica: which, where their sizes are unequal.
    """
    limits = [memory_bytes] * layout.pp if isinstance(memory_bytes, int) else memory_bytes
    needs = [
        memory_of(shape, layout.of_group(stage, replica) if layout.stage_tp else layout, stage, schedule)
        for stage in range(layout.pp)
    ]
    stage = max(range(layout.pp), key=lambda i: needs[i].total_bytes - limits[i])
    memory, limit = needs[stage], limits[stage]
    if memory.total_bytes <= limit:
        return
    found = f"GPUs of stage {stage} need {memory.total_bytes / GIB:.1f} GiB and have {limit / GIB:.1f} GiB"
    hint = 'more tp, pp or zero, a smaller microbatch, recompute = "full", or [workload.memory] check = "warn"'
    raise ConfigError("[workload.memory]", f"{found}:\n{memory.table(limit)}", hint)
