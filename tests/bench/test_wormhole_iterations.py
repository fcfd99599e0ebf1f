"""What `bench/wormhole_iterations.py` says of made-up runs: errors of what was extrapolated, and of everything."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import wormhole_iterations as bench
from pdes.config import load_config
from runs import Finished


def made_up(folder: Path, times_ps: list[int], n_simulated: int) -> Finished:
    folder.mkdir(parents=True)
    facts = {"iterations_simulated": n_simulated, "iteration_cycle": 2, "iteration_error_bound": 0.02}
    result = {"iteration_time_ps": times_ps, "packet_hops": 10 * n_simulated, "fast_forward": facts}
    (folder / "result.json").write_text(json.dumps(result))
    return Finished(folder, 1.0, "abc")


def test_errors_are_of_what_was_left_out_and_of_all(tmp_path: Path) -> None:
    full = made_up(tmp_path / "full", [110, 90, 100, 100], 4)
    row = bench.compare(full, made_up(tmp_path / "fast", [110, 90, 95, 95], 2))
    assert (row["rest_error"], row["total_error"], row["scatter"]) == pytest.approx((0.05, 0.025, 0.2))
    assert (row["iterations"], row["simulated"], row["packet_hop_factor"], row["exercised"]) == (4, 2, 2, True)
    row = bench.compare(full, full)
    assert row["exercised"] is False and row["rest_error"] is None and row["total_error"] == 0


def test_every_case_is_run_in_full_and_at_each_tolerance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[Sequence[str]] = []

    def simulate_once(config: Path, overrides: Sequence[str], parent: Path, fresh: bool) -> Finished:
        load_config(config, list(overrides))
        calls.append(overrides[-1:])
        is_full = overrides[-1] == "wormhole.iteration_repeats=0"
        return made_up(tmp_path / f"run{len(calls)}", [100] * 4, 4 if is_full else 2)

    monkeypatch.setattr(bench, "simulate_once", simulate_once)
    monkeypatch.setattr(bench, "compile_ahead", lambda *_: None)
    monkeypatch.setattr("sys.argv", ["wormhole_iterations.py", "--out", str(tmp_path), "--tolerance", "0.01,0.1"])
    assert bench.main() == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert list(figures["cases"]) == sorted(bench.CASES) and figures["exercised"] == figures["rows"] == 2 * len(
        bench.CASES
    )
    each = [["wormhole.iteration_repeats=0"], *([f"wormhole.iteration_tolerance={t}"] for t in ("0.01", "0.1"))]
    assert calls == each * len(bench.CASES)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--cases", "gpt"], "--cases: found gpt. Accepted: dctcp, "),
        (["--tolerance", "2"], "found 2. Accepted: at most 1"),
    ],
)
def test_what_cannot_be_run_is_one_message(
    arguments: list[str], expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["wormhole_iterations.py", *arguments])
    assert bench.main() == 2 and expected in capsys.readouterr().err
