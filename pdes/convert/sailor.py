"""`pdes-sim convert sailor PLAN.json --profiles FOLDER -o job.toml`: a plan of Sailor's as a job with measured times.

Sailor (Strati et al., SOSP'25) plans training on GPUs of several types. A plan says which layers a pipeline stage has,
and for each stage and replica the GPUs and their tensor-parallel size; a profile says what a layer takes on a type of
GPU, by microbatch and tensor-parallel size: forward, backward and update, with what the tensor-parallel group
exchanges. Beside the config come these times, a file for each type. FOLDER has the name of the model, and in it a
folder for each type of GPU with its profile.json.

What a plan does not say is taken as in `sailor_sheets`; training is Megatron-DeepSpeed's in fp32: 1F1B, stages that
wait for their messages, gradients summed behind the last microbatch.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pdes.convert.sailor_sheets import GPUS, MODELS, Model
from pdes.convert.sailor_transfer import Rows, transferred
from pdes.convert.toml_text import Tables, toml_text, write_whole
from pdes.errors import ConfigError

MOST_GPUS = 2**17


class Group(NamedTuple):
    """A tensor-parallel group: all GPUs that it has in its server."""

    gpu: str
    tp: int


class Plan(NamedTuple):
    """stages[s][r]: the group of a stage in a replica. layers: transformer layers of each stage."""

    stages: list[list[Group]]
    layers: list[int]
    microbatch: int
    global_batch: int


def convert(source: str | Path, output: str | Path, profiles: str | Path | None) -> list[str]:
    """Write `output`, and times of layers beside it; return warnings. ConfigError names file and place."""
    path, target = Path(source), Path(output)
    if profiles is None:
        accepted = "the folder of a model's profiles, such as profiles/OPT-350"
        raise ConfigError("convert sailor", "no --profiles", accepted)
    folder = Path(profiles)
    model = MODELS.get(folder.resolve().name)
    if model is None:
        raise ConfigError(f"--profiles {folder}", f"found {folder.name}", f"a folder named {', '.join(MODELS)}")
    plan = read_plan(path, model)
    rows, warnings = times_of(folder, model, gpus_of(plan))
    head = f"Made by `pdes-sim convert sailor` of {path.name} with the profiles of {folder.resolve().name}."
    write_job(plan, model, rows, target, head)
    return warnings


def times_of(folder: Path, model: Model, gpus: Sequence[str]) -> tuple[dict[str, Rows], list[str]]:
    """Rows for each type of GPU, and warnings of those whose profile is of another model. folder: of the model."""
    rows = {gpu: profile_rows(folder / gpu / "profile.json", model) for gpu in gpus}
    warnings = []
    for gpu in (gpu for gpu, times in rows.items() if not times):
        found = transferred(gpu, _all_rows(folder, model), _of_others(folder))
        said = "its times are left out, and kernels are modelled"
        if found is not None:
            rows[gpu] = found.rows
            said = f"times are those of {found.reference}, by {found.like}'s on both"
        warnings.append(f"{folder / gpu / 'profile.json'}: is not of {model.layers} layers: {said}")
    return rows, warnings


def _all_rows(folder: Path, model: Model) -> dict[str, Rows]:
    paths = {gpu: folder / gpu / "profile.json" for gpu in GPUS}
    return {gpu: profile_rows(path, model) for gpu, path in paths.items() if path.is_file()}


def _of_others(folder: Path) -> dict[str, dict[str, Rows]]:
    """Of the other models whose profiles lie beside these."""
    own, beside = folder.resolve().name, folder.resolve().parent
    return {name: _all_rows(beside / name, other) for name, other in MODELS.items() if name != own}


def gpus_of(plan: Plan) -> list[str]:
    """Types of GPU, by Sailor's names."""
    return sorted({group.gpu for stage in plan.stages for group in stage})


def write_job(plan: Plan, model: Model, rows: Mapping[str, Rows], target: Path, head: str) -> None:
    """The config, and a file of times for each type of GPU that has rows."""
    files = {gpu: f"{target.stem}.{gpu}.csv" for gpu, times in rows.items() if times}
    for gpu, file in files.items():
        write_whole(target.with_name(file), csv_text(rows[gpu]))
    write_whole(target, toml_text(head, job_tables(plan, model, files)))


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}", "a JSON file of Sailor's") from None
    except ValueError as error:
        raise ConfigError(str(path), f"is not JSON: {error}", "a JSON file of Sailor's") from None


def read_plan(path: Path, model: Model) -> Plan:
    """Read a plan. ConfigError for what is no plan, or not of this model."""
    found = _json(path)
    try:
        pipelines, microbatch, batch = found["pipeline_list"], int(found["mbs"]), int(found["gbs"])
        layers = [len(stage) for stage in pipelines[0]["layers_per_stage"]]
        stages = [[_group(path, one) for one in stage] for stage in pipelines[0]["tmp_per_stage"]]
    except (KeyError, TypeError, ValueError, IndexError) as error:
        accepted = "pipeline_list with layers_per_stage and tmp_per_stage, mbs and gbs"
        raise ConfigError(str(path), f"is no plan: {type(error).__name__} {error}", accepted) from None
    if len(pipelines) != 1:
        raise ConfigError(str(path), f"{len(pipelines)} pipelines", "one pipeline, with its replicas")
    if len(layers) != len(stages) or len({len(stage) for stage in stages}) != 1 or not stages[0]:
        found = f"{len(layers)} stages of layers, and groups of {[len(stage) for stage in stages]} replicas"
        raise ConfigError(str(path), found, "groups of every stage, and as many replicas of each")
    if sum(layers) != model.layers + 2:
        found = f"{sum(layers)} layers, embedding and head included"
        raise ConfigError(str(path), found, f"{model.layers + 2}, as the profiles' model has them")
    layers[0] -= 1
    layers[-1] -= 1
    if microbatch < 1 or batch < 1 or batch % (microbatch * len(stages[0])):
        found = f"gbs {batch} with mbs {microbatch} on {len(stages[0])} replicas"
        raise ConfigError(str(path), found, "whole microbatches, as many for each replica")
    return Plan(stages, layers, microbatch, batch)


def _group(path: Path, given: Any) -> Group:
    machines, tp = given
    if len(machines) != 1 or machines[0][1] != tp:
        gpus = ", ".join(f"{one[1]} of {one[0]}" for one in machines)
        raise ConfigError(str(path), f"a group of tp {tp} on {gpus}", "the GPUs of a group in one server")
    if machines[0][0] not in GPUS:
        raise ConfigError(str(path), f"GPU type {machines[0][0]}", f"one of {', '.join(GPUS)}")
    if not 1 <= int(tp) <= MOST_GPUS:
        raise ConfigError(str(path), f"tp {tp}", f"1 to {MOST_GPUS}")
    return Group(machines[0][0], int(tp))


def profile_rows(path: Path, model: Model) -> Rows:
    """Times of layers; none if the profile is of a model with another number of them.

    A layer's time is the mean over all of them: the first of a run takes up to a tenth longer than the others.
    """
    rows: Rows = []
    found = _json(path)
    try:
        for microbatch, by_tp in sorted(found.items(), key=lambda item: int(item[0])):
            for tp, by_layer in sorted(by_tp.items(), key=lambda item: int(item[0])):
                times = [by_layer[str(i)] for i in range(len(by_layer))]
                if len(times) != model.layers + 2:
                    return []
                middle = [sum(layer[k] for layer in times[1:-1]) / model.layers for k in range(3)]
                for part, seconds in (("embedding", times[0]), ("layer", middle), ("head", times[-1])):
                    rows.append((int(tp), int(microbatch), part, *(f"{1e6 * one:.3f}" for one in seconds)))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        accepted = "times by microbatch, tp and layer: forward, backward and update in seconds"
        raise ConfigError(str(path), f"is no profile: {type(error).__name__} {error}", accepted) from None
    return rows


def csv_text(rows: Rows) -> str:
    """A file of times of layers."""
    lines = ["tp,microbatch,part,forward_us,backward_us,update_us"]
    return "\n".join(lines + [",".join(map(str, row)) for row in rows]) + "\n"


def job_tables(plan: Plan, model: Model, files: Mapping[str, str]) -> Tables:
    """The config. files: of times of layers by GPU type; without one kernels are modelled."""
    groups = [group for stage in plan.stages for group in stage]
    servers: list[dict[str, object]] = []
    for group in groups:  # in the order of the ranks, so that each group has a server
        sheet = GPUS[group.gpu]
        n_nic = group.tp if sheet.has_own_nics else 1
        row: dict[str, object] = {"count": 1, "gpu": sheet.name, "gpus": group.tp, "nics": n_nic,
                                  "nic_rate": sheet.nic_rate}  # fmt: skip
        if servers and servers[-1] | {"count": 1} == row:
            servers[-1]["count"] = int(str(servers[-1]["count"])) + 1
        else:
            servers.append(row)
    sizes = [[group.tp for group in stage] for stage in plan.stages]
    tp = max(map(max, sizes))
    is_even = min(map(min, sizes)) == tp
    n_nic = sum(int(str(row["count"])) * int(str(row["nics"])) for row in servers)
    parallel: dict[str, object] = {"tp": tp, "dp": len(plan.stages[0]), "pp": len(plan.stages)}
    if not is_even:
        parallel["stage_tp"] = sizes
    if len(plan.stages) > 1:
        parallel["stage_layers"] = plan.layers
    tables: Tables = {
        "topology": {"kind": "leaf-spine", "leaves": 1, "spines": 1, "hosts_per_leaf": n_nic},
        "topology.server": servers,
        "workload": {
            "kind": "training", "global_batch": plan.global_batch, "microbatch": plan.microbatch,
            "precision": "fp32", "overlap_gradients": False, "overlap_pipeline": False, "flash_attention": False,
            "causal": "full", "zero": 0,
        },
        "workload.model": model.table(),
        "workload.parallel": parallel,
        "workload.compute": {"gpu": GPUS[groups[0].gpu].name},
        "workload.memory": {"check": "warn"},
    }  # fmt: skip
    for gpu in gpus_of(plan):
        sheet, times = GPUS[gpu], {"layer_times": files[gpu]} if gpu in files else {}
        tables[f"workload.devices.{sheet.name}"] = sheet.table() | times
        tables[f"workload.devices.{sheet.name}.flops"] = {"bf16": sheet.bf16} if sheet.bf16 else {}
    tables["wormhole"] = {"mode": "flow"}
    return tables
