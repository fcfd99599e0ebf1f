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
    from pdes.engine.exchange import other_ranks_work, world

    if world().size == 1:
        yield here
        return
    with other_ranks_work() as work:
        yield work
