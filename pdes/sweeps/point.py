"""One run of a sweep: what it follows from, and what it comes to. Called on any worker."""

import contextlib
import hashlib
import json
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pdes.errors import SimError
from pdes.sweeps.metrics import Metric, measure
from pdes.sweeps.store import DONE, FAILED, Row

MOST_HASHED = 64 << 20  # bytes of a file; a larger one counts by its size and its time
NOT_INPUTS = {"output", "checkpoint", "memo", "dir"}  # names that are no inputs, or must not count


class Task(NamedTuple):
    """tables: of the config. source: what file names are relative to. keep: the result folder; None: it goes."""

    key: str
    point: str
    seed: int
    tables: dict[str, Any]
    source: str
    metrics: tuple[Metric, ...]
    keep: str | None


def checked(tables: dict[str, Any], source: Path, overridden: set[tuple[str, ...]]) -> Any:
    """The config of a run. ConfigError: it is none."""
    if "cluster" in tables:
        from pdes.config.cluster.load import cluster_from_dict

        return cluster_from_dict(tables, source, overridden, {})
    from pdes.config.load import config_from_dict

    return config_from_dict(tables, source, overridden)


def key_of(tables: dict[str, Any], source: Path, config: Any, metrics: Sequence[Metric]) -> str:
    """A digest of all that a run's figures follow from: the config, the files it names, the code, what is measured."""
    from pdes.simulation.versions import program  # with the compiler, which `--plan` does not load

    resolved = config.resolved() if hasattr(config, "resolved") else tables["cluster"]
    own = [_metric_digest(metric) for metric in metrics]
    found = [program(), resolved, list(_inputs(tables, source.parent)), own]
    return hashlib.sha256(json.dumps(found, sort_keys=True, default=str).encode()).hexdigest()[:32]


def _metric_digest(metric: Metric) -> list[str]:
    return [metric.name, metric.path, *([] if metric.function is None else [_digest(Path(metric.function[0]))])]


def _inputs(value: Any, folder: Path, key: str = "") -> Iterator[tuple[str, str]]:
    """(name, digest) of every file that a text in it names; of a prefix, of all files that begin with it; of a folder
    under the key `file`, as traces may be, of all files in it.
    """
    if isinstance(value, dict):
        for name, own in value.items():
            if name not in NOT_INPUTS:
                yield from _inputs(own, folder, name)
    elif isinstance(value, list):
        for own in value:
            yield from _inputs(own, folder, key)
    elif isinstance(value, str) and 0 < len(value) < 1000 and "\0" not in value:
        for name in dict.fromkeys((value, value.rpartition(":")[0])):
            with contextlib.suppress(OSError, ValueError):
                path = folder / name
                if not name:
                    continue
                if path.is_file():
                    yield name, _digest(path)
                elif path.is_dir():
                    found = sorted(path.rglob("*")) if key == "file" else []
                    yield from ((str(one.relative_to(folder)), _digest(one)) for one in found)
                elif ("/" in name or "." in name) and path.parent.is_dir():
                    yield from ((found.name, _digest(found)) for found in sorted(path.parent.glob(path.name + ".*")))


def _digest(path: Path) -> str:
    state = path.stat()
    if not path.is_file():
        return ""
    if state.st_size > MOST_HASHED:
        return f"{state.st_size} {state.st_mtime_ns}"
    return _content(str(path), state.st_size, state.st_mtime_ns)


@cache
def _content(path: str, size: int, time_ns: int) -> str:
    """Once per version of the file."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]


def run(task: Task) -> Row:
    """Simulate it; a run that fails is a row, too."""
    began_s = time.perf_counter()
    try:
        status, metrics, message = DONE, _measured(task), ""
    except SimError as error:
        status, metrics, message = FAILED, {}, str(error)
    except MemoryError:
        status, metrics, message = FAILED, {}, "not enough memory"
    except Exception as error:  # a fault of ours: the other runs go on, and this one says where
        place = traceback.extract_tb(error.__traceback__)[-1]
        message = f"{type(error).__name__}: {error} (in {Path(place.filename).name}, line {place.lineno})"
        status, metrics = FAILED, {}
    return Row(task.key, task.point, task.seed, status, metrics, message, time.perf_counter() - began_s)


def tables_to_run(task: Task) -> dict[str, Any]:
    """The tables of a run: one of packets or flow mode leaves no tasks if nobody sees them."""
    is_seen = "cluster" in task.tables or task.keep is not None or any(metric.function for metric in task.metrics)
    return task.tables if is_seen else task.tables | {"output": {"tasks": False}}


def _measured(task: Task) -> dict[str, float]:
    """Raises SimError."""
    source, tables = Path(task.source), tables_to_run(task)
    if "cluster" in tables:
        from pdes.cluster.outcome import outcome

        return measure(task.metrics, outcome(checked(tables, source, set())), None)
    from pdes.simulation import simulate

    if task.keep is not None:
        result = simulate(checked(tables, source, set()), task.keep)
        return measure(task.metrics, result.summary, result)
    with tempfile.TemporaryDirectory(prefix="pdes-sweep-") as folder:
        result = simulate(checked(tables, source, set()), folder)
        return measure(task.metrics, result.summary, result)
