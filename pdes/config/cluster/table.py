"""[cluster]: servers, jobs or their generator, who runs when and where, what fails."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from pdes.config.cluster.elastic import ElasticConfig
from pdes.config.cluster.failure import FailureConfig, MaintenanceConfig
from pdes.config.cluster.runs import RunsConfig
from pdes.config.cluster.values import CheckpointInterval, Drawn, Long, ModelSize, OptionalLong, PositiveLong
from pdes.config.tables.fields import Count, FieldError, Meaning, OptionalRate, Table, quantity
from pdes.config.tables.sections import CheckpointConfig

Placement = Literal["packed", "whole", "rack", "spread", "least-contended"]
Weight = Annotated[float, Field(gt=0, allow_inf_nan=False)]

Share = Annotated[float, Field(ge=0, lt=1)]
Servers = Annotated[int, Field(ge=1, le=1_000_000)]
Gpus = Annotated[int, Field(ge=1, le=1024)]


class PoolConfig(Table):
    """[[cluster.pool]]: servers that are alike."""

    gpu: str = Field(default="GPU", min_length=1)
    servers: Servers
    gpus_per_server: Gpus = 8
    servers_per_rack: Annotated[int, Field(ge=1, le=1_000_000)] = 16
    speed: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    hot_spares: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    cold_spares: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    MEANING: ClassVar[Meaning] = {
        "gpu": "their GPUs' type, for jobs that ask for one",
        "servers": "how many, without spares",
        "gpus_per_server": "in each",
        "servers_per_rack": "behind one leaf switch: for placement, and for failures that take a rack",
        "speed": "work of a job per time here, beside 1, unless `speeds` has the job's kind",
        "hot_spares": "servers beside these that run, and stand in for one that fails as soon as that is noticed",
        "cold_spares": "servers beside these that have to be switched on first",
    }


class ArrivalsConfig(Table):
    """[cluster.arrivals]: jobs that are drawn."""

    jobs: Annotated[int, Field(ge=1, le=100_000_000)]
    per_hour: Annotated[float, Field(gt=0, le=1e9)]
    day_swing: Share = 0.0
    gpus: dict[str, Weight] = {"1": 1.0}
    duration: Drawn
    tenants: dict[str, Weight] = {}
    priorities: dict[str, Weight] = {}
    kinds: dict[str, Weight] = {}
    MEANING: ClassVar[Meaning] = {
        "jobs": "how many",
        "per_hour": "how often one is submitted, on average: a Poisson process",
        "day_swing": "how far the rate goes up and down within a day, as a share of it",
        "gpus": "how likely each number of GPUs is, in any scale",
        "duration": "of a job on its GPUs at speed 1, alone, without failures",
        "tenants": "how likely each tenant is",
        "priorities": "how likely each priority is; the larger one goes first",
        "kinds": "how likely each kind is: for `speeds` and `elastic`",
    }


class CheckpointsConfig(Table):
    """[cluster.checkpoint]: what a failure does not take."""

    interval: CheckpointInterval = "off"
    write_us: Long = quantity("0s", "write")
    restart_us: Long = quantity("0s", "restart")
    begin_us: Long = quantity("0s", "begin")
    MEANING: ClassVar[Meaning] = {
        "interval": "of computing between two checkpoints; young, daly: by those rules, from the job's failures",
        "write_us": "a job stands still so long for a checkpoint, and pays it when it is stopped",
        "restart_us": "before a job computes again that has run before",
        "begin_us": "before a job computes, at every start",
    }


class StorageConfig(Table):
    """[cluster.storage]: what checkpoints and input go through."""

    rate_bps: OptionalRate = quantity(None, "rate")
    server_rate_bps: OptionalRate = quantity(None, "server_rate")
    writers: Count = 1
    parameters: dict[str, ModelSize] = {}
    parameters_per_gpu: Annotated[float, Field(ge=0)] = 0.0
    parameter_bytes: Annotated[float, Field(gt=0, le=1000)] = 14.0
    input_per_gpu_bps: OptionalRate = quantity(None, "input_per_gpu")
    MEANING: ClassVar[Meaning] = {
        "rate_bps": "of all of it, such as 2TBps; without it, no limit",
        "server_rate_bps": "between it and one server; without it, no limit",
        "writers": "so many jobs write or read a checkpoint at one time: each has an equal part of the rate",
        "parameters": "of a job's model, by its kind: how many, or a preset's name; without it, those of the kind's "
        "model in [cluster.runs], each with the bytes of its number formats",
        "parameters_per_gpu": "of others, for each of their GPUs",
        "parameter_bytes": "of each in a checkpoint: weights of 2, master weights and two moments of 4 each",
        "input_per_gpu_bps": "what a GPU reads while its job computes at speed 1",
    }

    @model_validator(mode="after")
    def _check(self) -> "StorageConfig":
        if self.rate_bps is None and self.server_rate_bps is None:
            raise FieldError("neither rate nor server_rate", 'Accepted: one of them or both, such as rate = "2TBps"')
        return self


class ClusterConfig(Table):
    """[cluster]."""

    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    jobs: Annotated[str, Field(min_length=1)] | None = None
    arrivals: ArrivalsConfig | None = None
    pool: Annotated[list[PoolConfig], Field(min_length=1, max_length=256)]
    scheduler: str = Field(default="fcfs", min_length=1)
    options: dict[str, Any] = {}
    placement: Placement = "packed"
    speeds: Annotated[str, Field(min_length=1)] | None = None
    elastic: Annotated[list[ElasticConfig], Field(max_length=256)] = []
    runs: RunsConfig | None = None
    stop_us: OptionalLong = quantity(None, "stop")
    first: Count | None = None
    checkpoint: CheckpointsConfig = CheckpointsConfig()
    failure: Annotated[list[FailureConfig], Field(max_length=64)] = []
    maintenance: Annotated[list[MaintenanceConfig], Field(max_length=64)] = []
    network_share: Share | None = None
    storage: StorageConfig | None = None
    cold_start_us: PositiveLong = quantity("10min", "cold_start")
    MEANING: ClassVar[Meaning] = {
        "seed": "of all that is drawn; the same jobs and failures whatever the scheduler",
        "jobs": "a CSV of jobs, as the conversion of a trace writes it",
        "arrivals": "jobs that are drawn, instead",
        "pool": "servers that are alike, one table for each type of GPU",
        "scheduler": "who runs when: a name, or file.py:Class of yours",
        "options": "the scheduler's own",
        "placement": "where a job's GPUs are; least-contended: by iteration times of [cluster.runs]",
        "speeds": "a CSV with kind,gpus,gpu,speed (or steps_per_s): how fast a kind of job is on a type of GPU, "
        "beside 1; spread_speed or spread_steps_per_s: on more servers than it needs",
        "elastic": "kinds of jobs that may have another number of GPUs than they ask for, and how fast they are then",
        "runs": "kinds of jobs whose iteration times come from runs of their model on a part of the fabric",
        "stop_us": "no job is submitted and nothing happens after it; without it, until all jobs are done",
        "first": "only so many of the jobs, the first ones",
        "checkpoint": "what a failure does not take",
        "failure": "what fails, how often, and what that takes",
        "maintenance": "when servers are down by plan",
        "network_share": "of a job's time on several servers, what their network takes at full speed",
        "storage": "what checkpoints and input go through; without it, they take what `checkpoint` says",
        "cold_start_us": "until a cold spare stands in for a server",
    }

    @model_validator(mode="after")
    def _check(self) -> "ClusterConfig":
        if (self.jobs is None) == (self.arrivals is None):
            found = "neither jobs nor arrivals" if self.jobs is None else "both jobs and arrivals"
            raise FieldError(found, "Accepted: one of them, a file of jobs or a table of how they are drawn")
        if self.network_share is None and any(failure.takes == "network" for failure in self.failure):
            found = 'network_share is missing, and a failure has takes = "network"'
            raise FieldError(found, "Accepted: a share of jobs' time, such as network_share = 0.2")
        return self


class ClusterOutput(Table):
    """[output] of such a run."""

    dir: str = Field(default="results", min_length=1)
    interval_us: PositiveLong = quantity("1h", "interval")
    events: bool = True
    MEANING: ClassVar[Meaning] = {
        "dir": "result folder, relative to where you run; --out overrides it",
        "interval_us": "of the rows of usage.parquet",
        "events": "write events.parquet, a row for everything that happens, and places.parquet, where jobs were",
    }


class ClusterRun(Table):
    """The whole config."""

    cluster: ClusterConfig
    checkpoint: CheckpointConfig = CheckpointConfig()
    output: ClusterOutput = ClusterOutput()
    MEANING: ClassVar[Meaning] = {
        "checkpoint": "checkpoints of the run itself, as of a run of packets",
        "cluster": "jobs that come and go, instead of a workload: who runs when and where, what fails",
        "output": "where results go, and which there are",
    }
