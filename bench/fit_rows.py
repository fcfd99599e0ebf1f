"""Measured iterations as cases: a model, a layout, a GPU type, and what the source leaves open.

What a set of rows has in common and its file does not say (attention kernels, what is overlapped) stands here, once per
set; nothing is said per row.
"""

import csv
import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from models.compute.layout import Layout
from models.compute.model_shape import ModelShape
from models.compute.presets import PRESETS

GIGA = 10**9


@dataclass(frozen=True)
class Case:
    """A measured iteration. open_*: choices that the source does not state, of which the fastest that fits is taken."""

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
    open_recompute: bool = False

    @property
    def held_out(self) -> bool:
        """A third of the rows, by a hash of the id."""
        return int(hashlib.sha256(self.id.encode()).hexdigest(), 16) % 3 == 0


NOT_COVERED = {
    "megascale-megascale": "the model is altered: parallel blocks, sliding-window attention",
    "deepseek-v3": "DualPipe, a schedule with both directions at once",
    "sc21-t2-ZeRO-3": "DeepSpeed of 2021 fetched one parameter at a time: 16 GB/s per GPU whatever the size",
}
GPUS = {
    "A100-80G": "a100-80g",
    "A100-80G SXM": "a100-80g",
    "A100-80G(Ampere)": "a100-80g",
    "H100-80G": "h100",
    "H100-96G HBM2e 500W": "h100-500w",
}
PLAIN = {"flash_attention": False}
FLASH = {"flash_attention": True, "causal_half": True}
SETS: dict[str, dict[str, Any]] = {  # by the letter of a row's set
    "A": {**PLAIN, "tp_gradient_overlap": False},  # Megatron-LM of 2021
    "B": PLAIN,  # of 2022, and so for C and Z
    "C": {**PLAIN, "sequence_parallel": True},
    "F": {**FLASH, "tp_overlap": True},  # NeMo with Transformer Engine
    "G": {**FLASH, "tp_overlap": True},  # "DP+TP+PP overlap on"
    "N": {**FLASH, "zero": 3, "sequence_parallel": True, "cp_balanced": False},  # FSDP2
    "Z": PLAIN,
}
OVERLAPS_DP, OPEN_CHUNKS, OPEN_RECOMPUTE = "FGN", "AG", "C"
LLAMA = {"gated": True, "norm": "rms", "biases": "none", "dropout": False}
OWN_HEAD = {"tied_embeddings": False, "learned_positions": False}


def read_rows(path: Path) -> tuple[list[Case], list[tuple[str, str]]]:
    """Cases of a file, and rows that are not covered with the reason. The file is known by its columns."""
    with path.open(encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    if "simumax_ms" in rows[0]:
        return [_simumax(row) for row in rows], []
    if "# GPUs" in rows[0]:
        return [_vtrain(row, path.stem) for row in rows], []
    cases, left_out = [], []
    for row in rows:
        reason = next((why for prefix, why in NOT_COVERED.items() if row["id"].startswith(prefix)), "")
        if reason:
            left_out.append((row["id"], reason))
        else:
            cases.append(_iteration(row))
    return cases, left_out


def _int(row: dict[str, str], key: str, default: int = 0) -> int:
    return int(row[key]) if row[key].isdigit() else default


def _shape(row: dict[str, str]) -> ModelShape:
    sizes = [_int(row, key) for key in ("layers", "hidden", "heads", "ffn", "kv_heads")]
    common = {"vocabulary": _int(row, "vocab", 51200), "sequence": _int(row, "seq")}
    if "Llama" in row["model"]:
        return ModelShape(*sizes, **LLAMA, **OWN_HEAD, **common)
    if "Nemotron" in row["model"]:
        return ModelShape(*sizes, **{**LLAMA, "gated": False, "norm": "layer"}, **OWN_HEAD, **common)
    return ModelShape(*sizes, **common, dropout=row["set"] != "G")


def _chunks(row: dict[str, str], pp: int) -> int:
    """Chunks per stage; Qi et al. give every layer one, with embedding and head as layers."""
    if "1F1B-I" in row["id"]:
        return (_int(row, "layers") + 2) // pp
    return 2 if "Interleaved" in row["id"] else max(_int(row, "vpp", 1), 1)


def _microbatch(row: dict[str, str], pp: int) -> int:
    """0: not stated."""
    if "local batch" in row["notes"] and pp == 1:
        return int(row["notes"].split("local batch")[1].split(";")[0])
    return _int(row, "mbs")


def _options(row: dict[str, str], tp: int) -> dict[str, Any]:
    """What follows from a row's set, and what the row itself says."""
    options = dict(SETS[row["set"]])
    options["sequence_parallel"] = tp > 1 and (options.get("sequence_parallel", False) or row["seq_par"] == "yes")
    options["recompute"] = row["recompute"] if row["recompute"] in ("full", "selective") else "none"
    options.setdefault("zero", 1 if row["dist_opt"] == "yes" else 0)
    if "maxtext" in row["id"]:  # JAX: FSDP, and 70B with two sequences fits with full recompute only
        options.update(zero=3, recompute="full")
    if "AsyncTP" in row["id"]:
        options["tp_overlap"] = True
    return options


def _iteration(row: dict[str, str]) -> Case:
    tp, pp, dp, cp = (max(_int(row, key, 1), 1) for key in ("tp", "pp", "dp", "cp"))
    microbatch, letter = _microbatch(row, pp), row["set"]
    precision = next(p for p in ("fp8", "fp16", "bf16") if row["precision"].startswith(p))
    layout = Layout(
        tp=tp, pp=pp, dp=dp, cp=cp, vpp=_chunks(row, pp), microbatch=microbatch or 1,
        precision=precision, **_options(row, tp),
    )  # fmt: skip
    return Case(
        row["id"], "-".join(row["id"].split("-")[: 2 if letter == "F" else 1]), _shape(row), layout, GPUS[row["gpu"]],
        float(row["iter_s"]), _int(row, "gbs"), _int(row, "net_Gbps_per_gpu", 200) * GIGA,
        overlaps_dp=letter in OVERLAPS_DP, open_microbatch=not microbatch, open_recompute=letter in OPEN_RECOMPUTE,
        open_vpp=letter in OPEN_CHUNKS and pp > 1 and not row["vpp"],
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
    preset = PRESETS[SIMUMAX_MODELS[row["model"]]]
    cut = {"layers": int(row["layers"]), "sequence": int(row["seq"]), "n_dense_layers": min(preset.n_dense_layers, 1)}
    tp, pp, cp, ep, dp = (int(row[key] or 1) for key in ("tp", "pp", "cp", "ep", "dp"))
    m = int(row["microbatch_count"])
    layout = Layout(tp=tp, pp=pp, cp=cp, ep=ep, dp=dp, n_microbatch=m, sequence_parallel=True, zero=1, causal_half=True)
    name, measured_s = "simumax:" + row["case"], float(row["real_ms"]) / 1e3
    return Case(name, "simumax", replace(preset, **cut), layout, "b200", measured_s, m * dp, 0)
