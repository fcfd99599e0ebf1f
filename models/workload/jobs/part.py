"""What of a plan is one job's: which messages, tasks and iterations, and when it begins."""

from typing import Any, NamedTuple


class JobPart(NamedTuple):
    """One job of a plan. Its messages are first_flow .. first_flow + n_flow - 1, and so are tasks and iterations.

    group: where its streams wait until those of other jobs have ended, -1: it begins at start_ps. ends: groups of jobs
    that wait for this one. hosts: host numbers of its GPUs, in its own order; (): all.
    """

    name: str
    n_iteration: int
    flows_per_iteration: int
    tasks_per_iteration: int
    n_main: int  # streams whose time is accounted for
    n_stream: int
    slowed_1024: int  # see `program.JOB`, also the next one
    jitter_ppm: int
    hosts: tuple[int, ...] = ()
    first_flow: int = 0
    first_task: int = 0
    first_iteration: int = 0
    first_main: int = 0
    first_spent: int = 0  # of the breakdown's rows
    start_ps: int = 0
    group: int = -1
    ends: tuple[int, ...] = ()
    facts: dict[str, Any] = {}  # never written: what the summary says about it

    @property
    def n_flow(self) -> int:
        """Messages of the job."""
        return self.n_iteration * self.flows_per_iteration

    @property
    def n_task(self) -> int:
        """Task rows of the job."""
        return self.n_iteration * self.tasks_per_iteration
