"""Where the time of groups of GPUs went: pipeline stages, or blocks of servers."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from pdes.results.iteration import Times
from pdes.results.pipeline import pipeline_shape

MOST_GROUPS = 32


class Group(NamedTuple):
    """GPUs first..last and the mean over them, as `Times.mean` has it."""

    name: str
    n_gpu: int
    parts: Mapping[str, int]


def group_bounds(result: Mapping[str, Any], n_gpu: int) -> list[tuple[str, int, int]]:
    """(name, first GPU, GPU behind the last) of each group: pipeline stages where ranks lie in order, else blocks."""
    n_stage, _, is_in_order = pipeline_shape(result)
    if 1 < n_stage <= MOST_GROUPS and n_gpu % n_stage == 0 and is_in_order:
        each = n_gpu // n_stage
        ends = [(i * each, (i + 1) * each) for i in range(n_stage)]
        return [(f"stage {i}, GPUs {first} to {end - 1}", first, end) for i, (first, end) in enumerate(ends)]
    topology = result.get("config", {}).get("topology", {})
    server = 1 if topology.get("server") else max(int(topology.get("gpus_per_server") or 1), 1)
    each = server * -(-n_gpu // (server * MOST_GROUPS))
    bounds = [(first, min(first + each, n_gpu)) for first in range(0, n_gpu, each)]
    return [(f"GPUs {first} to {end - 1}" if end - first > 1 else f"GPU {first}", first, end) for first, end in bounds]


def groups_of(times: Times, result: Mapping[str, Any]) -> list[Group]:
    """Means of the groups, of the same times that the whole is the mean of."""
    means = [(name, times.mean(first, end)) for name, first, end in group_bounds(result, int(times.gpu[-1]) + 1)]
    return [Group(name, mean["n_gpu"], mean) for name, mean in means if mean]
