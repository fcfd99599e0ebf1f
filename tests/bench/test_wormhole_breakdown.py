"""What `bench/wormhole_breakdown.py` says of made-up runs: factors, shares by cause, what was skipped."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wormhole_breakdown as bench
from models.network.skip.skipped import CAUSES
from pdes.config import load_config
from pdes.results.tables import COLUMNS, write_table
from runs import Finished

HOPS = {"off": 1000, "periodic": 100, "replay": 500, "both": 40}


def made_up(folder: Path, mode: str) -> Finished:
    folder.mkdir(parents=True)
    flows = {name: np.zeros(2, np.int64) for name in COLUMNS["flows"]}
    flows |= {"flow_id": np.arange(2), "finish_ps": np.array([100 + (mode == "both"), 200])}
    flows["fct_ps"] = flows["finish_ps"]
    write_table(folder / "flows.parquet", "flows", [flows], {"tag": [""]})
    time_ps, ones = np.array([10, 20, 30]), np.ones(3, np.int64)
    series = dict(zip(COLUMNS["partitions"], (time_ps, np.array([4, -1, 2]), ones, 0 * ones, ones, ones), strict=True))
    write_table(folder / "partitions.parquet", "partitions", [series])
    causes = dict.fromkeys(CAUSES, 0) | {"steady": 900 if mode == "periodic" else 600}
    if mode != "periodic":
        causes = causes | {"steady": 0 if mode == "replay" else 600, "follower": 1000 - HOPS[mode] - causes["steady"]}
    facts = {
        "skipped_packet_hops": causes, "steady_share_of_flow_time": 0.5, "flow_freezes": 3, "looks": 7, "partitions": 4,
    }  # fmt: skip
    if mode in ("replay", "both"):
        facts["memo"] = {"followed": 5, "hits": 1, "misses": 2}
    result = {"packet_hops": HOPS[mode], "skipped_packet_hops": 1000 - HOPS[mode], "flows": 2, "fast_forward": facts}
    (folder / "result.json").write_text(json.dumps(result))
    (folder / "run.json").write_text(json.dumps({"loop_seconds": HOPS[mode] / 100}))
    return Finished(folder, 1.0, "abc")


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable:
    """Call the program on runs that are made up; (what it printed, its line of JSON, the overrides of each run)."""
    calls: list[list[str]] = []

    def simulate_once(config: Path, overrides: Sequence[str], parent: Path, fresh: bool) -> Finished:
        calls.append(list(overrides))
        load_config(config, list(overrides))
        settings = dict(text.split("=", 1) for text in overrides)
        forecasts = json.loads(settings.get("wormhole.paper.forecasts", "[]"))
        return made_up(tmp_path / f"run{len(calls)}", {0: "off", 1: "".join(forecasts), 2: "both"}[len(forecasts)])

    def run(*arguments: str) -> tuple[str, dict[str, Any], list[list[str]]]:
        monkeypatch.setattr("sys.argv", ["wormhole_breakdown.py", "--out", str(tmp_path), *arguments])
        assert bench.main() == 0
        text = capsys.readouterr().out
        return text, json.loads(text.splitlines()[-1]), calls

    monkeypatch.setattr(bench, "simulate_once", simulate_once)
    monkeypatch.setattr(bench, "compile_ahead", lambda *_: None)
    monkeypatch.setattr(bench, "draw", lambda *_: True)
    return run


def test_modes_are_told_by_hops_and_time(call: Callable) -> None:
    text, figures, calls = call("--quick", "--only", "a")
    for rows in figures["parts"]["a"].values():
        assert {mode: row["hop_factor"] for mode, row in rows.items()} == {"periodic": 10, "replay": 2, "both": 25}
        assert {mode: row["loop_factor"] for mode, row in rows.items()} == {"periodic": 10, "replay": 2, "both": 25}
        assert rows["both"]["mean_fct_error"] == pytest.approx(0.005) and rows["periodic"]["mean_fct_error"] == 0
        assert rows["both"]["freezes_per_flow"] == 1.5
        causes = {"steady": 0.6, "follower": 0.36, "memo": 0, "memo_file": 0, "wave": 0, "fluid": 0, "pass": 0}
        assert rows["both"]["skipped_by_cause"] == causes
    assert len(calls) == 2 * 2 * len(bench.MODES) and figures["exercised"] == figures["rows"] == 6
    assert all("network.congestion_control=hpcc" in sets for sets in calls) and "5, 1, 2" in text


def test_controls_are_told_by_cause(call: Callable) -> None:
    text, figures, _ = call("--quick", "--only", "b")
    assert list(figures["parts"]) == ["b"]
    assert all(sorted(rows) == sorted(bench.CONTROLS) for rows in figures["parts"]["b"].values())
    assert text.count("96.000 %") == 2 * len(bench.CONTROLS) == text.count("36.000 %")


def test_partitions_are_drawn_where_they_are_known(tmp_path: Path) -> None:
    curves = bench._series(made_up(tmp_path / "run", "both").folder)
    time_ms, n_partition = curves["partitions"]
    assert time_ms.tolist() == [10e-9, 30e-9] and n_partition.tolist() == [4, 2]


def test_the_jobs_are_configs_that_load() -> None:
    for quick in (False, True):
        for path, sets in bench.jobs(quick).values():
            assert load_config(path, sets).workload.kind == "training"


def test_what_cannot_be_run_is_one_message(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, expected in (
        (["--only", "c"], "--only: found c. Accepted: a, b"),
        (["--quick", "--set", "network.speed=1"], "network.speed: unknown key"),
    ):
        monkeypatch.setattr("sys.argv", ["wormhole_breakdown.py", *arguments])
        assert bench.main() == 2 and expected in capsys.readouterr().err
