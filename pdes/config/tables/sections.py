"""Small tables that have one form only: simulation, partition, wormhole, checkpoint, run, output. Not the network's."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from pdes.config.tables.fields import (
    AutoDuration,
    AutoRate,
    AutoSamples,
    AutoSize,
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
    """[simulation]: what is drawn, how often, and when to stop. stop_time_ps None: when nothing is left to do."""

    seed: int = Field(default=1, ge=0, le=2**63 - 1)
    iterations: Count = 1
    stop_time_ps: OptionalDuration = quantity(None, "stop_time")
    MEANING: ClassVar[Meaning] = {
        "seed": "of everything that is drawn: ECN marks, random loss, random traffic, jitter",
        "iterations": "training iterations to simulate; there is no barrier between them",
        "stop_time_ps": "where the run ends; without it, when nothing is left to do",
    }


class PartitionConfig(Table):
    """[partition]. delay_threshold_ps None: "auto". Placement and re-balancing never change a result.

    rebalance: LPs move between ranks when these drift apart; every so often, rebalance_interval_ps of wall time, it is
    seen to.
    """

    delay_threshold_ps: AutoDuration = quantity("auto", "delay_threshold")
    placement: Literal["metis", "block", "round-robin"] = "metis"
    rebalance: bool = True
    rebalance_interval_ps: PositiveDuration = quantity("2s", "rebalance_interval")
    MEANING: ClassVar[Meaning] = {
        "delay_threshold_ps": (
            "links with less delay are never cut: the nodes that they join are one logical process; auto: "
            "chosen from topology and workload"
        ),
        "placement": "of logical processes on ranks; never changes a result",
        "rebalance": "logical processes change ranks while the run lasts, where that pays; never changes a result",
        "rebalance_interval_ps": "wall time between looks at how busy ranks are",
    }


CRITERION_KEYS = {  # key -> the criteria that have it
    "theta": ("paper",),
    "metric": ("paper",),
    "samples": ("paper", "hygra"),
    "sample_interval_ps": ("paper", "hygra"),
    "bandwidth_threshold_bps": ("hygra",),
    "queue_threshold_bytes": ("hygra",),
    "stable_rounds": ("hygra",),
}


class WormholeConfig(Table):
    """[wormhole]: fast-forwarding, what need not be simulated because it repeats.

    mode "steady": network partitions that have settled are skipped; "memo": those that behave as one did before;
    "full": both; "off": nothing. Except with "off", iterations are extrapolated, too, once the last of them, at least
    iteration_repeats cycles (0: never), say the mean of the others to iteration_tolerance (`workload.agreement`).
    microbatch_repeats: the same of passes through the loop of a pipeline's schedule (`workload.repeats`).

    memo_tolerance: how far waves of flows (an all-to-all) may differ, as part of their time, that the memo takes for
    equal; 0: not at all. lanes: with a tolerance, messages that have their ways to themselves end as earlier ones did.
    shares: with lanes, flows that are known to share their ports evenly go at flow level, at max-min fair shares.

    criterion: what has settled, by ours or by a paper's. The keys behind it are those of the papers' criteria
    (CRITERION_KEYS says of which); None: follows from the run.

    audit: share of the skips of what has settled and of waves that are simulated instead, and of the time in which
    messages on lanes and groups are, and compared with what would be said of them.

    restoration: how a frozen partition's queues come back: "snapshot": as they were; "none": empty; "learned": as the
    model in the file restoration_model (relative to the config) says.

    memo: file that the memo is read from and added to, None: none; relative to the folder in which the program runs.
    memo_limit_bytes: of that file.
    """

    mode: Literal["off", "steady", "memo", "full"] = "off"
    iteration_repeats: int = Field(default=3, ge=0)
    iteration_tolerance: float = Field(default=0.001, ge=0, le=1)
    microbatch_repeats: int = Field(default=3, ge=0)
    memo_tolerance: float = Field(default=0.0, ge=0, le=0.5)
    lanes: bool = False
    shares: bool = False
    audit: float = Field(default=0.0, ge=0, le=1)
    restoration: Literal["snapshot", "none", "learned"] = "snapshot"
    restoration_model: Annotated[str, Field(min_length=1)] | None = None
    memo: Annotated[str, Field(min_length=1)] | None = None
    memo_limit_bytes: Size = quantity("256MB", "memo_limit")
    criterion: Literal["default", "paper", "hygra"] = "default"
    theta: float = Field(default=0.05, gt=0, lt=1)
    metric: Literal["R", "I", "Q"] = "R"
    samples: AutoSamples = None
    sample_interval_ps: AutoDuration = quantity("auto", "sample_interval")
    bandwidth_threshold_bps: AutoRate = quantity("auto", "bandwidth_threshold")
    queue_threshold_bytes: AutoSize = quantity("auto", "queue_threshold")
    stable_rounds: Count = 3
    MEANING: ClassVar[Meaning] = {
        "mode": "fast-forwarding: skip what has settled (steady), what went the same before (memo), or both (full)",
        "iteration_repeats": "from so many iterations on, or pairs of them, the rest may be extrapolated; 0: never",
        "iteration_tolerance": (
            "how far the mean of the simulated iterations may be from that of the rest, as a share, by a 99 % interval"
        ),
        "microbatch_repeats": (
            "from so many passes of a schedule's loop on, two at least, the others may be left out, to "
            "iteration_tolerance; 0: never"
        ),
        "memo_tolerance": (
            "how far waves of flows may differ, as a share of their time, that count as equal; 0: not at all"
        ),
        "lanes": (
            "with a tolerance: messages that have their ways to themselves end as earlier ones did, and "
            "are not simulated"
        ),
        "shares": (
            "with lanes: flows that are known to share their ports evenly, as all-to-alls do, go at flow level, at "
            "max-min fair shares"
        ),
        "audit": (
            "share of the steady skips and waves, and of the time of lanes, that is simulated instead, to measure what "
            "they would have been off by"
        ),
        "restoration": "how queues come back after a skip: as they were, empty, or as a trained model says",
        "restoration_model": 'file of the model for restoration = "learned", relative to the config',
        "memo": "file that the memo is read from and added to, for runs to share; relative to where you run",
        "memo_limit_bytes": "of the memo's file: the oldest entries go",
        "criterion": "what counts as steady: ours, Wormhole's or HyGra's",
        "theta": "criterion paper: how far the metric may move, (max - min) / mean",
        "metric": "criterion paper: R the rate, I the bytes in flight, Q the longest queue on the way",
        "samples": (
            "criteria paper and hygra: how many samples the metric must stand still; auto: twice the "
            "period of the paper's equation 24, at least 16"
        ),
        "sample_interval_ps": "criteria paper and hygra: time between samples; auto: one base round trip",
        "bandwidth_threshold_bps": "criterion hygra: how far a rate may swing; auto: 5 % of the slowest host link",
        "queue_threshold_bytes": (
            "criterion hygra: how far a queue may swing; auto: what a rate off by bandwidth_threshold "
            "adds in a round trip"
        ),
        "stable_rounds": "criterion hygra: samples in a row at which all this must hold",
    }

    @property
    def n_repeat(self) -> int:
        """iteration_repeats as far as the mode allows: 0 if all iterations are simulated."""
        return 0 if self.mode == "off" else self.iteration_repeats

    @property
    def n_pass_repeat(self) -> int:
        """microbatch_repeats as far as the mode allows: 0 if all passes are simulated."""
        return max(2, self.microbatch_repeats) if self.microbatch_repeats and self.mode != "off" else 0

    @property
    def criterion_parameters(self) -> dict[str, Any]:
        """Those of all criteria."""
        return self.model_dump(include=set(CRITERION_KEYS))


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


def _kinds(value: object) -> object:
    """Some of SAMPLE_KINDS, each once."""
    if isinstance(value, list) and value and all(kind in SAMPLE_KINDS for kind in value):
        if len(set(value)) == len(value):
            return value
    choice = ", ".join(shown(kind) for kind in SAMPLE_KINDS)
    raise FieldError(f"found {shown(value)}", f"Accepted: a list of {choice}, each at most once")


class OutputConfig(Table):
    """[output]. dir: relative to the folder in which the program runs. sample_interval_ps None: no time series.

    sample_limit_bytes: of all rows of the time series together, 8 bytes per value. rtt_of_flow: None: of no flow.
    partitions: how many network partitions there are, and how many of them are frozen, over time. flows, tasks: whether
    there are tables of them, which take memory and disk by the row.
    """

    dir: str = Field(default="results", min_length=1)
    sample_interval_ps: OptionalDuration = quantity(None, "sample_interval")
    sample: Annotated[list[str], BeforeValidator(_kinds)] = list(SAMPLE_KINDS)
    sample_limit_bytes: Size = quantity("64MB", "sample_limit")
    rtt_of_flow: Annotated[int, Field(ge=0)] | None = None
    partitions: bool = False
    flows: bool = True
    tasks: bool = True
    MEANING: ClassVar[Meaning] = {
        "dir": "result folder, relative to where you run; --out overrides it",
        "sample_interval_ps": "time series of ports and flows, so often in simulated time; without it, none",
        "sample": "of what there are time series",
        "sample_limit_bytes": "of all rows of the time series together; where they would pass it, the interval doubles",
        "rtt_of_flow": "flow_id whose packets' round-trip times are written to rtt.parquet; without it, of none",
        "partitions": "write partitions.parquet: how many network partitions there are, and how many are frozen",
        "flows": "write flows.parquet, a row per message",
        "tasks": "write tasks.parquet, a row for everything that a GPU did or waited for",
    }
