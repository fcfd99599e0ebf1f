"""Regions, quotas, best effort, as in MAST (OSDI '24): every region is looked at before a job goes to one.

A region is a pool. A tenant's jobs are guaranteed within its quota, which holds in all regions together, and best
effort beyond. Deviations: one scheduler decides everything, where MAST has layers of them; data are everywhere.
"""

from models.cluster.job import Job
from models.cluster.schedulers.quota import Quota


class Mast(Quota):
    """A guaranteed job goes where fewest GPUs of best effort have to be stopped, then where fewest stay free."""

    options = {"quotas": {}}
    borrow = True

    def decide(self) -> None:
        """Guaranteed jobs of the tenant that has least of its quota first; then best effort, as submitted.

        A guaranteed job that no region has room for holds up its tenant's jobs behind it, and nobody else's.
        """
        held_up: set[str] = set()
        while (job := self._next(held_up)) is not None:
            if self._starts(job):
                self.used[job.tenant] += job.n_held
            else:
                held_up.add(job.tenant)
        while (job := self.waiting.first(self.cluster.fits)) is not None and self._starts_where_it_fits(job):
            self.borrowed[job.number] = job

    def _next(self, held_up: set[str]) -> Job | None:
        """The first job of the tenant with the least share of its quota, of those within it that nothing holds up."""
        found: list[tuple[float, str, Job]] = []
        for tenant, waiting in self.of_tenant.items():
            job = waiting.first()
            if job is not None and tenant not in held_up and self._is_within_quota(job):
                found.append((self.used[tenant] / self.quotas[tenant], tenant, job))
        return min(found, key=lambda entry: entry[:2])[2] if found else None

    def _starts(self, job: Job) -> bool:
        if self._starts_where_it_fits(job):
            return True
        lent: dict[int, list[Job]] = {}
        for other in reversed(self.borrowed.values()):
            if not other.is_hung:
                lent.setdefault(other.pool, []).append(other)
        n_free, choices = self.cluster.machine.n_free, []
        for pool, others in lent.items():
            short, victims = job.n_gpu - n_free[pool], []
            while others and short > 0:
                victims.append(others.pop(0))
                short -= victims[-1].n_held
            if self.cluster.may_use(job, pool) and short <= 0:
                choices.append((sum(other.n_held for other in victims), -short, pool, victims))
        if not choices:
            return False
        _, _, pool, victims = min(choices, key=lambda choice: choice[:3])
        for other in victims:
            self.cluster.stop(other)
        return self.cluster.start(job, pool=pool)

    def _starts_where_it_fits(self, job: Job) -> bool:
        """In the region that it fills best."""
        n_free: list[int] = self.cluster.machine.n_free
        fitting = [(n, pool) for pool, n in enumerate(n_free) if n >= job.n_gpu and self.cluster.may_use(job, pool)]
        return any(self.cluster.start(job, pool=pool) for _, pool in sorted(fitting))
