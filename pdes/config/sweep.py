"""[sweep]: the config, what is changed in it, how often, and what is compared."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from pdes.config.tables.fields import FieldError, Meaning, Table

Name = Annotated[str, Field(min_length=1)]
Seed = Annotated[int, Field(ge=0, le=2**62)]
Scale = Literal["linear", "log"]
Design = Literal["grid", "random", "latin-hypercube"]
MOST_RUNS = 1_000_000


class AxisConfig(Table):
    """[[sweep.axis]]."""

    key: Name | Annotated[list[Name], Field(min_length=1, max_length=16)]
    name: Name | None = None
    values: Annotated[list[Any], Field(min_length=1, max_length=100_000)] | None = None
    low: int | float | str | None = Field(default=None, alias="from")
    high: int | float | str | None = Field(default=None, alias="to")
    count: Annotated[int, Field(ge=1, le=100_000)] | None = None
    scale: Scale = "linear"
    MEANING: ClassVar[Meaning] = {
        "key": "of the config, table.key as after --set, or several that change together",
        "name": "what tables and plots call it; the key's last part if not given",
        "values": "what it takes; of several keys, a list for each",
        "low": "the least of a range, a number or a quantity",
        "high": "the most of it, in the same unit",
        "count": "of values from the least to the most, in a grid",
        "scale": "whether these are a sum or a factor apart",
    }

    @model_validator(mode="after")
    def _values_or_range(self) -> "AxisConfig":
        has_range = self.low is not None or self.high is not None
        if (self.values is None) != has_range or (self.low is None) != (self.high is None):
            raise FieldError("has neither values nor a range, or both", "Accepted: `values`, or `from` and `to`")
        n_key = len(self.key) if isinstance(self.key, list) else 0
        if has_range and n_key:
            raise FieldError("has a range for several keys", "Accepted: `values`, with a list for each")
        if n_key and any(not isinstance(value, list) or len(value) != n_key for value in self.values or []):
            raise FieldError("has values that are not one for each key", f"Accepted: lists of {n_key}")
        return self


class MetricConfig(Table):
    """[[sweep.metric]]."""

    name: Name
    path: Name | None = None
    function: Name | None = None
    unit: str = ""
    better: Literal["lower", "higher"] = "lower"
    MEANING: ClassVar[Meaning] = {
        "name": "what tables and plots call it",
        "path": "where it is in result.json, such as network.ecn_marks or jobs.0.slowdown",
        "function": "file.py:NAME, called with the run's `pdes.Result`; relative to the sweep's file",
        "unit": '"s" is shown as a time',
        "better": "which way is better",
    }

    @model_validator(mode="after")
    def _one_source(self) -> "MetricConfig":
        if (self.path is None) == (self.function is None):
            raise FieldError("has neither `path` nor `function`, or both", "Accepted: one of them")
        return self


class SweepConfig(Table):
    """[sweep]."""

    config: Name
    axis: Annotated[list[AxisConfig], Field(min_length=1, max_length=32)]
    seeds: Annotated[int, Field(ge=1, le=100_000)] | Annotated[list[Seed], Field(min_length=1, max_length=100_000)] = 1
    design: Design = "grid"
    points: Annotated[int, Field(ge=1, le=MOST_RUNS)] | None = None
    draw: Annotated[int, Field(ge=0, le=2**62)] = 1
    where: list[Name] = []
    set: dict[str, Any] = {}
    metrics: list[Name] = []
    metric: list[MetricConfig] = []
    dir: Name | None = None
    keep: bool = False
    MEANING: ClassVar[Meaning] = {
        "config": "the file of the config, relative to this one",
        "axis": "what is changed, and to what",
        "seeds": "runs of each point, from the config's own seed on; or a list of seeds",
        "design": "all combinations; points that are drawn; or one point in every n-th part of each axis",
        "points": "how many are drawn; not of a grid",
        "draw": "seed of points that are drawn",
        "where": "what must hold of a point, such as 'workload.parallel.tp * workload.parallel.pp <= 64'",
        "set": "keys of the config that are the same in all points, as after --set",
        "metrics": "what is compared, the first above all; what the runs have if not given",
        "metric": "metrics of your own",
        "dir": "where the store, the tables and the report go; results/ and this file's name if not given",
        "keep": "keep every run's result folder, in runs/ below",
    }

    @model_validator(mode="after")
    def _points_are_of_draws(self) -> "SweepConfig":
        is_grid = self.design == "grid"
        if is_grid and self.points is not None:
            raise FieldError("`points` of a grid", 'Accepted: `count` of each axis, or design = "random"')
        if not is_grid and self.points is None:
            raise FieldError(f"no `points` of a {self.design} design", "Accepted: how many are drawn")
        if is_grid and any(axis.low is not None and axis.count is None for axis in self.axis):
            raise FieldError("a range without `count` in a grid", "Accepted: `count` of every range")
        if not is_grid and any(axis.count is not None for axis in self.axis):
            raise FieldError(f"`count` in a {self.design} design", "Accepted: `points` of [sweep]")
        return self


class SweepFile(Table):
    """The whole file."""

    sweep: SweepConfig
    MEANING: ClassVar[Meaning] = {"sweep": "a file of its own: many runs of a config, and what is compared"}
