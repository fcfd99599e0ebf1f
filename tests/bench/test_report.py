"""The bench that opens reports: what it counts in a trace, and how a page tells it something."""

import gzip
import json
import urllib.request
from pathlib import Path

import report
from pdes.config import load_config
from pdes.scenario import build_scenario


def test_slices_and_arrows_are_counted(tmp_path: Path) -> None:
    events = [{"ph": ph} for ph in ("X", "X", "s", "f", "C", "M", "X")]
    (tmp_path / "trace.json.gz").write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))
    assert report.expected_counts(tmp_path / "trace.json.gz") == {"slices": 3, "arrows": 1}


def test_what_a_page_posts_arrives(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("here")
    with report.listening(tmp_path) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        assert urllib.request.urlopen(f"{url}/page.html").read() == b"here"
        urllib.request.urlopen(url, data=b'{"plots_ms": 5}').close()
        assert server.said == [{"plots_ms": 5}]


def test_its_jobs_fit_their_gpus(tmp_path: Path) -> None:
    for n_gpu, pp in ((64, 2), (1024, 8)):
        (tmp_path / "x.toml").write_text(report.CONFIG.format(gpus=n_gpu, pp=pp, dp=n_gpu // (8 * pp)))
        assert build_scenario(load_config(tmp_path / "x.toml")).topology.n_host == n_gpu
