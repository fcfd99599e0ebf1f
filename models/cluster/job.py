"""A job while it is in the cluster: what it asks for, what it has, and how far it is."""

from typing import NamedTuple

from models.cluster.progress import FROM_START, Checkpoints

WAITING, RUNNING, DONE = range(3)
NO_CHECKPOINTS = Checkpoints()
Place = list[tuple[int, int]]
"""(server, GPUs there), no server twice."""


class Request(NamedTuple):
    """A job as it is submitted.

    number: 0, 1, .. in the order of submission. work_us: its run time on n_gpu GPUs at speed 1, without failures and
    checkpoints. gpu_type: of the pools that it may run in, "" for any. estimate_us: what its user says that it takes,
    for schedulers that go by that; 0: as long as it does. min_gpu, max_gpu: how few and how many GPUs an elastic job
    may have, n_gpu among them; 0 for a rigid one, which has n_gpu.
    """

    number: int
    name: str
    submit_us: int
    n_gpu: int
    work_us: int
    tenant: str = ""
    priority: int = 0
    kind: str = ""
    gpu_type: str = ""
    estimate_us: int = 0
    min_gpu: int = 0
    max_gpu: int = 0


class Job:
    """Written by `loop` alone; schedulers read.

    saved_us: of its work, what a failure does not take. begin_us: since when it computes, behind start-up. speed: work
    per time, full_speed what it is where nothing slows it, slow_cause what does. mark: where its speed changed last.
    version: of the end that is expected. owes_us: what its next start takes longer, as it was stopped.
    is_hung: a failure of cause has ended it, which nobody has noticed until back_us. rules: its checkpoints, since its
    start. crowd_us: jobs in the cluster over time, summed up to its submission. key, level: the scheduler's own.
    """

    __slots__ = (
        "request", "number", "n_gpu", "gpu_type", "priority", "tenant", "state", "place", "pool", "n_held", "speed",
        "saved_us", "start_us", "begin_us", "end_us", "version", "ready_us", "first_start_us", "waited_us", "gpu_us",
        "lost_gpu_us", "overhead_gpu_us", "n_start", "n_preemption", "n_failure", "owes_us", "key", "level",
        "estimated_end_us", "is_hung", "back_us", "cause", "rules", "full_speed", "slow_cause", "mark", "n_move",
        "crowd_us",
    )  # fmt: skip

    def __init__(self, request: Request) -> None:
        self.request = request
        self.number, self.n_gpu, self.gpu_type = request.number, request.n_gpu, request.gpu_type
        self.priority, self.tenant = request.priority, request.tenant
        self.state, self.speed = WAITING, 1.0
        self.place: Place = []
        self.pool, self.n_held, self.version = -1, 0, 0
        self.saved_us = self.start_us = self.begin_us = self.waited_us = self.owes_us = 0
        self.end_us = self.first_start_us = -1
        self.ready_us = request.submit_us
        self.gpu_us = self.lost_gpu_us = self.overhead_gpu_us = 0
        self.n_start = self.n_preemption = self.n_failure = 0
        self.key: tuple = ()
        self.level = self.back_us = 0
        self.estimated_end_us, self.is_hung, self.cause = -1, False, ""
        self.rules, self.mark = NO_CHECKPOINTS, FROM_START
        self.full_speed, self.slow_cause, self.n_move = 1.0, "", 0
        self.crowd_us = 0

    @property
    def left_us(self) -> int:
        """Work that is left if nothing more is lost; of a running job, as of its start."""
        return self.request.work_us - self.saved_us

    def done_us(self, now_us: int) -> float:
        """Of a running job: work since its start, were no checkpoints written."""
        return self.mark.work_us + max(now_us - self.begin_us - self.mark.computing_us, 0) * self.speed

    @property
    def estimate_us(self) -> int:
        """How long it is believed to take from its next start on."""
        whole = self.request.estimate_us or self.request.work_us
        return max(whole - self.saved_us, 1)
