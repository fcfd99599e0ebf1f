"""Small runs of a sweep that go through one loop together, see `pdes.experiments`; called on any worker."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pdes.sweeps.metrics import measure
from pdes.sweeps.point import Task, checked, tables_to_run
from pdes.sweeps.store import DONE, Row

MOST = 32  # runs in a bundle: what is under way is lost if the sweep is killed


class Ended(NamedTuple):
    """Rows of runs that have ended, and what is to run by itself."""

    rows: list[Row]
    left: list[Task]


def bundles(tasks: Sequence[Task]) -> Iterator[list[Task]]:
    """Runs that may go together, as far as their tasks say."""
    able = [task for task in tasks if may_be_bundled(task)]
    for first in range(0, len(able), MOST):
        yield able[first : first + MOST]


def may_be_bundled(task: Task) -> bool:
    """Not those that leave a folder, for others or for a function of one's own; nor jobs on a cluster."""
    return task.keep is None and "cluster" not in task.tables and not any(metric.function for metric in task.metrics)


def run_bundle(tasks: Sequence[Task]) -> Ended:
    """Run those that may go together; none if the first one may not, as the others will be like it."""
    from pdes.experiments.run import build_all, run_small
    from pdes.experiments.together import why_alone

    began_s = time.perf_counter()
    try:
        configs = [checked(tables_to_run(task), Path(task.source), set()) for task in tasks]
        if why_alone(build_all(configs[:1])[0]):
            return Ended([], list(tasks))
        found = run_small(build_all(configs))
        metrics = {i: measure(tasks[i].metrics, result.facts, result) for i, result in found.items()}
    except Exception:  # one is wrong, or fails, or is a fault of ours: by itself it says so
        if len(tasks) == 1:
            return Ended([], list(tasks))
        halves = [run_bundle(half) for half in (tasks[: len(tasks) // 2], tasks[len(tasks) // 2 :])]
        return Ended(halves[0].rows + halves[1].rows, halves[0].left + halves[1].left)
    each_s = (time.perf_counter() - began_s) / max(1, len(found))
    rows = [Row(tasks[i].key, tasks[i].point, tasks[i].seed, DONE, values, "", each_s) for i, values in metrics.items()]
    return Ended(rows, [task for i, task in enumerate(tasks) if i not in found])
