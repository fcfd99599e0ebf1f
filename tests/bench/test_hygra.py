"""What `bench/hygra.py` says of made-up runs: errors with the chaos beside them; and that its jobs load."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hygra as bench
from pdes.config import load_config
from pdes.results.tables import COLUMNS, write_table
from pdes.scenario import build_topology, build_workload
from runs import Finished


def made_up(folder: Path, fct_ps: list[int], hops: int, is_off: bool) -> Finished:
    """Two flows of 1000 and 2000 bytes."""
    folder.mkdir(parents=True)
    flows = {name: np.zeros(2, np.int64) for name in COLUMNS["flows"]}
    flows |= {"flow_id": np.arange(2), "finish_ps": np.array(fct_ps), "fct_ps": np.array(fct_ps)}
    write_table(folder / "flows.parquet", "flows", [flows | {"size_bytes": np.array([1000, 2000])}], {"tag": [""]})
    facts = {} if is_off else {"fast_forward": {"skipped_share": 0.9, "freezes": 2, "thaws_planned": 3}}
    result = {"packet_hops": hops, "skipped_packet_hops": 0 if is_off else 900, "simulated_time_ps": max(fct_ps)}
    (folder / "result.json").write_text(json.dumps(result | facts))
    (folder / "run.json").write_text(json.dumps({"loop_seconds": hops / 100}))
    return Finished(folder, 1.0, "abc")


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable:
    """Call the program on runs that are made up; (what it printed, its line of JSON, the settings of each run)."""
    calls: list[dict[str, str]] = []

    def simulate_once(config: Path, overrides: Sequence[str], parent: Path, fresh: bool) -> Finished:
        load_config(config, list(overrides))
        settings = dict(text.split("=", 1) for text in overrides)
        calls.append(settings)
        folder = tmp_path / f"run{len(calls)}"
        if settings["wormhole.mode"] == "off":
            is_moved = "workload.start_jitter" in settings
            return made_up(folder, [1_000_000, 2_000_000 + 20_000 * is_moved], 1000, True)
        return made_up(folder, [1_000_000, 2_100_000], 100, False)

    def run(*arguments: str) -> tuple[str, dict[str, Any], list[dict[str, str]]]:
        monkeypatch.setattr("sys.argv", ["hygra.py", "--out", str(tmp_path), *arguments])
        assert bench.main() == 0
        text = capsys.readouterr().out
        return text, json.loads(text.splitlines()[-1]), calls

    monkeypatch.setattr(bench, "simulate_once", simulate_once)
    monkeypatch.setattr(bench, "compile_ahead", lambda *_: None)
    monkeypatch.setattr(bench, "draw", lambda *_: True)
    monkeypatch.setattr(bench.importlib.util, "find_spec", lambda _: None)
    return run


def test_errors_stand_beside_the_chaos(call: Callable) -> None:
    text, figures, calls = call("--quick", "--only", "I,II")
    rows = figures["tables"]["I"]
    assert (
        len(rows) == figures["rows"] / 2 == len(bench.STRATEGIES) * len(bench.CRITERIA)
        and rows == figures["tables"]["II"]
    )
    for row in rows.values():
        assert (row["max_error"], row["mean_error"]) == pytest.approx((0.05, 0.025))
        assert (row["chaos_max"], row["chaos_mean"]) == pytest.approx((0.01, 0.005))
        assert (row["full_gbps"], row["gbps"]) == pytest.approx((8.0, 8 * 3 / 3.1))  # 3000 bytes in 3 us
        assert row["loop_factor"] == 10 and row["exercised"]
    assert {
        settings["wormhole.paper.criterion"] for settings in calls if "wormhole.paper.criterion" in settings
    } == set(bench.CRITERIA)
    assert "not exercised" not in text


def test_every_restoration_that_can_be_run_has_a_row(call: Callable) -> None:
    text, figures, calls = call("--quick", "--only", "IV")
    assert len(figures["tables"]["IV"]) == len(bench.MIXED) * len(bench.CRITERIA) * 2
    assert {settings.get("wormhole.paper.restoration") for settings in calls} == {None, "none", "snapshot"}
    assert "no row for `learned`: PyTorch is missing" in text


@pytest.mark.parametrize("kind", [*bench.STRATEGIES, *bench.MIXED])
@pytest.mark.parametrize("n_gpu", [16, 32, 64, 128])
def test_jobs_use_all_gpus(kind: str, n_gpu: int, tmp_path: Path) -> None:
    parser = bench.parse(["--out", str(tmp_path)])
    config = load_config(bench.Runs(parser, [n_gpu]).config(kind, n_gpu))
    topology = build_topology(config)
    plan = build_workload(config, topology)
    assert topology.n_host == n_gpu and len(np.unique(np.concatenate([plan.pair_src, plan.pair_dst]))) == n_gpu


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--only", "III"], "--only: found III. Accepted: I, II, IV"),
        (["--scales", "16,24"], "--scales: found 16,24. Accepted: powers of two"),
        (["--scales", "many"], "--scales: found many. Accepted: powers of two"),
    ],
)
def test_what_cannot_be_run_is_one_message(
    arguments: list[str], expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["hygra.py", *arguments])
    assert bench.main() == 2 and expected in capsys.readouterr().err
