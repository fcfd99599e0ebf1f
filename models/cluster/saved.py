"""What a checkpoint has of a run, and how a new cluster of the same config goes on from it.

What follows from the config is made anew: servers, rules, processes of failures, the scheduler's options.
"""

import random
from types import ModuleType
from typing import Any, NamedTuple

from models.cluster.loop import Cluster
from models.cluster.schedulers.scheduler import Scheduler

OF_CONFIG = {"machine", "rules", "failures", "watch", "requests", "incidents", "sharing", "_scheduler"}


class Draws(NamedTuple):
    """A generator of random numbers, of Python's."""

    state: tuple


def save(cluster: Cluster, scheduler: Scheduler) -> dict[str, Any]:
    """Everything that changes. Nothing is copied: the loop has to rest until it is written."""
    return {
        "cluster": {name: value for name, value in vars(cluster).items() if name not in OF_CONFIG},
        "machine": vars(cluster.machine),
        "incidents": {name: value for name, value in vars(cluster.incidents).items() if name != "loop"},
        "counts": cluster.failures.counts,
        "scheduler": {
            name: Draws(value.getstate()) if isinstance(value, random.Random) else value
            for name, value in scheduler.saved().items()
            if not isinstance(value, ModuleType)
        },
    }


def load(cluster: Cluster, scheduler: Scheduler, state: dict[str, Any]) -> None:
    """Into a cluster in which nothing has happened. Its requests begin behind `state["cluster"]["next"]`."""
    vars(cluster).update(state["cluster"])
    vars(cluster.machine).update(state["machine"])
    if cluster.sharing is not None:
        for job in cluster.running.values():
            cluster.sharing.add(job)
    vars(cluster.incidents).update(state["incidents"])
    cluster.failures.counts = state["counts"]
    for name, value in state["scheduler"].items():
        if isinstance(value, Draws):
            found = random.Random()
            found.setstate(value.state)
            value = found
        setattr(scheduler, name, value)
