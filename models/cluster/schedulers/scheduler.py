"""What a scheduler is: it hears who comes and who goes, and once an instant says who starts and who stops."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from models.cluster.job import Job
from models.cluster.schedulers.accepted import Accepts
from models.cluster.waiting import Waiting

if TYPE_CHECKING:
    from models.cluster.loop import Cluster


class Scheduler:
    """Base of all. A subclass has a `key` to sort those who wait by, and whatever `decide` it needs.

    options: name and default of what `[cluster.options]` may set; they are attributes of the same name. accepted: by
    name, what an option may be beside being of its default's type. one_size: jobs must all ask for the same number of
    GPUs. turn: the option, in minutes, that says for how long a job runs before another takes its turn, if any does.
    cluster: what a scheduler reads (now_us, running, machine) and asks (`start`, `stop`, `wake`).
    """

    options: ClassVar[Mapping[str, Any]] = {}
    accepted: ClassVar[Mapping[str, Accepts]] = {}
    one_size: ClassVar[bool] = False
    turn: ClassVar[str] = ""

    def __init__(self, cluster: "Cluster", options: Mapping[str, Any]) -> None:
        self.cluster = cluster
        self.waiting = Waiting()
        for name, default in self.options.items():
            setattr(self, name, options.get(name, default))

    def key(self, job: Job) -> tuple:
        """Whoever has the smaller one is first. Here: as they were submitted."""
        return (job.request.submit_us,)

    def submitted(self, job: Job) -> None:
        """A job waits: it is new, or has been interrupted, or stopped by `decide`."""
        self.waiting.add(job, self.key(job))

    def started(self, job: Job) -> None:
        """A job waits no more."""
        self.waiting.remove(job)

    def ended(self, job: Job) -> None:
        """A job runs no more: it is done, was stopped, or a failure has interrupted it."""

    def changed(self, job: Job) -> None:
        """A running job goes at another speed, so that its end has moved."""

    def decide(self) -> None:
        """Start and stop jobs. Called once everything else of an instant has happened."""
        raise NotImplementedError

    def saved(self) -> dict[str, Any]:
        """What a checkpoint of the run keeps of it: all attributes but the cluster and the options."""
        return {name: value for name, value in vars(self).items() if name != "cluster" and name not in self.options}

    def start_in_order(self) -> None:
        """Start the first one as long as it fits: a job that does not holds up all behind it."""
        while (job := self.waiting.first()) is not None and self.cluster.start(job):
            pass

    def start_what_fits(self) -> None:
        """Start the first one of those that fit, as long as there is one."""
        fits = self.cluster.fits
        while (job := self.waiting.first(fits)) is not None and self.cluster.start(job):
            pass

    def start_instead(self, job: Job, others: Iterable[Job]) -> bool:
        """Start it where others run, as few of these as it takes in their order; whether it was started.

        Its GPUs are all of one pool: the first in which enough are free, with those of others. Nobody is stopped if
        there is none. Jobs that hang after a failure cannot be stopped.
        """
        cluster = self.cluster
        n_free, victims = list(cluster.machine.n_free), [[] for _ in cluster.machine.pools]
        for other in others:
            pool = other.pool
            if not other.is_hung and cluster.may_use(job, pool):
                victims[pool].append(other)
                n_free[pool] += other.n_held
                if n_free[pool] >= job.n_gpu:
                    for victim in victims[pool]:
                        cluster.stop(victim)
                    return cluster.start(job, pool)
        return False
