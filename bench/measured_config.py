"""Measured iterations as configs, with a value for all that their rows leave open.

Of the values that a blank column may have, those that fit the GPUs' memory are tried, and the fastest by the program's
own closed form is taken, as `microbatch = "auto"` does (models/workload/compiler/choose.py). No measurement is used.
"""

import tomllib
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np

from fit_rows import SPLITS, YES_NO, Case, NotCoveredError, recompute_text
from models.compute.layout import Layout
from models.compute.memory import fullest_stage
from models.compute.model_shape import ModelShape
from models.compute.presets import PRESETS
from models.workload.compiler.build import check_job
from models.workload.compiler.choose import estimate_ps
from models.workload.compiler.job import Job
from pdes.config import config_from_dict
from pdes.config.wormhole.table import FORECASTS
from pdes.convert.toml_text import toml_text
from pdes.errors import ConfigError
from pdes.scenario.training import compiled_job

GIGA = 10**9


@dataclass(frozen=True)
class Settled:
    """A case with nothing open. taken: (column, value) of what its row leaves open; fits: into the GPUs' memory."""

    case: Case
    taken: tuple[tuple[str, str], ...]
    fits: bool

    def text(self) -> str:
        """For the row's line; "" if nothing was open."""
        if not self.taken:
            return ""
        found = "; left open: " + ", ".join(f"{column} {value}" for column, value in self.taken)
        return found if self.fits else found + ", which does not fit the memory"


def case_config(case: Case, has_fluid: bool = True) -> str:
    """The config of a measured run; has_fluid: messages that are alone go at flow level."""
    layout, again = case.layout, case.layout.recompute
    n_gpu, dp, per_server = layout.n_gpu, layout.dp, min(case.per_server, layout.n_gpu)
    rate = f"{_nic_bps(case) // GIGA}Gbps"
    chosen, model = _model(case)
    workload: dict[str, object] = {
        "kind": "training", **chosen, "global_batch": case.batch,
        "microbatch": "auto" if case.open_microbatch else layout.microbatch,
        "sequence_parallel": layout.sequence_parallel, "recompute": again if isinstance(again, str) else [*again],
        "precision": layout.precision, "zero": layout.zero, "overlap_gradients": case.overlaps_dp,
        "overlap_parameters": case.overlaps_dp, "overlap_tensor": layout.tp_overlap,
        "overlap_tensor_gradients": layout.tp_gradient_overlap, "balanced_context": layout.cp_balanced,
        "flash_attention": layout.flash_attention, "causal": "half" if layout.causal_half else "full",
        "cross_rail_rings": case.cross_rail_rings,
    }  # fmt: skip
    parallel = {
        "tp": layout.tp, "dp": dp, "pp": layout.pp, "cp": layout.cp, "ep": layout.ep, "etp": layout.etp,
        "vpp": "auto" if case.open_vpp else layout.vpp, **({"shard": layout.shard} if layout.shard else {}),
    }  # fmt: skip
    dtypes = {"weights": layout.weight_dtype, "gradients": layout.gradient_dtype}
    dtypes = {key: dtype for key, dtype in dtypes.items() if dtype}
    topology = {
        "kind": "roft", "gpus": n_gpu, "gpus_per_server": per_server, "nic_rate": rate, "spine_rate": rate,
        "nvlink": "packets", "servers_per_rail_switch": max(1, n_gpu // per_server),
    }  # fmt: skip
    tables = {
        "topology": topology,
        "network": {"congestion_control": "dctcp", "payload": "4096B"},
        "workload": workload,
        **({"workload.model": model} if model else {}),
        "workload.parallel": parallel,
        **({"workload.dtypes": dtypes} if dtypes else {}),
        "workload.compute": {"gpu": case.device},
        "workload.memory": {"check": "warn"},
        "wormhole": {"mode": "auto", "tolerance": 0.02} if has_fluid else {"mode": "exact"},
        **({"wormhole.paper": {"forecasts": [*FORECASTS[:-1]]}} if has_fluid else {}),
        "output": {"tasks": False, "flows": False},
    }
    return toml_text(case.id, tables)


def _nic_bps(case: Case) -> int:
    return max(case.nic_bps, 100 * GIGA)


def _model(case: Case) -> tuple[dict[str, object], dict[str, object]]:
    """(keys of [workload], of [workload.model]): the sizes, or, of what these cannot say, a preset with its length."""
    shape = case.shape
    if shape.is_latent or shape.qk_norm or not (shape.router or shape.is_dense):
        for name, preset in PRESETS.items():
            if replace(preset, layers=shape.layers, sequence=shape.sequence) == shape:
                return {"preset": name, "layers": shape.layers, "sequence": shape.sequence}, {}
        raise NotCoveredError("a config cannot say this model: a preset with other sizes than layers and sequence")
    return {}, {
        "layers": shape.layers, "hidden": shape.hidden, "heads": shape.heads, "ffn": shape.d_ffn,
        "kv_heads": shape.n_kv, "head_dim": shape.d_head, "vocabulary": shape.vocabulary, "sequence": shape.sequence,
        "gated": shape.gated, "norm": shape.norm, "tied_embeddings": shape.tied_embeddings,
        "learned_positions": shape.learned_positions, "biases": shape.biases, "dropout": shape.dropout,
        **({} if shape.is_dense else _experts(shape)),
    }  # fmt: skip


def _experts(shape: ModelShape) -> dict[str, object]:
    return {
        "experts": shape.n_expert, "top_k": shape.top_k, "expert_ffn": shape.d_expert,
        "shared_experts": shape.shared_experts, "dense_layers": shape.n_dense_layers,
        "expert_every": shape.expert_every,
    }  # fmt: skip


def job_of(case: Case) -> Job:
    """The program's own job of a case, with the microbatch and the chunks that it chooses where they are open."""
    config = config_from_dict(tomllib.loads(case_config(case)), Path("case.toml"))
    n = config.network
    goodput_bps = _nic_bps(case) * n.payload_bytes // (n.payload_bytes + n.header_bytes)
    return compiled_job(config, np.arange(case.layout.n_gpu) // min(case.per_server, case.layout.n_gpu), goodput_bps)


def needed_bytes(job: Job) -> int:
    """Memory of the GPU that needs most."""
    return fullest_stage(job.shape, job.layout, job.memory_schedule)[1].total_bytes


def fits(job: Job) -> bool:
    """Whether every GPU has memory for it."""
    return needed_bytes(job) <= job.least_memory_bytes


def settled(case: Case) -> Settled:
    """The case with the fastest of what its row leaves open and its memory allows. Raises NotCoveredError.

    Optimizers are whole where nothing is said, and split only if nothing fits otherwise: time does not tell them apart.
    """
    given: Layout = case.layout
    found: list[Job] = []
    try:
        for zero in (0, 1) if case.open_zero else (given.zero,):
            layouts = product(
                (True, False) if case.open_sequence else (given.sequence_parallel,),
                case.open_recompute or (given.recompute,),
            )
            found = [
                job_of(replace(case, layout=replace(given, zero=zero, sequence_parallel=split, recompute=again)))
                for split, again in layouts
            ]
            if any(map(fits, found)):
                break
        fitting = [job for job in found if fits(job)]
        job = min(fitting, key=estimate_ps) if fitting else min(found, key=needed_bytes)
        check_job(job, given.n_gpu)
    except ConfigError as error:
        raise NotCoveredError(str(error)) from error
    layout = job.layout
    values = {
        "mbs": (case.open_microbatch, str(layout.microbatch)),
        "vpp": (case.open_vpp, str(layout.vpp)),
        "recompute": (bool(case.open_recompute), recompute_text(layout.recompute)),
        "seq_par": (case.open_sequence, YES_NO[layout.sequence_parallel]),
        "dist_opt": (case.open_zero, SPLITS[layout.zero]),
    }
    taken = tuple((column, value) for column, (is_open, value) in values.items() if is_open) + case.unsaid
    closed = replace(
        case, layout=replace(layout, n_microbatch=given.n_microbatch), open_microbatch=False, open_vpp=False,
        open_recompute=(), open_sequence=False, open_zero=False,
    )  # fmt: skip
    return Settled(closed, taken, bool(fitting))
