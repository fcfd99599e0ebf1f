"""Small runs in processes of their own, with the kernels as plain Python: no variant of them has to be compiled."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from mpi.crew import Crew

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 200
STAR = """
[topology]
kind = "leaf-spine"
leaves = 1
spines = 1
hosts_per_leaf = 4
[workload]
kind = "flows"
file = "flows.csv"
"""
ONE_FLOW = [(0, 1, 20_000, 0)]
INCAST = [(1, 0, 20_000, 0), (2, 0, 20_000, 0), (3, 0, 20_000, 5_000_000)]


def write_case(folder: Path, flows: list[tuple[int, int, int, int]], more: str = "") -> Path:
    """A config with a flow list: (src, dst, bytes, start in ps)."""
    rows = ["src,dst,size_bytes,start_ps", *(",".join(map(str, flow)) for flow in flows)]
    (folder / "flows.csv").write_text("\n".join(rows) + "\n")
    (folder / "case.toml").write_text(STAR + more)
    return folder / "case.toml"


def command(config: Path, out: Path, *more: str) -> list[str]:
    return ["-m", "pdes", str(config), "--out", str(out), "--quiet", "--python", *more]


def run(config: Path, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """On one rank."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *command(config, out, *more)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )


class Standing:
    """Processes that do one run after another: one for what is traced, which is known when kernels are imported, and
    one for the rest."""

    def __init__(self) -> None:
        self._crews: dict[bool, Crew] = {}

    def run(self, config: Path, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
        """What `run` does."""
        is_traced = "--trace" in more
        crew = self._crews.get(is_traced)
        if crew is None or crew.is_over:
            environment = os.environ | {"PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "1"}
            environment |= {"PDES_TRACED": "1"} if is_traced else {}
            crew = self._crews[is_traced] = Crew([], 1, environment, TIMEOUT_S)
        return crew.do(command(config, out, *more), {})

    def end(self) -> None:
        """Let them go."""
        for crew in self._crews.values():
            crew.end()


def table(out: Path, name: str) -> list[dict[str, Any]]:
    return pq.read_table(out / f"{name}.parquet").to_pylist()
