"""How fast jobs are by the iteration times of runs: beside that of the same job alone in as few servers as it fills.

A duration, or a number of steps, is about a job that is packed and alone on the first pool. What nobody has run yet is
run when it is asked for, all cases of one instant at the same time, and is never run again.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from models.cluster.job import Place, Request
from models.cluster.machine import Machine
from models.cluster.sharing import Case
from pdes.cluster.iterations.memo import Entry, IterationMemo
from pdes.cluster.iterations.run import Bench, run, share_of, tables_of
from pdes.cluster.iterations.shape import Shape, alone, packed, shape, shape_of
from pdes.units import PS_PER_S

Asked = tuple[dict[str, Any], str]
RunAll = Callable[[Callable[[Asked], Entry], Sequence[Asked]], Iterable[Entry]]
"""As `map`: here, or on other ranks."""


class RunSpeeds:
    """n_run: cases that were run, the others were known. used: every case that was asked for, by its text."""

    def __init__(self, machine: Machine, benches: Sequence[Bench], memo: IterationMemo, run_all: RunAll) -> None:
        """benches: of each pool. run_all: see `workers`."""
        self.machine, self.benches, self.memo, self.run_all = machine, benches, memo, run_all
        self.n_run, self.used = 0, dict[str, Entry]()
        self.tell: Callable[[str], None] = lambda _: None
        self._packed: dict[tuple[str, int], int] = {}
        self._keys: dict[Shape, str] = {}

    def knows(self, kind: str) -> bool:
        """Whether jobs of a kind are run."""
        return kind in self.benches[0].kinds

    def replica(self, kind: str) -> int:
        """Of how many GPUs jobs of a kind have a multiple."""
        return share_of(self.benches[0].kinds[kind])

    def step_s(self, kind: str, n_gpu: int) -> float:
        """An iteration of a job that is packed and alone on the first pool."""
        return self._packed_ps(kind, n_gpu) / PS_PER_S

    def alone(self, request: Request, pool: int, place: Place) -> float:
        """Work per time of a job in its place, of a kind that is run, as if it shared no link."""
        (time_ps,) = self.times_ps([shape(self.machine, pool, [(request.kind, place)])])
        return self._packed_ps(request.kind, request.n_gpu) / time_ps

    def __call__(self, cases: Sequence[Case]) -> list[float]:
        """Of running jobs. Those of other kinds stay as they are, and slow nobody."""
        mine = [case for case in cases if self.knows(case.job.request.kind)]
        shapes = []
        for case in mine:
            others = [other for other in case.others if self.knows(other.request.kind)]
            shapes.append(shape_of(self.machine, case.job, others))
        times = dict(zip((case.job.number for case in mine), self.times_ps(shapes), strict=True))
        return [
            self._packed_ps(case.job.request.kind, case.job.n_gpu) / times[case.job.number]
            if case.job.number in times
            else case.job.full_speed
            for case in cases
        ]

    def times_ps(self, shapes: Sequence[Shape]) -> list[int]:
        """Of an iteration of each shape's first job. Raises SimError, ConfigError of a run."""
        singles = [alone(one.pool, part) for one in shapes for part in one.parts]
        by_itself = dict(zip(singles, self._known_ps(singles, {}), strict=True))
        return self._known_ps(shapes, by_itself)

    def _packed_ps(self, kind: str, n_gpu: int) -> int:
        if (kind, n_gpu) not in self._packed:
            (self._packed[kind, n_gpu],) = self.times_ps([packed(self.machine, 0, kind, n_gpu)])
        return self._packed[kind, n_gpu]

    def _known_ps(self, shapes: Sequence[Shape], by_itself: dict[Shape, int]) -> list[int]:
        """by_itself: times of the jobs of shapes with several, each alone."""
        new = [one for one in dict.fromkeys(shapes) if self.memo.get(self._key(one)) is None]
        if new:
            self.tell(f"running {len(new)} iteration times, {new[0].text()} first")
            asked = []
            for one in new:
                times = {i: by_itself.get(alone(one.pool, part), 0) for i, part in enumerate(one.parts)}
                bench = self.benches[one.pool]
                asked.append((tables_of(bench, one, times), bench.folder))
            for one, entry in zip(new, self.run_all(run, asked), strict=True):
                self.memo.add(self._key(one), one.text(), entry)
                self.n_run += 1
        found = []
        for one in shapes:
            entry = self.memo.get(self._key(one))
            assert entry is not None
            self.used[self._text(one)] = entry
            found.append(entry.time_ps)
        return found

    def _key(self, one: Shape) -> str:
        if one not in self._keys:
            self._keys[one] = self.benches[one.pool].key(one)
        return self._keys[one]

    def _text(self, one: Shape) -> str:
        name = self.machine.pools[one.pool].gpu
        return one.text() if len(self.machine.pools) == 1 else f"{name}: {one.text()}"
