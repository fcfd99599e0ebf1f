"""Which criterion says that flows are steady, and the parameters that it gets where none are given."""

from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import numpy as np

from pdes.skipping.papers.hygra_criterion import HygraCriterion
from pdes.skipping.papers.paper_criterion import PaperCriterion, enough_samples, least_span_ps, rate_error_bound
from pdes.skipping.steady import Settings, Steadiness, Verdict
from pdes.units import BITS_PER_BYTE, PS_PER_S

KEYS = {  # what each criterion has
    "default": ("sample_interval_ps",),
    "paper": ("theta", "metric", "samples", "sample_interval_ps"),
    "hygra": ("bandwidth_threshold_bps", "queue_threshold_bytes", "stable_rounds", "samples", "sample_interval_ps"),
}
BANDWIDTH_SHARE = 0.05  # HyGra's epsilon_bw, of the slowest host link: Wormhole's theta


class Criterion(Protocol):
    """What judges flows by samples: `Steadiness`, `PaperCriterion`, `HygraCriterion`."""

    settings: Settings
    judges_all: bool  # it has to see every active flow, however short

    def compile(self) -> None:
        """Compile what it needs, before anything runs."""

    def add(self, now_ps: int, rows: np.ndarray, groups: np.ndarray) -> None:
        """Sample active flows."""

    def thawed(self, flow: np.ndarray, skipped_ps: int | np.ndarray) -> None:
        """Flows go on after a skip."""

    def frozen(self, flow: np.ndarray, rate: np.ndarray, now_ps: int) -> None:
        """Flows are frozen now, at rates in bytes per ps."""

    def judge(self, now_ps: int, rows: np.ndarray) -> Verdict:
        """How long each flow of the last sample may be skipped."""
        ...


@dataclass(frozen=True)
class Choice:
    """A criterion by name, and its parameters; None: follows from the run."""

    name: str = "default"
    theta: float = 0.05
    metric: str = "R"
    samples: int | None = None
    sample_interval_ps: int | None = None
    bandwidth_threshold_bps: int | None = None
    queue_threshold_bytes: int | None = None
    stable_rounds: int = 3

    @property
    def needs_queues(self) -> bool:
        """Whether samples have to have the queues on the flows' ways."""
        return self.name == "hygra" or (self.name == "paper" and self.metric == "Q")


@dataclass(frozen=True)
class Network:
    """What parameters follow from."""

    base_rtt_ps: int  # the longest of any flow
    slowest_bps: int  # of the hosts' links
    fastest_bps: int
    packet_bytes: int  # payload of a full packet

    @property
    def bdp_bytes(self) -> int:
        """What the slowest host link sends in a round trip."""
        return self.slowest_bps * self.base_rtt_ps // (BITS_PER_BYTE * PS_PER_S)


def resolve(choice: Choice, network: Network) -> Choice:
    """The same choice with every parameter that its criterion has.

    samples: see `enough_samples`, for both papers'. queue_threshold: what rates that are as far off as
    bandwidth_threshold allows put into a queue in a round trip.
    """
    default_ps = 2 * network.base_rtt_ps if choice.name == "default" else network.base_rtt_ps
    interval_ps = choice.sample_interval_ps or default_ps
    span_ps = least_span_ps(network.fastest_bps, network.base_rtt_ps, network.packet_bytes)
    bandwidth_bps = choice.bandwidth_threshold_bps or max(1, int(BANDWIDTH_SHARE * network.slowest_bps))
    queue_bytes = bandwidth_bps * network.base_rtt_ps // (BITS_PER_BYTE * PS_PER_S)
    return replace(
        choice,
        sample_interval_ps=interval_ps,
        samples=choice.samples or enough_samples(span_ps, interval_ps),
        bandwidth_threshold_bps=bandwidth_bps,
        queue_threshold_bytes=choice.queue_threshold_bytes or max(queue_bytes, 1),
    )


def report(choice: Choice, network: Network) -> dict[str, Any]:
    """What the results say of a resolved choice, with what the paper derives for it."""
    keys = asdict(choice)
    found = {"name": choice.name, **{key: keys[key] for key in KEYS[choice.name]}}
    if choice.name == "paper":
        found["least_span_ps"] = least_span_ps(network.fastest_bps, network.base_rtt_ps, network.packet_bytes)
        found["rate_error_bound"] = rate_error_bound(choice.theta)
        found["bdp_bytes"] = network.bdp_bytes
    return found


def look_intervals(choice: Choice, turn_ps: np.ndarray) -> np.ndarray:
    """Least time between two samples of each flow, int64[n]. choice: not resolved.

    turn_ps: int64[n], in which its control takes a turn. The default criterion's interval is two of a flow's own; one
    that is given is the same for all, as with the papers' criteria.
    """
    if choice.sample_interval_ps is not None:
        return np.full(len(turn_ps), choice.sample_interval_ps, np.int64)
    return 2 * turn_ps if choice.name == "default" else np.full(len(turn_ps), turn_ps.max(initial=0), np.int64)


def make_criterion(
    choice: Choice, network: Network, look_ps: np.ndarray, n_kept: tuple[int, int], n_hop: int
) -> Criterion:
    """The criterion of a resolved choice. look_ps: see `look_intervals`; n_kept: `Steadiness`; n_hop: columns of queues
    in samples."""
    packet_bytes = network.packet_bytes
    assert choice.sample_interval_ps and choice.samples
    assert choice.bandwidth_threshold_bps and choice.queue_threshold_bytes
    if choice.name == "default":
        return Steadiness(n_kept, Settings(choice.sample_interval_ps, packet_bytes), look_ps)
    settings = Settings(choice.sample_interval_ps, packet_bytes, looks_ahead=0)
    if choice.name == "paper":
        sizes = (network.bdp_bytes, network.base_rtt_ps)
        return PaperCriterion(settings, choice.theta, choice.samples, choice.metric, *sizes, n_hop)
    thresholds = (choice.bandwidth_threshold_bps, choice.queue_threshold_bytes)
    return HygraCriterion(settings, choice.samples, *thresholds, choice.stable_rounds, n_hop)
