"""Measured iterations as cases: a model, a layout, a GPU type, and what the source leaves open.

A row is read by its columns. What no column says (attention kernels, what is overlapped) follows from the software that
source and notes name, its year and the GPU; nothing is said per row. Blank columns are either searched (`Case.open_*`),
or take what is usual, and are listed.
"""

import csv
import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from models.compute.devices import DEVICES
from models.compute.layout import Layout, Precision
from models.compute.model_shape import ModelShape
from models.compute.presets import PRESETS
from models.compute.recompute import RECOMPUTE_MODULES, Recompute, RecomputeWord

GIGA = 10**9


@dataclass(frozen=True)
class Case:
    """A measured iteration. open_*: choices that the source does not state, of which the fastest that fits is taken.

    open_recompute: the values that it may have, none: it is stated. open_zero: optimizers are whole unless that does
    not fit. unsaid: (column, what was taken) of blank ones that are not searched.
    """

    id: str
    group: str
    shape: ModelShape
    layout: Layout
    device: str
    measured_s: float
    batch: int  # sequences per iteration over all replicas
    nic_bps: int
    overlaps_dp: bool = False
    cross_rail_rings: bool = False
    open_microbatch: bool = False
    open_vpp: bool = False
    open_recompute: tuple[Recompute, ...] = ()
    open_sequence: bool = False
    open_zero: bool = False
    per_server: int = 8
    unsaid: tuple[tuple[str, str], ...] = ()
    software: str = ""

    @property
    def source(self) -> str:
        """Who measured it: what a source has in common, its software above all, goes with its name."""
        return self.group.replace("_", "-").split("-")[0]

    @property
    def held_out(self) -> bool:
        """A third of the rows, by a hash of the id."""
        return int(hashlib.sha256(self.id.encode()).hexdigest(), 16) % 3 == 0


class NotCoveredError(Exception):
    """Why a row is no case."""


NOT_COVERED = {
    "megascale-megascale": "the model is altered: parallel blocks, sliding-window attention",
    "deepseek-v3": "DualPipe, a schedule with both directions at once",
    "sc21-t2-ZeRO-3": "DeepSpeed of 2021 fetched one parameter at a time: 16 GB/s per GPU whatever the size",
}
SLOW_H100 = "h100-500w"
PLAIN = {"flash_attention": False, "causal_half": False}
FLASH = {"flash_attention": True, "causal_half": True}
FSDP = {"zero": 3, "sequence_parallel": True, "cp_balanced": False}
NEMO_DTYPES = {"gradient_dtype": "bf16"}  # its recipes have grad_reduce_in_fp32 = False
NEMO_FP8_DTYPES = {"weight_dtype": "fp8"}  # and, in fp8, fp8_param_gather = True; MLPerf's FP8_PARAMS
SEQUENCE_PARALLEL_SINCE = 2022  # Megatron-LM: also its distributed optimizer, and the overlap of tensor gradients
RECOMPUTES: tuple[RecomputeWord, ...] = get_args(RecomputeWord)
XLA_FULL: Recompute = ("qkv", "layernorm", "attention", "mlp_up")  # the last matrix of a layer is not computed again
MAXTEXT_WHOLE, MAXTEXT_SHARD = 256, 128  # up to so many GPUs that recipe splits over all, else over these
MAXTEXT: Recompute = ("layernorm", "attention", "mlp_up")  # remat_policy=save_qkv_proj, as NVIDIA's recipe for it says
LLAMA = {"gated": True, "norm": "rms", "biases": "none", "dropout": False}
OWN_HEAD = {"tied_embeddings": False, "learned_positions": False}
YES_NO, SPLITS = ("no", "yes"), {0: "no", 1: "yes", 3: "FSDP"}  # what columns say, by sequence_parallel and by zero
Row = dict[str, str]


def read_rows(path: Path) -> tuple[list[Case], list[tuple[str, str]]]:
    """Cases of a file, and rows that are not covered with the reason. The file is known by its columns."""
    with path.open(encoding="utf-8-sig") as file:
        rows: list[Row] = [{key: value or "" for key, value in row.items() if key} for row in csv.DictReader(file)]
    columns = rows[0] if rows else {}
    cases, left_out = [], []
    for i, row in enumerate(rows):
        try:
            if "simumax_ms" in columns:
                cases.append(_simumax(row))
            elif "# GPUs" in columns:
                cases.append(_vtrain(row, path.stem))
            else:
                cases.append(_iteration(row))
        except NotCoveredError as reason:
            left_out.append((row.get("id") or row.get("case") or f"{path.name}, row {i + 1}", str(reason)))
    return cases, left_out


def _int(row: Row, key: str, default: int | None = None) -> int:
    """A whole number; blank: the default, without one the row is not covered."""
    text = row.get(key, "").strip()
    if text.isdecimal() or (text == "" and default is not None):
        return int(text) if text else default or 0
    raise NotCoveredError(f"{key}: found '{text}'. Accepted: a whole number{'' if default is None else ' or nothing'}")


def _style(row: Row) -> dict[str, Any]:
    """What a model's name says beyond its sizes. One with experts has its preset's kinds of layers, if there is one."""
    name, n_expert = row.get("model", ""), _int(row, "experts", 1)
    plain = name.lower().replace(" ", "-").replace("_", "-")
    known = max((key for key in PRESETS if plain.startswith(key)), key=len, default="")
    if known and (n_expert > 1 or not any(family in name for family in ("GPT", "Llama", "Nemotron"))):
        return {**vars(PRESETS[known]), **({"n_expert": n_expert} if row.get("experts") else {})}
    experts = {"n_expert": n_expert} if n_expert > 1 else {}
    if "Llama" in name or (n_expert > 1 and "GPT" not in name):
        return {**LLAMA, **OWN_HEAD, **experts}
    if "Nemotron" in name:
        return {**LLAMA, "gated": False, "norm": "layer", **OWN_HEAD, **experts}
    return {"dropout": not _is_megatron_core(row), **experts}


def _shape(row: Row) -> ModelShape:
    style = _style(row)
    columns = {"layers": "layers", "hidden": "hidden", "heads": "heads", "ffn": "ffn", "kv_heads": "kv_heads",
               "vocabulary": "vocab", "sequence": "seq"}  # fmt: skip
    given = {key: _int(row, column) for key, column in columns.items() if row.get(column, "").strip()}
    if style.get("kv_lora"):  # whose heads share one latent vector, whatever a column says
        given.pop("kv_heads", None)
    missing = [columns[key] for key in ("layers", "hidden", "heads", "sequence") if key not in {**style, **given}]
    if missing:
        raise NotCoveredError(f"{', '.join(missing)}: blank, and the model has no preset")
    return ModelShape(**{**style, **given})


def _text(row: Row) -> str:
    return " ".join(row.get(key, "") for key in ("id", "source", "model", "notes"))


def _is_megatron_core(row: Row) -> bool:
    return _is_nemo(row) or any(name in _text(row) for name in ("Megatron-Core", "MCore", "Megatron-Bridge"))


def _software(row: Row) -> str:
    """What errors are told apart by; "": neither."""
    return "JAX" if "JAX" in _text(row) else "Megatron-Core" if _is_megatron_core(row) else ""


def _is_nemo(row: Row) -> bool:
    """NeMo, with which NVIDIA's and others' MLPerf results on its GPUs were made, too."""
    return "NeMo" in _text(row) or ("MLPerf" in _text(row) and row.get("gpu", "")[:1] in "AHBG")


def _chunks(row: Row, pp: int) -> int:
    """Chunks per stage, 0: open; Qi et al. give every layer one, with embedding and head as layers."""
    if "one layer per chunk" in row.get("vpp", ""):
        return (_int(row, "layers") + 2) // pp
    if row.get("vpp", "").strip():
        return max(_int(row, "vpp"), 1)
    if pp == 1:
        return 1
    if "Interleaved" in _text(row):
        return 2
    return 1 if "1F1B" in row.get("notes", "") else 0


def _microbatch(row: Row, pp: int) -> int:
    """0: open."""
    if "local batch" in row.get("notes", "") and pp == 1:
        return int(row["notes"].split("local batch")[1].split(";")[0])
    return _int(row, "mbs", 0)


def _recomputes(row: Row) -> tuple[Recompute, ...]:
    """What may be computed again, the least first; or modules, as "mla_up_proj+mlp"."""
    text = row.get("recompute", "").strip()
    names = text.split("+")
    if all(name in RECOMPUTE_MODULES for name in names):
        return (tuple(one for one in RECOMPUTE_MODULES if one in names),)
    if "JAX" in _text(row) and text in ("", "full"):
        return (XLA_FULL,) if text else (MAXTEXT,) if "MaxText" in _text(row) else ("none", XLA_FULL)
    alternatives = text.split("/") if text else []
    found: tuple[Recompute, ...] = tuple(one for one in RECOMPUTES if one in alternatives)
    if len(found) < len(alternatives):
        raise NotCoveredError(
            f"recompute: found '{text}'. Accepted: {', '.join(RECOMPUTES)} with / between, modules with +, or nothing"
        )
    return found or RECOMPUTES


def recompute_text(recompute: Recompute) -> str:
    """As a column has it."""
    return recompute if isinstance(recompute, str) else "+".join(recompute)


def _flag(row: Row, key: str) -> bool | None:
    """None: open."""
    text = row.get(key, "").strip()
    if text not in ("yes", "no", ""):
        raise NotCoveredError(f"{key}: found '{text}'. Accepted: yes, no or nothing")
    return None if text == "" else text == "yes"


def _options(row: Row, device: str, tp: int, dp: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """(options of the layout, fields of the case): what the row says, and its software, year and GPU."""
    text, year = _text(row), _int(row, "year", SEQUENCE_PARALLEL_SINCE)
    is_old = year < SEQUENCE_PARALLEL_SINCE
    options: dict[str, Any] = dict(PLAIN if device.startswith("a100") else FLASH)
    is_fsdp = "FSDP" in text or "torchtitan" in text
    options |= FSDP if is_fsdp else {}
    if is_old:
        options["tp_gradient_overlap"] = False
    if _is_megatron_core(row) or "AsyncTP" in text:
        options["tp_overlap"] = True
    if _is_nemo(row) and not is_fsdp:
        options |= NEMO_DTYPES | (NEMO_FP8_DTYPES if _precision(row) == "fp8" else {})
    split, zero = _flag(row, "seq_par"), _flag(row, "dist_opt")
    open_sequence = split is None and tp > 1 and not is_old and not is_fsdp
    options["sequence_parallel"] = tp > 1 and bool(split or is_fsdp or open_sequence)
    options.setdefault("zero", 1 if zero else 0)
    open_zero = zero is None and dp > 1 and not is_old and not is_fsdp
    return options, {
        "overlaps_dp": _is_megatron_core(row) or is_fsdp, "open_sequence": open_sequence, "open_zero": open_zero,
    }  # fmt: skip


def _gpu(row: Row) -> str:
    """The GPU type that a column names, by its first words: "A100-80G SXM" is a100-80g."""
    name = row.get("gpu", "").lower().replace(" ", "-")
    if name.startswith("h100") and "500w" in name:
        return SLOW_H100
    found = max((key for key in DEVICES if name.startswith(key)), key=len, default="")
    if not found:
        raise NotCoveredError(f"gpu: found '{row.get('gpu', '')}'. Accepted: {', '.join(DEVICES)}")
    return found


def _precision(row: Row) -> Precision | None:
    """None: blank."""
    text = row.get("precision", "").strip()
    found = next((one for one in get_args(Precision) if text.startswith(one)), None)
    if text and found is None:
        raise NotCoveredError(f"precision: found '{text}'. Accepted: {', '.join(get_args(Precision))} or nothing")
    return found


def _data_parallel(row: Row, per_replica: int) -> int:
    """As given, or as many replicas as there are GPUs for. The two are to agree."""
    n_gpu = _int(row, "gpus", 0)
    dp = _int(row, "dp", n_gpu // per_replica or 1)
    if n_gpu and n_gpu != dp * per_replica:
        raise NotCoveredError(f"gpus: found {n_gpu}, but tp x pp x cp x dp are {dp * per_replica}")
    return dp


def _measured_s(row: Row) -> float:
    try:
        return float(row.get("iter_s", ""))
    except ValueError:
        raise NotCoveredError(f"iter_s: found '{row.get('iter_s', '')}'. Accepted: seconds") from None


def _group(row: Row) -> str:
    """The source, by the row's id; a collection of benchmarks by model."""
    words = row["id"].split("-")
    return "-".join(words[: 2 if words[0].startswith("dgxc") else 1]) or "rows"


def _iteration(row: Row) -> Case:
    reason = next((why for prefix, why in NOT_COVERED.items() if row["id"].startswith(prefix)), "")
    if reason:
        raise NotCoveredError(reason)
    tp, pp, cp, ep, etp = (max(_int(row, key, 1), 1) for key in ("tp", "pp", "cp", "ep", "etp"))
    device, shape, dp = _gpu(row), _shape(row), _data_parallel(row, tp * pp * cp)
    microbatch, chunks, recomputes = _microbatch(row, pp), _chunks(row, pp), _recomputes(row)
    options, fields = _options(row, device, tp, dp)
    shard = MAXTEXT_SHARD if options.get("zero") == 3 and "MaxText" in _text(row) and dp * cp > MAXTEXT_WHOLE else 0
    layout = Layout(
        tp=tp, pp=pp, dp=dp, cp=cp, ep=ep, etp=etp, vpp=chunks or 1, microbatch=microbatch or 1, shard=shard,
        precision=_precision(row) or "bf16", recompute=recomputes[0], **options,
    )  # fmt: skip
    taken = {"vocab": shape.vocabulary, "precision": "bf16", "net_Gbps_per_gpu": 200, "gpus_per_node": 8, "dp": dp}
    taken |= {"vpp": chunks} if chunks and pp > 1 else {}
    taken |= {"seq_par": YES_NO[layout.sequence_parallel]} if tp > 1 and not fields["open_sequence"] else {}
    taken |= {"dist_opt": SPLITS[layout.zero]} if dp > 1 and not fields["open_zero"] else {}
    taken |= {"ep": 1} if not shape.is_dense else {}
    unsaid = [(column, str(value)) for column, value in taken.items() if column in row and not row[column].strip()]
    unsaid += [("top_k", str(shape.top_k))] if not shape.is_dense else []
    return Case(
        row["id"], _group(row), shape, layout, device, _measured_s(row), _int(row, "gbs"),
        _int(row, "net_Gbps_per_gpu", 200) * GIGA, **fields, open_microbatch=not microbatch, open_vpp=not chunks,
        open_recompute=recomputes if len(recomputes) > 1 else (), per_server=_int(row, "gpus_per_node", 8),
        unsaid=tuple(unsaid), software=_software(row),
    )  # fmt: skip


def _vtrain(row: dict[str, str], name: str) -> Case:
    """A100s with full recompute, and 800 Gb/s for eight GPUs.

    Which NCCL ran is not stated: that rings cross rails is inferred, docs/experiments/compute-fit.md says from what.
    """
    sizes = {key: int(value) for key, value in row.items() if "time" not in key and "billion" not in key}
    model = (sizes[key] for key in ("# layers", "hidden size", "attention heads"))
    layout = Layout(
        tp=sizes["tensor parallelism"], dp=sizes["data parallelism"], pp=sizes["pipeline parallelism"],
        microbatch=sizes["micro batch"], recompute="full", precision="fp16", flash_attention=False,
    )  # fmt: skip
    key = "-".join(value for column, value in row.items() if "time" not in column)
    return Case(
        f"{name}:{key}", name, ModelShape(*model, sequence=sizes["sequence length"]), layout, "a100-80g",
        float(row["iteration time (ms)"]) / 1e3, sizes["global batch"], 100 * GIGA, cross_rail_rings=True,
    )  # fmt: skip


SIMUMAX_MODELS = {
    "llama3_70b": "llama3-70b",
    "llama3_405b": "llama3-405b",
    "deepseekv2": "deepseek-v2",
    "deepseekv3": "deepseek-v3",
}


def _simumax(row: dict[str, str]) -> Case:
    """Eight B200 with Megatron-Core: models cut to a few layers, one dense, distributed optimizer, no overlap."""
    if row["model"] not in SIMUMAX_MODELS:
        raise NotCoveredError(f"model: found '{row['model']}'. Accepted: {', '.join(SIMUMAX_MODELS)}")
    preset = PRESETS[SIMUMAX_MODELS[row["model"]]]
    cut = {"layers": int(row["layers"]), "sequence": int(row["seq"]), "n_dense_layers": min(preset.n_dense_layers, 1)}
    tp, pp, cp, ep, dp = (int(row[key] or 1) for key in ("tp", "pp", "cp", "ep", "dp"))
    m = int(row["microbatch_count"])
    layout = Layout(tp=tp, pp=pp, cp=cp, ep=ep, dp=dp, n_microbatch=m, sequence_parallel=True, zero=1, causal_half=True)
    name, measured_s = "simumax:" + row["case"], float(row["real_ms"]) / 1e3
    return Case(name, "simumax", replace(preset, **cut), layout, "b200", measured_s, m * dp, 0)
