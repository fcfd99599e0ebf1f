"""speeds.csv: how fast a kind of job is on a type of GPU: kind,gpus,gpu, and speed or steps_per_s.

spread_steps_per_s (spread_speed), optional: on more servers than it needs.
"""

import csv
from pathlib import Path
from typing import NamedTuple

from models.cluster.goodput import Curves
from models.cluster.job import Place, Request
from models.cluster.machine import Pool
from pdes.cluster.iterations.speeds import RunSpeeds
from pdes.errors import ConfigError
from pdes.files import missing, require_file
from pdes.units import shown

COLUMNS = ("kind", "gpus", "gpu")
SPREAD = "spread_"
Table = dict[tuple[str, int, str], float]
ACCEPTED = "a CSV with a header line and the columns kind, gpus, gpu, and steps_per_s or speed"


class Speeds(NamedTuple):
    """pools: their own speeds. table: (kind, GPUs, type) to the speed beside the fastest type. step_s: at speed 1.

    spread: the same on more servers than needed, where that is known. Jobs of a kind that the table does not have go
    at their pool's speed.
    """

    pools: list[Pool]
    table: Table
    step_s: dict[tuple[str, int], float]
    curves: Curves | None = None
    runs: RunSpeeds | None = None
    spread: Table = {}

    def __call__(self, request: Request, pool: int, place: Place) -> float:
        """Work per time."""
        if self.runs is not None and self.runs.knows(request.kind):
            return self.runs.alone(request, pool, place)
        if request.max_gpu and self.curves is not None:
            return self.curves.speed(request, pool, place)
        if not self.table:
            return self.pools[pool].speed
        n_gpu = sum(n for _, n in place)
        if self.spread and len(place) > -(-n_gpu // self.pools[pool].n_gpu):
            speed = self.spread.get((request.kind, n_gpu, self.pools[pool].gpu))
            if speed is not None:
                return speed
        return self.table.get((request.kind, n_gpu, self.pools[pool].gpu), self.pools[pool].speed)

    def step(self, kind: str, n_gpu: int) -> float | None:
        """Seconds of a step on the fastest type, of a kind that is run an iteration; None: nobody knows."""
        if self.runs is not None and self.runs.knows(kind):
            return self.runs.step_s(kind, n_gpu)
        return self.step_s.get((kind, n_gpu))


def read_speeds(path: Path | None, pools: list[Pool]) -> Speeds:
    """path: None for no table. ConfigError names file and line."""
    table: Table = {}
    spread: Table = {}
    if path is None:
        return Speeds(pools, table, {})
    if not path.is_file():
        raise ConfigError(str(path), missing(path), ACCEPTED)
    with require_file(path).open(encoding="utf-8-sig", newline="", errors="replace") as file:
        rows = csv.DictReader(file)
        names = rows.fieldnames or []
        value = "steps_per_s" if "steps_per_s" in names else "speed"
        wrong = [name for name in (*COLUMNS, value) if name not in names]
        if wrong:
            raise ConfigError(f"{path}, line 1", f"no column {wrong[0]}", ACCEPTED)
        for row in rows:
            where = f"{path}, line {rows.line_num}"
            try:
                n_gpu, speed = int(row["gpus"]), float(row[value])
            except (TypeError, ValueError) as error:
                raise ConfigError(where, f"found {shown(row['gpus'])} and {shown(row[value])}", ACCEPTED) from error
            if not (0 < speed < 1e12 and n_gpu > 0):
                raise ConfigError(where, f"found {n_gpu} GPUs and {speed}", "numbers above 0")
            key = row["kind"], n_gpu, row["gpu"]
            table[key] = speed
            if row.get(SPREAD + value):
                spread[key] = _spread(row[SPREAD + value], f"{where}, {SPREAD}{value}")
    if value == "speed":
        return Speeds(pools, table, {}, spread=spread)
    best: dict[tuple[str, int], float] = {}
    for (kind, n_gpu, _), speed in table.items():
        best[kind, n_gpu] = max(best.get((kind, n_gpu), 0.0), speed)
    relative, apart = (
        {(kind, n, gpu): speed / best[kind, n] for (kind, n, gpu), speed in each.items()} for each in (table, spread)
    )
    return Speeds(pools, relative, {key: 1 / speed for key, speed in best.items()}, spread=apart)


def _spread(text: str, where: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < 1e12:
        raise ConfigError(where, f"found {shown(text)}", "a number above 0, or nothing")
    return speed
