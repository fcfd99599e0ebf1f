"""Runs of the program in processes of its own, under the mpirun that belongs to this Python, and what they leave."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mpi.crew import Crew

ROOT = Path(__file__).resolve().parents[2]
LAUNCHER_PREFIXES = ("PMI", "HYDI", "HYDRA", "OMPI_", "MPI_LOCAL", "PALS_", "SLURM_")
TIMEOUT_S = 240  # a first run compiles
READ_BY_EACH_RUN = {"PDES_WAIT"}  # variables that are no choice of a whole process
N_CREW = 4  # that stand by at a time

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


def launcher(n_rank: int) -> list[str]:
    """What is put before a command; nothing for one rank."""
    mpirun = Path(sys.executable).with_name("mpirun")
    if n_rank == 1:
        return []
    if not mpirun.exists():
        pytest.skip(f"no {mpirun}: install the extra mpich")
    return [str(mpirun), "-n", str(n_rank)]


@pytest.fixture(scope="session")
def inherited() -> dict[str, str]:
    """The environment of what is started: nobody's rank, and with this checkout."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHER_PREFIXES)}
    return kept | {"PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="session")
def start(inherited: dict[str, str]) -> Start:
    """start(n_rank, *arguments, **environment): `python *arguments` on n_rank ranks; 1 starts it without mpirun."""

    def run(n_rank: int, *arguments: object, **environment: str) -> Done:
        command = [*launcher(n_rank), sys.executable, *map(str, arguments)]
        return subprocess.run(
            command, env=inherited | environment, capture_output=True, text=True, timeout=TIMEOUT_S
        )  # fmt: skip

    return run


def is_common(key: tuple[int, frozenset[tuple[str, str]]]) -> bool:
    """Whether most tests want such a crew; of the others, which go first, `min` takes the longest unused one."""
    n_rank, environment = key
    return n_rank <= 2 and not environment


@pytest.fixture(scope="session")
def ask(start: Start, inherited: dict[str, str], pytestconfig: pytest.Config) -> Iterator[Start]:
    """The same as `start`, by ranks that have been started before: for what is no matter of processes.

    In the tier `all` these are processes of their own, too.
    """
    crews: dict[tuple[int, frozenset[tuple[str, str]]], Crew] = {}

    def run(n_rank: int, *arguments: object, **environment: str) -> Done:
        now = {name: value for name, value in environment.items() if name in READ_BY_EACH_RUN}
        at_start = {name: value for name, value in environment.items() if name not in now}
        key = n_rank, frozenset(at_start.items())
        crew = crews.pop(key, None)
        if crew is not None and crew.is_over:
            crew.end()
            crew = None
        if crew is None:
            while len(crews) >= N_CREW:
                crews.pop(min(crews, key=is_common)).end()
            crew = Crew(launcher(n_rank), n_rank, inherited | at_start, TIMEOUT_S)
        crews[key] = crew
        return crew.do([str(word) for word in arguments], now)

    yield start if pytestconfig.getoption("tier") == "all" else run
    for crew in crews.values():
        crew.end()


@pytest.fixture(scope="session")
def rank_counts(pytestconfig: pytest.Config) -> Callable[..., tuple]:
    """rank_counts(1, 2, 3): these numbers of ranks, or tuples that begin with one; only in the tier `all` above 2.

    More ranks than cores take a hundred times as long to meet.
    """
    most = 2 if pytestconfig.getoption("tier") != "all" else 99
    return lambda *cases: tuple(case for case in cases if (case[0] if isinstance(case, tuple) else case) <= most)


@pytest.fixture(scope="session")
def simulate(ask: Start) -> Start:
    """simulate(n_rank, config, out, *sets, **environment): a run that must succeed; sets are "table.key=value".

    All of its ranks simulate from the first event on, if sets do not say otherwise, and those that resume it, too.
    """

    def run(n_rank: int, config: Path, out: Path, *sets: str, **environment: str) -> Done:
        overrides = [word for text in ("partition.start=spread", *sets) for word in ("--set", text)]
        done = ask(n_rank, "-m", "pdes", config, "--out", out, "--quiet", *overrides, **environment)
        assert done.returncode == 0, done.stderr
        return done

    return run
