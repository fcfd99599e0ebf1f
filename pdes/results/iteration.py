"""Where an iteration's time went: on each GPU, from the table of tasks or that of main streams, and on average.

It reads results and never makes them up: what a table does not hold is not shown.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pdes.errors import SimError
from pdes.results.fast_forward import last_simulated
from pdes.results.pipeline import Pipeline, pipeline_shape, split_waits
from pdes.results.tables import UNWRITTEN, Columns, read_table

TASK_KINDS = ("forward", "backward", "optimizer", "tp", "cp", "ep", "pp-wait", "dp", "collective")
"""Kinds of the tasks table, and what a moment counts as when several tasks of a GPU overlap: the first of these.

Computing hides communication. A GPU that waits for its pipeline is held up by the pipeline, not by the data-parallel
exchange that runs behind the wait, so "dp" counts only where nothing before it runs.
"""

_PARTS = {
    "compute_ps": (0, 1), "optimizer_ps": (2,), "tp_ps": (3,), "cp_ps": (4,), "ep_ps": (5,), "pp_wait_ps": (6,),
    "dp_ps": (7,), "collective_ps": (8,),
}  # fmt: skip
PART_NAMES = (*_PARTS, "idle_ps")
_BACKWARD, _WAIT, _LATER = TASK_KINDS.index("backward"), TASK_KINDS.index("pp-wait"), len(TASK_KINDS)

STREAM_PARTS = {f"{name}_ps": f"{name}_ps" for name in ("compute", "optimizer", "tp", "cp", "ep", "dp", "idle")} | {
    "pp_ps": "pp_wait_ps", "span_ps": "iteration_time_ps",
}  # fmt: skip
"""Columns of the breakdown table, as a breakdown calls them."""


class Times(NamedTuple):
    """Where an iteration's time went, GPU by GPU."""

    iteration: int
    gpu: np.ndarray
    """int64[n], ascending."""
    parts: Mapping[str, np.ndarray]
    """int64[n], ps: PART_NAMES, which add up to iteration_time_ps, bubble_ps and pp_exposed_ps."""

    def mean(self, first: int = 0, end: int | None = None) -> dict[str, int]:
        """The breakdown of GPUs first .. end - 1: means, rounded down, idle_ps taking the rest; {} if there are none.

        iteration, n_gpu, iteration_time_ps, PART_NAMES, and of pp_wait_ps and idle_ps: bubble_ps, pp_exposed_ps.
        """
        low, high = np.searchsorted(self.gpu, [first, self.gpu[-1] + 1 if end is None else end]).tolist()
        n_gpu = high - low
        if not n_gpu:
            return {}
        found = {name: int(value[low:high].sum()) // n_gpu for name, value in self.parts.items()}
        found["idle_ps"] = found["iteration_time_ps"] - sum(found[name] for name in PART_NAMES if name != "idle_ps")
        return {"iteration": self.iteration, "n_gpu": n_gpu} | found


def breakdown_of_tasks(
    columns: Columns, n_gpu: int, iteration: int, n_stage: int = 1, n_microbatch: int = 1, is_in_order: bool = True
) -> dict[str, int]:
    """Where the time of one iteration went, as a mean over GPUs: `Times.mean` of `times_of_tasks`."""
    return times_of_tasks(columns, n_gpu, iteration, Pipeline(n_stage, n_microbatch, is_in_order)).mean()


def times_of_tasks(columns: Columns, n_gpu: int, iteration: int, pipeline: Pipeline) -> Times:
    """Where the time of one iteration went.

    columns: gpu, iteration, start_ps, end_ps int64[n_task], and kind, int64 index into TASK_KINDS or str; of this
    iteration, the one before and any later, because iteration i lasts from the last task end of i-1 (or 0) to its own,
    and GPUs may work on the next one meanwhile. Unfinished tasks (UNWRITTEN) are left out. Each part is the time that
    counts as that, see TASK_KINDS; bubble_ps and pp_exposed_ps: see `split_waits`.
    SimError: no finished task in that iteration, an unknown kind, a GPU out of range.
    """
    begin_ps, end_ps = iteration_span(columns, iteration)
    kept = (columns["end_ps"] > begin_ps) & (columns["start_ps"] < end_ps) & (columns["start_ps"] != UNWRITTEN)
    gpu, kind = columns["gpu"][kept], kind_codes(columns["kind"][kept])
    if len(gpu) and not (0 <= gpu.min() and gpu.max() < n_gpu):
        raise SimError(f"the tasks table has GPUs {gpu.min()}..{gpu.max()}, but the run has {n_gpu}")
    kind = np.where((kind == _WAIT) & (columns["iteration"][kept] > iteration), _LATER, kind)
    start_ps = np.maximum(columns["start_ps"][kept], begin_ps)
    spent = _exposed_ps(n_gpu, gpu, kind, start_ps, np.minimum(columns["end_ps"][kept], end_ps))
    time_ps, total_ps = end_ps - begin_ps, spent.sum(axis=0)
    if total_ps.max(initial=0) > time_ps:
        raise SimError(f"iteration {iteration}: tasks of a GPU fill {total_ps.max()} ps of {time_ps} ps")
    later_ps, backward_ps = spent[_LATER], spent[_BACKWARD]
    parts = {name: spent[list(codes)].sum(axis=0) for name, codes in _PARTS.items()}
    parts["pp_wait_ps"] = parts["pp_wait_ps"] + later_ps
    parts |= {"idle_ps": time_ps - total_ps, "iteration_time_ps": np.full(n_gpu, time_ps)}
    parts["bubble_ps"], parts["pp_exposed_ps"] = split_waits(parts, later_ps, backward_ps, pipeline)
    return Times(iteration, np.arange(n_gpu), parts)


def iteration_span(columns: Columns, iteration: int) -> tuple[int, int]:
    """Begin and end of an iteration, ps."""
    ends = []
    for i in (iteration - 1, iteration):
        end_ps = columns["end_ps"][(columns["iteration"] == i) & (columns["end_ps"] != UNWRITTEN)]
        ends.append(int(end_ps.max()) if len(end_ps) else None)
    if ends[1] is None:
        raise SimError(f"the tasks table has no finished task of iteration {iteration}")
    return ends[0] or 0, ends[1]


def kind_codes(kind: np.ndarray) -> np.ndarray:
    """Kinds of tasks as int64 indices into TASK_KINDS. SimError: an unknown one."""
    if kind.dtype.kind in "iu":
        return kind
    code = np.full(len(kind), -1, np.int64)
    for i, name in enumerate(TASK_KINDS):
        code[kind == name] = i
    if len(code) and code.min() < 0:
        raise SimError(f'the tasks table has the unknown kind "{kind[code < 0][0]}"')
    return code


def _exposed_ps(n_gpu: int, gpu: np.ndarray, kind: np.ndarray, start_ps: np.ndarray, end_ps: np.ndarray) -> np.ndarray:
    """int64[n_kind + 1, n_gpu]: time per kind on each GPU, each moment counted for the first kind that runs then.

    Waits of later iterations are the last row; they count as those of this one do, behind them. One sweep over the
    starts and ends of all GPUs: as many tasks end as start on each, so the counts of running tasks are back at zero
    when the next GPU's begin. Sums stay below 2**63 for 32k GPUs x 280 s.
    """
    moment_ps, gpu_of = np.concatenate([start_ps, end_ps]), np.concatenate([gpu, gpu])
    order = np.lexsort((moment_ps, gpu_of))
    moment_ps, change = moment_ps[order], np.repeat([1, -1], len(gpu))[order]
    kind_of = np.concatenate([kind, kind])[order]
    bounds = np.searchsorted(gpu_of[order], np.arange(n_gpu + 1))
    length_ps = np.diff(moment_ps, append=moment_ps[-1:])  # from one GPU to the next nothing runs: never counted
    is_free = np.ones(len(moment_ps), bool)
    spent = np.zeros((len(TASK_KINDS) + 1, n_gpu), np.int64)
    for code in (*range(_WAIT + 1), _LATER, *range(_WAIT + 1, len(TASK_KINDS))):
        is_running = np.cumsum(np.where(kind_of == code, change, 0)) > 0
        summed_ps = np.append(0, np.cumsum(np.where(is_running & is_free, length_ps, 0)))
        spent[code] = np.diff(summed_ps[bounds])
        is_free &= ~is_running
    return spent


def breakdown_rows(breakdown: Mapping[str, int]) -> list[tuple[str, int]]:
    """(part, time in ps) as people read them: bubble and PP are taken out of waits, idling is the rest. Adds up."""
    bubble_ps, exposed_ps = breakdown["bubble_ps"], breakdown["pp_exposed_ps"]
    return [
        ("compute", breakdown["compute_ps"]),
        ("optimizer", breakdown["optimizer_ps"]),
        ("TP exposed", breakdown["tp_ps"]),
        ("CP exposed", breakdown["cp_ps"]),
        ("EP exposed", breakdown["ep_ps"]),
        ("PP exposed", exposed_ps),
        ("DP exposed", breakdown["dp_ps"]),
        ("other collectives", breakdown["collective_ps"]),
        ("pipeline bubble", bubble_ps),
        ("idle", breakdown["idle_ps"] + breakdown["pp_wait_ps"] - bubble_ps - exposed_ps),
    ]


def is_shown(part: str, part_ps: int) -> bool:
    """Whether a part has a row: not every job has all kinds of parallelism."""
    return part_ps > 0 or part not in ("CP exposed", "EP exposed", "other collectives")


def read_breakdown(folder: Path, result: Mapping[str, Any]) -> dict[str, int]:
    """The breakdown of the last simulated iteration in `folder`, mean over all GPUs; {} without training."""
    times = read_times(folder, result)
    return {} if times is None else times.mean()


def read_times(folder: Path, result: Mapping[str, Any]) -> Times | None:
    """Where the time of the last simulated iteration went, from tasks.parquet in `folder`; None without training.

    The tasks of another tool's trace are its nodes, which say nothing of parallelism.
    """
    last, pipeline = last_simulated(result), pipeline_shape(result)
    if last < 0 or "nodes" in result.get("workload", {}):
        return None
    if not (folder / "tasks.parquet").is_file():
        return _of_streams(folder / "breakdown.parquet", last, pipeline)
    groups = []
    for group in read_table(folder / "tasks.parquet", ("gpu", "iteration", "kind", "start_ps", "end_ps")):
        kept = (group["iteration"] >= last - 1) & (group["end_ps"] != UNWRITTEN)  # the rest has no kind either
        group = {column: value[kept] for column, value in group.items()}
        groups.append(group | {"kind": kind_codes(group["kind"])})
    if not groups:
        return None
    columns = {column: np.concatenate([group[column] for group in groups]) for column in groups[0]}
    return times_of_tasks(columns, int(columns["gpu"].max()) + 1, last, pipeline)


def _of_streams(path: Path, iteration: int, pipeline: Pipeline) -> Times | None:
    """The same where there are no task rows: of the GPUs' main streams, each over its own iteration.

    It begins where the one before ended, so that a GPU waits where it would idle, and all of the bubble lies there.
    """
    names = ("gpu", *STREAM_PARTS)
    found: Sequence[Mapping[str, np.ndarray]] = []
    if path.is_file():
        groups = read_table(path, ("iteration", *names))
        found = [
            {name: group[name][(group["iteration"] == iteration) & (group["span_ps"] != UNWRITTEN)] for name in names}
            for group in groups
        ]
    columns = {name: np.concatenate([group[name] for group in found] or [np.zeros(0, np.int64)]) for name in names}
    gpu = columns.pop("gpu")
    if not len(gpu):
        return None
    order = np.argsort(gpu, kind="stable")
    parts = {name: columns[column][order] for column, name in STREAM_PARTS.items()}
    none = np.zeros_like(gpu)
    parts["collective_ps"] = none
    parts["bubble_ps"], parts["pp_exposed_ps"] = split_waits(parts, none, none, pipeline)
    return Times(iteration, gpu[order], parts)
