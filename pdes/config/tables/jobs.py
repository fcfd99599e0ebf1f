"""[[job]]: several workloads on one cluster, in place of [workload]."""

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from pdes.config.tables.fields import Count, Duration, FieldError, Meaning, Size, Table, quantity
from pdes.config.tables.trace import TraceConfig
from pdes.config.tables.workload import CollectivesConfig, FlowsConfig, PoissonConfig, TrainingConfig
from pdes.units import parse_duration_ps, shown

MIN_DELAY_PS = 10**7  # no round of fast-forwarding is longer


class InputConfig(Table):
    """kind = "input", of a job: data that another job's GPUs get from storage hosts before it begins (Arcadia, section
    5.1: a stage for transferring training data where it does not lie on the job's hosts).
    """

    kind: Literal["input"]
    hosts: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1, max_length=1_000_000)]
    to: str = Field(min_length=1)
    size_bytes: Size = Field(alias="size")
    MEANING: ClassVar[Meaning] = {
        "kind": "data from storage hosts to the GPUs of a job that begins after this one",
        "hosts": "numbers of the storage hosts, which no job has; GPUs are served by them in turn",
        "to": "the name of that job",
        "size_bytes": "of all data; each GPU gets the same share of it",
    }


JOB_KINDS: dict[str, type[Table]] = {
    "training": TrainingConfig, "collectives": CollectivesConfig, "flows": FlowsConfig, "poisson": PoissonConfig,
    "trace": TraceConfig, "input": InputConfig,
}  # fmt: skip


def _gpus(value: object) -> object:
    if value == "all" or (type(value) is int and value >= 1):
        return value
    gpus = value if isinstance(value, list) else []
    if gpus and all(type(gpu) is int and gpu >= 0 for gpu in gpus) and len(set(gpus)) == len(gpus):
        return tuple(gpus)
    accepted = 'Accepted: "all", how many, or a list of GPU numbers, each once'
    raise FieldError(f"found {shown(value)}", accepted)


def _delay(value: object) -> int:
    delay_ps = parse_duration_ps(value)
    if delay_ps < MIN_DELAY_PS:
        raise FieldError(f"found {shown(value)}", 'Accepted: at least "10us"')
    return delay_ps


Gpus = Annotated[Literal["all"] | int | tuple[int, ...], BeforeValidator(_gpus)]
JobPlacement = Literal["packed", "rack", "spread", "random", "least-contended"]


class JobConfig(Table):
    """One [[job]]; its workload is checked by its kind before."""

    name: str = Field(min_length=1, max_length=200)
    workload: TrainingConfig | CollectivesConfig | FlowsConfig | PoissonConfig | TraceConfig | InputConfig
    gpus: Gpus = "all"
    placement: JobPlacement = "packed"
    start_ps: Duration = quantity("0s", "start")
    after: list[str] = []
    delay_ps: Annotated[int, BeforeValidator(_delay)] = quantity("1ms", "delay")
    priority: Annotated[int, Field(ge=0, le=7)] | None = None
    iterations: Count | None = None
    MEANING: ClassVar[Meaning] = {
        "name": "by which results and other jobs know it",
        "workload": "a table like [workload], of kind training, collectives, flows, poisson, trace or input",
        "gpus": "how many GPUs it has, or which, in the order of its ranks; without it, as its layout or trace says",
        "placement": "of so many GPUs: servers in order, on few racks, in turns over the racks, at random, or "
        "least-contended: the one of the first three with which flow mode has jobs fastest",
        "start_ps": "not before",
        "after": "names of jobs that must have ended; its GPUs may be theirs",
        "delay_ps": "after the last of these has ended; at least 10us",
        "priority": "of its messages, 0 to 7; without it, [network] priority",
        "iterations": "its own number; without it, [simulation] iterations",
    }

    @property
    def is_least_contended(self) -> bool:
        """Whether its place is found by runs; not where it is given."""
        return self.placement == "least-contended" and not isinstance(self.gpus, tuple)

    @property
    def n_gpu(self) -> int | None:
        """How many GPUs it has; None: all of the cluster."""
        if self.gpus == "all":
            parallel = getattr(self.workload, "parallel", None)
            return None if parallel is None or "gpus" in self.model_fields_set else parallel.n_gpu
        return self.gpus if isinstance(self.gpus, int) else len(self.gpus)


class JobsConfig(Table):
    """All [[job]] tables, in the place of the workload."""

    kind: Literal["jobs"] = "jobs"
    job: Annotated[list[JobConfig], Field(min_length=1)]
    MEANING: ClassVar[Meaning] = {
        "kind": "several jobs",
        "job": "one of several jobs on the cluster, in place of [workload]",
    }

    def others_before(self, i: int) -> set[int]:
        """Jobs that have ended when job i begins."""
        number, found, todo = {job.name: k for k, job in enumerate(self.job)}, set(), [i]
        while todo:
            for name in self.job[todo.pop()].after:
                k = number[name]
                if k not in found:
                    found.add(k)
                    todo.append(k)
        return found
