"""Where independent runs go: to this rank, to processes beside it, or to all other ranks, by `mpi4py.futures`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

from pdes.launcher import read_launch

RunAll = Callable[..., Iterable[Any]]
"""As `map`."""


def here(work: Callable[[Any], Any], asked: Sequence[Any], *, unordered: bool = False) -> Iterable[Any]:
    """One after the other. unordered: results may come in any order, as it is with that of other ranks."""
    return map(work, asked)


@contextmanager
def at_a_time(n: int) -> Iterator[RunAll]:
    """So many at a time, on this machine."""
    if n <= 1:
        yield here
        return
    with ProcessPoolExecutor(n, mp_context=get_context("spawn")) as pool:

        def run_all(work: Callable[[Any], Any], asked: Sequence[Any], *, unordered: bool = False) -> Iterable[Any]:
            futures = [pool.submit(work, each) for each in asked]
            return (future.result() for future in (as_completed(futures) if unordered else futures))

        try:
            yield run_all
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@contextmanager
def workers() -> Iterator[RunAll | None]:
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
