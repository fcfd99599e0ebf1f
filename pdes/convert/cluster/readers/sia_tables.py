"""What Sia's and Pollux' simulators know of an application: a folder of tables for each, named as its jobs are.

placements-TYPE.csv: local_bsz,step_time,sync_time,placement: seconds of a step with so many samples on each GPU, and of
summing its gradients; placement: a digit for each server, the GPUs there. scalability-TYPE.csv: the same by num_nodes
and num_replicas. validation-BATCH.csv: iteration after each epoch with so many samples in a step. Pollux' tables are of
one type of GPU and have no TYPE.

A step here is one of the smallest batch. On so many GPUs the batch is taken with which all epochs take the least time:
iterations of that batch, as measured, times the time of a step. So goodput follows from measured tables alone. Where a
GPU's share of a batch is above the largest one measured, it is made of several, of which the last one alone sums its
gradients. Deviation: the batch stays as it is during training, where Sia takes another one as the noise scale grows.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pdes.convert.cluster.audit import LEFT_OUT, Audit, Finding, quoted
from pdes.convert.cluster.companions import files_of
from pdes.convert.cluster.lines import records
from pdes.convert.cluster.machines import NO_NAME
from pdes.convert.cluster.rates import Key, Rates
from pdes.errors import ConfigError

TIMES = ("local_bsz", "step_time", "sync_time")
BAD_ROW, NO_TABLES = "row that is none", "no tables of an application"
LEAST, MOST = 1e-9, 1e9
NAME = re.compile(r"\w[\w.-]{0,100}")
_TIMED = re.compile(r"(placements|scalability)(?:-([\w.-]{1,60}))?\.csv")
_VALIDATION = re.compile(r"validation-([0-9]{1,9})\.csv")
Points = dict[float, tuple[float, float]]
"""(seconds of a step, of these summing) by samples on each GPU."""


class Application(NamedTuple):
    """steps: of the smallest batch, in all. rates: steps per second by GPUs, by type; at least one each."""

    steps: int
    rates: dict[str, dict[int, float]]

    def rate(self, gpu: str, n_gpu: int) -> float:
        """Between two counts a straight line, below the least down to zero; more than the most are no faster."""
        counts = sorted(self.rates[gpu])
        return float(np.interp(n_gpu, [0, *counts], [0.0, *(self.rates[gpu][n] for n in counts)]))


class Applications:
    """Read one by one, as jobs name them. Bad rows and missing tables are findings."""

    def __init__(self, folder: Path, audit: Audit) -> None:
        if not folder.is_dir():
            raise ConfigError(str(folder), "is no folder", "a folder with a folder of tables for each application")
        self.folder, self._audit = folder, audit
        self._known: dict[str, Application | None] = {}

    def get(self, name: str) -> Application | None:
        """None: there are no tables of it, which is a finding."""
        if name not in self._known:
            found, missing = None, "a folder"
            if NAME.fullmatch(name) and (self.folder / name).is_dir():
                found, missing = _read(self.folder / name, self._audit)
            if found is None:
                what = f"{quoted(name)}, {missing}"
                self._audit.add(Finding(NO_TABLES, self.folder.name, 0, "", "", what, "its jobs are left out"))
            self._known[name] = found
        return self._known[name]

    def speeds(self, asked: Iterable[tuple[str, int]]) -> Rates:
        """Of all applications that were read, on the GPUs that were measured and those that jobs ask for.

        ConfigError: nothing was read.
        """
        known = {name: one for name, one in self._known.items() if one is not None}
        if not known:
            raise ConfigError(str(self.folder), "has no tables of the workload's applications", ACCEPTED)
        counts: dict[str, set[int]] = {}
        for name, n_gpu in asked:
            counts.setdefault(name, set()).add(n_gpu)
        table: dict[Key, float] = {}
        for name, one in known.items():
            for gpu, rates in one.rates.items():
                for n_gpu in counts.get(name, set()) | set(rates):
                    table[name, n_gpu, gpu] = one.rate(gpu, n_gpu)
        ranges = {name: {n for rates in one.rates.values() for n in rates} for name, one in known.items()}
        return Rates(self.folder.name, table, {}, {name: (min(one), max(one)) for name, one in ranges.items()})


ACCEPTED = "APPLICATION/placements-TYPE.csv, scalability-TYPE.csv and validation-BATCH.csv for each application"


def _read(folder: Path, audit: Audit) -> tuple[Application | None, str]:
    """(the application, or None and which tables are missing)."""
    iterations: dict[int, list[float]] = {}
    timed: dict[str, dict[tuple[int, int], dict[float, list[tuple[float, float]]]]] = {}
    for path in files_of(folder):
        if (match := _VALIDATION.fullmatch(path.name)) and int(match[1]):
            rows = _numbers(path, audit, ("iteration",))
            iterations[int(match[1])] = [iteration for _, (iteration,), _ in rows]
        elif match := _TIMED.fullmatch(path.name):
            into = timed.setdefault(match[2] or NO_NAME, {})
            for where, (samples, step_s, sync_s) in _steps(path, audit, match[1] == "placements"):
                into.setdefault(where, {}).setdefault(samples, []).append((step_s, sync_s))
    epochs = min(map(len, iterations.values()), default=0)
    if not epochs:
        return None, "validation-BATCH.csv"
    whole = {batch: rows[epochs - 1] for batch, rows in iterations.items()}
    rates = {gpu: _rates(points, whole) for gpu, points in timed.items()}
    rates = {gpu: of for gpu, of in rates.items() if of}
    if not rates:
        return None, "placements-TYPE.csv"
    return Application(max(round(whole[min(whole)]), 1), rates), ""


def _rates(
    timed: dict[tuple[int, int], dict[float, list[tuple[float, float]]]], iterations: dict[int, float]
) -> dict[int, float]:
    """Steps of the smallest batch per second, by GPUs, on as few servers as were measured."""
    nodes: dict[int, int] = {}
    for n_gpu, n_node in timed:
        nodes[n_gpu] = min(nodes.get(n_gpu, n_node), n_node)
    found: dict[int, float] = {}
    for n_gpu, n_node in sorted(nodes.items()):
        points = {samples: _mean(rows) for samples, rows in timed[n_gpu, n_node].items()}
        took_s = [n * step_s for batch, n in iterations.items() if (step_s := _step_s(points, batch / n_gpu))]
        if took_s:
            found[n_gpu] = iterations[min(iterations)] / min(took_s)
    return found


def _step_s(points: Points, samples: float) -> float | None:
    """Of so many samples on each GPU; None: fewer than were measured."""
    sizes = sorted(points)
    if samples < sizes[0]:
        return None
    n_part = math.ceil(samples / sizes[-1])
    step_s, sync_s = (float(np.interp(samples / n_part, sizes, [points[size][k] for size in sizes])) for k in (0, 1))
    return step_s + (n_part - 1) * max(step_s - sync_s, 0.0)


def _mean(rows: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return sum(step for step, _ in rows) / len(rows), sum(sync for _, sync in rows) / len(rows)


def _steps(path: Path, audit: Audit, is_placement: bool) -> Iterator[tuple[tuple[int, int], Sequence[float]]]:
    """((GPUs, servers), (samples, seconds of a step, of its sum))."""
    if is_placement:
        for line, values, (word,) in _numbers(path, audit, TIMES, ("placement",)):
            if re.fullmatch(r"[1-9]{1,100}", word):
                yield (sum(map(int, word)), len(word)), values
            else:
                _wrong(path, audit, line, "placement", word)
        return
    for line, values, words in _numbers(path, audit, TIMES, ("num_nodes", "num_replicas")):
        n_node, n_gpu = (int(word) if re.fullmatch(r"[0-9]{1,6}", word) else 0 for word in words)
        if 1 <= n_node <= n_gpu:
            yield (n_gpu, n_node), values
        else:
            _wrong(path, audit, line, "num_replicas", ",".join(words))


def _numbers(
    path: Path, audit: Audit, columns: Sequence[str], others: Sequence[str] = ()
) -> Iterator[tuple[int, list[float], list[str]]]:
    """(line, numbers of 1e-9 to 1e9 of `columns`, words of `others`); sums may take no time."""
    for line, words in records(path, audit, (*columns, *others)):
        values = []
        for column, word in zip(columns, words, strict=False):
            try:
                value = float(word)
            except ValueError:
                value = -1.0
            if not (LEAST <= value <= MOST or (value == 0 and column == "sync_time")):
                _wrong(path, audit, line, column, word)
                break
            values.append(value)
        else:
            yield line, values, words[len(columns) :]


def _wrong(path: Path, audit: Audit, line: int, column: str, word: str) -> None:
    audit.add(Finding(BAD_ROW, f"{path.parent.name}/{path.name}", line, "", column, quoted(word), LEFT_OUT))
