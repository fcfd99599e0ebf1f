"""A link above a rack that is down: jobs that use it take what a run around that link takes, as long as it is down."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import pdes
from models.cluster.machine import Machine, Pool
from pdes.cluster.iterations.run import Bench, tables_of
from pdes.cluster.iterations.shape import shape
from pdes.cluster.run import run_cluster
from pdes.config.cluster.load import load_cluster
from pdes.config.values import make_config
from pdes.errors import ConfigError
from reference.run_jobs import write

JOBS = "job,submit_s,gpus,duration_s,kind\na,0,8,1000,deep\nb,0,2,1000,other\nc,1,2,1000,dense\nd,2,4,1000,other\n"
FAILURE = """
[[cluster.failure]]
component = "uplink"
gap = { distribution = "empirical", file = "gap.txt" }
repair = { distribution = "empirical", file = "repair.txt" }
"""


def simulate(folder: Path, *sets: str, failure: str = FAILURE, rate: str = "100Gbps", jobs: str = JOBS) -> Any:
    """Every rack loses an uplink 500 s from the begin, for 300 s, and again 500 s after that."""
    path = write(folder, jobs)
    (folder / "gap.txt").write_text("500\n")
    (folder / "repair.txt").write_text("300\n")
    path.write_text(path.read_text().replace("[output]", f"{failure}\n[output]").replace("100Gbps", rate))
    return run_cluster(load_cluster(path, list(sets)), is_quiet=True)


def rows(folder: Path) -> dict[str, dict[str, Any]]:
    return {row["job"]: row for row in pq.read_table(folder / "out" / "jobs.parquet").to_pylist()}


def test_a_job_in_several_racks_goes_at_what_its_run_without_that_link_says(tmp_path: Path) -> None:
    """Two servers a rack, so two uplinks of each rail switch: stages send their two messages over one of them."""
    sets = ("cluster.runs.fabric.oversubscription=1.0",)
    result = simulate(tmp_path, *sets, rate="25Gbps")
    times = {name: one["iteration_s"] for name, one in result["iteration_times"].items()}
    whole = times["deep 8 (rack 0: 2+2, rack 1: 2+2)"]
    without = times["deep 8 (rack 0: 2+2, rack 1: 2+2), without uplinks (rack 0: 1, rack 1: 1)"]

    def mean_s(*links: list[str]) -> float:
        model = {"layers": 2, "hidden": 1024, "heads": 8, "vocabulary": 1024, "sequence": 256}
        workload = {
            "kind": "training", "microbatches": 2, "model": model, "compute": {"gpu": "h100"},
            "parallel": {"tp": 1, "pp": 2, "dp": 4},
        }  # fmt: skip
        topology = {"kind": "roft", "gpus": 8, "gpus_per_server": 2, "servers_per_rail_switch": 2, "nic_rate": "25Gbps"}
        events = [{"time": "0s", "link": link, "state": "down"} for link in links]
        config = make_config({
            "topology": topology, "wormhole": {"mode": "flow"},
            "network": {"link_event": events, "routing": {"convergence": "0s"}},
            "job": [{"name": "a", "gpus": [*range(8)], "iterations": 3, "workload": workload}],
        })  # fmt: skip
        first = pdes.simulate(config, tmp_path / "by-hand").summary["jobs"][0]
        return sum(first["iteration_time_ps"][1:]) / 2e12

    assert whole == pytest.approx(mean_s(), rel=1e-9)
    assert without == pytest.approx(mean_s(["rail0", "spine0"], ["rail2", "spine0"]), rel=1e-9)
    assert without > 1.02 * whole
    ran, share = rows(tmp_path), whole / without
    assert ran["a"]["end_us"] == pytest.approx(1000e6 + 300e6 * (1 - share), abs=2)
    assert [ran[name]["end_us"] - ran[name]["start_us"] for name in "bcd"] == [1_000_000_000] * 3
    assert result["gpu_hours"]["lost_by_component"]["uplink"] == pytest.approx(8 * 300 * (1 - share) / 3600, rel=1e-4)


def test_neighbours_that_come_change_what_a_lost_link_costs(tmp_path: Path) -> None:
    """Of two jobs that share a rack, by their four cases: when each ends, instant by instant."""
    jobs = "job,submit_s,gpus,duration_s,kind\na,0,6,2000,dense\nb,600,6,1000,dense\n"
    result = simulate(tmp_path, "cluster.runs.fabric.oversubscription=1.0", rate="25Gbps", jobs=jobs)
    times = {name: one["iteration_s"] for name, one in result["iteration_times"].items()}
    one, lost = "dense 6 (rack 0: 2+2, rack 1: 2)", ", without uplinks (rack 0: 1, rack 1: 1)"
    both = f"{one} beside dense 6 (rack 2: 2+2, rack 1: 2)"
    assert times[both] > 1.02 * times[one] and times[both + lost] != times[both]

    def speed(is_beside: bool, is_lost: bool) -> float:
        whole, without = (times[(both if is_beside else one) + text] for text in ("", lost))
        return times[one] / max(whole, without if is_lost else 0)

    at, left, ends = 0.0, {"a": 2000.0, "b": 1000.0}, dict[str, float]()
    while left:
        is_lost = at % 800 >= 500
        running = [name for name in left if name == "a" or at >= 600]
        rate = speed(len(running) > 1, is_lost)
        marks = [at - at % 800 + 500, at - at % 800 + 800, 600]
        step = min([mark - at for mark in marks if mark > at] + [left[name] / rate for name in running])
        for name in running:
            left[name] -= step * rate
        at = round(at + step, 7)
        ends |= {name: at for name in running if left[name] < 1e-6}
        left = {name: work for name, work in left.items() if work >= 1e-6}
    for name, end_s in ends.items():
        assert rows(tmp_path)[name]["end_us"] == pytest.approx(end_s * 1e6, abs=20)


def test_a_case_with_lost_links_is_another_case_and_keeps_a_last_link() -> None:
    machine = Machine([Pool("GPU", 8, 2, 2, 1.0)])
    workload = {
        "kind": "training", "parallel": {"tp": 1, "pp": 1}, "compute": {"gpu": "h100"},
        "model": {"layers": 2, "hidden": 1024, "heads": 8, "vocabulary": 1024, "sequence": 256},
    }  # fmt: skip
    place = [("a", [(0, 2), (2, 2)])]
    for kind, names in (
        ("roft", [["rail0", "spine0"], ["rail1", "spine0"]]),
        ("dual-plane", [["rail0", "spine0"], ["rail1", "spine0"], ["rail4", "spine2"], ["rail5", "spine2"]]),
        ("leaf-spine", [["leaf0", "spine0"], ["leaf0", "spine1"], ["leaf0", "spine2"]]),
        ("fat-tree", [["edge0", "agg0"], ["edge0", "agg1"], ["edge0", "agg2"]]),
    ):
        rails = {"kind": kind} | ({"spine_rate": "50Gbps"} if kind == "dual-plane" else {})
        bench = Bench({}, rails, {"a": workload}, 2, 2, "", 3, ".", "")
        keys = {bench.key(shape(machine, 0, place, {0: n})) for n in range(4)}
        assert len(keys) == 4 and bench.key(shape(machine, 0, place, {3: 1})) in keys  # not one of its racks
        case = shape(machine, 0, place, {0: 1000})
        events = tables_of(bench, case, {})["network"]["link_event"]
        assert sorted(event["link"] for event in events) == sorted(names)
        make_config(tables_of(bench, case, {}))


FAULTS = [
    (FAILURE + 'per = "server"\n', "[[cluster.failure]] 1", 'per = "rack"'),
    (FAILURE + "leaves = 0.5\n", "[[cluster.failure]] 1", "leaves"),
    (FAILURE + "drains = true\n", "[[cluster.failure]] 1", "drains"),
    (FAILURE.replace("repair =", "# repair ="), "[[cluster.failure]] 1", "neither detection nor repair"),
]


@pytest.mark.parametrize(("failure", "where", "found"), FAULTS)
def test_what_makes_no_sense_of_an_uplink_is_said(tmp_path: Path, failure: str, where: str, found: str) -> None:
    with pytest.raises(ConfigError) as error:
        simulate(tmp_path, failure=failure)
    assert where in str(error.value) and found in str(error.value)


def test_without_runs_nobody_knows_what_a_lost_link_costs(tmp_path: Path) -> None:
    path = write(tmp_path)
    text = path.read_text()
    failure = FAILURE.replace("empirical", "exponential").replace('file = "gap.txt"', 'mean = "1h"')
    failure = failure.replace('distribution = "exponential", file = "repair.txt"', 'mean = "1h"')
    path.write_text(text[: text.index("[cluster.runs]")] + failure + f'[output]\ndir = "{tmp_path}/out"\n')
    with pytest.raises(ConfigError, match=r'takes: found "uplink". Accepted: with \[cluster.runs\]'):
        run_cluster(load_cluster(path, []), is_quiet=True)
