"""Where cases are run: on this rank, or on all others of an MPI run at once, by `mpi4py.futures`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pdes.config.toml_file import read_toml
from pdes.errors import ConfigError
from pdes.launcher import read_launch


def here(work: Callable[[Any], Any], asked: Sequence[Any]) -> Iterable[Any]:
    """One after the other."""
    return map(work, asked)


def wants_workers(config: str | None) -> bool:
    """Whether a config, readable and of the cluster level, has [cluster.runs]. None: of a run that goes on."""
    if config is None:
        return False
    try:
        data, _ = read_toml(Path(config))
    except ConfigError:
        return False
    cluster = data.get("cluster")
    return isinstance(cluster, dict) and "runs" in cluster


@contextmanager
def workers() -> Iterator[Callable[..., Any] | None]:
    """On every rank of the run; rank 0 gets what `RunSpeeds` calls, the others None, after they have worked for it."""
    if read_launch().size <= 1:
        yield here
        return
    from mpi4py import MPI
    from mpi4py.futures import MPICommExecutor

    if MPI.COMM_WORLD.size == 1:
        yield here
        return
    with MPICommExecutor(MPI.COMM_WORLD, root=0) as executor:
        pool: Any = executor  # None on the others
        yield None if pool is None else pool.map
