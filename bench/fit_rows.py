"""Measured iterations as cases: a model, a layout, a GPU type, and what the source leaves open.

What a set of rows has in common and the files do not say (attention kernels, what is overlapped) stands here, once per
set, with its source; nothing is said per row.
"""

import csv
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from models.compute.layout import Layout
from models.compute.model_shape import ModelShape
from models.compute.presets import PRESETS


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
    "H800": "h800",
}
LLAMA = {"gated": True, "norm": "rms", "tied_embeddings": False, "learned_positions": False, "biases": "none", "dropout": False}
SETS: dict[str, dict] = {  # by the letter of a row's set
    "A": {"flash": False, "overlaps_dp": False},  # Megatron-LM of 2021
    "B": {"flash": False, "overlaps_dp": False},
    "C": {"flash": False, "overlaps_dp": False, "sp": True},  # Megatron-LM of 2022
    "F": {"flash": True, "overlaps_dp": True, "tp_overlap": True},  # NeMo with Transformer Engine
    "G": {"flash": True, "overlaps_dp": True, "tp_overlap": True},  # "DP+TP+PP overlap on"
    "N": {"flash": True, "overlaps_dp": True, "zero": 3, "sp": True},  # FSDP2
    "Z": {"flash": False, "overlaps_dp": False},
}


def read_rows(path: Path) -> tuple[list[Case], list[tuple[str, str]]]:
    """Cases of a file, and rows that are not covered with the reason. The file is known by its columns."""
    with path.open(encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    if "simumax_ms" in rows[0]:
        return [_simumax(row) for row in rows], []
    if "# GPUs" in rows[0]:
        return [_vtrain(row, path.stem, i) for i, row in enumerate(rows)], []
    cases, left_out = [], []
    for row in rows:
        reason = next((why for prefix, why in NOT_COVERED.items() if row["id"].startswith(prefix)), "")
        if reason:
            left_out.append((row["id"], reason))
        else:
            cases.append(_iteration(row))
    return cases, left_out


def _int(row: dict, key: str, default: int = 0) -> int:
    return int(row[key]) if row[key] and row[key].isdigit() else default


def _shape(row: dict) -> ModelShape:
    sizes = [_int(row, key) for key in ("layers", "hidden", "heads", "ffn", "kv_heads")]
    common = {"vocabulary": _int(row, "vocab", 51200), "sequence": _int(row, "seq")}
    if "Llama" in row["model"]:
        return ModelShape(*sizes, **LLAMA, **common)
    if "Nemotron" in row["model"]:
        return ModelShape(*sizes, **{**LLAMA, "gated": False, "norm": "layer"}, **common)
    return ModelShape(*sizes, **common, dropout=row["set"] not in "G")


def _iteration(row: dict) -> Case:
    facts = SETS[row["set"]]
    tp, pp, dp, cp = (_int(row, key, 1) for key in ("tp", "pp", "dp", "cp"))
    cp = max(cp, 1)
    maxtext = "maxtext" in row["id"]
    interleaves = "1F1B-I" in row["id"]
    vpp = (_int(row, "layers") + 2) // pp if interleaves else max(_int(row, "vpp", 1), 1)
    if "Interleaved" in row["id"]:
        vpp = 2
    recompute = {"full": "full", "selective": "selective"}.get(row["recompute"], "none")
    microbatch, batch = _int(row, "mbs"), _int(row, "gbs")
    if "local batch" in row["notes"] and pp == 1:
        microbatch = int(row["notes"].split("local batch")[1].split(";")[0])
    layout = Layout(
        tp=tp, pp=pp, dp=dp, cp=cp, vpp=vpp, microbatch=microbatch or 1,
        sequence_parallel=tp > 1 and (facts.get("sp", False) or row["seq_par"] == "yes"),
        recompute="full" if maxtext else recompute,
        precision="fp8" if row["precision"] == "fp8" else "fp16" if row["precision"].startswith("fp16") else "bf16",
        zero=3 if maxtext else facts.get("zero", 1 if row["dist_opt"] == "yes" else 0),
        flash_attention=facts["flash"], causal_half=facts["flash"], tp_overlap=facts.get("tp_overlap", False),
    )  # fmt: skip
    return Case(
        row["id"], row["id"].split("-")[0] + ("-" + row["id"].split("-")[1] if row["id"].startswith("dgxc") else ""),
        _shape(row), layout, GPUS[row["gpu"]], float(row["iter_s"]), batch,
        _int(row, "net_Gbps_per_gpu", 200) * 10**9, facts["overlaps_dp"],
        open_microbatch=not microbatch, open_vpp=row["set"] == "A" and pp > 1 and not row["vpp"],
        open_recompute=row["set"] == "C",
    )  # fmt: skip


def _vtrain(row: dict, name: str, i: int) -> Case:
    """A100s with full recompute, and 800 Gb/s for eight GPUs."""
    sizes = {key: int(value) for key, value in row.items() if "iteration" not in key and "Param" not in key}
    shape = ModelShape(sizes["# layers"], sizes["hidden size"], sizes["attention heads"], sequence=sizes["sequence length"])
    layout = Layout(
        tp=sizes["tensor parallelism"], dp=sizes["data parallelism"], pp=sizes["pipeline parallelism"],
        microbatch=sizes["micro batch"], recompute="full", precision="fp16", flash_attention=False,
    )  # fmt: skip
    key = "-".join(value for name_, value in row.items() if "iteration" not in name_)
    measured_s = float(row["iteration time (ms)"]) / 1e3
    return Case(f"{name}:{key}", name, shape, layout, "a100-80g", measured_s, sizes["global batch"], 100 * 10**9)


MODELS = {"llama3_70b": "llama3-70b", "llama3_405b": "llama3-405b", "deepseekv2": "deepseek-v2", "deepseekv3": "deepseek-v3"}


def simumax_case_shape(row: dict) -> ModelShape:
    """Its models cut to a few layers, of which one is dense."""
    preset = PRESETS[MODELS[row["model"]]]
    dense = min(preset.n_dense_layers, 1)
    return replace(preset, layers=int(row["layers"]), sequence=int(row["seq"]), n_dense_layers=dense)


def _simumax(row: dict) -> Case:
    """Eight B200, Megatron-Core, no dropout, fp32 gradients, distributed optimizer, no overlap."""
    tp, pp, cp, ep, dp = (int(row[key] or 1) for key in ("tp", "pp", "cp", "ep", "dp"))
    m = int(row["microbatch_count"])
    layout = Layout(
        tp=tp, pp=pp, cp=cp, ep=ep, dp=dp, n_microbatch=m, sequence_parallel=True, zero=1, causal_half=True,
    )  # fmt: skip
    return Case("simumax:" + row["case"], "simumax", simumax_case_shape(row), layout, "b200", float(row["real_ms"]) / 1e3, m * dp, 0)
