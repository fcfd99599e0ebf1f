"""[wormhole] and [wormhole.paper]: what is foretold instead of simulated, and how far off that may be.

One key, `mode`, says how much may be skipped, and one, `tolerance`, how far off the forecasts of "auto" may be.
[wormhole.paper] is for studies: what the papers of Wormhole and HyGra let one choose, and single forecasts.
"""

from collections.abc import Sequence
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
    Size,
    Table,
    quantity,
)
from pdes.config.wormhole.flow import FlowConfig
from pdes.units import shown

FORECASTS = ("periodic", "replay", "similar", "alone", "shares", "fair")
"""What a skip says of the flows that it stands for: the same again, in whole periods; exactly what the same packet
state led to before; the mean of the nearest earlier episodes; the time that earlier messages took which had their ways
to themselves, or the rates at which flows that share ports went on evenly; max-min fair shares of the ports."""
MAY_USE = {"off": (), "exact": FORECASTS[:2], "auto": FORECASTS, "flow": ()}
BY_NAME = ("fair",)  # of these: only where a config names them
NEEDS = {"similar": "replay", "alone": "similar", "shares": "alone"}
CRITERION_KEYS = {  # key -> the criteria that have it
    "theta": ("paper",),
    "metric": ("paper",),
    "samples": ("paper", "hygra"),
    "sample_interval_ps": ("paper", "hygra"),
    "bandwidth_threshold_bps": ("hygra",),
    "queue_threshold_bytes": ("hygra",),
    "stable_rounds": ("hygra",),
}


def _forecasts(value: object) -> object:
    """None, or some of FORECASTS in their order, each with what it needs."""
    if value is None:
        return None
    is_choice = isinstance(value, list) and value and all(name in FORECASTS for name in value)
    if not isinstance(value, list) or not is_choice or len(set(value)) < len(value):
        choice = ", ".join(map(shown, FORECASTS))
        raise FieldError(f"found {shown(value)}", f"Accepted: a list of {choice}, each at most once")
    for name, needed in NEEDS.items():
        if name in value and needed not in value:
            raise FieldError(f"has {shown(name)} without {shown(needed)}", f"Accepted: with {shown(needed)}")
    return [name for name in FORECASTS if name in value]


class PaperConfig(Table):
    """[wormhole.paper]: for studies of skipping. Nobody needs it to run a job.

    forecasts: the only ones that may be used, as far as the mode allows them; None: all that it allows.

    criterion: what has settled, by ours or by a paper's. The keys behind it are those of the papers' criteria
    (CRITERION_KEYS says of which); None: follows from the run.

    restoration: how a frozen partition's queues come back: "snapshot": as they were; "none": empty; "learned": as the
    model in the file restoration_model (relative to the config) says.
    """

    forecasts: Annotated[list[str] | None, BeforeValidator(_forecasts)] = None
    restoration: Literal["snapshot", "none", "learned"] = "snapshot"
    restoration_model: Annotated[str, Field(min_length=1)] | None = None
    criterion: Literal["default", "paper", "hygra"] = "default"
    theta: float = Field(default=0.05, gt=0, lt=1)
    metric: Literal["R", "I", "Q"] = "R"
    samples: AutoSamples = None
    sample_interval_ps: AutoDuration = quantity("auto", "sample_interval")
    bandwidth_threshold_bps: AutoRate = quantity("auto", "bandwidth_threshold")
    queue_threshold_bytes: AutoSize = quantity("auto", "queue_threshold")
    stable_rounds: Count = 3
    MEANING: ClassVar[Meaning] = {
        "forecasts": "the only forecasts that may be used, as far as the mode allows them; without it, all of these",
        "restoration": "how queues come back after a skip: as they were, empty, or as a trained model says",
        "restoration_model": 'file of the model for restoration = "learned", relative to the config',
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
    def criterion_parameters(self) -> dict[str, Any]:
        """Those of all criteria."""
        return self.model_dump(include=set(CRITERION_KEYS))


class WormholeConfig(Table):
    """[wormhole]: fast-forwarding, what need not be simulated because it can be foretold.

    mode "exact": what settled goes on in whole periods, and what begins as something did before goes as that did;
    "auto": also what is expected to be off by no more than the tolerance; "off": nothing; "flow": there are no packets,
    messages get max-min fair shares of the links (`flow`). Except with "off", iterations
    are extrapolated, too, once the last of them, at least iteration_repeats cycles (0: never), say the mean of the
    others to iteration_tolerance (`workload.agreement`). microbatch_repeats: the same of passes through the loop of a
    pipeline's schedule (`workload.repeats`).

    audit: share of the skips of what has settled and of waves that are simulated instead, and of the time in which
    messages at flow level, or in flow mode, are, and compared with what would be said of them.

    memo: file that the memo is read from and added to, None: none; relative to the folder in which the program runs.
    memo_limit_bytes: of that file.
    """

    mode: Literal["off", "exact", "auto", "flow"] = "off"
    tolerance: float = Field(default=0.01, gt=0, le=0.5)
    audit: float = Field(default=0.0, ge=0, le=1)
    iteration_repeats: int = Field(default=3, ge=0)
    iteration_tolerance: float = Field(default=0.001, ge=0, le=1)
    microbatch_repeats: int = Field(default=3, ge=0)
    memo: Annotated[str, Field(min_length=1)] | None = None
    memo_limit_bytes: Size = quantity("256MB", "memo_limit")
    flow: FlowConfig = FlowConfig()
    paper: PaperConfig = PaperConfig()
    MEANING: ClassVar[Meaning] = {
        "mode": (
            "fast-forwarding: none (off), what repeats exactly or in whole periods (exact), also what is expected to "
            "be off by no more than tolerance (auto); or no packets at all, messages at max-min fair rates (flow)"
        ),
        "tolerance": (
            "mode auto: how far apart what is taken for alike may be, and so how far off a forecast may be expected to "
            "be, as a share of its time; the summary says what was used"
        ),
        "audit": (
            "share of the skips, and of the time of messages that are not simulated, that is simulated instead, to "
            "measure what they would have been off by"
        ),
        "iteration_repeats": "from so many iterations on, or pairs of them, the rest may be extrapolated; 0: never",
        "iteration_tolerance": (
            "how far the mean of the simulated iterations may be from that of the rest, as a share, by a 99 % interval"
        ),
        "microbatch_repeats": (
            "from so many passes of a schedule's loop on, two at least, the others may be left out, to "
            "iteration_tolerance; 0: never"
        ),
        "memo": "file that the memo is read from and added to, for runs to share; relative to where you run",
        "memo_limit_bytes": "of the memo's file: the oldest entries go",
        "flow": "mode flow: how long messages take",
        "paper": "for studies: single forecasts, and what the papers of Wormhole and HyGra let one choose",
    }

    @property
    def may_skip(self) -> bool:
        """Whether packets are simulated of which some may be skipped."""
        return self.mode in ("exact", "auto")

    @property
    def uses(self) -> tuple[str, ...]:
        """The forecasts that a run may use, some of FORECASTS in their order; with "off" none."""
        return used(self.mode, self.paper.forecasts)

    @property
    def skips(self) -> str:
        """Of `exact` forecasts, in the words of the network model: "steady", "memo", "full" (both) or "off"."""
        both = "periodic" in self.uses, "replay" in self.uses
        return {(True, True): "full", (True, False): "steady", (False, True): "memo"}.get(both, "off")

    @property
    def wave_tolerance(self) -> float:
        """How far apart waves of flows may be that count as alike; 0.0 if none do."""
        return self.tolerance if "similar" in self.uses else 0.0

    @property
    def n_repeat(self) -> int:
        """iteration_repeats as far as the mode allows: 0 if all iterations are simulated."""
        return 0 if self.mode == "off" else self.iteration_repeats

    @property
    def n_pass_repeat(self) -> int:
        """microbatch_repeats as far as the mode allows: 0 if all passes are simulated."""
        return max(2, self.microbatch_repeats) if self.microbatch_repeats and self.mode != "off" else 0


def used(mode: str, forecasts: Sequence[str] | None) -> tuple[str, ...]:
    """Of the forecasts that a config names, None if it names none, those that its mode allows."""
    return tuple(name for name in MAY_USE[mode] if (name not in BY_NAME if forecasts is None else name in forecasts))
