"""Jobs in order. Those that wait have one sorted line for each size and type of GPU.

There are few sizes and types, so who is first of those that fit is found without a look at the others.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator

from models.cluster.job import Job

Line = list[tuple[tuple, int, Job]]
Fits = Callable[[Job], bool]


class Waiting:
    """Sorted by `Job.key`, then by number. A job is in it once."""

    def __init__(self) -> None:
        self.lines: dict[tuple[str, int], Line] = {}
        self.n_job = 0

    def add(self, job: Job, key: tuple) -> None:
        """key: whoever has the smaller one is first."""
        job.key = key
        insort(self.lines.setdefault((job.gpu_type, job.n_gpu), []), (key, job.number, job))
        self.n_job += 1

    def remove(self, job: Job) -> None:
        """It is there."""
        line = self.lines[job.gpu_type, job.n_gpu]
        i = bisect_left(line, (job.key, job.number))
        assert line[i][2] is job
        del line[i]
        self.n_job -= 1
        if not line:
            del self.lines[job.gpu_type, job.n_gpu]

    def first(self, fits: Fits | None = None) -> Job | None:
        """Of all, or of those that fit; jobs of one size and type all fit, or none does."""
        tops = [line[0] for line in self.lines.values() if fits is None or fits(line[0][2])]
        return min(tops)[2] if tops else None

    def __iter__(self) -> Iterator[Job]:
        """All, in order."""
        return (job for _, _, job in sorted(entry for line in self.lines.values() for entry in line))

    def __len__(self) -> int:
        return self.n_job


class Sorted:
    """Jobs by a number that stays as long as they are in it, such as when they end."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int, Job]] = []
        self._keys: dict[int, int] = {}

    def add(self, job: Job, key: int) -> None:
        """It is not there."""
        self._keys[job.number] = key
        insort(self.entries, (key, job.number, job))

    def remove(self, job: Job) -> None:
        """It is there."""
        i = bisect_left(self.entries, (self._keys.pop(job.number), job.number))
        assert self.entries[i][2] is job
        del self.entries[i]

    def __iter__(self) -> Iterator[Job]:
        return (job for _, _, job in self.entries)

    def __reversed__(self) -> Iterator[Job]:
        return (job for _, _, job in reversed(self.entries))
