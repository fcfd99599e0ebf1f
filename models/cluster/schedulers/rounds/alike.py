"""Jobs that are alike: to a programme they are one, with how many there are, and who gets what is said afterwards.

Jobs of one kind may have the same configurations, equally fast. Those of a group cost the same in each of them too, so
that any of them may have what any other has: whoever has something keeps it, and the others come by number.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import merge
from itertools import chain, islice
from typing import Any, NamedTuple

from models.cluster.job import Job
from models.cluster.schedulers.rounds.elastic import Config


class Kind:
    """waits: numbers of jobs that have never run, ascending; stopped: of those that have, and wait. held: by
    configuration those that run there. rest: costs of one that waits.
    """

    def __init__(self, configs: list[Config]) -> None:
        self.configs = configs
        self.place_of = {(config.pool, config.n_gpu): i for i, config in enumerate(configs)}
        self.waits: list[int] = []
        self.stopped: list[int] = []
        self.held: list[list[int]] = [[] for _ in configs]
        self.rest: Any = None

    def __len__(self) -> int:
        return len(self.waits) + len(self.stopped) + sum(map(len, self.held))


class Group(NamedTuple):
    """costs: of each configuration of the kind. held: by configuration, numbers of its jobs there; others wait."""

    kind: Kind
    costs: Any
    held: dict[int, list[int]]
    waits: list[int]

    @property
    def n_job(self) -> int:
        """Of all."""
        return len(self.waits) + sum(map(len, self.held.values()))

    def handed_out(self, wanted: dict[int, int]) -> Iterator[tuple[int, Config | None]]:
        """(number, configuration or None) of each job that does not stay as it is.

        wanted: by configuration, how many jobs have it. The best one goes to the first of those that change.
        """
        gone, open_places = [], []
        for i, numbers in self.held.items():
            gone += numbers[wanted.get(i, 0) :]
        for i, n in sorted(wanted.items(), key=lambda entry: (self.costs[entry[0]], entry[0])):
            open_places += [self.kind.configs[i]] * max(n - len(self.held.get(i, ())), 0)
        moved = list(islice(merge(sorted(gone), self.waits), len(open_places)))
        yield from zip(moved, open_places, strict=True)
        stays = set(moved)
        yield from ((number, None) for number in gone if number not in stays)


class Kinds:
    """All jobs that are there, by kind."""

    def __init__(self) -> None:
        self.by_key: dict[tuple, Kind] = {}
        self.of_job: dict[int, Kind] = {}

    def __iter__(self) -> Iterator[Kind]:
        return iter(self.by_key.values())

    def waits(self, job: Job, configs: list[Config]) -> None:
        """It waits; configs: of a job that is new."""
        kind = self.of_job.get(job.number)
        if kind is None:
            key = tuple(configs)
            kind = self.of_job[job.number] = self.by_key.get(key) or self.by_key.setdefault(key, Kind(configs))
        insort(kind.stopped if job.n_start else kind.waits, job.number)

    def started(self, job: Job) -> None:
        """It runs, where it is."""
        kind = self.of_job[job.number]
        _remove(kind.stopped if _has(kind.stopped, job.number) else kind.waits, job.number)
        insort(kind.held[kind.place_of[job.pool, job.n_held]], job.number)

    def ended(self, job: Job, is_done: bool) -> None:
        """It runs no more; is_done: nor will it again."""
        kind = self.of_job[job.number]
        _remove(kind.held[kind.place_of[job.pool, job.n_held]], job.number)
        if is_done:
            del self.of_job[job.number]
            if not kind:
                del self.by_key[tuple(kind.configs)]


def handed_out(groups: list[Group], wanted: list[int]) -> dict[int, Config | None]:
    """By number, of all that change. wanted: how many get each configuration of the first group, of the second, .."""
    changes, counts = [], iter(wanted)
    for group in groups:
        own = {i: n for i, n in enumerate(islice(counts, len(group.kind.configs))) if n}
        changes.append(group.handed_out(own))
    return dict(chain.from_iterable(changes))


def _has(numbers: list[int], number: int) -> bool:
    i = bisect_left(numbers, number)
    return i < len(numbers) and numbers[i] == number


def _remove(numbers: list[int], number: int) -> None:
    i = bisect_left(numbers, number)
    assert numbers[i] == number
    del numbers[i]
