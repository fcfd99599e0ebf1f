"""What the event loop of the cluster is told: the rules of the place, who watches, who decides; and its words."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from models.cluster.job import Job, Place, Request
from models.cluster.machine import Machine
from models.cluster.placement import Policy
from models.cluster.progress import Checkpoints
from models.cluster.storage import Storage

END, FAIL, BACK, OVER, CLOSE, UP, ARRIVE, WAKE = range(8)
"""Kinds of events, in the order in which they happen at one instant."""
NEVER_US = 2**62
STARTED, STOPPED, ENDED, INTERRUPTED, BACK_AGAIN = "start", "stop", "end", "interrupt", "requeue"
FAILED, REPAIRED, RECOVERED, CLOSED, MOVED, SPED = "fail", "repair", "recover", "close", "move", "speed"


class Speeds(Protocol):
    """How fast jobs are."""

    def __call__(self, request: Request, pool: int, place: Place) -> float:
        """Work per time of a job in its place; above 0."""
        ...


class Watch(Protocol):
    """Who is told of everything that happens: tables, progress."""

    def happened(self, now_us: int, what: str, job: Job | None, server: int, why: str) -> None:
        """server: -1 if it is a job's. why: the component that failed, or ""."""
        ...

    def left(self, job: Job) -> None:
        """A job is done."""
        ...


class Decides(Protocol):
    """A scheduler, as the loop knows it; `schedulers.scheduler` says what it may do."""

    def submitted(self, job: Job) -> None:
        """It waits."""
        ...

    def started(self, job: Job) -> None:
        """It runs."""
        ...

    def ended(self, job: Job) -> None:
        """It runs no more."""
        ...

    def changed(self, job: Job) -> None:
        """It runs at another speed."""
        ...

    def decide(self) -> None:
        """All else of an instant has happened."""
        ...


class Rules(NamedTuple):
    """How the cluster works. checkpoints: of a job with so many servers. stop_us: nothing happens after it.

    network_share: of the time of a job on several servers, what their network takes at its full speed.
    storage: where jobs' input comes from; None: it is always there. choose: a place for a job as it is, instead of
    `place`, which knows a number of GPUs alone. rerouted: the share of its full speed that a running job has where so
    many uplinks of its racks are down.
    """

    place: Policy
    speed: Speeds
    checkpoints: Callable[[Request, int], Checkpoints]
    stop_us: int = NEVER_US
    network_share: float = 0.0
    storage: Storage | None = None
    choose: Callable[[Machine, int, int, Job], Place | None] | None = None
    rerouted: Callable[[Job, Mapping[int, int]], float] | None = None
