"""Many experiments in one loop: what comes of each is what a run of its config by itself leaves, to the last byte."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pdes
from pdes.config.values import make_config
from pdes.errors import SimError
from pdes.experiments.result import ExperimentResult, ReadResult
from pdes.experiments.run import build_all, in_batches, simulate_many
from pdes.experiments.together import why_alone
from pdes.scenario import build_scenario
from pdes.sweeps.load import sweep_of
from pdes.sweeps.metrics import OF_PACKETS, measure
from pdes.sweeps.run import run_sweep
from pdes.workers import here
from reference.job_runs import FABRIC, collective, training

LAWS = ("dctcp", "dcqcn", "hpcc", "timely", "swift", "nscc", "fixed-window", "none")
US = 10**6


def experiment(seed: int, law: str = "dctcp", **more: dict[str, Any]) -> dict[str, Any]:
    """Random traffic on 8 hosts that meets in queues."""
    own: dict[str, dict[str, Any]] = {
        "simulation": {"seed": seed},
        "topology": {"kind": "leaf-spine", "leaves": 2, "spines": 2, "hosts_per_leaf": 4},
        "network": {"congestion_control": law},
        "workload": {"kind": "poisson", "sizes": "web-search", "load": 0.8, "flows": 20},
    }
    return own | {table: own.get(table, {}) | value for table, value in more.items()}


def assert_same(config: dict[str, Any], found: Any, folder: Path) -> pdes.Result:
    """The tables of an experiment, and its summary, are those of a run by itself, which is returned."""
    whole = pdes.simulate(config, folder)
    assert whole.tables == found.tables
    for name in whole.tables:
        assert whole.table(name).equals(found.table(name)), name
    one, other = (json.loads(json.dumps(each.summary, sort_keys=True, default=int)) for each in (whole, found))
    assert one == other
    return whole


@pytest.mark.parametrize("law", LAWS)
def test_each_is_what_it_is_by_itself(tmp_path: Path, law: str) -> None:
    configs = [experiment(seed, law, workload={"flows": 12 + 4 * seed}) for seed in range(4)]
    found = simulate_many(configs)
    assert all(isinstance(each, ExperimentResult) for each in found)
    wholes = [assert_same(c, f, tmp_path / str(i)) for i, (c, f) in enumerate(zip(configs, found, strict=True))]
    assert len({whole.summary["packet_hops"] for whole in wholes}) == 4


def test_what_is_drawn_is_drawn_by_an_experiments_own_numbers(tmp_path: Path) -> None:
    """Marks between the thresholds: the same network twice, with one seed and with two."""
    more = {"network": {"ecn_kmin": "5KB", "ecn_kmax": "400KB", "ecn_pmax": 0.5}, "workload": {"flows": 60}}
    configs = [experiment(1, "dcqcn", **more), experiment(1, "dcqcn", **more), experiment(2, "dcqcn", **more)]
    found = simulate_many(configs)
    for i, (config, each) in enumerate(zip(configs, found, strict=True)):
        assert assert_same(config, each, tmp_path / str(i)).summary["network"]["ecn_marks"] > 20
    assert found[0].flows.equals(found[1].flows) and not found[0].flows.equals(found[2].flows)


def test_computing_with_jitter_and_collectives(tmp_path: Path) -> None:
    model = {"layers": 4, "hidden": 128, "heads": 4, "vocabulary": 256, "sequence": 64}
    jobs = [
        training(1, 4, 2, model=model, compute={"gpu": "h100", "jitter": 0.1}),
        training(1, 8, 1, model=model, compute={"gpu": "h100", "jitter": 0.3}),
        training(1, 4, 2, model=model),
    ]
    configs = [
        experiment(7, topology=FABRIC | {"leaves": 2}, simulation={"seed": 7, "iterations": 2}, workload=job)
        for job in jobs
    ]
    configs += [
        experiment(3, topology=FABRIC, workload=collective("1MB", kind)) for kind in ("all-to-all", "all-reduce")
    ]
    configs = [c | {"workload": {k: v for k, v in c["workload"].items() if k not in OF_POISSON}} for c in configs]
    found = simulate_many(configs)
    assert all(isinstance(each, ExperimentResult) for each in found)
    for i, (config, each) in enumerate(zip(configs, found, strict=True)):
        whole = assert_same(config, each, tmp_path / str(i))
        assert each.iteration_seconds == whole.iteration_seconds
    assert len(set(found[0].iteration_seconds)) == 2  # jitter differs from iteration to iteration


OF_POISSON = ("sizes", "load", "flows")


@settings(max_examples=200)
@given(st.data())
def test_any_that_may_go_together(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Other topologies, rates, parameters of the control, thresholds, sizes and stop times in one loop."""
    law = data.draw(st.sampled_from(("dctcp", "hpcc", "dcqcn")))
    configs = []
    for _ in range(data.draw(st.integers(2, 5))):
        leaf_spine = {"kind": "leaf-spine", "leaves": 2, "spines": data.draw(st.integers(1, 2)), "hosts_per_leaf": 2}
        kind = data.draw(st.sampled_from((leaf_spine, {"kind": "fat-tree", "k": 4})))
        own = {"host_rate": data.draw(st.sampled_from(("25Gbps", "100Gbps")))}
        network: dict[str, Any] = {"window": data.draw(st.sampled_from(("max-bdp", "pair-bdp")))}
        if law == "dctcp":
            network["dctcp"] = {"gain": data.draw(st.sampled_from((0.0625, 0.25)))}
        if law != "hpcc":
            network |= {"ecn_kmin": "10KB", "ecn_kmax": data.draw(st.sampled_from(("10KB", "200KB")))}
        config = experiment(
            data.draw(st.integers(1, 10**6)), law, topology=own, network=network,
            workload={"flows": data.draw(st.integers(1, 25))},
        )  # fmt: skip
        config["topology"] = kind | own
        if data.draw(st.booleans()):
            config["simulation"]["stop_time"] = f"{data.draw(st.integers(1, 400))}us"
        configs.append(config)
    folder = tmp_path_factory.mktemp("experiments")
    for i, (config, found) in enumerate(zip(configs, simulate_many(configs), strict=True)):
        assert isinstance(found, ExperimentResult)
        assert_same(config, found, folder / str(i))


def limited(kind: str, recovery: str, seed: int, size: str, n_flow: int, loss: float = 0.02) -> dict[str, Any]:
    """Incasts at switches with small buffers, with PFC or drops, or over links that lose packets."""
    network: dict[str, Any] = {"ecn": False, "buffer": {"size": size}, "pfc": {"enabled": kind == "pfc"}}
    if kind == "loss":
        network = {"loss": {"probability": loss}}
    if kind != "pfc":
        network["transport"] = {"recovery": recovery, "timeout": "100us"}
    traffic = {"flows": n_flow, "load": 1.0, "incast": {"fan_in": 6, "size": "100kB", "load": 0.3}}
    return experiment(seed, "none", network=network, workload=traffic)


@pytest.mark.parametrize(("kind", "what"), [("pfc", "pause_frames"), ("drops", "buffer"), ("loss", "loss")])
def test_switches_with_limited_buffers(tmp_path: Path, kind: str, what: str) -> None:
    configs = [limited(kind, "selective-repeat", seed, "220kB", 20) for seed in (1, 2, 3)]
    found = simulate_many(configs)
    assert all(isinstance(each, ExperimentResult) for each in found)
    for i, (config, each) in enumerate(zip(configs, found, strict=True)):
        network = assert_same(config, each, tmp_path / str(i)).summary["network"]
        assert (network["drops"] | network)[what] > 10


@settings(max_examples=60)
@given(st.data())
def test_any_with_limited_buffers(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Few of those with go-back-n drop so much that they are given up, and run by themselves."""
    kind = data.draw(st.sampled_from(("pfc", "drops", "loss")))
    recovery = data.draw(st.sampled_from(("go-back-n", "selective-repeat")))
    configs = []
    for _ in range(data.draw(st.integers(2, 4))):
        seed, n_flow = data.draw(st.integers(1, 10**6)), data.draw(st.integers(5, 30))
        size, loss = data.draw(st.sampled_from(("220kB", "400kB"))), data.draw(st.sampled_from((0.001, 0.02)))
        configs.append(limited(kind, recovery, seed, size, n_flow, loss))
        if kind != "pfc" and data.draw(st.booleans()):
            configs[-1]["simulation"]["stop_time"] = "300us"
    folder = tmp_path_factory.mktemp("experiments")
    for i, (config, found) in enumerate(zip(configs, simulate_many(configs), strict=True)):
        assert_same(config, found, folder / str(i))


def test_one_that_never_ends_is_given_up_and_says_why() -> None:
    """Nothing gets through, and packets are sent again for ever."""
    lossy = {"loss": {"probability": 1.0}, "transport": {"timeout": "10ms", "max_timeout": "10ms"}}
    with pytest.raises(SimError, match="the run cannot go on: since"):
        simulate_many([experiment(seed, network=lossy, workload={"flows": 2}) for seed in (1, 2)])


def test_those_that_cannot_run_by_themselves(tmp_path: Path) -> None:
    """In their places, with the same tables."""
    configs = [
        experiment(1),
        experiment(2, network={"link_event": [{"time": "20us", "link": ["leaf0", "spine0"], "rate": "50Gbps"}]}),
        experiment(3, wormhole={"mode": "exact"}),
        experiment(4),
        experiment(5, network={"routing": {"policy": "spray"}, "transport": {"recovery": "selective-repeat"}}),
    ]
    scenarios = dict(enumerate(build_all([make_config(config) for config in configs])))
    assert [bool(why_alone(s)) for s in scenarios.values()] == [False, True, True, False, True]
    assert list(in_batches(scenarios)) == [[0, 3]]
    found = simulate_many(configs)
    assert [isinstance(each, ReadResult) for each in found] == [False, True, True, False, True]
    for i, (config, each) in enumerate(zip(configs, found, strict=True)):
        assert_same(config, each, tmp_path / str(i))


def test_one_that_fails_says_why(tmp_path: Path) -> None:
    """A control that fails in one experiment, and a config that is wrong."""
    with pytest.raises(SimError, match="spines"):
        simulate_many([experiment(1), experiment(2, topology={"spines": 0})])
    (tmp_path / "own.py").write_text(BREAKS)
    configs = [
        experiment(seed, f"{tmp_path}/own.py:Own", network={"parameters": {"limit": seed}}) for seed in (10**6, 3)
    ]
    with pytest.raises(SimError, match="line 8: on_ack raised"):
        simulate_many(configs)


BREAKS = """
from models.congestion.interface import NEVER
class Own:
    parameters = {"limit": 5}
    state = {"n_ack": 0}
    def on_ack(flow, event, p):
        flow.n_ack += 1
        flow.rate_bps = flow.line_rate_bps * (flow.n_ack < p.limit) // (1 if flow.n_ack < p.limit else p.limit - 3)
"""


def test_topologies_are_shared() -> None:
    one, two, other = build_all([
        make_config(experiment(1)), make_config(experiment(2)), make_config(experiment(2, topology={"spines": 1})),
    ])  # fmt: skip
    assert one.topology is two.topology and other.topology is not one.topology
    apart = build_scenario(make_config(experiment(2)))
    assert apart.topology is not two.topology and (apart.paths.port == two.paths.port).all()


def test_a_metric_of_two_of_them() -> None:
    one, two = simulate_many([experiment(1), experiment(1, workload={"load": 0.1})])
    rows = {row["metric"]: row for row in one.compare(two).to_pylist()}
    assert rows["fct_mean"]["ratio"] < 1 and rows["packet_hops"]["this"] == one.summary["packet_hops"]
    assert one.run["experiments"] == 2 and one.active_seconds < two.active_seconds


def test_nothing_comes_of_nothing() -> None:
    assert simulate_many([]) == []


def test_a_sweep_puts_small_runs_together(tmp_path: Path) -> None:
    """Its figures are those of runs by themselves; one that fails is a row, and the others have theirs."""
    (tmp_path / "own.py").write_text(BREAKS)
    base = experiment(1, f"{tmp_path}/own.py:Own")
    axes = {"network.parameters.limit": [10**6, 3], "workload.flows": [5, 20]}
    sweep = sweep_of(base, tmp_path / "base.toml", axes, tmp_path / "out", {"seeds": 3})
    calls: list[str] = []

    def run_all(work: Any, asked: Any, **_: Any) -> Any:
        calls.append(f"{work.__name__} {len(asked)}")
        return map(work, asked)

    found = run_sweep(sweep, run_all)
    assert calls == ["run_bundle 1", "run 6"]  # each of those that fail has to say why
    assert [row.status for row in found.rows] == ["done", "done", "failed", "failed"] * 3
    base["network"]["parameters"] = {"limit": 10**6}
    whole = sweep_of(base, tmp_path / "base.toml", {"workload.flows": [5, 20]}, tmp_path / "whole", {"seeds": 40})
    calls.clear()
    again = run_sweep(whole, run_all)
    assert calls == ["run_bundle 3"]
    by_key = {row.key: row.metrics for row in again.rows}
    alone = experiment(3, network=base["network"])
    result = pdes.simulate(alone, tmp_path / "alone")
    assert len(by_key) == 80 and measure(OF_PACKETS, result.summary, result) in list(by_key.values())


def test_a_run_that_others_see_is_not_bundled(tmp_path: Path) -> None:
    sweep = sweep_of(experiment(1), tmp_path / "b.toml", {"workload.flows": [5]}, tmp_path / "out", {"keep": True})
    found = run_sweep(sweep, here)
    folders = list((tmp_path / "out" / "runs").iterdir())
    assert [row.status for row in found.rows] == ["done"] and (folders[0] / "flows.parquet").exists()


def test_a_fault_in_a_bundle_costs_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong where runs go together, each still has its row."""

    def broken(_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr("pdes.experiments.run.run_small", broken)
    sweep = sweep_of(experiment(1), tmp_path / "b.toml", {"workload.flows": [5, 6]}, tmp_path / "out", {"seeds": 2})
    found = run_sweep(sweep, here)
    assert [row.status for row in found.rows] == ["done"] * 4
