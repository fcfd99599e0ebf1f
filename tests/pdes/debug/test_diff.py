"""Claims about `pdes-sim diff`: it finds the first row that differs, in simulated time, and shows what led to it."""

import json
from pathlib import Path

import numpy as np
import pytest

from pdes.cli import main
from pdes.results.tables import COLUMNS, JOB, STRING_COLUMNS, write_table

N_FLOW = 6


def flows(**changes: dict[int, int]) -> dict[str, np.ndarray]:
    """Columns of flows: i starts at 100 i and ends at 1000 + 100 i; changes: {column: {row: value}}."""
    i = np.arange(N_FLOW)
    columns = {name: np.zeros(N_FLOW, np.int64) for name in COLUMNS["flows"]}
    columns |= {"flow_id": i, "start_ps": 100 * i, "delivered_ps": 900 + 100 * i, "finish_ps": 1000 + 100 * i}
    columns["fct_ps"] = columns["finish_ps"] - columns["start_ps"]
    for name, values in changes.items():
        columns[name] = columns[name].copy()
        for row, value in values.items():
            columns[name][row] = value
    return columns


def trace(rows: list[tuple[int, int, int]]) -> dict[str, np.ndarray]:
    """Columns of a trace: (time, flow, sequence)."""
    columns = {name: np.zeros(len(rows), np.int64) for name in COLUMNS["trace"]}
    return columns | dict(zip(("time_ps", "flow_id", "sequence"), np.array(rows).T, strict=True))


def folder(path: Path, config: dict, **tables: dict[str, np.ndarray]) -> str:
    path.mkdir()
    for name, columns in tables.items():
        write_table(path / f"{name}.parquet", name, [columns], {text: ["x"] for text in STRING_COLUMNS - {JOB}})
    (path / "result.json").write_text(json.dumps({"config": config, "events": 7}))
    return str(path)


def said(capsys: pytest.CaptureFixture[str], a: str, b: str, status: int) -> str:
    assert main(["diff", a, b]) == status
    return capsys.readouterr().out


def test_equal_results_are_said_to_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = (folder(tmp_path / name, {}, flows=flows()) for name in "ab")
    assert said(capsys, a, b, 0) == "flows          6 rows, all the same\n"


def test_the_first_difference_is_that_of_the_earliest_instant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not that of the first row: flow 4 is delivered earlier than flow 1 ends."""
    other = flows(finish_ps={1: 5000}, delivered_ps={4: 1050})
    text = said(capsys, folder(tmp_path / "a", {}, flows=flows()), folder(tmp_path / "b", {}, flows=other), 1)
    assert "flows          6 rows, 2 differ" in text
    assert "First difference: flows, flow_id 4, at 1.05 ns (1050 ps)" in text
    assert "* delivered_ps" in text and "* finish_ps" not in text
    assert "Before it in A" in text and "Before it in B" in text  # as flow 1 began before it


def test_what_is_no_time_differs_since_its_row_began(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = flows(ecn_marks={0: 3}, start_ps={2: 150})
    text = said(capsys, folder(tmp_path / "a", {}, flows=flows()), folder(tmp_path / "b", {}, flows=other), 1)
    assert "First difference: flows, flow_id 0, at 0 ps" in text


def test_the_trace_says_what_led_to_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = trace([(100, 1, 0), (150, 2, 0), (200, 1, 1000), (900, 1, 2000)])
    a = folder(tmp_path / "a", {}, flows=flows(), trace=events)
    b = folder(tmp_path / "b", {}, flows=flows(delivered_ps={1: 800}), trace=events)
    text = said(capsys, a, b, 1)
    assert "First difference: flows, flow_id 1, at 800 ps" in text
    led = text.partition("Events before it, the same in A and B\n")[2].splitlines()
    assert len(led) == 3 and all(" 1 " in line for line in led[1:])


def test_rows_of_a_trace_are_compared_in_their_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = folder(tmp_path / "a", {}, flows=flows(), trace=trace([(100, 1, 0), (200, 1, 1000), (300, 1, 2000)]))
    b = folder(tmp_path / "b", {}, flows=flows(), trace=trace([(100, 1, 0), (200, 1, 1500), (300, 1, 2000)]))
    text = said(capsys, a, b, 1)
    assert "First difference: trace, row 1, at 200 ps" in text and "* sequence" in text
    assert "Before it, the same in A and B" in text


def test_missing_rows_and_tables_are_differences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = {name: column[:4] for name, column in flows().items()}
    a, b = folder(tmp_path / "a", {}, flows=flows()), folder(tmp_path / "b", {}, flows=short)
    text = said(capsys, a, b, 1)
    assert "6 rows in A, 4 rows in B, 2 differ" in text and "flow_id 4, at 400 ps" in text and "only in A" in text
    c = folder(tmp_path / "c", {})
    assert "6 rows in A, no table in B" in said(capsys, a, c, 1)


def test_what_differs_in_the_configs_comes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configs = [{"network": {"ecn": True, "priority": 3}, "simulation": {"seed": seed}} for seed in (1, 2)]
    a, b = (folder(tmp_path / str(i), config, flows=flows()) for i, config in enumerate(configs))
    assert said(capsys, a, b, 1).startswith("The configs differ (A / B):\n  simulation.seed: 1 / 2\n")


def test_a_folder_without_results_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = folder(tmp_path / "a", {}, flows=flows())
    assert main(["diff", a, str(tmp_path / "none")]) == 2
    assert "none: has no result.json. Accepted: a result folder" in capsys.readouterr().err
