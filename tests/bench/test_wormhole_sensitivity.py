"""What `bench/wormhole_sensitivity.py` runs and claims: the same job on other topologies, sweeps that share runs."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import wormhole_sensitivity as bench
from pdes.config import load_config
from pdes.scenario import build_topology, build_workload
from runs import Finished

QUICK = bench.EXAMPLES / "quickstart.toml"


@pytest.mark.parametrize(("make", "n_switch"), [(bench._fat_tree, 4 * (2 + 2) + 4), (bench._clos, 8)])
def test_the_same_job_runs_on_another_topology_with_its_servers(make: Any, n_switch: int, tmp_path: Path) -> None:
    graph = make(16)
    config = load_config(bench._write(tmp_path, QUICK, "other", graph, 8))
    topology = build_topology(config)
    for name in ("port_src", "port_dst", "port_rate_bps", "port_delay_ps", "is_switch"):
        assert getattr(topology, name).tolist() == getattr(graph, name).tolist()
    assert topology.is_switch.sum() == n_switch and topology.server[:16].tolist() == [0] * 8 + [1] * 8
    base = load_config(QUICK)
    assert (config.workload, config.simulation) == (base.workload, base.simulation)
    assert build_workload(config, topology).pair_bytes.sum() > 0


@pytest.mark.parametrize("n_host", [16, 32, 64, 128, 256, 1024])
def test_topologies_have_as_many_uplinks_as_hosts(n_host: int) -> None:
    for graph in (bench._fat_tree(n_host), bench._clos(n_host)):
        of_hosts = ~graph.is_switch[graph.port_src]
        first = graph.is_switch[graph.port_src] & ~graph.is_switch[graph.port_dst]
        edges = set(graph.port_src[first].tolist())
        up = [int(src) in edges for src in graph.port_src[graph.is_switch[graph.port_dst]]]
        assert graph.n_host == n_host == of_hosts.sum() == sum(up)


def point(skipped: float, error: float = 0.001) -> dict[str, float]:
    return {"skipped": skipped, "mean_fct_error": error}


def test_claims_are_those_of_the_paper() -> None:
    good = {
        "metric": {"R": point(0.9), "I": point(0.895), "Q": point(0.89), "default": point(0.1)},
        "theta": {"1%": point(0.5), "5%": point(0.6)}, "samples": {"8": point(0.6), "64": point(0.5)},
        "topology": {"ROFT": point(0.9), "Clos": point(0.89)},
    }  # fmt: skip
    assert all(bench.claims(good).values()) and len(bench.claims(good)) == 6
    bad = {
        "metric": good["metric"] | {"Q": point(0.8, 0.02)}, "theta": dict(reversed(good["theta"].items())),
        "samples": dict(reversed(good["samples"].items())), "topology": {"ROFT": point(0.9), "Clos": point(0.8, 0.02)},
    }  # fmt: skip
    assert not any(bench.claims(bad).values())


def test_sweeps_share_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[tuple[str, tuple[str, ...]]] = []

    def simulate_once(config: Path, overrides: Sequence[str], parent: Path, n_rank: int, fresh: bool) -> Finished:
        calls.append((config.stem, tuple(overrides)))
        folder = tmp_path / f"run{len(calls)}"
        folder.mkdir()
        facts = {"freezes": 3, "thaws_interrupted": 1, "criterion": {"samples": 16}}
        result = {"packet_hops": 1000 if "wormhole.mode=off" in overrides else 400, "fast_forward": facts}
        (folder / "result.json").write_text(json.dumps(result))
        (folder / "run.json").write_text(json.dumps({"loop_seconds": 8.0}))
        return Finished(folder, 9.0, "abc")

    def differences(full: Finished, other: Finished) -> dict[str, float]:
        assert full.result["packet_hops"] == 1000
        return dict.fromkeys(("mean_fct", "p99_fct", "last_end"), 0.02 if other.result["packet_hops"] == 400 else 0.01)

    monkeypatch.setattr(bench, "simulate_once", simulate_once)
    monkeypatch.setattr(bench, "differences", differences)
    monkeypatch.setattr(bench, "compile_ahead", lambda *_: None)
    monkeypatch.setattr(bench, "draw", lambda *_: None)
    monkeypatch.setattr("sys.argv", ["wormhole_sensitivity.py", "--quick", "--out", str(tmp_path)])
    assert bench.main() == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert len(calls) == len(set(calls)) == 11 + 2 * 3  # points, and two full runs of each topology
    assert list(figures["sweeps"]["samples"]) == ["16", "64", "8"]  # JSON has its keys sorted
    for points in figures["sweeps"].values():
        for p in points.values():
            assert (p["skipped"], p["mean_fct_error"], p["chaos_floor"]) == (0.6, 0.02, 0.01)


def test_an_unknown_sweep_is_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["wormhole_sensitivity.py", "--quick", "--only", "thetas"])
    assert bench.main() == 2 and "Accepted: metric, theta, samples, topology" in capsys.readouterr().err
