"""What an audit says of skips on made-up samples, where the error is known, and of whole runs."""

import json
import math
import statistics
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pdes
from pdes.config import load_config
from pdes.engine.time_index import NEVER
from pdes.errors import ConfigError
from pdes.skipping import history as h
from pdes.skipping.audit import Audit, standard_error
from pdes.skipping.frozen import Freeze

PACKET_BYTES, GAP_PS, BEGIN_PS, END = 1000, 80_000, 10**9, 10**9
LABEL, VERSION, N_PERIOD, PERIOD_PACKETS = 1, 5, 20, 50
PERIOD_PS = PERIOD_PACKETS * GAP_PS
END_PS = BEGIN_PS + N_PERIOD * PERIOD_PS
NOW = np.array([0, VERSION, 0], np.int64)  # version of each label


def plan(*flows: int) -> Freeze:
    """Flows that send a packet each GAP_PS, as was measured over 400 of them."""
    n, none = np.full(len(flows), 400), np.zeros(len(flows), np.int64)
    return Freeze(np.array(flows), np.array(flows), BEGIN_PS, PERIOD_PS, N_PERIOD, n, n * GAP_PS, none)


def sample(done: dict[int, tuple[int, int]], end: int = END) -> np.ndarray:
    """done: flow -> (packets acknowledged, time of the last acknowledgement)."""
    rows = np.zeros((len(done), h.N_COLUMN), np.int64)
    for row, (flow, (packets, at_ps)) in zip(rows, sorted(done.items()), strict=True):
        row[h.FLOW], row[h.DONE], row[h.DONE_PS], row[h.MESSAGE_END] = flow, packets * PACKET_BYTES, at_ps, end
    return rows


FIRST = sample({flow: (100 + flow, BEGIN_PS - 10 * flow) for flow in range(8)})


def started(*flows: int) -> Audit:
    """An audit that follows one plan, made of FIRST."""
    audit = Audit(1.0, 1, PACKET_BYTES)
    assert audit.takes(plan(*flows), LABEL, VERSION, FIRST)
    assert (audit.first_end_ps, list(audit.running)) == (END_PS, [LABEL])
    return audit


def gone_on(packets: int, gap_ps: int = GAP_PS, flows: tuple[int, ...] = (2, 5, 6)) -> np.ndarray:
    """A sample after so many more packets of each flow, one each gap_ps."""
    return sample({flow: (100 + flow + packets, BEGIN_PS - 10 * flow + packets * gap_ps) for flow in flows})


def ended(audit: Audit) -> dict:
    """What it says once nothing is followed any more."""
    assert audit.running == {} and audit.first_end_ps == NEVER
    return audit.facts()


def test_flows_that_go_on_as_planned_are_off_by_nothing() -> None:
    audit = started(2, 5)
    audit.look(BEGIN_PS + 10**7, gone_on(125), NOW)
    audit.look(END_PS, gone_on(1000), NOW)
    assert ended(audit) == {
        "share": 1.0, "skips": 1, "skips_audited": 1, "skips_cut_short": 0, "flows": 2, "mean_rate_error": 0.0,
        "p99_rate_error": 0.0, "max_rate_error": 0.0, "standard_error": None, "mean_time_error": 0.0,
    }  # fmt: skip


@given(packets=st.integers(1, 1000))
def test_what_is_cut_short_anywhere_is_compared_without_rounding_to_periods(packets: int) -> None:
    audit = started(2, 5)
    audit.look(BEGIN_PS + packets * GAP_PS, gone_on(packets), NOW)
    facts = audit.facts()
    assert (facts["flows"], facts["skips_cut_short"]) == (2, int(packets < 1000))
    assert facts["max_rate_error"] == facts["mean_time_error"] == 0.0


@pytest.mark.parametrize("gap_ps", [72_000, 79_999, 80_001, 100_000, 400_000])
def test_another_rate_is_an_error_of_the_bytes_and_of_their_time(gap_ps: int) -> None:
    """At 1 / GAP_PS the plan credits gap_ps / GAP_PS for each packet, and takes GAP_PS for it."""
    audit, packets = started(2, 5), N_PERIOD * PERIOD_PS // gap_ps
    audit.look(END_PS, gone_on(packets, gap_ps), NOW)
    facts = ended(audit)
    assert facts["mean_rate_error"] == pytest.approx(abs(gap_ps / GAP_PS - 1), rel=1e-12)
    assert facts["mean_time_error"] == pytest.approx(abs(GAP_PS / gap_ps - 1), rel=1e-12)


def test_a_flow_that_stands_still_is_off_by_all_that_was_due() -> None:
    """The plan had it done 1000 packets; up to one gap after the last acknowledgement nothing is late."""
    still, moving = gone_on(0, flows=(2,)), gone_on(1000, flows=(5,))
    audit = started(2, 5)
    audit.look(END_PS, np.concatenate([still, moving]), NOW)
    facts = ended(audit)
    assert (facts["flows"], facts["max_rate_error"]) == (2, pytest.approx(999, abs=0.001))
    audit = started(2)
    audit.look(BEGIN_PS + GAP_PS - 20, still, NOW)
    assert audit.facts()["flows"] == 0 and audit.facts()["mean_rate_error"] is None


@pytest.mark.parametrize("how", ["company", "message", "gone"])
def test_what_no_plan_can_know_of_ends_an_audit_with_the_sample_before(how: str) -> None:
    audit, late = started(2, 5), sample({2: (3000, BEGIN_PS), 5: (1, BEGIN_PS)}, END + (how == "message"))
    audit.look(BEGIN_PS + 100 * GAP_PS, gone_on(100), NOW)
    assert list(audit.running) == [LABEL]
    audit.look(BEGIN_PS + 200 * GAP_PS, late[how == "gone" :], NOW + (how == "company"))
    facts = ended(audit)
    assert (facts["skips_cut_short"], facts["flows"], facts["max_rate_error"]) == (1, 2, 0.0)


def test_an_audit_that_is_cut_short_at_once_counts_and_has_no_error() -> None:
    audit = started(2, 5)
    audit.look(BEGIN_PS + GAP_PS, sample({}), NOW)
    facts = ended(audit)
    assert (facts["skips_audited"], facts["skips_cut_short"], facts["flows"]) == (1, 1, 0)
    assert facts["mean_rate_error"] is facts["p99_rate_error"] is facts["standard_error"] is None


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_the_share_is_drawn_by_seed_and_number_alone(share: float) -> None:
    """Within four standard deviations; with half of them, the same ones and more."""

    def drawn(seed: int, share: float) -> list[bool]:
        audit = Audit(share, seed, PACKET_BYTES)
        return [audit.takes(plan(2, 5), LABEL, VERSION, FIRST) for _ in range(2000)]

    found = drawn(1, share)
    assert abs(sum(found) - 2000 * share) < 4 * math.sqrt(2000 * share * (1 - share))
    assert found == drawn(1, share) != drawn(2, share)
    assert all(more for one, more in zip(found, drawn(1, 0.6), strict=True) if one)


def test_the_last_percent_and_the_largest_are_told_apart() -> None:
    """Of 201 flows two may lie above the 99th percentile."""
    audit, flows, n = Audit(1.0, 1, PACKET_BYTES), tuple(range(201)), 1000
    first = sample({flow: (0, BEGIN_PS) for flow in flows})
    audit.takes(plan(*flows), LABEL, VERSION, first)
    slow = {198: 500, 199: 250, 200: 125}
    audit.look(END_PS, sample({flow: (slow.get(flow, n), END_PS) for flow in flows}), NOW)
    facts = ended(audit)
    assert (facts["p99_rate_error"], facts["max_rate_error"]) == (1.0, 7.0)
    assert facts["mean_rate_error"] == pytest.approx((1 + 3 + 7) / 201)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=20), st.integers(1, 5))
def test_the_standard_error_is_that_of_independent_skips(means: list[float], n_flow: int) -> None:
    """With equally many flows in each: of the mean of their means, however many flows say the same."""
    expected = statistics.stdev(means) / math.sqrt(len(means))
    assert standard_error([np.full(n_flow, mean) for mean in means]) == pytest.approx(expected, rel=1e-6, abs=1e-12)
    assert standard_error([np.ones(7)]) is None


CONFIG = """\
[topology]
kind = "roft"
gpus = 4
gpus_per_server = 1
[workload]
kind = "collectives"
[[workload.collective]]
name = "ring"
operation = "all-reduce"
size = "8MB"
"""


@pytest.fixture
def simulate(tmp_path: Path):
    """simulate("table.key=value", ...): (result.json, bytes of the tables) of CONFIG."""
    (tmp_path / "ring.toml").write_text(CONFIG)

    def run(*sets: str) -> tuple[dict, list[bytes]]:
        out = tmp_path / "-".join(sets).replace('"', "")
        pdes.simulate(load_config(tmp_path / "ring.toml", [*sets, f'output.dir="{out}"']))
        tables = [(out / f"{name}.parquet").read_bytes() for name in ("flows", "ports", "tasks")]
        return json.loads((out / "result.json").read_text()), tables

    return run


PERIODIC = ("wormhole.mode=exact", 'wormhole.paper.forecasts=["periodic"]')


@pytest.mark.parametrize(("control", "most"), [("dctcp", 0.0), ("hpcc", 0.001)])
@pytest.mark.parametrize("forecasts", ['["periodic"]', '["periodic", "replay"]'])
def test_an_audit_of_all_skips_nothing_and_finds_the_skips_right(
    control: str, most: float, forecasts: str, simulate
) -> None:
    """DCTCP's windows stay: its skips are exact. A memo has nothing to replay in one ring."""
    keys = (f"network.congestion_control={control}",)
    _, tables = simulate(*keys, "wormhole.mode=off")
    all_of, same = simulate(*keys, "wormhole.mode=exact", f"wormhole.paper.forecasts={forecasts}", "wormhole.audit=1")
    assert same == tables
    audit = all_of["fast_forward"]["audit"]
    assert (all_of["skipped_packet_hops"], all_of["fast_forward"]["freezes"]) == (0, 0)
    assert audit["skips"] == audit["skips_audited"] == audit["flows"] // 4 >= 5 and audit["skips_cut_short"] == 0
    assert audit["mean_rate_error"] <= audit["max_rate_error"] <= most and audit["mean_time_error"] <= most


def test_a_share_is_audited_and_the_rest_is_skipped(simulate) -> None:
    none, _ = simulate(*PERIODIC)
    some, _ = simulate(*PERIODIC, "wormhole.audit=0.4")
    audit = some["fast_forward"]["audit"]
    assert "audit" not in none["fast_forward"]
    assert 0 < audit["skips_audited"] < audit["skips"] == audit["skips_audited"] + some["fast_forward"]["freezes"]
    assert 0 < some["skipped_packet_hops"] < none["skipped_packet_hops"]
    assert some["simulated_time_ps"] == none["simulated_time_ps"] and audit["max_rate_error"] == 0.0


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1.1", "found 1.1. Accepted: at most 1"),
        ("-0.05", "found -0.05. Accepted: at least 0"),
        ('"5%"', 'found "5%". Accepted: a number'),
        ("true", "found true. Accepted: a number"),
        ("nan", "Accepted: a finite number"),
    ],
)
def test_a_share_is_a_number_from_0_to_1(value: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "ring.toml").write_text(CONFIG + f"[wormhole]\naudit = {value}\n")
    with pytest.raises(ConfigError, match=rf"\[wormhole\] audit: .*{expected}"):
        load_config(tmp_path / "ring.toml")
