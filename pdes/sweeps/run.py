"""Running a sweep: what is known already is not run again, and every run that ends is in the store at once."""

import json
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from pdes.errors import ConfigError
from pdes.sweeps.bundle import bundles, may_be_bundled, run_bundle
from pdes.sweeps.found import Found
from pdes.sweeps.load import Sweep, load_sweep, sweep_of
from pdes.sweeps.point import Task, checked, key_of, run
from pdes.sweeps.store import DONE, FAILED, REFUSED, Row, Store
from pdes.sweeps.write import write
from pdes.units import format_count
from pdes.workers import RunAll, at_a_time

QUIET_S, TERMINAL_S, FILE_S = 2.0, 0.5, 10.0


def run_sweep(sweep: Sweep, run_all: RunAll, stream: TextIO | None = None, again: bool = False) -> Found:
    """Everything that is not known yet, seed by seed. stream: for progress. again: runs that have failed, too.

    ConfigError: no point is accepted, or the store cannot be used.
    """
    asked = [(point, seed) for seed in sweep.seeds for point in sweep.points]
    with Store(sweep.directory) as store:
        rows: dict[int, Row] = {}
        tasks: dict[str, Task] = {}
        places: dict[str, list[int]] = {}
        for i, (point, seed) in enumerate(asked):
            known = _looked_up(sweep, store, point, seed, again)
            if isinstance(known, Row):
                rows[i] = known
            else:
                tasks[known.key] = known
                places.setdefault(known.key, []).append(i)
        _refuse_if_all_are(sweep, rows, len(asked))
        n_refused = sum(row.status == REFUSED for row in rows.values())
        line = _Line(stream, len(rows), len(asked))
        line.begin(n_refused)
        try:
            for ended in _run(list(tasks.values()), run_all):
                store.add(*ended)
                rows.update((i, row) for row in ended for i in places[row.key])
                line.tell(len(rows), sum(each.status == FAILED for each in rows.values()))
        finally:
            line.clear()
    return Found(sweep, [rows[i] for i in range(len(asked))], len(tasks))


def _run(tasks: list[Task], run_all: RunAll) -> Iterator[list[Row]]:
    """Rows as they come: of small runs that go through one loop, then of the others."""
    left = [task for task in tasks if not may_be_bundled(task)]
    together = list(bundles(tasks))
    for ended in run_all(run_bundle, together, unordered=True) if together else ():
        yield ended.rows
        left += ended.left
    for row in run_all(run, left, unordered=True) if left else ():
        yield [row]


def _looked_up(sweep: Sweep, store: Store, point: tuple[Any, ...], seed: int, again: bool) -> Row | Task:
    """What is known of a run, else the task."""
    text = json.dumps(point, default=str)
    try:
        tables = sweep.tables(point, seed)
        config = checked(tables, sweep.source, sweep.overridden())
    except ConfigError as error:
        _raise_if_a_key_is_wrong(error)
        return Row("", text, seed, REFUSED, {}, str(error), 0.0)
    key = key_of(tables, sweep.source, config, sweep.known)
    row, keep = store.get(key), sweep.directory / "runs" / key if sweep.config.keep else None
    is_wanted = row is None or (again and row.status == FAILED)
    is_wanted |= row is not None and row.status == DONE and keep is not None and not keep.exists()
    if row is not None and not is_wanted:
        return row
    kept = None if keep is None else str(keep)
    return Task(key, text, seed, tables, str(sweep.source), tuple(sweep.known), kept)


def _raise_if_a_key_is_wrong(error: ConfigError) -> None:
    """A key that nothing has is wrong in every point; a value may be right in another."""
    if error.found in ("unknown key", "unknown table"):
        raise error


def _refuse_if_all_are(sweep: Sweep, rows: dict[int, Row], n: int) -> None:
    refused = [row for row in rows.values() if row.status == REFUSED]
    if len(refused) == n:
        first = next(iter({row.message: None for row in refused}))
        raise ConfigError(f"{sweep.where}: [sweep]", f"none of the {n:,} runs has a config that is accepted: {first}")


class _Line:
    """On stderr, once it takes longer than two seconds."""

    def __init__(self, stream: TextIO | None, n_known: int, n: int) -> None:
        self.stream, self.n_known, self.n = stream, n_known, n
        self.began_s = self.told_s = time.perf_counter()
        self.is_terminal, self.is_open = stream is not None and stream.isatty(), False
        self.first_s, self.first = self.began_s, n_known  # when a run was over that had to wait for kernels

    def begin(self, n_refused: int) -> None:
        """Say what need not be run."""
        n_known = self.n_known - n_refused
        known = [f"{n_known:,} are known"] if n_known else []
        refused = [f"{n_refused:,} have a config that is refused"] if n_refused else []
        if self.stream is not None and (known or refused):
            print(f"pdes-sim: of {self.n:,} runs {', '.join(known + refused)}", file=self.stream, flush=True)

    def tell(self, n_done: int, n_failed: int) -> None:
        """After a run."""
        now_s = time.perf_counter()
        if n_done == self.n_known + 1:
            self.first_s, self.first = now_s, n_done
        if self.stream is None or now_s - self.began_s < QUIET_S:
            return
        if now_s - self.told_s < (TERMINAL_S if self.is_terminal else FILE_S):
            return
        self.told_s = now_s
        failed = f", {n_failed:,} failed" if n_failed else ""
        text = f"pdes-sim: {n_done:,} of {self.n:,} runs{failed}"
        if n_done > self.first:
            rate = (n_done - self.first) / max(now_s - self.first_s, 1e-9)
            left_s = round((self.n - n_done) / rate)
            text += f", {format_count(rate)} runs/s, eta {left_s // 60:02d}:{left_s % 60:02d}"
        print(f"\r\033[K{text}" if self.is_terminal else text, end="" if self.is_terminal else "\n", file=self.stream)
        self.stream.flush()
        self.is_open = self.is_terminal

    def clear(self) -> None:
        """The line is gone."""
        if self.is_open:
            print("\r\033[K", end="", file=self.stream, flush=True)


def sweep(
    config: Any, axes: Any = None, *, out: str | Path | None = None, processes: int = 1, quiet: bool = True, **more: Any
) -> Found:  # fmt: skip
    """Run a sweep; what came of it. Raises SimError; runs that fail are rows.

    config: the file of a sweep, or with axes the base: a file, or tables as `pdes.make_config` takes them.
    axes: values by key, {"network.congestion_control": ["dctcp", "hpcc"]}; by "key, key" lists of values for both;
    a dict is a [[sweep.axis]]. out: the folder. processes: runs at a time. more: keys of [sweep], such as seeds=5.
    """
    if axes is None:
        asked = load_sweep(config, out)
    else:
        base, source = base_of(config)
        asked = sweep_of(base, source, axes, out or "results/sweep", more)
    with at_a_time(processes) as run_all:
        found = run_sweep(asked, run_all, None if quiet else sys.stderr)
    write(found)
    return found


def base_of(config: Any, what: str = "sweep") -> tuple[dict[str, Any], Path]:
    """Tables, and the file that names are relative to. what: in an error."""
    from pdes.config.toml_file import read_toml

    if isinstance(config, str | Path):
        return read_toml(Path(config))[0], Path(config)
    if not isinstance(config, Mapping):
        found = f"found a {type(config).__name__}"
        raise ConfigError(what, found, "a file's name, or tables as make_config takes them")
    return dict(config), Path("config")
