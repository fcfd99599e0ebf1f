"""[[cluster.elastic]]: jobs that may have another number of GPUs than they ask for, and how fast they are then."""

from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, model_validator

from pdes.config.tables.fields import FieldError, Meaning, Table, quantity
from pdes.units import parse_duration_ps

Gpus = Annotated[int, Field(ge=1, le=10_000_000)]
Samples = Annotated[float, Field(gt=0, le=1e12)]
Short = Annotated[int, BeforeValidator(parse_duration_ps)]

OF_ITERATIONS = (
    "gradient_ps", "gradient_sample_ps", "sync_ps", "sync_more_ps", "sync_servers_ps", "sync_servers_more_ps",
    "overlap", "noise_scale", "batch", "most_batch",
)  # fmt: skip


class ElasticConfig(Table):
    """One kind of jobs. Their speeds follow Amdahl's law, a model of iterations, or the table of [cluster] speeds."""

    kind: str = ""
    least_gpus: Gpus = 1
    most_gpus: Gpus
    serial: Annotated[float, Field(ge=0, lt=1)] | None = None
    gradient_ps: Short = quantity("0s", "gradient")
    gradient_sample_ps: Short = quantity("0s", "gradient_sample")
    sync_ps: Short = quantity("0s", "sync")
    sync_more_ps: Short = quantity("0s", "sync_more")
    sync_servers_ps: Short = quantity("0s", "sync_servers")
    sync_servers_more_ps: Short = quantity("0s", "sync_servers_more")
    overlap: Annotated[float, Field(ge=1, le=100)] = 1.0
    noise_scale: Annotated[float, Field(ge=0, le=1e15)] = 0.0
    batch: Samples | None = None
    most_batch: Samples | None = None
    MEANING: ClassVar[Meaning] = {
        "kind": "of the jobs; empty: all kinds that have no such table of their own",
        "least_gpus": "that a job may have, or fewer if it asks for fewer",
        "most_gpus": "that a job may have, or more if it asks for more",
        "serial": "Amdahl's law: the share of the work on one GPU that more GPUs do not make faster",
        "gradient_ps": "a model of iterations: for a GPU's gradient, however small its batch is",
        "gradient_sample_ps": "and for each sample of it; both on a GPU of speed 1",
        "sync_ps": "to sum the gradients of two GPUs of one server",
        "sync_more_ps": "and for each GPU more",
        "sync_servers_ps": "to sum the gradients of two GPUs of different servers",
        "sync_servers_more_ps": "and for each GPU more",
        "overlap": "of gradients and their sums: 1 for none, large if the longer of the two is all",
        "noise_scale": "the gradient noise scale, in samples: the larger, the more a large batch is worth",
        "batch": "the batch, in samples, in which the job's work is measured",
        "most_batch": "the largest batch; the one with the most goodput is taken",
    }

    @model_validator(mode="after")
    def _check(self) -> "ElasticConfig":
        if self.least_gpus > self.most_gpus:
            found = f"least_gpus = {self.least_gpus}, most_gpus = {self.most_gpus}"
            raise FieldError(found, "Accepted: least_gpus up to most_gpus")
        names: dict[str, Any] = {name: type(self).model_fields[name].alias or name for name in OF_ITERATIONS}
        given = [names[name] for name in OF_ITERATIONS if name in self.model_fields_set]
        if given and self.serial is not None:
            raise FieldError(f"serial and {given[0]}", "Accepted: Amdahl's law or a model of iterations, not both")
        if given and (self.batch is None or not self.gradient_sample_ps):
            missing = "batch" if self.batch is None else "gradient_sample"
            accepted = "Accepted of a model of iterations: gradient_sample and batch, and what else it has"
            raise FieldError(f"{given[0]} without {missing}", accepted)
        if self.batch is not None and self.most_batch is not None and self.most_batch < self.batch:
            raise FieldError(f"batch = {self.batch:g}, most_batch = {self.most_batch:g}", "Accepted: batch and more")
        return self
