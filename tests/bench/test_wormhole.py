"""What `bench/wormhole.py` says of made-up runs: every figure, the chaos beside it, whether anything was skipped."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wormhole
from pdes.results.tables import COLUMNS, write_table
from runs import Finished

QUICK = str(wormhole.EXAMPLES / "quickstart.toml")


def made_up(
    folder: Path, fct_ps: list[int], rtt_ps: dict[int, int], hops: int, seconds: float, **result: Any
) -> Finished:
    """A result folder; flows start at 0."""
    folder.mkdir(parents=True)
    finish_ps = np.array(fct_ps, np.int64)
    flows = {name: np.zeros(len(fct_ps), np.int64) for name in COLUMNS["flows"]} | {"finish_ps": finish_ps}
    flows |= {"flow_id": np.arange(len(fct_ps)), "fct_ps": finish_ps}
    write_table(folder / "flows.parquet", "flows", [flows], {"tag": [""]})
    packets = {"sequence": list(rtt_ps), "rtt_ps": list(rtt_ps.values()), "sent_ps": [0] * len(rtt_ps)}
    rtt = {name: np.array(values, np.int64) for name, values in packets.items()}
    write_table(folder / "rtt.parquet", "rtt", [rtt | {"flow_id": rtt["sent_ps"]}])
    whole = {"packet_hops": hops, "skipped_packet_hops": 0, "iteration_time_ps": [], "simulated_time_ps": max(fct_ps)}
    (folder / "result.json").write_text(json.dumps(whole | {"rtt": {}} | result))
    (folder / "run.json").write_text(json.dumps({"loop_seconds": seconds}))
    return Finished(folder, 2 * seconds, "abc")


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable:
    """Call the program on runs that are made up; (what it printed, its line of JSON, the overrides of each run)."""
    calls: list[list[str]] = []

    def simulate_once(config: Path, overrides: Sequence[str], parent: Path, n_rank: int, fresh: bool) -> Finished:
        calls.append(list(overrides))
        settings = dict(text.split("=", 1) for text in overrides)
        folder = tmp_path / f"run{len(calls)}"
        if "workload.start_jitter" in settings:
            return made_up(folder, [101, 200], {0: 50, 1000: 50}, 1000, 8.0, iteration_time_ps=[100, 100])
        if settings.get("wormhole.mode") == "off":
            return made_up(folder, [100, 200], {0: 50, 1000: 50}, 1000, 8.0, iteration_time_ps=[100, 100])
        skipped = {"skipped_packet_hops": 950, "fast_forward": {"memo": {"hits": 3}, "thaws": [1] * 20}}
        return made_up(folder, [104, 200], {1000: 55}, 50, 0.5, iteration_time_ps=[100, 102], **skipped)

    def call(*arguments: str) -> tuple[str, dict[str, Any], list[list[str]]]:
        monkeypatch.setattr("sys.argv", ["wormhole.py", "--out", str(tmp_path), *arguments])
        assert wormhole.main() == 0
        text = capsys.readouterr().out
        return text, json.loads(text.splitlines()[-1]), calls

    monkeypatch.setattr(wormhole, "simulate_once", simulate_once)
    monkeypatch.setattr(wormhole, "compile_ahead", lambda *_: None)
    return call


def test_the_figures_are_those_of_the_runs(bench: Callable) -> None:
    text, figures, calls = bench("--config", QUICK, "--set", "simulation.seed=3", "--mode", "exact")
    assert [call[2:] for call in calls] == [
        ["wormhole.mode=exact"], ["wormhole.mode=off"], ["wormhole.mode=off", "workload.start_jitter=50ns"],
    ]  # fmt: skip
    assert all(call[:2] == ["output.rtt_of_flow=0", "simulation.seed=3"] for call in calls)
    expected = {
        "event_skip": 0.95, "wall_speedup": 16, "start_to_result_speedup": 16, "mean_fct_error": 0.02,
        "max_fct_error": 0.04, "last_end_error": 0, "chaos_floor": 0.005, "iteration_error": 0.01, "rtt_nrmse": 0.1,
        "rtt_coverage": 0.5, "chaos_p99": 0.0099, "p99_fct_error": 0.0396, "distribution_error": 0.0396,
    }  # fmt: skip
    for name, value in expected.items():
        assert figures[name] == pytest.approx(value, rel=0.02), name
    assert figures["exercised"] is True and figures["fast_forward"]["memo"] == {"hits": 3}
    assert "memo.hits: 3" in text and "thaws: 20 values" in text and "NOT EXERCISED" not in text


def test_a_jitter_of_the_config_is_enlarged(bench: Callable) -> None:
    _, _, calls = bench("--config", QUICK, "--set", "workload.start_jitter=30ns")
    assert calls[2][-1] == "workload.start_jitter=80ns"


def test_a_run_without_a_skip_counts_as_not_exercised(bench: Callable) -> None:
    text, figures, _ = bench("--quick", "--set", "wormhole.mode=off")
    assert figures["exercised"] is False and figures["event_skip"] == 0 and figures["mean_fct_error"] == 0
    assert "NOT EXERCISED" in text


def test_without_full_runs_there_are_no_errors(bench: Callable) -> None:
    text, figures, calls = bench("--quick", "--mode", "exact", "--no-full")
    assert len(calls) == 1 and figures["event_skip"] == 0.95
    assert figures["mean_fct_error"] is figures["chaos_floor"] is None and "difference" not in text


def test_messages_over_several_queue_pairs_have_no_round_trip_times(bench: Callable) -> None:
    _, _, calls = bench("--quick", "--set", "network.routing.queue_pairs_per_flow=2")
    assert not any("rtt_of_flow" in text for call in calls for text in call)


def test_the_suite_has_a_row_for_every_case(bench: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Path] = []
    monkeypatch.setattr(wormhole, "draw", lambda path, *_: drawn.append(path))
    text, figures, _ = bench("--suite", "--quick", "--mode", "exact")
    names = [f"quickstart-{control}" for control in ("hpcc", "dcqcn", "timely", "dctcp")]
    assert list(figures["cases"]) == sorted(names) and figures["exercised"] == 4
    assert all(f"\n{name} " in text for name in names) and len(drawn) == 2
    _, figures, _ = bench("--suite", "--quick", "--cases", "quickstart-dcqcn", "--mode", "exact")
    assert list(figures["cases"]) == ["quickstart-dcqcn"]


def test_the_suite_is_made_of_examples_that_exist() -> None:
    cases = wormhole.suite(quick=False)
    assert {"gpt-7b-64-hpcc", "gpt-7b-64-timely", "gpt-13b-128", "gpt-22b-256"} <= set(cases)
    assert all(path.is_file() for path, _ in cases.values())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--config", "missing.toml"], "missing.toml: cannot be read"),
        (["--quick", "--mode", "fast"], r'wormhole.mode: found "fast"'),
        (["--suite", "--cases", "gpt"], "--cases: found gpt. Accepted: gpt-7b-64-hpcc, "),
    ],
)
def test_what_cannot_be_run_is_one_message(
    arguments: list[str], expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["wormhole.py", *arguments])
    assert wormhole.main() == 2
    assert expected in capsys.readouterr().err
