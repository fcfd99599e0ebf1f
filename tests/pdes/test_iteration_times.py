"""Iteration times of jobs at the cluster level: those of the runs that they are from, kept, shared, and never lost."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import pdes
from models.cluster.job import Request
from models.cluster.machine import Machine, Pool
from pdes.cluster.build import build
from pdes.cluster.iterations.memo import Entry, IterationMemo
from pdes.cluster.iterations.run import Bench, share_of, tables_of
from pdes.cluster.iterations.shape import shape
from pdes.cluster.iterations.speeds import RunSpeeds, is_drawn
from pdes.cluster.run import run_cluster
from pdes.config.cluster.load import load_cluster
from pdes.config.values import make_config
from pdes.errors import ConfigError
from reference.run_jobs import WORKLOAD, training_job, write


def rows(folder: Path) -> dict[str, dict[str, Any]]:
    return {row["job"]: row for row in pq.read_table(folder / "jobs.parquet").to_pylist()}


def simulate(config: Path, *sets: str) -> dict[str, Any]:
    return run_cluster(load_cluster(config, list(sets)), is_quiet=True)


def test_times_are_those_of_runs_of_the_same_jobs_on_the_same_gpus(tmp_path: Path) -> None:
    """Of a, 6 GPUs over two racks, beside c, which shares the second of them: run here by hand."""
    jobs = "job,submit_s,gpus,duration_s,kind\na,0,6,1000,dense\nc,0,6,1000,deep\n"
    result = simulate(write(tmp_path, jobs))
    times = {name: one["iteration_s"] for name, one in result["iteration_times"].items()}
    packed = times["dense 6 (rack 0: 2+2, rack 1: 2)"]
    beside = times["dense 6 (rack 0: 2+2, rack 1: 2) beside deep 6 (rack 2: 2+2, rack 1: 2)"]

    def mean_s(*jobs: dict[str, Any]) -> float:
        topology = {"kind": "roft", "gpus": 12, "gpus_per_server": 2, "servers_per_rail_switch": 2,
                    "nic_rate": "100Gbps", "oversubscription": 2.0}  # fmt: skip
        config = make_config({"topology": topology, "wormhole": {"mode": "flow"}, "job": list(jobs)})
        first = pdes.simulate(config, tmp_path / "by-hand").summary["jobs"][0]
        return sum(first["iteration_time_ps"][1:]) / 2e12

    assert packed == pytest.approx(mean_s(training_job("a", [0, 1, 2, 3, 4, 5], 1, 3)), rel=1e-9)
    together = mean_s(training_job("a", [0, 1, 2, 3, 4, 5], 1, 3), training_job("c", [8, 9, 10, 11, 6, 7], 2, 40))
    assert beside == pytest.approx(together, rel=1e-9) and beside > 1.02 * packed
    # Both end at what their speeds say: a is slowed down until c has ended, or to its end.
    ran = rows(tmp_path / "out")
    assert 1000e6 * 1.02 < ran["a"]["end_us"] <= 1000e6 * beside / packed + 1


def test_what_is_known_is_never_run_again_and_results_do_not_depend_on_it(tmp_path: Path) -> None:
    config = write(tmp_path)
    first = simulate(config)
    runs = json.loads((tmp_path / "out" / "run.json").read_text())["iteration_times"]
    assert runs["run"] == runs["asked"] == len(first["iteration_times"]) > 4
    jobs = (tmp_path / "out" / "jobs.parquet").read_bytes()
    assert simulate(config) == first
    assert json.loads((tmp_path / "out" / "run.json").read_text())["iteration_times"]["run"] == 0
    assert (tmp_path / "out" / "jobs.parquet").read_bytes() == jobs
    lines = (tmp_path / "times.jsonl").read_text().splitlines()
    (tmp_path / "times.jsonl").write_text(
        "\n".join([lines[0][:50], lines[1].replace('"time_ps": ', '"time_ps": 9'), *lines[2:]])
    )
    assert simulate(config) == first  # damaged lines are run again, behind what a killed writer has left
    found = json.loads((tmp_path / "out" / "run.json").read_text())["iteration_times"]
    assert (found["run"], found["bad"]) == (2, 2)
    assert IterationMemo(tmp_path / "times.jsonl").n_bad == 2


def test_alone_and_packed_is_what_durations_are_about(tmp_path: Path) -> None:
    jobs = "job,submit_s,gpus,duration_s,kind\na,0,4,1000,dense\nb,2000,2,500,deep\nc,4000,4,700,other\n"
    simulate(write(tmp_path, jobs))
    ends = [row["end_us"] - row["start_us"] for row in rows(tmp_path / "out").values()]
    assert ends == [1_000_000_000, 500_000_000, 700_000_000]


def test_without_neighbours_nobody_is_slowed_down(tmp_path: Path) -> None:
    jobs = "job,submit_s,gpus,duration_s,kind\na,0,6,1000,dense\nc,0,6,1000,deep\n"
    result = simulate(write(tmp_path, jobs), "cluster.runs.neighbours=0")
    assert not [name for name in result["iteration_times"] if "beside" in name]


FAULTS = [
    ({"dense": 'kind = "flows"\nfile = "x"'}, "[[cluster.runs.kind]] 1: workload", 'found "flows"'),
    ({"dense": WORKLOAD.format(pp=1).replace("pp = 1", "pp = 1, dp = 2")}, "1: workload.parallel", "dp is there"),
    ({"deep": WORKLOAD.format(pp=2).replace("hidden = 1024", "hidde = 1")}, "[[cluster.runs.kind]] 2", "hidde"),
    ({"deep": WORKLOAD.format(pp=2) + '[[cluster.runs.kind]]\nkind = "dense"\nworkload = {}\n'}, "3: kind", "twice"),
]


@pytest.mark.parametrize(("changes", "where", "found"), FAULTS)
def test_what_cannot_be_run_is_said_before_anything_runs(
    changes: dict[str, str], where: str, found: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as error:
        simulate(write(tmp_path, **{key: text.replace("{}", "{ }") for key, text in changes.items()}))
    assert where in str(error.value) and found in str(error.value)
    assert not (tmp_path / "times.jsonl").exists()


def test_a_job_has_whole_replicas(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='job "a" of kind "deep" has 3 GPUs, and those come in 2'):
        simulate(write(tmp_path, "job,submit_s,gpus,duration_s,kind\na,0,3,10,deep\n"))


def test_cases_of_one_instant_are_asked_for_together_and_each_once() -> None:
    machine = Machine([Pool("GPU", 8, 2, 2, 1.0)])
    workload = {"kind": "training", "parallel": {"tp": 1}}
    bench = Bench({}, {}, {"a": workload, "b": workload}, 2, 2, "", 3, ".", "")
    asked: list[int] = []

    def run_all(_: Callable, tables: Sequence[Any]) -> list[Entry]:
        asked.append(len(tables))
        return [Entry(100 * len(one["job"]), "") for one, _ in tables]

    speeds = RunSpeeds(machine, [bench], IterationMemo(None), run_all)
    one = shape(machine, 0, [("a", [(0, 2), (2, 2)]), ("b", [(1, 2), (3, 2)])])
    other = shape(machine, 0, [("b", [(1, 2), (3, 2)]), ("a", [(0, 2), (2, 2)])])
    assert speeds.times_ps([one, other, one]) == [200, 200, 200]
    assert asked == [2, 2]  # both alone, on the same two racks; then both cases
    assert speeds.times_ps([other]) == [200] and asked == [2, 2]


def test_other_code_knows_nothing_of_what_was_run() -> None:
    """Nor do other rates: a key has all that a time follows from, and no more."""
    machine = Machine([Pool("GPU", 8, 2, 2, 1.0)])
    workload = {"kind": "training", "parallel": {"tp": 1}}
    bench = Bench({}, {}, {"a": workload, "b": workload}, 2, 2, "", 3, ".", "this")
    case = shape(machine, 0, [("a", [(0, 2), (2, 2)])])
    keys = [
        bench.key(case),
        bench._replace(code="that").key(case),
        bench._replace(rails={"nic_rate": "1Gbps"}).key(case),
    ]
    keys.append(bench.key(shape(machine, 0, [("a", [(0, 2), (1, 2)])])))
    assert len(set(keys)) == 4
    other = workload | {"parallel": {"tp": 2}}
    assert bench._replace(kinds={"a": workload, "b": other}).key(case) == keys[0]  # of a kind that it does not have
    assert bench.key(shape(machine, 0, [("a", [(4, 2), (6, 2)])])) == keys[0]


def test_jobs_beside_run_as_long_as_the_one_that_it_is_about() -> None:
    machine = Machine([Pool("GPU", 8, 2, 2, 1.0)])
    workload = {"kind": "training", "parallel": {"tp": 1}}
    bench = Bench({}, {}, {"a": workload, "b": workload}, 2, 2, "", 3, ".", "")
    asked = shape(machine, 0, [("a", [(0, 2), (2, 2)]), ("b", [(1, 2), (3, 2)])])
    tables = tables_of(bench, asked, {0: 1000, 1: 250})
    assert [job["iterations"] for job in tables["job"]] == [3, 25]
    assert [job["gpus"] for job in tables["job"]] == [[0, 1, 4, 5], [2, 3, 6, 7]]
    assert tables["topology"]["gpus"] == 8


def test_a_checked_case_has_its_time_in_packets_and_speeds_stay(tmp_path: Path) -> None:
    """The time in packets is that of the same config with packets throughout; what is known is not run again."""
    jobs = "job,submit_s,gpus,duration_s,kind\na,0,6,1000,dense\n"
    config = write(tmp_path, jobs)
    plain = simulate(config)["iteration_times"]
    checked = simulate(config, "cluster.runs.check=1.0")["iteration_times"]
    ran = json.loads((tmp_path / "out" / "run.json").read_text())["iteration_times"]
    assert ran["in_packets"] == len(checked)
    packets = simulate(config, 'cluster.runs.wormhole={mode="off"}')["iteration_times"]
    assert plain and set(plain) == set(checked) == set(packets)
    for name, one in checked.items():
        assert one == plain[name] | {"in_packets_s": packets[name]["iteration_s"]}
    again = simulate(config, "cluster.runs.check=1.0")
    assert again["iteration_times"] == checked
    ran = json.loads((tmp_path / "out" / "run.json").read_text())["iteration_times"]
    assert (ran["run"], ran["in_packets"]) == (0, 0)


@pytest.mark.parametrize(
    ("sizes", "share"), [({}, 1), ({"tp": 2, "pp": 3}, 6), ({"tp": 2, "ep": 8}, 8), ({"tp": 2, "ep": 4, "etp": 4}, 16)]
)
def test_a_job_has_whole_replicas_and_whole_groups_of_experts(sizes: dict[str, int], share: int) -> None:
    assert share_of({"parallel": sizes}) == share


def test_a_share_of_cases_is_drawn_by_their_keys() -> None:
    keys = [f"{k * 2654435761 % 2**32:08x}" for k in range(1, 2001)]
    some = {key for key in keys if is_drawn(key, 0.1)}
    assert 150 < len(some) < 250 and some < {key for key in keys if is_drawn(key, 0.5)}
    assert all(is_drawn(key, 1.0) for key in keys) and not any(is_drawn(key, 0.0) for key in keys)


def test_check_wants_flow_mode(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="check"):
        simulate(write(tmp_path), "cluster.runs.check=0.5", 'cluster.runs.wormhole={mode="off"}')


def test_checkpoints_have_the_bytes_of_the_models_that_are_run(tmp_path: Path) -> None:
    """2 (12 h^2 + 13 h) + (V + s + 2) h parameters: of 2 + 4 + 4 + 4 bytes in bf16, of 4 + 4 + 4 in fp32."""
    n = 2 * (12 * 1024**2 + 13 * 1024) + (1024 + 256 + 2) * 1024
    wide = WORKLOAD.format(pp=2) + 'precision = "fp32"\n'
    config = write(tmp_path, deep=wide)
    config.write_text(config.read_text() + '[cluster.storage]\nrate = "1GBps"\nparameters_per_gpu = 7\n')
    storage = build(load_cluster(config, [])).rules.storage
    assert storage is not None
    sizes = [storage.checkpoint_bytes(Request(0, "0", 0, 4, 1, kind=kind)) for kind in ("dense", "deep", "other")]
    assert sizes == [14 * n, 12 * n, 4 * 7 * 14]
    config.write_text(config.read_text() + "parameters = { dense = 10 }\n")
    storage = build(load_cluster(config, [])).rules.storage
    assert storage is not None and storage.checkpoint_bytes(Request(0, "0", 0, 4, 1, kind="dense")) == 140
