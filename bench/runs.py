"""Runs of `pdes-sim` for the benchmarks, a process each; those that take long are kept by what determines them."""

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from pdes.config import Config, load_config
from pdes.engine.exchange import World
from pdes.errors import ConfigError
from pdes.simulation.compile import compile_kernels
from pdes.simulation.job import Run
from pdes.simulation.preparation.prepare import prepare
from pdes.simulation.versions import program

ROOT = Path(__file__).resolve().parent.parent
FACTS = "bench.json"  # beside the results: how long the process took, and which code it was


@dataclass(frozen=True)
class Finished:
    """A run's result folder. start_to_result_s: of the process. is_kept: from an earlier call."""

    folder: Path
    start_to_result_s: float
    code: str
    is_kept: bool = False

    @property
    def result(self) -> dict[str, Any]:
        """`result.json`."""
        return json.loads((self.folder / "result.json").read_text())

    @property
    def run(self) -> dict[str, Any]:
        """`run.json`."""
        return json.loads((self.folder / "run.json").read_text())

    def columns(self, table: str, names: Sequence[str]) -> dict[str, np.ndarray]:
        """int64 columns of a table, -1 where there is no value."""
        read = pq.read_table(self.folder / f"{table}.parquet", columns=list(names))
        return {name: read[name].fill_null(-1).to_numpy() for name in names}


def only(*forecasts: str) -> str:
    """The override, as after --set, that lets a run use these forecasts alone, as far as its mode allows them."""
    return f"wormhole.paper.forecasts={json.dumps(forecasts)}"


def simulate(
    config: Path, overrides: Sequence[str], folder: Path, n_rank: int = 1, limit_s: float | None = None
) -> Finished:
    """Run a config as a user would. SystemExit, with what it said, if it fails; TimeoutExpired after limit_s."""
    command = [sys.executable, "-m", "pdes", str(config.resolve()), "--quiet", "--out", str(folder.resolve())]
    for text in overrides:
        command += ["--set", text]
    if n_rank > 1:
        command = [str(Path(sys.executable).parent / "mpirun"), "-n", str(n_rank), *command]
    (folder / FACTS).unlink(missing_ok=True)
    begin_s = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit_s)
    seconds = time.perf_counter() - begin_s
    if done.returncode != 0:
        print(done.stderr, end="", file=sys.stderr)
        raise SystemExit(done.returncode)
    facts = {"start_to_result_s": seconds, "code": program()}
    (folder / FACTS).write_text(json.dumps(facts) + "\n")
    return Finished(folder, **facts)


def simulate_once(
    config: Path, overrides: Sequence[str], parent: Path, n_rank: int = 1, fresh: bool = False
) -> Finished:
    """`simulate` into a folder of `parent` named for what determines the result, unless a run is there.

    fresh: even so.
    """
    folder = parent / f"{config.stem}-{identity(load_config(config, list(overrides)), n_rank)[:12]}"
    if not fresh and (folder / FACTS).is_file() and (folder / "result.json").is_file():
        return Finished(folder, **json.loads((folder / FACTS).read_text()), is_kept=True)
    return simulate(config, overrides, folder, n_rank)


def compile_ahead(config: Path, overrides: Sequence[str], parent: Path) -> None:
    """Have everything compiled that a run needs, so that no time measured later has that in it.

    SystemExit, with what was said, if it cannot be.
    """
    folder = (parent / "compile-ahead").resolve()
    command = [sys.executable, str(Path(__file__).resolve()), str(config.resolve()), str(folder), *overrides]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stderr, end="", file=sys.stderr)
        raise SystemExit(done.returncode)


@contextmanager
def discarded_run(config: Path, overrides: Sequence[str], folder: Path) -> Iterator[Run]:
    """A run of a config in this process, on one rank, to be compiled and watched; it leaves no results."""
    run = Run(prepare(load_config(config, [*overrides, f'output.dir="{folder}"']), quiet=True), World())
    try:
        yield run
    finally:
        run.rows.close()
        run.folder.abandon()


def identity(config: Config, n_rank: int) -> str:
    """Hash of the resolved config, of the files that it names, and of how it is run. Not of the program's version."""
    tables = config.resolved()
    if tables["wormhole"].get("mode") == "off":
        tables["wormhole"] = {}
    inputs = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in sorted(_inputs(config, tables))}
    found = {"config": tables, "inputs": inputs, "ranks": n_rank, "rtt_of_flow": config.output.rtt_of_flow}
    if config.output.partitions:
        found["partitions"] = True
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def _inputs(config: Config, value: Any) -> Iterator[tuple[str, Path]]:
    """(name, path) of every text in the config that names a file, "file.py:Class" among them."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _inputs(config, inner)
    elif isinstance(value, str) and value:
        path = config.input_path(value.split(":")[0])
        if path.is_file():
            yield value, path


if __name__ == "__main__":
    try:  # flow level, too, which a run with an early stop time would not have
        with discarded_run(Path(sys.argv[1]), sys.argv[3:], Path(sys.argv[2])) as run_to_compile:
            compile_kernels(run_to_compile)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
