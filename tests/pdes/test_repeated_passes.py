"""Claims about `[wormhole] microbatch_repeats`: passes that repeat are left out, their rows are there all the same."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import pdes
from mpi.test_repeats_on_ranks import CONFIG
from pdes.config import load_config

TABLES = ("flows.parquet", "tasks.parquet", "breakdown.parquet")
OFF, ALL = "wormhole.mode=off", "wormhole.microbatch_repeats=0"
FLOW_RUNS = ("full", (ALL,)), ("fast", ())
MANY = "workload.microbatches=40"
H100 = ("workload.compute.gpu=h100", "workload.model.heads=4")


@pytest.fixture
def simulate(tmp_path: Path):
    """simulate(name, "table.key=value", ...): run CONFIG into the folder `name`, and return its result.json."""
    (tmp_path / "config.toml").write_text(CONFIG)

    def run(name: str, *sets: str) -> dict:
        out = tmp_path / name
        pdes.simulate(load_config(tmp_path / "config.toml", [*sets, f'output.dir="{out}"']))
        return json.loads((out / "result.json").read_text())

    return run


def rows(folder: Path, table: str) -> dict[str, np.ndarray]:
    read = pq.read_table(folder / table)
    return {name: np.array(read[name].to_pylist()) for name in read.column_names}


@pytest.mark.parametrize("sets", [(), (*H100, "network.congestion_control=dctcp", "workload.model.hidden=1024")])
def test_tables_are_those_of_a_run_that_simulates_every_packet(tmp_path: Path, simulate, sets: tuple[str, ...]) -> None:
    """Passes without contention take the same time to the ps: nothing that anyone can see differs."""
    full, fast = simulate("full", OFF, MANY, *sets), simulate("fast", MANY, *sets)
    jumps = fast["fast_forward"]["passes"]["jumps"]
    assert [jump["iteration"] for jump in jumps] == [0, 1] and all(jump["error_bound"] == 0 for jump in jumps)
    assert min(jump["passes"] for jump in jumps) > 20
    for table in TABLES:
        one, other = rows(tmp_path / "full", table), rows(tmp_path / "fast", table)
        assert [name for name in one if (one[name] != other[name]).any()] == [], table
    for name in ("iteration_time_ps", "simulated_time_ps", "flows", "flows_finished", "tasks"):
        assert full[name] == fast[name]
    ports = [rows(tmp_path / name, "ports.parquet") for name in ("full", "fast")]
    assert (ports[0]["tx_bytes"] == ports[1]["tx_bytes"]).all() and ports[0]["tx_bytes"].sum() > 0
    assert fast["packet_hops"] < full["packet_hops"] / 2
    assert fast["packet_hops"] + fast["skipped_packet_hops"] == pytest.approx(full["packet_hops"], rel=1e-3)


@pytest.mark.parametrize("sets", [(), (*H100, "network.congestion_control=dctcp", "workload.model.hidden=1024")])
def test_flow_mode_leaves_out_passes_too(tmp_path: Path, simulate, sets: tuple[str, ...]) -> None:
    full, fast = (simulate(name, "wormhole.mode=flow", MANY, *sets, *more) for name, more in FLOW_RUNS)
    assert min(jump["passes"] for jump in fast["fast_forward"]["passes"]["jumps"]) > 20
    for table in (*TABLES, "ports.parquet"):
        one, other = rows(tmp_path / "full", table), rows(tmp_path / "fast", table)
        assert [name for name in one if (one[name] != other[name]).any()] == [], table
    for name in ("iteration_time_ps", "simulated_time_ps", "flows", "flows_finished", "tasks", "skipped_packet_hops"):
        assert full[name] == fast[name]
    assert fast["events"] < full["events"] / 2
    assert fast["fast_forward"]["flow_mode"]["messages"] < full["fast_forward"]["flow_mode"]["messages"] / 2


def test_no_instant_of_a_row_is_missing(tmp_path: Path, simulate) -> None:
    simulate("fast", MANY)
    for table, start, ends in (
        ("flows", "start_ps", ("delivered_ps", "finish_ps")),
        ("tasks", "start_ps", ("end_ps",)),
    ):
        found = rows(tmp_path / "fast", f"{table}.parquet")
        assert found[start].min() >= 0
        for end in ends:
            assert (found[end] >= found[start]).all()


def test_microbatches_cost_nothing_once_they_repeat(simulate) -> None:
    few, many = simulate("few", MANY), simulate("many", "workload.microbatches=4000", "output.tasks=false")
    assert many["packet_hops"] == few["packet_hops"] and many["events"] == few["events"]
    jump = many["fast_forward"]["passes"]["jumps"][0]
    assert many["iteration_time_ps"][0] - few["iteration_time_ps"][0] == 3960 // jump["cycle"] * jump["cycle_time_ps"]
    assert many["flows_finished"] == many["flows"] > 90 * few["flows"]


def test_passes_that_scatter_are_all_simulated(tmp_path: Path, simulate) -> None:
    """Computations of random length: no mean is known to 0.01 %."""
    sets = (MANY, "workload.compute.jitter=0.2", *H100, "wormhole.iteration_tolerance=0.0001")
    fast, full = simulate("fast", *sets), simulate("full", *sets, ALL)
    assert fast["fast_forward"]["passes"]["jumps"] == [] and "passes" not in full["fast_forward"]
    for table in TABLES:
        assert (tmp_path / "fast" / table).read_bytes() == (tmp_path / "full" / table).read_bytes()


def test_the_mean_of_passes_that_scatter_is_as_good_as_is_said(simulate) -> None:
    sets = ("workload.microbatches=400", "workload.compute.jitter=0.02", *H100)
    fast = simulate("fast", *sets, "wormhole.iteration_tolerance=0.02")
    full = simulate("full", *sets, ALL)
    jump = fast["fast_forward"]["passes"]["jumps"][0]
    assert 0 < jump["error_bound"] <= 0.02 and jump["passes"] > 300
    assert fast["iteration_time_ps"][0] == pytest.approx(full["iteration_time_ps"][0], rel=jump["error_bound"])


@pytest.mark.parametrize(
    "sets",
    [
        ("output.sample_interval=20us",), ("simulation.stop_time=1s",), ("output.partitions=true",),
        ("network.routing.queue_pairs_per_flow=2",), (ALL,), ("wormhole.mode=off",),
    ],
)  # fmt: skip
def test_where_something_tells_the_time_by_the_clock_all_are_simulated(simulate, sets: tuple[str, ...]) -> None:
    result = simulate("fast", *sets)
    assert "passes" not in result.get("fast_forward", {})
