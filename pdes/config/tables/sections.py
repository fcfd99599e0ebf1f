"""Small tables that have one form only: simulation, partition, checkpoint, run, output. Not the network's."""

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from pdes.config.tables.fields import (
    AutoDuration,
    Count,
    FieldError,
    Meaning,
    MemoryLimit,
    OffDuration,
    OptionalDuration,
    PositiveDuration,
    Size,
    Table,
    quantity,
)
from pdes.units import shown


class SimulationConfig(Table):
    """[simulation]: what is drawn, how often, and when to stop. stop_time_ps None: when nothing is left to do.

    calibration: see `pdes.config.calibration`.
    """

    seed: int = Field(default=1, ge=0, le=2**63 - 1)
    iterations: Count = 1
    stop_time_ps: OptionalDuration = quantity(None, "stop_time")
    calibration: Annotated[str, Field(min_length=1)] | None = None
    MEANING: ClassVar[Meaning] = {
        "seed": "of everything that is drawn: ECN marks, random loss, random traffic, jitter",
        "iterations": "training iterations to simulate; there is no barrier between them",
        "stop_time_ps": "where the run ends; without it, when nothing is left to do",
        "calibration": (
            "a file of `pdes-sim calibrate`, relative to the config: its values stand where the config has none"
        ),
    }


class PartitionConfig(Table):
    """[partition]. delay_threshold_ps None: "auto". Placement and re-balancing never change a result.

    start: "auto": rank 0 begins alone where something may be skipped, see `pdes.simulation.crew`. rebalance: LPs move
    between ranks when these drift apart; every so often, rebalance_interval_ps of wall time, it is seen to.
    """

    delay_threshold_ps: AutoDuration = quantity("auto", "delay_threshold")
    placement: Literal["auto", "metis", "block", "round-robin", "dealt"] = "auto"
    start: Literal["auto", "spread"] = "auto"
    rebalance: bool = True
    rebalance_interval_ps: PositiveDuration = quantity("2s", "rebalance_interval")
    MEANING: ClassVar[Meaning] = {
        "delay_threshold_ps": (
            "links with less delay are never cut: the nodes that they join are one logical process; auto: "
            "chosen from topology and workload"
        ),
        "placement": (
            "of logical processes on ranks; never changes a result. metis cuts few messages; dealt: in turn, hosts "
            "with their switch: every rank has a part of what is simulated. auto: dealt if anything can be skipped"
        ),
        "start": (
            "auto: where something may be skipped rank 0 begins alone, and the others join it while that pays; spread: "
            "all ranks simulate from the first event; never changes a result"
        ),
        "rebalance": "logical processes change ranks while the run lasts, where that pays; never changes a result",
        "rebalance_interval_ps": "wall time between looks at how busy ranks are",
    }


class CheckpointConfig(Table):
    """[checkpoint]: never changes a result. every_ps: of wall time, None: only when a signal asks for one.

    dir: relative to the folder in which the program runs; None: "checkpoint" in the result folder. keep: how many, the
    newest ones.
    """

    dir: Annotated[str, Field(min_length=1)] | None = None
    every_ps: OffDuration = quantity("off", "every")
    keep: Count = 2
    MEANING: ClassVar[Meaning] = {
        "dir": 'folder of checkpoints, relative to where you run; without it, "checkpoint" in the result folder',
        "every_ps": "wall time between checkpoints; off: only when a signal asks for one",
        "keep": "so many checkpoints are kept, the newest ones",
    }


class RunConfig(Table):
    """[run]: what the machine may be asked for. Never changes a result.

    memory_limit: of all ranks on a machine together; "auto": what is free there. stall_limit_ps: of wall time that a
    rank may spend in one round before the run counts as stuck; None: for ever.
    """

    memory_limit: MemoryLimit = "auto"
    stall_limit_ps: OffDuration = quantity("30min", "stall_limit")
    MEANING: ClassVar[Meaning] = {
        "memory_limit": "of all ranks on a machine together; auto: what is free there",
        "stall_limit_ps": "wall time that a rank may spend in one round before the run counts as stuck",
    }


SAMPLE_KINDS = ("ports", "flows")
AUTO: Literal["auto"] = "auto"
MOST_TASKS = 10_000_000


def _kinds(value: object) -> object:
    """Some of SAMPLE_KINDS, each once."""
    if isinstance(value, list) and value and all(kind in SAMPLE_KINDS for kind in value):
        if len(set(value)) == len(value):
            return value
    choice = ", ".join(shown(kind) for kind in SAMPLE_KINDS)
    raise FieldError(f"found {shown(value)}", f"Accepted: a list of {choice}, each at most once")


def _auto_or_switch(value: object) -> object:
    """true, false or "auto"."""
    if value == AUTO or isinstance(value, bool):
        return value
    raise FieldError(f"found {shown(value)}", "Accepted: true, false, or " + shown(AUTO))


class OutputConfig(Table):
    """[output]. dir: relative to the folder in which the program runs. sample_interval_ps None: no time series.

    sample_limit_bytes: of all rows of the time series together, 8 bytes per value. rtt_of_flow: None: of no flow.
    partitions: how many network partitions there are, and how many of them are frozen, over time. flows, tasks: whether
    there are tables of them, which take memory, disk and time by the row; AUTO: if there are MOST_TASKS rows at most.
    """

    dir: str = Field(default="results", min_length=1)
    sample_interval_ps: OptionalDuration = quantity(None, "sample_interval")
    sample: Annotated[list[str], BeforeValidator(_kinds)] = list(SAMPLE_KINDS)
    sample_limit_bytes: Size = quantity("64MB", "sample_limit")
    rtt_of_flow: Annotated[int, Field(ge=0)] | None = None
    partitions: bool = False
    flows: bool = True
    tasks: Annotated[bool | Literal["auto"], BeforeValidator(_auto_or_switch)] = AUTO
    MEANING: ClassVar[Meaning] = {
        "dir": "result folder, relative to where you run; --out overrides it",
        "sample_interval_ps": "time series of ports and flows, so often in simulated time; without it, none",
        "sample": "of what there are time series",
        "sample_limit_bytes": "of all rows of the time series together; where they would pass it, the interval doubles",
        "rtt_of_flow": "flow_id whose packets' round-trip times are written to rtt.parquet; without it, of none",
        "partitions": "write partitions.parquet: how many network partitions there are, and how many are frozen",
        "flows": "write flows.parquet, a row per message",
        "tasks": "write tasks.parquet, a row for everything that a GPU did or waited for; auto: up to 10 million rows",
    }
