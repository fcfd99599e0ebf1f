"""What `bench/hygra_tables.py` measures of its smallest jobs, and what it says of made-up runs."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import hygra_tables as bench
from pdes.config import load_config
from pdes.scenario import build_topology


def made_up(fct_ps: list[int], seconds: float) -> Any:
    """A run of two messages, over one link between servers and one within."""
    flows = {"flow_id": np.arange(2), "finish_ps": np.array(fct_ps), "fct_ps": np.array(fct_ps)}
    ports = {"rate_bps": np.array([bench.LINK_BPS, 9 * bench.LINK_BPS]), "tx_bytes": np.array([3000, 9000])}
    tables = {"flows": flows, "ports": ports}
    result = {"simulated_time_ps": max(fct_ps), "packet_hops": 5, "fast_forward": {}}
    run = {"loop_seconds": seconds}
    return cast(Any, SimpleNamespace(columns=lambda name, _: tables[name], result=result, run=run))


def test_errors_and_rates_are_relative_to_packets() -> None:
    row = bench.compare(made_up([1_000_000, 2_000_000], 6.0), made_up([1_000_000, 2_400_000], 2.0))
    assert (row["max_error"], row["mean_error"], row["job_error"]) == pytest.approx((0.2, 0.1, 0.2))
    assert (row["full_gbps"], row["gbps"]) == pytest.approx((12.0, 10.0)), "24,000 bits in 2 and 2.4 us; NVLink is none"
    assert row["throughput_error"] == pytest.approx(1 / 6) and row["factor"] == pytest.approx(3)


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable:
    """Call the program; (what it printed, its tables)."""

    def run(*arguments: str) -> tuple[str, dict[str, Any]]:
        monkeypatch.setattr(bench, "compile_ahead", lambda *_: None)  # times are not looked at
        monkeypatch.setattr("sys.argv", ["hygra_tables.py", "--quick", "--out", str(tmp_path), *arguments])
        assert bench.main() == 0
        text = capsys.readouterr().out
        return text, json.loads(text.splitlines()[-1])["tables"]

    return run


@pytest.mark.slow
def test_a_small_job_runs_in_every_way_to_the_same_messages(call: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "STRATEGIES", ("PP",))  # the others load, see below
    text, tables = call("--only", "II")
    assert set(tables["II"]) == {f"PP, 16, {way}" for way in bench.WAYS}
    for row in tables["II"].values():
        assert row["flows"] > 0 and row["full_gbps"] > 0 and row["full_packet_hops"] >= row["packet_hops"]
        assert row["max_error"] >= row["mean_error"] >= 0 and row["job_error"] < 0.1
    assert tables["II"]["PP, 16, flow"]["left_out"] == 1
    assert "II: links between servers" in text


def test_every_table_has_a_row_for_each_job_and_way(call: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "simulate_once", lambda *_, **__: made_up([1_000_000, 2_000_000], 6.0))
    monkeypatch.setattr(bench, "simulate", lambda *_: made_up([1_000_000, 2_400_000], 2.0))
    text, tables = call()
    assert set(tables["III"]) == {f"{kind}, 16, {way}" for kind in bench.MIXED for way in bench.WAYS}
    assert set(tables["IV"]) == {f"{kind}, 16, {name}" for kind in bench.MIXED for name in bench.RESTORATIONS}
    assert tables["V"]["16, packets, 2 ranks"]["factor"] == 1 and tables["V"]["16, flow, 1 rank"]["factor"] == 3
    assert [line.split(":")[0] for line in text.splitlines() if line[:1] in "IV" and ":" in line] == list(bench.TABLES)


@pytest.mark.parametrize("kind", [*bench.STRATEGIES, *bench.MIXED])
@pytest.mark.parametrize("n_gpu", [64, 512, 1024])
def test_jobs_load(kind: str, n_gpu: int, tmp_path: Path) -> None:
    jobs = bench.Jobs(bench.parse(["--out", str(tmp_path)]))
    config = load_config(jobs.config(kind, n_gpu))
    assert config.topology.gpus == n_gpu and build_topology(config).n_host == n_gpu


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--only", "VI"], "--only: found VI. Accepted: I, II, III, IV, V"),
        (["--scales", "16,24"], "--scales: found 16,24. Accepted: powers of two"),
        (["--mixed", "many"], "--mixed: found many. Accepted: powers of two"),
    ],
)
def test_what_cannot_be_run_is_one_message(
    arguments: list[str], expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["hygra_tables.py", *arguments])
    assert bench.main() == 2 and expected in capsys.readouterr().err
