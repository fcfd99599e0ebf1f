"""What `bench/wormhole_memo.py` says of made-up runs: which memo each has, rates, factors, whether it was of use."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import wormhole_memo
from runs import Finished

QUICK = str(wormhole_memo.ROOT / "examples" / "quickstart.toml")
# By run, in order: entries read, hits of them, misses, packet-hops, seconds, the flows table.
RUNS = [(0, 0, 8, 1000, 8.0, "A"), (5, 6, 2, 250, 2.0, "A"), (0, 0, 4, 900, 6.0, "B"), (5, 1, 3, 600, 4.0, "C")]


def settings_of(overrides: Sequence[str]) -> dict[str, str]:
    return dict(text.split("=", 1) for text in overrides)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable:
    """Call the program on runs that are made up; (what it printed, its line of JSON, the settings of each run)."""

    def call(rows: Sequence[tuple], *arguments: str) -> tuple[str, dict[str, Any], list[dict[str, str]]]:
        calls: list[dict[str, str]] = []

        def simulate(config: Path, overrides: Sequence[str], folder: Path, n_rank: int) -> Finished:
            n_read, n_hit, n_miss, hops, seconds, flows = rows[len(calls)]
            calls.append(settings_of(overrides))
            Path(calls[-1]["wormhole.memo"].strip('"')).write_bytes(b"12345678")
            counters = {"hits": n_hit + 1, "hits_read": n_hit, "misses": n_miss - 1}
            memo = {"entries_read": n_read, "entries_added": 3, "counters": counters}
            (folder / "run.json").write_text(json.dumps({"memo": memo, "loop_seconds": seconds}))
            (folder / "result.json").write_text(json.dumps({"packet_hops": hops}))
            for name in ("flows", "tasks"):
                (folder / f"{name}.parquet").write_text(flows)
            return Finished(folder, seconds + 1, "abc")

        monkeypatch.setattr(wormhole_memo, "simulate", simulate)
        monkeypatch.setattr(wormhole_memo, "compile_ahead", lambda *_: None)
        monkeypatch.setattr("sys.argv", ["wormhole_memo.py", "--out", str(tmp_path), *arguments])
        assert wormhole_memo.main() == 0
        text = capsys.readouterr().out
        return text, json.loads(text.splitlines()[-1]), calls

    return call


def test_the_figures_are_those_of_the_runs(bench: Callable) -> None:
    text, figures, _ = bench(RUNS, "--config", QUICK)
    rates = [figures[name]["hit_rate"] for name in wormhole_memo.NAMES]
    assert rates == [0, 0.75, 0, 0.25]
    assert (figures["again_packet_hops_factor"], figures["again_loop_seconds_factor"]) == (4, 4)
    assert figures["again_start_to_result_seconds_factor"] == 3
    assert (figures["point_packet_hops_factor"], figures["point_loop_seconds_factor"]) == (1.5, 1.5)
    assert figures["again_same_tables"] is True and figures["point_same_tables"] is False
    assert figures["exercised"] is True and figures["memo_bytes"] == 8
    assert "again: packet-hops 4.00 times less" in text and "flows and tasks are not the same" in text
    assert "NOT EXERCISED" not in text


def test_a_point_is_run_with_a_memo_of_its_own_and_with_the_shared_one(bench: Callable, tmp_path: Path) -> None:
    shared, alone = (f'"{tmp_path / name}.memo"' for name in ("shared", "alone"))
    _, figures, calls = bench(RUNS, "--config", QUICK, "--set", "simulation.seed=3", "--mode", "replay")
    assert [call["wormhole.memo"] for call in calls] == [shared, shared, alone, shared]
    assert all((call["simulation.seed"], call["wormhole.paper.forecasts"]) == ("3", '["replay"]') for call in calls)
    default = settings_of(wormhole_memo.POINT)
    assert [default.items() <= call.items() for call in calls] == [False, False, True, True]
    assert calls[2] | {"wormhole.memo": shared} == calls[3]
    assert figures["mode"] == "replay"
    _, _, calls = bench(RUNS, "--quick", "--config", QUICK, "--point", "simulation.iterations=4")
    assert [call.get("simulation.iterations") for call in calls] == [None, None, "4", "4"]
    assert all(call["workload.microbatches"] == "1" for call in calls)


def test_a_memo_of_no_use_counts_as_not_exercised(bench: Callable) -> None:
    text, figures, _ = bench([RUNS[0], (5, 0, 8, 1000, 8.0, "A"), *RUNS[2:]], "--config", QUICK)
    assert figures["exercised"] is False and figures["again_packet_hops_factor"] == 1 and "NOT EXERCISED" in text


def test_a_network_without_a_memo_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def simulate(config: Path, overrides: Sequence[str], folder: Path, n_rank: int) -> Finished:
        (folder / "run.json").write_text(json.dumps({"memo": {"why_not": "losses are drawn"}}))
        (folder / "result.json").write_text("{}")
        return Finished(folder, 1.0, "abc")

    monkeypatch.setattr(wormhole_memo, "simulate", simulate)
    monkeypatch.setattr(wormhole_memo, "compile_ahead", lambda *_: None)
    monkeypatch.setattr("sys.argv", ["wormhole_memo.py", "--quick", "--config", QUICK, "--out", str(tmp_path)])
    assert wormhole_memo.main() == 2
    assert capsys.readouterr().err == "error: --config: this network has no memo: losses are drawn\n"
