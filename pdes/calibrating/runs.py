"""Times that the simulator itself predicts, with keys of the config free: of flows, and of iterations."""

import copy
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pdes.calibrating.fit import Problem
from pdes.calibrating.iterations import MeasuredRun, config_with
from pdes.calibrating.keys import FreeKey
from pdes.calibrating.rows import read_lines, timed
from pdes.config import config_from_dict
from pdes.config.overrides import put
from pdes.errors import ConfigError

SPREAD = 10.0  # of the logarithm of a key: measurements alone decide
DIFFERENCE = 0.02
TIMES = [*timed("fct"), *timed("time")]
WANTED = "a CSV file with the columns flow (its flow_id in flows.parquet) and fct_us (or fct_ns, ..)"


class MeasuredFlows(NamedTuple):
    """flow: int64[n], their numbers; time_ps: float64[n], their completion times."""

    flow: np.ndarray
    time_ps: np.ndarray
    where: list[str]


def read_flows(path: Path) -> MeasuredFlows:
    """Raises ConfigError with file and line."""
    lines = read_lines(path, {"fct": "fct_us", "id": "flow", "flow_id": "flow"}, WANTED)
    flows, times, seen = [], [], set[int]()
    for line in lines:
        time_ps = line.time_ps(TIMES)
        text = line.cells.get("flow", "")
        if time_ps is None or not (text.isascii() and text.isdigit() and len(text) < 16) or int(text) in seen:
            what = "no flow and no fct_us" if time_ps is None else f"flow {text!r}, which is no number, or there twice"
            raise ConfigError(line.where, what, f"Accepted: {WANTED}")
        seen.add(int(text))
        flows.append(int(text))
        times.append(time_ps)
    return MeasuredFlows(np.array(flows, np.int64), np.array(times), [line.where for line in lines])


class Simulated:
    """Runs of one config with keys at some values; each point is run once."""

    def __init__(self, base: dict[str, Any], source: Path, keys: Sequence[FreeKey], say: Callable[[str], None]) -> None:
        self.base, self.source, self.keys, self.say = base, source, keys, say
        self._known: dict[tuple[Any, ...], np.ndarray] = {}
        self._n_run = 0

    def values(self, constants: np.ndarray) -> dict[str, Any]:
        """Key -> value of the config."""
        return {key.name: key.value(number) for key, number in zip(self.keys, constants.tolist(), strict=True)}

    def of_flows(self, measured: MeasuredFlows) -> Problem:
        """All flows come from one run."""

        def predict(constants: np.ndarray, rows: np.ndarray) -> np.ndarray:
            values = self.values(constants)
            return self._once(tuple(values.values()), lambda: self._fct_ps(values, measured))[rows]

        return self._problem(measured.time_ps, [""] * len(measured.flow), predict)

    def of_iterations(self, runs: Sequence[MeasuredRun]) -> Problem:
        """A run for each."""

        def predict(constants: np.ndarray, rows: np.ndarray) -> np.ndarray:
            values, found = self.values(constants), []
            for i in rows.tolist():
                found.append(self._once((i, *values.values()), lambda i=i: self._iteration_ps(values, runs[i]))[0])
            return np.array(found)

        return self._problem(np.array([run.time_ps for run in runs]), [run.group for run in runs], predict)

    def _problem(self, measured: np.ndarray, group: list[str], predict: Any) -> Problem:
        low, high = (np.array([getattr(key, name) for key in self.keys]) for name in ("low", "high"))
        n = len(measured)
        if n < len(self.keys) + 2:
            found = f"{n} measurements, for {len(self.keys)} keys"
            raise ConfigError("--key", found, f"Accepted: {len(self.keys) + 2} measurements or more")
        return Problem(
            tuple(key.name for key in self.keys), np.sqrt(low * high), low, high, np.full(len(self.keys), SPREAD),
            measured, group, predict, np.ones(n), difference=DIFFERENCE,
        )  # fmt: skip

    def _once(self, key: tuple[Any, ...], run: Callable[[], np.ndarray]) -> np.ndarray:
        if key not in self._known:
            self._n_run += 1
            self.say(f"simulating, run {self._n_run}")
            self._known[key] = run()
        return self._known[key]

    def _fct_ps(self, values: dict[str, Any], measured: MeasuredFlows) -> np.ndarray:
        data = copy.deepcopy(self.base)
        for name, value in values.items():
            put(data, tuple(name.split(".")), value, f"--key {name}")
        from pdes.simulation import simulate

        with tempfile.TemporaryDirectory(prefix="pdes-calibrate-") as folder:
            result = simulate(config_from_dict(data, self.source), folder)
            table = result.flows
            number, fct_ps = (np.asarray(table.column(name)) for name in ("flow_id", "fct_ps"))
        number, fct_ps = number[fct_ps > 0], fct_ps[fct_ps > 0]  # of those that have ended
        order = np.argsort(number)
        at = np.minimum(np.searchsorted(number[order], measured.flow), len(number) - 1) if len(number) else None
        missing = np.ones(len(measured.flow), bool) if at is None else number[order][at] != measured.flow
        if missing.any() or at is None:
            where = measured.where[int(np.argmax(missing))]
            raise ConfigError(where, "is of no flow that ends in a run", f"Accepted: flows 0 to {len(number) - 1}")
        return fct_ps[order][at].astype(float)

    def _iteration_ps(self, values: dict[str, Any], run: MeasuredRun) -> np.ndarray:
        from pdes.simulation import simulate

        with tempfile.TemporaryDirectory(prefix="pdes-calibrate-") as folder:
            data = self.base | {"output": {"tasks": False}}
            result = simulate(config_with(data, self.source, run, values), folder)
            times_ps = result.summary.get("iteration_time_ps") or []
        if not times_ps:
            raise ConfigError(str(self.source), "has no iterations", 'Accepted: a [workload] of kind "training"')
        return np.array([float(times_ps[-1])])
