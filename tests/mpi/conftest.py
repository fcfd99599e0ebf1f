"""Runs of the program in processes of its own, under the mpirun that belongs to this Python, and what they leave."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAUNCHER_PREFIXES = ("PMI", "HYDI", "HYDRA", "OMPI_", "MPI_LOCAL", "PALS_", "SLURM_")
TIMEOUT_S = 240  # a first run compiles

Done = subprocess.CompletedProcess[str]
Start = Callable[..., Done]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Take back a skip: pytest-mpi goes by keywords and takes all of this folder, for its name, as marked "mpi".

    The mark stands for tests that run inside MPI; those that start mpirun themselves need no --with-mpi.
    """
    for item in items:
        if item.get_closest_marker("mpi") is None:
            item.own_markers[:] = [m for m in item.own_markers if "--with-mpi" not in str(m.kwargs.get("reason"))]


@pytest.fixture(scope="session")
def start() -> Start:
    """start(n_rank, *arguments, **environment): `python *arguments` on n_rank ranks; 1 starts it without mpirun."""
    mpirun = Path(sys.executable).with_name("mpirun")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHER_PREFIXES)}
    inherited["PYTHONPATH"] = str(ROOT)

    def run(n_rank: int, *arguments: object, **environment: str) -> Done:
        command = [sys.executable, *map(str, arguments)]
        if n_rank > 1:
            if not mpirun.exists():
                pytest.skip(f"no {mpirun}: install the extra mpich")
            command = [str(mpirun), "-n", str(n_rank), *command]
        environment = inherited | environment
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)

    return run


@pytest.fixture(scope="session")
def simulate(start: Start) -> Start:
    """simulate(n_rank, config, out, *sets, **environment): a run that must succeed; sets are "table.key=value"."""

    def run(n_rank: int, config: Path, out: Path, *sets: str, **environment: str) -> Done:
        overrides = [word for text in sets for word in ("--set", text)]
        done = start(n_rank, "-m", "pdes", config, "--out", out, "--quiet", *overrides, **environment)
        assert done.returncode == 0, done.stderr
        return done

    return run
