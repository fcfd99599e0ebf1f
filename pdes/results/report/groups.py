"""Where the time of groups of GPUs went: the same sweep that the summary makes over all of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pdes.results.fast_forward import last_simulated
from pdes.results.summary import (
    STREAM_PARTS,
    TASK_KINDS,
    breakdown_of_tasks,
    iteration_span,
    pipeline_shape,
    stream_mean,
)
from pdes.results.tables import UNWRITTEN, read_table

MOST_GROUPS = 32
MOST_TASKS = 20_000_000  # of one iteration: beyond, groups are not told apart


class Group(NamedTuple):
    """GPUs first..last and the mean over them, as `breakdown_of_tasks` has it."""

    name: str
    n_gpu: int
    parts: Mapping[str, int]


def group_bounds(result: Mapping[str, Any], n_gpu: int) -> list[tuple[str, int, int]]:
    """(name, first GPU, GPU behind the last) of each group: pipeline stages where ranks lie in order, else blocks."""
    workload = result.get("config", {}).get("workload", {})
    n_stage, _ = pipeline_shape(result)
    in_order = workload.get("placement", "in-order") == "in-order" and workload.get("schedule") != "dualpipe"
    if 1 < n_stage <= MOST_GROUPS and n_gpu % n_stage == 0 and in_order:
        each = n_gpu // n_stage
        ends = [(i * each, (i + 1) * each) for i in range(n_stage)]
        return [(f"stage {i}, GPUs {first} to {end - 1}", first, end) for i, (first, end) in enumerate(ends)]
    server = max(int(result.get("config", {}).get("topology", {}).get("gpus_per_server") or 1), 1)
    each = server * -(-n_gpu // (server * MOST_GROUPS))
    bounds = [(first, min(first + each, n_gpu)) for first in range(0, n_gpu, each)]
    return [(f"GPUs {first} to {end - 1}" if end - first > 1 else f"GPU {first}", first, end) for first, end in bounds]


def read_groups(folder: Path, result: Mapping[str, Any], overall: Mapping[str, int]) -> list[Group]:
    """The groups of the last simulated iteration, [] where there is no breakdown. overall: as the summary has it."""
    if not overall:
        return []
    bounds = group_bounds(result, overall["n_gpu"])
    if (folder / "tasks.parquet").is_file():
        return _of_tasks(folder, result, bounds)
    return _of_streams(folder, last_simulated(result), bounds, pipeline_shape(result))


def _of_tasks(folder: Path, result: Mapping[str, Any], bounds: list[tuple[str, int, int]]) -> list[Group]:
    last, parts = last_simulated(result), []
    kinds = {name: i for i, name in enumerate(TASK_KINDS)}
    for group in read_table(folder / "tasks.parquet", ("gpu", "iteration", "kind", "start_ps", "end_ps")):
        kept = (group["iteration"] >= last - 1) & (group["end_ps"] != UNWRITTEN)
        codes = np.array([kinds[name] for name in group.pop("kind")[kept]], np.int64)
        parts.append({name: column[kept] for name, column in group.items()} | {"kind": codes})
        if sum(len(part["gpu"]) for part in parts) > MOST_TASKS:
            return []
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    span_ps = iteration_span(columns, last)
    order = np.argsort(columns["gpu"], kind="stable")
    columns = {name: column[order] for name, column in columns.items()}
    groups = []
    for name, first, end in bounds:
        low, high = np.searchsorted(columns["gpu"], [first, end])
        own = {key: column[low:high] for key, column in columns.items()}
        own["gpu"] = own["gpu"] - first
        parts = breakdown_of_tasks(own, end - first, last, *pipeline_shape(result), span_ps)
        groups.append(Group(name, end - first, parts))
    return groups


def _of_streams(
    folder: Path, iteration: int, bounds: list[tuple[str, int, int]], shape: tuple[int, int]
) -> list[Group]:
    ends = np.array([end for _, _, end in bounds])
    total = {name: np.zeros(len(ends), np.int64) for name in STREAM_PARTS.values()}
    n_gpu = np.zeros(len(ends), np.int64)
    for group in read_table(folder / "breakdown.parquet", ("gpu", "iteration", *STREAM_PARTS)):
        kept = (group["iteration"] == iteration) & (group["span_ps"] != UNWRITTEN)
        place = np.searchsorted(ends, group["gpu"][kept], side="right")
        np.add.at(n_gpu, place, 1)
        for column, name in STREAM_PARTS.items():
            np.add.at(total[name], place, group[column][kept])
    means = [
        stream_mean({key: int(value[i]) for key, value in total.items()}, int(n), *shape) if n else {}
        for i, n in enumerate(n_gpu)
    ]
    return [Group(name, end - first, mean) for (name, first, end), mean in zip(bounds, means, strict=True) if mean]
