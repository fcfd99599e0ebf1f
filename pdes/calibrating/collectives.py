"""Constants of collectives inside a server, from what nccl-tests measured.

Multiverse (NSDI'25) section 4.1: time = alpha + bytes / beta, with an alpha and a beta for each operation, GPU type and
range of sizes. Ranges are protocols of algorithms, and begin as the type has them; up to which size one goes is moved
by factors of two while that makes the fit better by BETTER.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from models.workload.nccl.calibration import ALL_SIZES, Calibration, Regime, calibration_of
from models.workload.nccl.in_server import OPERATIONS, REDUCING, in_server_ps
from models.workload.nccl.own_type import in_server_type
from pdes.calibrating.device import device_of
from pdes.calibrating.fit import Problem, fit
from pdes.calibrating.rows import Line, read_lines, timed
from pdes.config import Config
from pdes.errors import ConfigError, suggestion
from pdes.files import read_text, why_unreadable
from pdes.units import PS_PER_US, exact_duration, exact_rate, exact_size

ALIASES = {
    "collective": "operation", "op": "operation", "ranks": "gpus", "n_gpu": "gpus", "gpus_per_server": "gpus",
    "algo": "algorithm", "bytes": "size_bytes", "size": "size_bytes", "size_b": "size_bytes", "time": "time_us",
    "busbw": "busbw_gbps", "busbw_gbps": "busbw_gbps", "nodes": "servers",
}  # fmt: skip
WANTED = (
    "a CSV file with the columns operation, gpus, size_bytes, and time_us or busbw_GBps (optionally algorithm, "
    "servers), or what nccl-tests prints"
)
NAMES = {"alltoall": "all-to-all", "sendrecv": "send-receive", "send-recv": "send-receive", "allreduce": "all-reduce",
         "allgather": "all-gather", "reducescatter": "reduce-scatter"}  # fmt: skip
SPREAD, BETTER, LEAST_ROWS, MOST_MOVES = 1.0, 0.02, 8, 12
LATENCY_PS, BYTES_PER_US = (1e4, 1e10), (1.0, 1e8)  # bounds
_TESTED = re.compile(r"(all_reduce|all_gather|reduce_scatter|alltoall|broadcast|sendrecv)_perf")
_RANK = re.compile(r"#\s+Rank\s+\d+.*?\bon\s+(\S+)\s+device")


class Measured(NamedTuple):
    """One collective of GPUs of a server. algorithm: "auto": NCCL's choice."""

    operation: str
    size_bytes: int
    gpus: int
    algorithm: str
    time_ps: float


class Read(NamedTuple):
    """What files have; n_between: measurements of several servers, which are left out."""

    rows: list[Measured]
    n_between: int


def read_collectives(paths: Sequence[Path]) -> Read:
    """CSV files, and outputs of nccl-tests. Raises ConfigError with file and line."""
    rows, n_between = [], 0
    for path in paths:
        try:
            text = read_text(path)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(str(path), why_unreadable(error), f"Accepted: {WANTED}") from None
        found = _printed(path, text) if text.lstrip().startswith("#") else _of_csv(path)
        rows += [row for row in found if row is not None]
        n_between += sum(row is None for row in found)
    if len(rows) < LEAST_ROWS:
        between = f", and {n_between} of several servers" if n_between else ""
        found = f"{len(rows)} collectives inside a server{between}"
        raise ConfigError(str(paths[0]), found, f"Accepted: {LEAST_ROWS} or more inside a server, of several sizes")
    return Read(rows, n_between)


def _of_csv(path: Path) -> list[Measured | None]:
    lines = read_lines(path, ALIASES, WANTED)
    return [_of_line(line) for line in lines]


def _of_line(line: Line) -> Measured | None:
    """None: of several servers."""
    cells = {name.lower(): cell for name, cell in line.cells.items()}
    line = Line(line.where, cells)
    for name in ("operation", "gpus", "size_bytes"):
        if name not in cells:
            raise ConfigError(line.where, f"no {name}", f"Accepted: {WANTED}")
    if "servers" in cells and line.number("servers") > 1:
        return None
    operation = operation_of(line.where, cells["operation"])
    gpus, size = int(line.number("gpus", 1)), int(line.number("size_bytes"))
    time_ps = line.time_ps(timed("time"))
    if time_ps is None and "busbw_gbps" in cells:
        time_ps = bus_share(operation, gpus) * size / line.number("busbw_gbps") * 1000
    if time_ps is None:
        raise ConfigError(line.where, "no time_us and no busbw_GBps", f"Accepted: {WANTED}")
    named = cells.get("algorithm", "").lower()
    algorithm = next((name for name in ("ring", "tree", "nvls") if named.startswith(name)), "auto")
    return Measured(operation, size, gpus, algorithm, time_ps)


def operation_of(where: str, text: str) -> str:
    """By one of its names."""
    name = text.strip().lower().replace("_", "-").replace(" ", "-")
    name = NAMES.get(name, name)
    if name not in OPERATIONS:
        accepted = f"Accepted: {', '.join(OPERATIONS)}{suggestion(name, OPERATIONS)}"
        raise ConfigError(f"{where}: operation", f"found {text[:60]!r}", accepted)
    return name


def bus_share(operation: str, gpus: int) -> float:
    """nccl-tests' bus bandwidth over bytes per time."""
    if operation in (*REDUCING, "all-to-all"):
        return (2 if operation == "all-reduce" else 1) * (gpus - 1) / gpus
    return 1.0


def _printed(path: Path, text: str) -> list[Measured | None]:
    """What nccl-tests prints: the operation in its head or in the file's name, a rank each line, then sizes."""
    named = _TESTED.search(text) or _TESTED.search(path.name)
    if named is None:
        found = "does not say which collective it is of"
        accepted = "Accepted: output of nccl-tests in a file named as its program, such as all_reduce_perf.txt"
        raise ConfigError(str(path), found, accepted)
    hosts = _RANK.findall(text)
    if len(hosts) < 2:
        raise ConfigError(
            str(path), f"{len(hosts)} lines of ranks", 'Accepted: "#  Rank  0 .. on HOST device .." of each'
        )
    operation, found = operation_of(str(path), named[1]), list[Measured | None]()
    for where, cells in _table(path, text):
        time_us = Line(where, {"time": cells[5]}).number("time")
        size = int(cells[0])
        if size:
            is_one = len(set(hosts)) == 1
            found.append(Measured(operation, size, len(hosts), "auto", time_us * PS_PER_US) if is_one else None)
    return found


def _table(path: Path, text: str) -> Iterator[tuple[str, list[str]]]:
    """(place, cells) of lines with a size; the out-of-place time is the sixth."""
    for i, line in enumerate(text.splitlines(), 1):
        cells = line.split()
        if len(cells) >= 9 and cells[0].isascii() and cells[0].isdigit() and len(cells[0]) < 16:
            yield f"{path}: line {i}", cells


def collective_problem(config: Config, rows: Sequence[Measured]) -> tuple[Problem, "Shape"]:
    """Constants of the type of a config's GPUs. Raises ConfigError."""
    shape = Shape(calibration_of(in_server_type(device_of(config))), tuple(rows))
    return shape.problem(), shape


class Shape(NamedTuple):
    """Regimes of a type, whose latencies and bandwidths are fitted where a measurement goes by them."""

    base: Calibration
    rows: tuple[Measured, ...]

    def problem(self) -> Problem:
        """Of all rows."""
        n = len(self.rows)
        names, start = self._names(), self._start()
        is_time = np.array([name.startswith("latency") for name in names])
        low, high = (np.where(is_time, LATENCY_PS[i], BYTES_PER_US[i]) for i in (0, 1))
        measured = np.array([row.time_ps for row in self.rows])
        return Problem(
            names, np.clip(start, low, high), low, high, np.full(len(names), SPREAD), measured, [""] * n,
            self.times_ps, np.ones(n), reshape=self.reshaped,
        )  # fmt: skip

    def _names(self) -> tuple[str, ...]:
        each = [f"{what} {i}" for i in range(len(self.base.regimes)) for what in ("latency", "bandwidth")]
        return (*each, "bandwidth pair")

    def _start(self) -> np.ndarray:
        each = [value for r in self.base.regimes for value in (r.latency_ps - self.base.launch_ps, r.bytes_per_us)]
        return np.array([*each, self.base.pair_bytes_per_us], float)

    def calibration(self, constants: np.ndarray) -> Calibration:
        """The type with these constants."""
        whole = [max(1, round(value)) for value in constants.tolist()]
        regimes = tuple(
            replace(regime, latency_ps=self.base.launch_ps + whole[2 * i], bytes_per_us=whole[2 * i + 1])
            for i, regime in enumerate(self.base.regimes)
        )
        return replace(self.base, regimes=regimes, pair_bytes_per_us=whole[-1])

    def times_ps(self, constants: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Predicted times of some rows."""
        own = self.calibration(constants)
        chosen = [self.rows[i] for i in rows.tolist()]
        return np.array(
            [float(in_server_ps(own, row.operation, row.size_bytes, row.gpus, row.algorithm)) for row in chosen]
        )

    def reshaped(self, rows: np.ndarray) -> Problem:
        """With ends of regimes as these rows have them."""
        return self.best(rows).problem()

    def best(self, rows: np.ndarray) -> "Shape":
        """The same."""
        return _best(self, tuple(rows.tolist()))

    def _neighbours(self) -> "Iterator[Shape]":
        """Shapes of which one regime goes up to twice or half as much."""
        regimes = self.base.regimes
        for i, regime in enumerate(regimes):
            if regime.up_to_bytes >= ALL_SIZES:
                continue
            own = [r.up_to_bytes for r in regimes if r.algorithm == regime.algorithm]
            at = own.index(regime.up_to_bytes)
            for size in (regime.up_to_bytes // 2, regime.up_to_bytes * 2):
                if (own[at - 1] if at else 0) < size < own[at + 1]:
                    moved = (*regimes[:i], replace(regime, up_to_bytes=size), *regimes[i + 1 :])
                    yield Shape(replace(self.base, regimes=moved), self.rows)


@lru_cache(maxsize=16)
def _best(shape: Shape, rows: tuple[int, ...]) -> Shape:
    own = np.array(rows, np.int64)
    best, cost = shape, _cost(shape, own)
    for _ in range(MOST_MOVES):
        found = [(_cost(one, own), one) for one in best._neighbours()]
        least = min(found, key=lambda each: each[0], default=(cost, best))
        if not least[0] < cost * (1 - BETTER):
            break
        cost, best = least
    return best


def _cost(shape: Shape, rows: np.ndarray) -> float:
    """How badly it fits: mean size of errors in logarithms."""
    problem = shape.problem()
    times_ps = problem.predict(fit(problem, rows), rows)
    return float(np.abs(np.log(times_ps / problem.measured[rows])).mean())


def table_of(calibration: Calibration) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """As [workload.devices.NAME.nccl] and its regimes have it."""
    head = {
        "launch": exact_duration(calibration.launch_ps),
        "pair_bandwidth": exact_rate(calibration.pair_bytes_per_us * 8 * 10**6),
    }
    return head, [_regime(regime) for regime in calibration.regimes]


def _regime(regime: Regime) -> dict[str, Any]:
    found: dict[str, Any] = {
        "algorithm": regime.algorithm, "protocol": regime.protocol, "latency": exact_duration(regime.latency_ps),
        "bandwidth": exact_rate(regime.bytes_per_us * 8 * 10**6),
    }  # fmt: skip
    return found | ({"up_to": exact_size(regime.up_to_bytes)} if regime.up_to_bytes < ALL_SIZES else {})
