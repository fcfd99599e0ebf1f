"""What a run came to, for work in Python: tables as Arrow, figures as plain values, read when asked for."""

from abc import ABC, abstractmethod
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdes.errors import ConfigError
from pdes.files import read_json

if TYPE_CHECKING:
    import pyarrow as pa


class Outcome(ABC):
    """What a run came to, wherever its tables are.

    flows, ports, tasks, ... are Arrow tables: `result.flows.to_pandas()`, `polars.from_arrow(result.flows)`.
    """

    run: dict[str, Any]
    """`run.json`: how it was run, such as `wall_seconds` and `ranks`."""
    summary: dict[str, Any]
    """`result.json`: what the config determines, such as `iteration_time_ps` and `packet_hops`."""

    @property
    @abstractmethod
    def tables(self) -> list[str]:
        """Names of the tables that there are."""

    @abstractmethod
    def table(self, name: str) -> "pa.Table":
        """A table by its name, as Arrow. ConfigError: this run has left none."""

    @cached_property
    def flows(self) -> "pa.Table":
        """A row per message."""
        return self.table("flows")

    @cached_property
    def ports(self) -> "pa.Table":
        """A row per direction of a link."""
        return self.table("ports")

    @cached_property
    def tasks(self) -> "pa.Table":
        """A row for everything that a GPU did or waited for."""
        return self.table("tasks")

    @property
    def iteration_seconds(self) -> list[float]:
        """Times of the training iterations, extrapolated ones too; empty without training."""
        return [time_ps / 1e12 for time_ps in self.summary["iteration_time_ps"]]

    @property
    def active_seconds(self) -> float:
        """From the first start to the last delivery: busy times are shares of it."""
        from pdes.results.active import active_time_ps

        return active_time_ps(self.summary) / 1e12

    def compare(self, other: "Outcome") -> "pa.Table":
        """What both are measured by: metric, unit, this run's value, the other's, and the other's over this one's.

        Times in seconds. A metric is left out that one of them has not, the ratio is null where this one's is 0.
        """
        import pyarrow as pa

        from pdes.sweeps.metrics import OF_PACKETS, measure

        own, others = (measure(OF_PACKETS, each.summary, each) for each in (self, other))
        both = [metric for metric in OF_PACKETS if metric.name in own and metric.name in others]
        pairs = [(own[metric.name], others[metric.name]) for metric in both]
        return pa.table({
            "metric": [metric.name for metric in both],
            "unit": [metric.unit for metric in both],
            "this": pa.array([a for a, _ in pairs], pa.float64()),
            "other": pa.array([b for _, b in pairs], pa.float64()),
            "ratio": pa.array([b / a if a else None for a, b in pairs], pa.float64()),
        })  # fmt: skip

    @property
    def simulated_seconds(self) -> float:
        """Simulated time in all."""
        return self.summary["simulated_time_ps"] / 1e12


class Result(Outcome):
    """A result folder: of `simulate`, or of any run, `Result("results/quickstart")`."""

    def __init__(self, directory: str | Path) -> None:
        """ConfigError: there are no complete results in it."""
        from pdes.results.folder import ResultFolder, is_complete

        self.directory = Path(directory)
        if self.directory.is_dir() and not is_complete(self.directory):
            ResultFolder(self.directory).finish_interrupted_commit()
        if not is_complete(self.directory):
            accepted = "Accepted: the folder of a run that has ended"
            raise ConfigError(str(self.directory), "has no result.json", accepted)

    def __repr__(self) -> str:
        return f"Result({str(self.directory)!r}): {', '.join(self.tables)}"

    @cached_property
    def summary(self) -> dict[str, Any]:
        """`result.json`: what the config determines, such as `iteration_time_ps` and `packet_hops`."""
        return read_json(self.directory / "result.json")

    @cached_property
    def run(self) -> dict[str, Any]:
        """`run.json`: how it was run, such as `wall_seconds` and `ranks`."""
        return read_json(self.directory / "run.json")

    @property
    def tables(self) -> list[str]:
        """Names of the tables that there are."""
        return sorted(path.stem for path in self.directory.glob("*.parquet"))

    def table(self, name: str) -> "pa.Table":
        """A table by its name, as Arrow. ConfigError: this run has left none."""
        from pdes.results.tables import open_table

        path = self.directory / f"{name}.parquet"
        if not path.is_file():
            raise ConfigError(str(self.directory), f"has no table {name}", f"Accepted: {', '.join(self.tables)}")
        with open_table(path) as file:
            return file.read()
