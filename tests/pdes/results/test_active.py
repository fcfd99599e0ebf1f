"""Shares of time are of the span in which something happened, not of the time before it or up to the stop time."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from models.topology import leaf_spine
from pdes.cli import main
from pdes.result import Result
from pdes.results.active import active_span, active_text, active_time_ps
from reference.debug_runs import run, table, write_case
from reference.result_folders import make_folder, plots_of

S, MS, US = 10**12, 10**9, 10**6
CASES = Path(__file__).resolve().parents[2] / "reference" / "ns3_cases"
LATE = [(0, 1, 200_000, 2 * S), (2, 1, 200_000, 2 * S + US)]


def test_the_span_of_results_that_do_not_have_it_is_all_that_was_simulated() -> None:
    result = {"simulated_time_ps": 5 * MS, "fast_forward": {"extrapolated_time_ps": MS}}
    assert active_span(result) == (0, 4 * MS) and active_text(result) == ""
    assert active_span(result | {"active_ps": [MS, 2 * MS]}) == (MS, 2 * MS)
    assert active_time_ps(result | {"active_ps": [0, 0]}) == 1
    text = "Shares of ports are of the 1 ms from the first start, at 2 ms, to the last delivery"
    assert active_text(result | {"active_ps": [2 * MS, 3 * MS]}) == text


def test_messages_that_start_late_fill_their_ports_in_the_time_that_they_take(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two messages of 200 packets of 1048 B at 100 Gbps through one port: it sends for 400 x 83.84 ns."""
    config, out = write_case(tmp_path, LATE), tmp_path / "out"
    assert run(config, out, "--set", 'simulation.stop_time="9s"').returncode == 0
    result, flows = Result(out), table(out, "flows")
    finish_ps = max(flow["finish_ps"] for flow in flows)
    assert result.summary["active_ps"] == [2 * S, finish_ps] and result.active_seconds < 1e-4
    busy = 400 * 83_840 / (finish_ps - 2 * S)
    assert 0.8 < busy < 1
    assert main(["report", str(out)]) == 0
    printed, page = capsys.readouterr().out, (out / "report.html").read_text()
    assert f"leaf0 -> host1  100 Gbps  {100 * busy:.1f} %" in printed
    assert f"<dt>busiest port</dt><dd><b>{100 * busy:.1f} %</b>" in page
    assert "Shares of ports are of the 3" in printed and "from the first start, at 2 s, to the last delivery" in page


def test_timers_of_a_message_that_lost_its_end_do_not_count(tmp_path: Path) -> None:
    """By ns-3's rules nobody asks again for the last packets: 6 of 8 never finish, and DCQCN's timers go on."""
    config, out = tmp_path / "case.toml", tmp_path / "out"
    assert main(["convert", "ns3", str(CASES / "j_lossy_nopfc" / "dcqcn"), "-o", str(config)]) == 0
    assert main([str(config), "--out", str(out), "--quiet"]) == 0
    result, flows = json.loads((out / "result.json").read_text()), table(out, "flows")
    begin_ps, end_ps = result["active_ps"]
    assert begin_ps == 2 * S and result["flows_finished"] < result["flows"]
    delivered = [flow["delivered_ps"] for flow in flows if flow["delivered_ps"] is not None]
    assert max(delivered, default=0) <= end_ps < result["simulated_time_ps"] - 5 * MS
    busy = max(port["busy_ps"] for port in pq.read_table(out / "ports.parquet").to_pylist()) / (end_ps - begin_ps)
    assert 0.9 < busy < 1


def test_a_plot_over_time_begins_with_the_first_start(tmp_path: Path) -> None:
    samples = [(2 * S + i * US, 3, 100 + i, 0) for i in range(8)] + [(8 * S, 3, 0, 0)]
    result = {"simulated_time_ps": 9 * S, "active_ps": [2 * S, 2 * S + 8 * US]}
    topology = leaf_spine(1, 0, 4, 10**11, 10**11, US, US)
    ports = {"max_queue_bytes": (np.arange(topology.n_port) == 3).astype(int)}
    folder = make_folder(tmp_path, topology, result, ports=ports, samples=samples)
    assert main(["report", str(folder)]) == 0
    series = plots_of((folder / "report.html").read_text())["series"]
    assert series["data"][0]["x"] == [2000.0, 2000.002, 2000.004, 2000.006]
    assert series["choices"][0]["updates"][0][0]["z"][0][0] == [101, 103, 105, 107]
