"""Quotas by tenant, as virtual clusters have them: a tenant's jobs go first come, first served within its quota.

With `borrow`, GPUs that nobody's quota needs now go to others' jobs, which are stopped when an owner wants them back.
So do Philly's virtual clusters (Jeon et al., ATC '19, section 2), by the capacity scheduler of YARN.
"""

from collections import Counter
from typing import Any

from models.cluster.job import Job
from models.cluster.schedulers.accepted import ByName, Number
from models.cluster.schedulers.scheduler import Scheduler
from models.cluster.waiting import Waiting


class Quota(Scheduler):
    """quotas: GPUs by tenant; a tenant without one only borrows."""

    options = {"quotas": {}, "borrow": True}
    accepted = {"quotas": ByName(Number(0, 10**9, is_whole=True))}
    quotas: dict[str, Any]
    borrow: bool

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.used: Counter[str] = Counter()  # by tenant, without what is borrowed
        self.borrowed: dict[int, Job] = {}
        self.of_tenant: dict[str, Waiting] = {}

    def submitted(self, job: Job) -> None:
        """It waits beside its tenant's others."""
        super().submitted(job)
        self.of_tenant.setdefault(job.tenant, Waiting()).add(job, job.key)

    def started(self, job: Job) -> None:
        """It waits no more."""
        super().started(job)
        self.of_tenant[job.tenant].remove(job)

    def ended(self, job: Job) -> None:
        """What it has had is free."""
        if self.borrowed.pop(job.number, None) is None:
            self.used[job.tenant] -= job.n_held

    def decide(self) -> None:
        """First what quotas allow, by tenant; then what is left is lent."""
        for tenant, waiting in sorted(self.of_tenant.items()):
            while (job := waiting.first()) is not None and self._is_within_quota(job):
                if not self.cluster.start(job) and not self.start_instead(job, self._lent()):
                    break
                self.used[tenant] += job.n_held
        while self.borrow and (job := self.waiting.first(self.cluster.fits)) and self.cluster.start(job):
            self.borrowed[job.number] = job

    def _is_within_quota(self, job: Job) -> bool:
        return self.used[job.tenant] + job.n_gpu <= self.quotas.get(job.tenant, 0)

    def _lent(self) -> list[Job]:
        """What was lent last comes back first."""
        return list(reversed(self.borrowed.values()))
