"""Where independent runs go: on this rank, or on all others of an MPI run at once, by `mpi4py.futures`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pdes.launcher import read_launch


def here(work: Callable[[Any], Any], asked: Sequence[Any], *, unordered: bool = False) -> Iterable[Any]:
    """One after the other. unordered: results may come in any order, as it is with that of other ranks."""
    return map(work, asked)


@contextmanager
def workers() -> Iterator[Callable[..., Any] | None]:
    """On every rank of the run; rank 0 gets what stands for `map`, the others None, after they have worked for it."""
    if read_launch().size <= 1:
        yield here
        return
    from pdes.engine.exchange import other_ranks_work, world

    if world().size == 1:
        yield here
        return
    with other_ranks_work() as work:
        yield work
