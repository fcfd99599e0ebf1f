"""Where a job and those that share links with it are fastest: the other policies' places are tried, the best is taken.

Of each policy's place for the job it is asked how fast all that it touches would be, as `Sharing` does at a start. The
place with the most work per time counts, GPU for GPU; of equals the first, in the order below.
"""

from collections.abc import Sequence

from models.cluster.job import Job, Place
from models.cluster.machine import Machine
from models.cluster.placement import packed, rack, spread, whole
from models.cluster.sharing import Case, Sharing, SpeedOfCase

TRIED = (packed.place, rack.place, whole.place, spread.place)


class LeastContended:
    """Takes GPUs for jobs as a policy does, but sees who runs beside."""

    def __init__(self, sharing: Sharing, speed: SpeedOfCase) -> None:
        self._sharing, self._speed = sharing, speed

    def place(self, machine: Machine, pool: int, n: int, job: Job) -> Place | None:
        """None: there is no place for it."""
        places: dict[tuple[tuple[int, int], ...], Place] = {}
        for policy in TRIED:
            found = policy(machine, pool, n)
            if found is not None:
                places.setdefault(tuple(sorted(found)), found)
                machine.give(found)
        if not places:
            return None
        best = self._best(list(places.values()), pool, n, job) if len(places) > 1 else next(iter(places.values()))
        for server, n_here in best:
            machine.take(server, n_here)
        return best

    def _best(self, places: Sequence[Place], pool: int, n: int, job: Job) -> Place:
        """All cases of all places are asked for at once."""
        cases: list[list[Case]] = []
        for place in places:
            tried = Job(job.request)
            tried.place, tried.pool, tried.n_held = place, pool, n
            cases.append(self._sharing.cases_if(tried))
        speeds = iter(self._speed([case for group in cases for case in group]))
        gains = [
            sum(case.job.n_held * (next(speeds) - (0.0 if case.job.number == job.number else case.job.full_speed))
                for case in group)
            for group in cases
        ]  # fmt: skip
        return places[max(range(len(places)), key=lambda i: (gains[i], -i))]
