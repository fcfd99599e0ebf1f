"""The papers' criteria on made-up samples: constant, drifting and swinging rates, moving queues, changing flows."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pdes
from pdes.config import load_config
from pdes.config.wormhole.table import CRITERION_KEYS
from pdes.errors import ConfigError
from pdes.skipping import history as h
from pdes.skipping.criterion import KEYS, Choice, Criterion, Network, make_criterion, report, resolve
from pdes.skipping.papers.paper_criterion import enough_samples, least_span_ps, rate_error_bound
from pdes.skipping.steady import Verdict

INTERVAL_PS, PACKET_BYTES, END = 10**7, 1000, 10**9
NETWORK = Network(INTERVAL_PS, 10**11, 10**11, PACKET_BYTES)  # so a round trip's worth is 125,000 bytes
N_SAMPLE, N_HOP = 4, 3
PAPER = Choice("paper", samples=N_SAMPLE)
HYGRA = Choice("hygra", samples=N_SAMPLE, stable_rounds=2)
GBPS_BYTES = INTERVAL_PS / 8000  # per interval


def make(choice: Choice) -> Criterion:
    return make_criterion(resolve(choice, NETWORK), NETWORK, 9, (0, 0), N_HOP if choice.needs_queues else 0)


class Watched:
    """A criterion that is shown flows 0, 1, .. one look after the other; bytes per interval are rates exactly."""

    def __init__(self, choice: Choice) -> None:
        self.criterion, self._needs_queues = make(choice), choice.needs_queues
        self._now_ps, self._done = 0, np.zeros(9, np.int64)
        self.end, self.group = np.full(9, END), np.zeros(9, np.int64)

    def look(
        self, done: Sequence[int], in_flight: Sequence[int] | None = None, queues: Sequence[Sequence[int]] = ()
    ) -> Verdict:
        """done: bytes of each flow since the look before. queues: of each flow, at N_HOP ports."""
        n = len(done)
        self._now_ps += INTERVAL_PS
        self._done[:n] += done
        rows = np.zeros((n, h.N_COLUMN), np.int64)
        rows[:, h.FLOW], rows[:, h.DONE], rows[:, h.DONE_PS] = np.arange(n), self._done[:n], self._now_ps
        rows[:, h.SENT] = self._done[:n] + (in_flight if in_flight is not None else [0] * n)
        rows[:, h.MESSAGE_END], rows[:, h.IS_PLAIN] = self.end[:n], 1
        if self._needs_queues:
            rows = np.hstack([rows, np.array(queues or [[0] * N_HOP] * n, np.int64)])
        self.criterion.add(self._now_ps, rows, np.stack([self.group[:n], self.group[:n]], axis=1))
        return self.criterion.judge(self._now_ps, rows)


def is_steady(choice: Choice, series: Sequence[int]) -> bool:
    """What a criterion says of one flow at the end of a series of bytes per interval. The first look is before it."""
    watched = Watched(choice)
    watched.look([0])
    return [watched.look([value]).may_ps[0] > 0 for value in series][-1]


def test_a_constant_rate_is_steady_after_l_intervals_and_is_skipped_to_the_guard() -> None:
    watched = Watched(PAPER)
    verdicts = [watched.look([125_000], [3000]) for _ in range(N_SAMPLE + 1)]
    assert [verdict.may_ps[0] > 0 for verdict in verdicts] == [False] * N_SAMPLE + [True]
    done = 125_000 * (N_SAMPLE + 1)
    assert verdicts[-1].may_ps[0] == pytest.approx((END - done - 3000 - 2 * PACKET_BYTES) / 0.0125, rel=1e-12)
    assert (verdicts[-1].done_bytes[0], verdicts[-1].span_ps[0]) == (500_000, N_SAMPLE * INTERVAL_PS)


@pytest.mark.parametrize("theta", [0.01, 0.05, 0.2])
def test_a_drift_is_steady_up_to_the_slope_at_which_it_makes_theta_in_l_samples(theta: float) -> None:
    """(max - min) / mean of a straight line is slope (l - 1) / mean."""
    choice = Choice("paper", samples=N_SAMPLE, theta=theta)
    mean = 600_000
    slope = theta * mean / (N_SAMPLE - 1)
    for factor, expected in ((0.999, True), (1.001, False)):
        line = [round(mean + factor * slope * (k - (N_SAMPLE - 1) / 2)) for k in range(N_SAMPLE)]
        assert is_steady(choice, line) == expected
        assert is_steady(choice, line[::-1]) == expected


@pytest.mark.parametrize("amplitude", [0.02, 0.049, 0.051, 0.3])
def test_a_sawtooth_is_steady_if_its_amplitude_is_below_theta(amplitude: float) -> None:
    teeth = [round(100_000 * (1 + amplitude * (k / 3 - 0.5))) for k in (0, 1, 2, 3)]
    series = 3 * teeth
    for phase in range(4):
        assert is_steady(PAPER, series[phase : phase + 8]) == (amplitude < 0.05)


def test_samples_that_do_not_span_a_period_take_a_slope_for_steady() -> None:
    """Why equation 23 asks for a period: a quarter of it looks flat."""
    teeth = [round(100_000 * (1 + 0.12 * (k / 11 - 0.5))) for k in range(12)]
    assert is_steady(Choice("paper", samples=3), teeth) and not is_steady(Choice("paper", samples=12), teeth)


def test_the_rate_is_the_mean_over_the_interval() -> None:
    watched, series = Watched(PAPER), [100_000, 102_000, 101_000, 103_000]
    watched.look([0])
    verdict = [watched.look([value]) for value in series][-1]
    assert verdict.done_bytes[0] / verdict.span_ps[0] == np.mean(series) / INTERVAL_PS


@given(
    observed=st.lists(st.integers(90_000, 110_000), min_size=2, max_size=20),
    ahead=st.lists(st.floats(0, 1), min_size=1, max_size=30),
    theta=st.floats(0.01, 0.5),
)
def test_theorem_2_holds_while_the_rate_stays_in_the_band_of_the_samples(
    observed: list[int], ahead: list[float], theta: float
) -> None:
    if is_steady(Choice("paper", samples=len(observed), theta=theta), observed):
        low, high = min(observed), max(observed)
        real = np.mean([low + share * (high - low) for share in ahead])
        assert abs(np.mean(observed) / real - 1) < rate_error_bound(theta)


def test_theorem_2_does_not_hold_once_the_rate_leaves_the_band() -> None:
    """A drift that is steady by the criterion goes on: after 20 samples the mean is off by more than the bound."""
    line = [100_000 - 1000 * k for k in range(24)]
    assert is_steady(PAPER, line[:N_SAMPLE])
    errors = [abs(np.mean(line[:N_SAMPLE]) / np.mean(line[N_SAMPLE : N_SAMPLE + n]) - 1) for n in (4, 20)]
    assert errors[0] < rate_error_bound(0.05) < errors[1]


def test_bytes_in_flight_and_queues_have_the_thresholds_of_theorem_1() -> None:
    """epsilon_Q = theta C RTT = 6250 bytes, epsilon_I = epsilon_Q + theta R RTT = 12,500 at the line rate."""
    for swing, metric in ((12_500, "I"), (6_250, "Q")):
        for size, expected in ((swing - 1, True), (swing, False)):
            watched = Watched(Choice("paper", samples=N_SAMPLE, metric=metric))
            for k in range(N_SAMPLE + 1):
                value = 20_000 + size * (k % 2)
                queues = [[0, value, 100]] if metric == "Q" else ()
                verdict = watched.look([125_000], [value if metric == "I" else 0], queues)
            assert (verdict.may_ps[0] > 0) == expected


def test_the_metrics_differ_where_a_queue_fills_at_a_constant_rate() -> None:
    found = {}
    for metric in ("R", "I", "Q"):
        watched = Watched(Choice("paper", samples=N_SAMPLE, metric=metric))
        for k in range(N_SAMPLE + 1):
            verdict = watched.look([125_000], [5000 * k], [[0, 5000 * k, 0]] if metric == "Q" else ())
        found[metric] = bool(verdict.may_ps[0] > 0)
    assert found == {"R": True, "I": False, "Q": False}


@pytest.mark.parametrize("metric", ["R", "I", "Q"])
def test_a_flow_that_gets_nothing_done_is_not_steady(metric: str) -> None:
    assert not is_steady(Choice("paper", samples=N_SAMPLE, metric=metric), [0] * 9)


@pytest.mark.parametrize("change", ["message", "partition", "skip"])
def test_samples_start_anew_with_a_message_a_network_partition_and_after_a_skip(change: str) -> None:
    watched = Watched(PAPER)
    may = [watched.look([125_000]).may_ps[0] > 0 for _ in range(7)]
    if change == "message":
        watched.end[0] += 10**6
    elif change == "partition":
        watched.group[0] = 1
    else:
        watched.criterion.thawed(np.array([0]), 10**9)
    may += [watched.look([125_000]).may_ps[0] > 0 for _ in range(7)]
    assert may == 2 * ([False] * N_SAMPLE + [True] * 3)


@given(present=st.lists(st.sets(st.integers(0, 4), min_size=1), min_size=1, max_size=40), n_sample=st.integers(2, 5))
def test_a_flow_is_judged_by_its_last_looks_in_a_row_whoever_comes_and_goes(present: list, n_sample: int) -> None:
    """Against lists, one for each flow."""
    rng, now_ps = np.random.default_rng(len(present)), 0
    criterion, done, kept = make(Choice("paper", samples=n_sample)), np.zeros(5, np.int64), {i: [] for i in range(5)}
    for flows in present:
        now_ps += INTERVAL_PS
        done += rng.integers(95_000, 105_000, 5)
        flow = np.array(sorted(flows))
        rows = np.zeros((len(flow), h.N_COLUMN), np.int64)
        rows[:, h.FLOW], rows[:, h.DONE], rows[:, h.DONE_PS] = flow, done[flow], now_ps
        rows[:, h.MESSAGE_END], rows[:, h.IS_PLAIN] = END, 1
        criterion.add(now_ps, rows, np.zeros((len(flow), 2), np.int64))
        verdict = criterion.judge(now_ps, rows)
        kept = {i: [*kept[i], done[i]] if i in flows else [] for i in kept}
        for at, i in enumerate(flow.tolist()):
            each = np.diff(kept[i][-n_sample - 1 :])
            expected = len(each) == n_sample and max(each) - min(each) < 0.05 * np.mean(each)
            assert (verdict.may_ps[at] > 0) == expected
            assert not expected or verdict.done_bytes[at] == sum(each)


def hygra_rounds(rates: Sequence[Sequence[int]], queues: Sequence[Sequence[Sequence[int]]] | None = None) -> list[bool]:
    """Whether anything may be skipped, look by look: of two flows, bytes per interval and queues at each look."""
    watched = Watched(HYGRA)
    return [
        bool((watched.look(done, None, queues[k] if queues else ()).may_ps > 0).any()) for k, done in enumerate(rates)
    ]


STILL = [125_000, 62_500]


def test_hygra_wants_its_rounds_one_after_the_other_and_then_goes_to_the_first_end() -> None:
    watched = Watched(HYGRA)
    watched.end[:2] = 10**7, 3 * 10**7
    verdicts = [watched.look(STILL) for _ in range(N_SAMPLE + 2)]
    assert [bool(verdict.may_ps.min() > 0) for verdict in verdicts] == [False] * (N_SAMPLE + 1) + [True]
    first_ps = (10**7 - 125_000 * (N_SAMPLE + 2) - 2 * PACKET_BYTES) / 0.0125
    assert verdicts[-1].may_ps.tolist() == pytest.approx([first_ps, first_ps], rel=1e-12)


def test_hygra_s_threshold_is_absolute_and_one_flow_holds_up_all() -> None:
    """epsilon_bw = 5 Gbit/s: 8 % of the second flow's rate."""
    for size, expected in ((5 * GBPS_BYTES - 1, True), (5 * GBPS_BYTES, False)):
        rates = [[125_000, 62_500 + round(size) * (k % 2)] for k in range(N_SAMPLE + 2)]
        assert hygra_rounds(rates)[-1] == expected


def test_one_round_that_is_not_still_sets_hygra_s_count_back() -> None:
    rates = [STILL] * 5 + [[125_000, 75_000]] + [STILL] * (N_SAMPLE + 2)
    assert hygra_rounds(rates) == [False] * (len(rates) - 2) + [True, True]


def test_hygra_looks_at_the_queues_of_switches_only() -> None:
    """epsilon_q = 6250 bytes; the first port is the host's own."""
    for queue, expected in (([9000, 0, 0], True), ([0, 6249, 0], True), ([0, 6250, 0], False), ([0, 0, 9000], False)):
        queues = [[[0, 0, -1], [value * (k % 2) for value in queue]] for k in range(N_SAMPLE + 2)]
        assert hygra_rounds([STILL] * len(queues), queues)[-1] == expected


def test_a_new_flow_and_a_stalled_one_hold_up_hygra() -> None:
    watched = Watched(HYGRA)
    may = [bool(watched.look(STILL).may_ps.min() > 0) for _ in range(6)]
    may += [bool(watched.look([*STILL, 1000]).may_ps.max() > 0) for _ in range(6)]
    assert may == 2 * ([False] * 5 + [True])
    assert not any(hygra_rounds([[125_000, 0]] * 9))


def test_equation_24_counts_round_trips() -> None:
    """100 packets in flight at 100 Gbit/s and 8 us: sqrt(400 / 7) = 7.56 round trips."""
    assert least_span_ps(10**11, 8_000_000, 1000) == math.ceil(math.sqrt(400 / 7) * 8_000_000)
    assert least_span_ps(4 * 10**11, 8_000_000, 1000) == pytest.approx(
        2 * least_span_ps(10**11, 8_000_000, 1000), abs=2
    )


def test_what_is_not_given_follows_from_the_run_and_is_reported() -> None:
    network = Network(8_000_000, 10**11, 4 * 10**11, 1000)
    span_ps = least_span_ps(4 * 10**11, 8_000_000, 1000)  # 15.1 round trips
    choice = resolve(Choice("paper"), network)
    assert report(choice, network) == {
        "name": "paper", "theta": 0.05, "metric": "R", "samples": 31, "sample_interval_ps": 8_000_000,
        "least_span_ps": span_ps, "rate_error_bound": pytest.approx(1 / 19), "bdp_bytes": 100_000,
    }  # fmt: skip
    assert 31 * 8_000_000 >= 2 * span_ps > 30 * 8_000_000
    assert resolve(Choice("paper", sample_interval_ps=10**8), network).samples == 16 == enough_samples(1, 10**8)
    assert resolve(Choice("paper", samples=2000), network).samples == 2000
    assert report(resolve(Choice("hygra"), network), network) == {
        "name": "hygra", "bandwidth_threshold_bps": 5 * 10**9, "queue_threshold_bytes": 5000, "stable_rounds": 3,
        "samples": 31, "sample_interval_ps": 8_000_000,
    }  # fmt: skip
    assert report(resolve(Choice(), network), network) == {"name": "default", "sample_interval_ps": 16_000_000}


CONFIG = """\
[topology]
kind = "fat-tree"
k = 4
[workload]
kind = "collectives"
[[workload.collective]]
name = "ring"
operation = "all-reduce"
size = "24MB"
gpus = [0, 2, 4, 6]
"""


@pytest.mark.parametrize(
    ("criterion", "metric"), [("default", ""), ("paper", "R"), ("paper", "I"), ("paper", "Q"), ("hygra", "")]
)
def test_a_ring_is_skipped_by_every_criterion_and_ends_when_it_did(criterion: str, metric: str, tmp_path: Path) -> None:
    (tmp_path / "ring.toml").write_text(CONFIG)
    skipping = ["wormhole.mode=exact", 'wormhole.paper.forecasts=["periodic"]', f"wormhole.paper.criterion={criterion}"]
    skipping += [f"wormhole.paper.metric={metric}"] * (metric != "")
    results = {}
    for name, sets in {"full": [], "quick": skipping}.items():
        pdes.simulate(load_config(tmp_path / "ring.toml", [*sets, f'output.dir="{tmp_path / name}"']))
        results[name] = json.loads((tmp_path / name / "result.json").read_text())
    full, quick = results["full"], results["quick"]
    found = quick["fast_forward"]["criterion"]
    assert (found["name"], found.get("metric", "")) == (criterion, metric)
    assert quick["fast_forward"]["skipped_share"] > 0.4
    assert quick["packet_hops"] + quick["skipped_packet_hops"] == full["packet_hops"]
    assert quick["simulated_time_ps"] == pytest.approx(full["simulated_time_ps"], rel=1e-3)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("theta = 0.1", r'theta: is there, but criterion is "default". Accepted: with criterion = "paper"'),
        ('criterion = "paper"\nstable_rounds = 2', r'criterion is "paper". Accepted: with criterion = "hygra"'),
        ('criterion = "hygra"\nmetric = "Q"', r'metric: is there, but criterion is "hygra". Accepted: with crit'),
        ('sample_interval = "9us"', r'sample_interval: is there, .* Accepted: with criterion = "paper" or "hygra"'),
        ('criterion = "paper"\nmetric = "r"', r'\[wormhole.paper\] metric: found "r". Accepted: "R", "I" or "Q"'),
        ('criterion = "paper"\nsamples = 1', r'samples: found 1. Accepted: "auto", or a whole number, 2 to 10,000'),
        ('criterion = "paper"\ntheta = 1.0', r"\[wormhole.paper\] theta: found 1.0. Accepted: less than 1"),
        ('criterion = "fast"', r'\[wormhole.paper\] criterion: found "fast". Accepted: "default", "paper" or "hygra"'),
    ],
)
def test_a_key_of_another_criterion_is_a_fault(keys: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "ring.toml").write_text(CONFIG + f"[wormhole.paper]\n{keys}\n")
    with pytest.raises(ConfigError, match=expected):
        load_config(tmp_path / "ring.toml")


def test_the_config_and_the_criteria_agree_on_who_has_a_key() -> None:
    for name in ("paper", "hygra"):
        assert set(KEYS[name]) == {key for key, names in CRITERION_KEYS.items() if name in names}


def test_each_criterion_takes_its_keys(tmp_path: Path) -> None:
    shared = 'samples = 2000\nsample_interval = "10us"\n'
    paper = 'criterion = "paper"\ntheta = 0.1\nmetric = "Q"\n'
    hygra = 'criterion = "hygra"\nbandwidth_threshold = "2Gbps"\nqueue_threshold = "9kB"\nstable_rounds = 5\n'
    for keys in (paper, hygra):
        (tmp_path / "ring.toml").write_text(CONFIG + f"[wormhole.paper]\n{keys}{shared}")
        config = load_config(tmp_path / "ring.toml").wormhole.paper
        choice = Choice(config.criterion, **config.criterion_parameters)
        assert (choice.samples, choice.sample_interval_ps) == (2000, 10**7)
    assert (choice.bandwidth_threshold_bps, choice.queue_threshold_bytes, choice.stable_rounds) == (2 * 10**9, 9000, 5)
