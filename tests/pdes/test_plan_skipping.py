"""Claims about what a plan says of fast-forwarding: what is used, how far off that was measured to be, what is not."""

import json
from pathlib import Path

import pytest

from models.congestion.law import find_law
from pdes.config import load_config
from pdes.scenario import build_scenario
from pdes.scenario.skipping import ALL, EXACT, MEASURED, WAVES, WITHOUT_CHAOS, skipping_facts

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "examples" / "quickstart.toml"
AUTO, HPCC = "wormhole.mode=auto", "network.congestion_control=hpcc"
LEAST = "periodic; not replay, similar, alone, shares"
NO_MEMO = "periodic, alone, shares, expected within 1 %; not replay, similar"
REORDERS = ["network.transport.recovery=selective-repeat"]
NO_LANES = "periodic, replay, similar, expected within 1 %; not alone, shares"
FLOWS = """\
[topology]
kind = "fat-tree"
k = 4
[workload]
kind = "flows"
file = "flows.csv"
"""


def facts(*sets: str, config: Path = QUICKSTART) -> list[str]:
    s = build_scenario(load_config(config, list(sets)))
    found = skipping_facts(s.config, s.parameters)
    assert [name for name, _ in found] == ["skipping", "how far off"][: len(found)]
    return [text for _, text in found]


def test_without_fast_forwarding_one_line_says_what_there_would_be() -> None:
    assert facts() == ['off: every packet is simulated; [wormhole] mode = "exact", "auto" or "flow" takes less']


def test_exact_has_what_was_measured_with_the_control() -> None:
    used, far = facts("wormhole.mode=exact")
    assert used == "exact: periodic, replay"
    assert far.startswith(
        "completion times by 0 in dense jobs (881 to 1,566 times fewer packet-hops), 0 in mixtures of"
    )
    assert far.endswith("on average, in jobs measured; [wormhole] audit = 0.05 measures it in this job")
    _, far = facts("wormhole.mode=exact", HPCC)
    assert "0.0084 to 0.015 % in dense jobs" in far and "0.17 to 4.8 % (chaos alone: 2.2 to 5.0 %) in mixtures" in far


def test_nscc_learns_no_shares_of_ports() -> None:
    """With them an iteration over an oversubscribed leaf-spine took 1.7 times as long as it does."""
    used, _ = facts(AUTO, "network.congestion_control=nscc")
    assert used.startswith(
        "auto: periodic, replay, similar, alone, expected within 1 %; not shares: with nscc they were too slow by far"
    )


def test_auto_says_what_is_expected_and_what_was_measured() -> None:
    used, far = facts(AUTO, "wormhole.tolerance=0.03")
    assert used == "auto: periodic, replay, alone, shares, expected within 3 %"
    assert "0.092 to 0.22 % in mixtures of experts (262 to 7,758 times fewer" in far and "at a tolerance of 0.02" in far
    _, far = facts(AUTO, HPCC)
    assert "0.85 % (chaos alone: 0.47 %) in GPT-175B" in far
    _, far = facts(AUTO, 'wormhole.paper.forecasts=["periodic", "replay", "similar"]')
    assert "0.22 to 0.53 %" in far
    assert facts(AUTO, "wormhole.audit=0.1")[1].endswith("; the audit of this run measures it")


def test_it_says_where_nothing_alike_was_measured(tmp_path: Path) -> None:
    not_measured = "[wormhole] audit = 0.05 measures it in this job"
    assert facts(AUTO, "network.congestion_control=swift")[1] == f"not measured with swift; {not_measured}"
    criterion = "wormhole.paper.criterion=hygra"
    assert facts("wormhole.mode=exact", criterion)[1].startswith("not measured with the criterion hygra; ")
    (tmp_path / "flows.csv").write_text("src,dst,size_bytes,start_ps\n0,1,5000,0\n")
    (tmp_path / "config.toml").write_text(FLOWS)
    assert (
        facts(AUTO, config=tmp_path / "config.toml")[1]
        == f"not measured with flows instead of training; {not_measured}"
    )


@pytest.mark.parametrize(
    ("sets", "used"),
    [
        (["simulation.stop_time=1s"], f"{NO_LANES}: the run stops at a given time"),
        (["network.loss.probability=1e-3"], f"{LEAST}: losses are drawn"),
        (['network.buffer.size="9MB"'], f"{NO_MEMO}: switches share their buffers"),
        (
            ['network.buffer.size="9MB"', "network.congestion_control=nscc"],
            "periodic, alone, expected within 1 %; not replay, similar, shares: switches share their buffers among "
            "network partitions; with nscc they were too slow by far",
        ),
        (["network.transport.recovery=selective-repeat"], f"{NO_MEMO}: selective repeat"),
        (["network.transport.recovery=go-back-n"], "periodic, replay, alone, shares, expected within 1 %"),
        (["network.routing.policy=weighted"], f"{NO_MEMO}: switches choose the ways of flows"),
        (
            [*REORDERS, "network.routing.policy=spray"],
            "alone, shares, expected within 1 %; not periodic, replay, similar: switches choose a way for each "
            "packet",
        ),
    ],
)  # fmt: skip
def test_what_a_network_does_not_allow_is_said_with_its_reason(sets: list[str], used: str) -> None:
    assert facts(AUTO, *sets)[0].startswith(f"auto: {used}")


def test_where_nothing_can_be_skipped_the_plan_says_so() -> None:
    text = "auto, but nothing can be skipped: switches choose a way for each packet"
    assert facts(AUTO, *REORDERS, "network.routing.policy=flowlet") == [text]
    text = text.replace("auto", "exact")
    assert facts(AUTO, *REORDERS, "network.routing.policy=spray", "wormhole.mode=exact") == [text]


def test_what_the_plan_says_was_measured_is_what_the_table_has() -> None:
    cases = json.loads((ROOT / "bench" / "accuracy_table.json").read_text())
    assert all(find_law(name) for name in (*WITHOUT_CHAOS, "hpcc"))
    checked = 0
    for (forecasts, is_hpcc), rows in MEASURED.items():
        for row in (row for row in rows if row.job != "GPT-175B"):
            tolerance = {EXACT: "0", WAVES: "0.02", ALL: "0.02"}[forecasts]
            mine = [
                case for case in cases
                if case["tolerance"] == tolerance and case["lanes_and_shares"] == (forecasts == ALL)
                and (case["control"] == "HPCC") == is_hpcc and case["config"].startswith("moe") == ("mix" in row.job)
            ]  # fmt: skip
            assert row.fewer == span([case["times_fewer"].replace(",", "") for case in mine])
            errors = span([case["mean_fct_error"].removesuffix(" %") for case in mine])
            chaos = span([case["chaos_floor"].removesuffix(" %") for case in mine])
            percent = errors if errors == "0" else f"{errors} %"
            assert row.off == (f"{percent} (chaos alone: {chaos} %)" if "chaos" in row.off else percent)
            checked += 1
    assert checked == 8
    page = (ROOT / "docs" / "accuracy-flow-level.md").read_text()
    for row in (row for rows in MEASURED.values() for row in rows if row.job == "GPT-175B"):
        assert f"| {row.fewer} |" in page and f"| {row.off.split(' (')[0]} |" in page


def span(numbers: list[str]) -> str:
    """ "24 to 29", of as many digits as they have."""
    least, most = (pick(numbers, key=float) for pick in (min, max))
    shown = [f"{int(text):,}" if text.isdigit() else text for text in (least, most)]
    return shown[0] if least == most else " to ".join(shown)
