"""Running a search: candidates are screened, and climb; runs are kept in a store, and none is made twice."""

import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from pdes.errors import ConfigError
from pdes.searching.climb import FLOW, Rule, climb
from pdes.searching.found import Found
from pdes.searching.load import Search, load_search, search_of
from pdes.searching.screen import Screen, Screened
from pdes.searching.space import candidates, tables_of
from pdes.searching.write import write
from pdes.sweeps.metrics import NETWORK, TRAINING
from pdes.sweeps.point import Task, checked, key_of, run
from pdes.sweeps.store import FAILED, REFUSED, Row, Store
from pdes.workers import RunAll, at_a_time

MEASURED = (*TRAINING, *NETWORK)
KEPT_IN_FLOW = ("flow", "iteration_repeats", "microbatch_repeats", "iteration_tolerance")
TOLD_S = 2.0


def screened(search: Search, stream: TextIO | None = None) -> list[Screened]:
    """All candidates. ConfigError: none is left."""
    began_s, screen = time.perf_counter(), Screen(search)
    rows = [screen(candidate) for candidate in candidates(search)]
    n_fit = sum(not row.kind for row in rows)
    if not n_fit:
        raise ConfigError(f"{search.where}: [search]", f"all {len(rows):,} candidates are refused: {rows[0].reason}")
    if stream is not None:
        text = f"{len(rows):,} candidates, {n_fit:,} may be run; closed form of all in"
        print(f"pdes-sim: {text} {time.perf_counter() - began_s:.1f} s", file=stream, flush=True)
    return rows


def run_search(search: Search, run_all: RunAll, stream: TextIO | None = None, again: bool = False) -> Found:
    """All that is needed and not known yet. again: runs that have failed, too. ConfigError: nothing can be run."""
    rows = screened(search, stream)
    own = search.config
    rule = Rule(own.eta, own.final, own.probes, own.budget.flow_runs, own.budget.packet_runs)
    cost = np.array([row.weight * row.closed_s for row in rows])
    with Store(search.directory) as store:
        runner = Runner(search, rows, store, run_all, stream, again)
        climbed = climb(cost, runner.run_at, rule)
        if climbed is None:
            raise ConfigError(f"{search.where}: [search]", f"no candidate could be run to the end: {runner.failure()}")
        return Found(search, rows, climbed, runner.runs, runner.n_new)


class Runner:
    """Runs candidates at a fidelity."""

    def __init__(
        self, search: Search, rows: list[Screened], store: Store, run_all: RunAll, stream: TextIO | None, again: bool
    ) -> None:
        self.search, self.rows, self.store, self.run_all, self.stream = search, rows, store, run_all, stream
        self.again, self.n_new = again, 0
        self.runs: dict[str, dict[int, Row]] = {"flow": {}, "packets": {}}

    def run_at(self, fidelity: str, asked: Sequence[int]) -> list[float]:
        """Costs."""
        runs = self.runs["flow" if fidelity == FLOW else "packets"]
        tasks: dict[str, Task] = {}
        places: dict[str, list[int]] = {}
        for i in asked:
            known = self._looked_up(fidelity, i)
            if isinstance(known, Row):
                runs[i] = known
            else:
                tasks[known.key] = known
                places.setdefault(known.key, []).append(i)
        told_s = time.perf_counter()
        for n_done, row in enumerate(self.run_all(run, list(tasks.values()), unordered=True) if tasks else (), 1):
            self.store.add(row)
            self.n_new += 1
            runs.update((i, row) for i in places[row.key])
            if self.stream is not None and (time.perf_counter() - told_s > TOLD_S or n_done == len(tasks)):
                told_s = time.perf_counter()
                print(f"pdes-sim: {fidelity}: {n_done:,} of {len(tasks):,} runs", file=self.stream, flush=True)
        return [self.rows[i].weight * runs[i].metrics.get("iteration", math.nan) for i in asked]

    def _looked_up(self, fidelity: str, i: int) -> Row | Task:
        """What is known of a run, else the task."""
        text = json.dumps(self.rows[i].values, default=str)
        tables = tables_of(self.search, self.rows[i].values)
        if fidelity == FLOW:
            wormhole = tables.get("wormhole", {})
            tables["wormhole"] = {"mode": "flow"} | {key: wormhole[key] for key in KEPT_IN_FLOW if key in wormhole}
        seed = tables.get("simulation", {}).get("seed", 1)
        try:
            config = checked(tables, self.search.source, self.search.overridden())
        except ConfigError as error:  # flow mode does not have all that packets have
            return Row("", text, seed, REFUSED, {}, str(error), 0.0)
        key = key_of(tables, self.search.source, config, MEASURED)
        row = self.store.get(key)
        if row is not None and not (self.again and row.status == FAILED):
            return row
        return Task(key, text, seed, tables, str(self.search.source), MEASURED, None)

    def failure(self) -> str:
        """The first message of a run that has none."""
        return next((row.message for runs in self.runs.values() for row in runs.values() if row.message), "")


def search(
    config: Any, layout: Mapping[str, Any] | None = None, axes: Mapping[str, Any] | None = None, *,
    out: str | Path | None = None, processes: int = 1, quiet: bool = True, **more: Any,
) -> Found:  # fmt: skip
    """Search for the best layout and fabric; what came of it. Raises SimError; candidates that are refused are rows.

    config: the file of a search, or with layout or axes the base: a file, or tables as `pdes.make_config` takes them.
    layout: {"tp": "auto", "pp": [1, 2]}. axes: values by key. out: the folder. processes: runs at a time. more: keys of
    [search], such as objective="price".
    """
    from pdes.sweeps.run import base_of

    if layout is None and axes is None:
        asked = load_search(config, out)
    else:
        base, source = base_of(config, "search")
        asked = search_of(base, source, layout or {}, axes or {}, out or "results/search", more)
    with at_a_time(processes) as run_all:
        found = run_search(asked, run_all, None if quiet else sys.stderr)
    write(found)
    return found
