"""What `bench/hygra_tables.py` measures of its smallest jobs, and what it says of made-up runs."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import hygra_tables as bench


def made_up(fct_ps: list[int], seconds: float) -> Any:
    """A run of two messages, over one link between servers and one within."""
    flows = {"flow_id": np.arange(2), "finish_ps": np.array(fct_ps), "fct_ps": np.array(fct_ps)}
    ports = {"rate_bps": np.array([bench.LINK_BPS, 9 * bench.LINK_BPS]), "tx_bytes": np.array([3000, 9000])}
    tables = {"flows": flows, "ports": ports}
    result = {"simulated_time_ps": max(fct_ps), "packet_hops": 5}
    run = {"loop_seconds": seconds}
    return cast(Any, SimpleNamespace(columns=lambda name, _: tables[name], result=result, run=run))


def test_errors_and_rates_are_relative_to_packets() -> None:
    row = bench.compare(made_up([1_000_000, 2_000_000], 6.0), made_up([1_000_000, 2_400_000], 2.0))
    assert (row["max_error"], row["mean_error"], row["job_error"]) == pytest.approx((0.2, 0.1, 0.2))
    assert (row["full_gbps"], row["gbps"]) == pytest.approx((12.0, 10.0)), "24,000 bits in 2 and 2.4 us; NVLink is none"
    assert row["throughput_error"] == pytest.approx(1 / 6) and row["factor"] == pytest.approx(3)


def test_small_jobs_run_in_every_way_to_the_same_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "compile_ahead", lambda *_: None)  # times are not looked at
    monkeypatch.setattr(bench, "STRATEGIES", ("PP",))  # that the others load says tests/bench/test_hygra.py
    monkeypatch.setattr(bench, "MIXED", ("Qwen-like",))
    monkeypatch.setattr("sys.argv", ["hygra_tables.py", "--quick", "--only", "II,IV", "--out", str(tmp_path)])
    assert bench.main() == 0
    text = capsys.readouterr().out
    tables = json.loads(text.splitlines()[-1])["tables"]
    assert list(tables["II"]) == [f"{kind}, 16, {way}" for kind in bench.STRATEGIES for way in bench.WAYS]
    assert list(tables["IV"]) == [f"{kind}, 16, {name}" for kind in bench.MIXED for name in bench.RESTORATIONS]
    for row in [*tables["II"].values(), *tables["IV"].values()]:
        assert row["flows"] > 0 and row["full_gbps"] > 0 and row["full_packet_hops"] >= row["packet_hops"]
        assert row["max_error"] >= row["mean_error"] >= 0 and row["job_error"] < 0.1
    assert "II: links between servers" in text and "IV: restoration" in text


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
