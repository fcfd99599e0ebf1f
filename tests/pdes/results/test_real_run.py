"""Report and timeline of a run as it comes out of the simulator: its figures, its slowest flows' ways, its streams."""

import gzip
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pdes.cli import main
from pdes.results.report.ports import read_ports
from pdes.results.report.why import hops_of
from reference.result_folders import plots_of, rows_of

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run")
    assert main([str(ROOT / "examples" / "incast.toml"), "--out", str(out), "--quiet",
                 "--set", "output.sample_interval=50us"]) == 0  # fmt: skip
    return out


def test_an_incast_is_explained_by_the_receivers_port(folder: Path) -> None:
    """31 senders share the last port: every one of the slowest flows says so, and that the port was full."""
    assert main(["report", str(folder)]) == 0
    page = (folder / "report.html").read_text()
    rows = [row for row in rows_of(page) if len(row) == 9 and row[3] == "incast"]
    assert len(rows) == 20
    for row in rows:
        assert row[4].startswith("leaf0 -&gt; host0 was ") and "30 other flows, " in row[4]
    assert "leaf0 -> host0" in plots_of(page)["series"]["data"][0]["y"][0]


def test_ways_lead_from_source_to_destination_and_what_passed_is_counted(folder: Path) -> None:
    result = json.loads((folder / "result.json").read_text())
    ports = read_ports(folder / "ports.parquet")
    flows = pq.read_table(folder / "flows.parquet").to_pylist()
    seen = []
    for slow in result["slowest_flows"]:
        flow, way = flows[slow["flow_id"]], [hop["port_id"] for hop in slow["path"]]
        assert len(way) == flow["hops"]
        assert (ports.node[way[0]], ports.peer[way[-1]]) == (flow["src"], flow["dst"])
        assert [ports.peer[port] for port in way[:-1]] == [ports.node[port] for port in way[1:]]
        if flow["finish_ps"] == max(other["finish_ps"] for other in flows):  # all others lie in its time
            last = hops_of(flow, slow["path"], ports, result)[-1]
            assert (last.flows_beside, last.bytes_beside) == (30, 30_000_000) and 0.9 < last.full_frac <= 1
            seen.append(slow["flow_id"])
    assert len(seen) == 1
    slowdowns = [flow["fct_ps"] / flow["ideal_fct_ps"] for flow in flows]
    assert [slow["flow_id"] for slow in result["slowest_flows"]] == sorted(
        range(len(flows)), key=lambda i: (-slowdowns[i], i)
    )[:20]


def test_a_timeline_has_every_message_once(folder: Path) -> None:
    assert main(["timeline", str(folder)]) == 0
    events = json.loads(gzip.decompress((folder / "trace.json.gz").read_bytes()))["traceEvents"]
    assert sorted(event["id"] for event in events if event["ph"] == "f") == list(range(31))
    queues = [event["args"]["bytes"] for event in events if event["ph"] == "C"]
    assert max(queues) > 10**6
