"""How fast jobs are by the iteration times of runs: beside that of the same job alone in as few servers as it fills.

A duration, or a number of steps, is about a job that is packed and alone on the first pool. What nobody has run yet is
run when it is asked for, all cases of one instant at the same time, and is never run again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
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
    """n_run: cases that were run, the others were known. n_in_packets: that were run so, too, to be checked.

    used: every case that was asked for, by its text.
    """

    def __init__(
        self, machine: Machine, benches: Sequence[Bench], memo: IterationMemo, run_all: RunAll, check: float = 0.0
    ) -> None:
        """benches: of each pool. run_all: see `workers`. check: share of cases that are run in packets, too."""
        self.machine, self.benches, self.memo, self.run_all = machine, benches, memo, run_all
        self.n_run, self.n_in_packets, self.used = 0, 0, dict[str, Entry]()
        self.check, self.checked = check, dict[str, tuple[int, int]]()  # flow mode's time, that in packets
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

    def rerouted(self, case: Case, lost: Mapping[int, int]) -> float:
        """The share of its full speed that a running job has with so many uplinks of its racks down, by rack."""
        if not self.knows(case.job.request.kind):
            return 1.0
        others = [other for other in case.others if self.knows(other.request.kind)]
        whole, without = shape_of(self.machine, case.job, others), shape_of(self.machine, case.job, others, lost)
        whole_ps, without_ps = self.times_ps([whole, without])
        return min(1.0, whole_ps / without_ps)

    def times_ps(self, shapes: Sequence[Shape]) -> list[int]:
        """Of an iteration of each shape's first job. Raises SimError, ConfigError of a run."""
        singles = [alone(self.machine, one.pool, part) for one in shapes for part in one.parts]
        by_itself = dict(zip(singles, self._known_ps(singles, {}), strict=True))
        return self._known_ps(shapes, by_itself)

    def _packed_ps(self, kind: str, n_gpu: int) -> int:
        if (kind, n_gpu) not in self._packed:
            (self._packed[kind, n_gpu],) = self.times_ps([packed(self.machine, 0, kind, n_gpu)])
        return self._packed[kind, n_gpu]

    def _known_ps(self, shapes: Sequence[Shape], by_itself: dict[Shape, int]) -> list[int]:
        """by_itself: times of the jobs of shapes with several, each alone."""
        wanted = [(one, False) for one in dict.fromkeys(shapes)]
        wanted += [(one, True) for one, _ in wanted if is_drawn(self._key(one), self.check)]
        new = [(one, packets) for one, packets in wanted if self.memo.get(self._key(one, packets)) is None]
        if new:
            self.tell(f"running {len(new)} iteration times, {new[0][0].text()} first")
            asked = []
            for one, packets in new:
                times = {i: by_itself.get(alone(self.machine, one.pool, part), 0) for i, part in enumerate(one.parts)}
                bench = self.benches[one.pool]
                tables = tables_of(bench, one, times)
                asked.append((tables | {"wormhole": {"mode": "off"}} if packets else tables, bench.folder))
            for (one, packets), entry in zip(new, self.run_all(run, asked), strict=True):
                self.memo.add(self._key(one, packets), one.text(), entry)
                self.n_run += not packets
                self.n_in_packets += packets
        found = []
        for one in shapes:
            entry = self.memo.get(self._key(one))
            assert entry is not None
            self.used[self._text(one)] = entry
            found.append(entry.time_ps)
            if is_drawn(self._key(one), self.check):
                packets = self.memo.get(self._key(one, True))
                assert packets is not None
                self.checked[self._text(one)] = entry.time_ps, packets.time_ps
        return found

    def _key(self, one: Shape, in_packets: bool = False) -> str:
        if one not in self._keys:
            self._keys[one] = self.benches[one.pool].key(one)
        return self._keys[one] + ":packets" * in_packets

    def _text(self, one: Shape) -> str:
        name = self.machine.pools[one.pool].gpu
        return one.text() if len(self.machine.pools) == 1 else f"{name}: {one.text()}"


def is_drawn(key: str, check: float) -> bool:
    """Whether a case is among those that are checked: by its key, so whatever the order and the ranks."""
    return int(key[:8], 16) < check * 2**32
