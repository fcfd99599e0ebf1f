"""Sia's and Pollux' workloads with their tables of applications: goodput by GPUs and type, and the config runs.

Rows of bert are of Sia's artifacts (siasosp23/artifacts, sia-simulator/traces/bert) and of Pollux' (petuum/adaptdl).
"""

import json
from pathlib import Path

import pytest

from pdes.cli import main
from pdes.convert.cluster.audit import Audit
from pdes.convert.cluster.machines import Given
from pdes.convert.cluster.readers.sia_tables import Application, Applications
from pdes.convert.cluster.trace import convert
from pdes.errors import ConfigError

from .cluster_samples import Converted, put, rows

PLACED, SCALED = "local_bsz,step_time,sync_time,placement\n", "local_bsz,step_time,sync_time,num_nodes,num_replicas\n"
VALIDATED = "progress,iteration,metric,grad_sqr,grad_var\n"
BERT = {
    "placements-rtx.csv": PLACED
    + "4,0.2522909343242645,0.006434326052665711,1\n12,0.44691599905490875,0.006431816041469574,1\n"
    + "4,0.43972116708755493,0.2087431678771973,11\n12,0.5289897471666336,0.10101446008682252,11\n"
    + "4,0.44754548370838165,0.22258860969543456,2\n12,0.5070568770170212,0.08554914617538453,2\n"
    + "4,0.5734133571386337,0.3224066467285156,4\n12,0.5847098231315613,0.15517045879364014,4\n"
    + "4,0.7633080631494522,0.5284081268310548,8\n12,0.8432824313640594,0.4093744144439697,8\n",
    "scalability-rtx.csv": SCALED
    + "4,0.7445700062112808,0.4929398689270019,2,6\n12,0.7955166399478912,0.366513053894043,2,6\n"
    + "4,0.9731620699167252,0.7153744392395021,2,16\n12,1.0644175112247467,0.6099041557312012,2,16\n",
    "placements-dgx-ext.csv": PLACED
    + "4,0.14855386316776276,0.003084479987621307,1\n48,0.3417792171239853,0.003075583934783936,1\n"
    + "4,0.12830302119255066,0.007976512044668198,2\n48,0.33122725784778595,0.008122496038675308,2\n"
    + "4,0.13748867809772491,0.01973228776454926,4\n48,0.34062662720682237,0.01708403205871582,4\n"
    + "4,0.14309822022914886,0.024168063998222352,44\n48,0.345003604888916,0.01878387200832367,44\n",
    "validation-12.csv": VALIDATED + "7387.0,7387,86.7,1.9e14,6.9e15\n14774.0,14774,88.6,4.1e14,3.8e16\n",
    "validation-96.csv": VALIDATED + "7392.4,950,86.2,3.3e13,6.1e15\n14778.2,1885,88.4,6.1e10,3.4e13\n",
    "validation-384.csv": VALIDATED + "7397.9,244,84.8,6.5e12,6.1e15\n14789.7,480,88.1,4.3e10,4.6e13\n",
}  # fmt: skip
WORKLOAD = "name,time,application,num_replicas,batch_size\n" + "".join(
    f"bert-{i},{100 * i},bert,{n},384\n" for i, n in enumerate((12, 6, 16, 8, 4, 2))
)
POOLS = ("rtx=3x8", "dgx-ext=2x8")


def tables(tmp_path: Path, files: dict[str, str], name: str = "bert") -> Path:
    (tmp_path / "traces").mkdir(exist_ok=True, parents=True)
    put(tmp_path / "traces" / name, files)
    return tmp_path / "traces"


def bert(tmp_path: Path, workload: str = WORKLOAD, given: Given | None = None, **files: str) -> Converted:
    source = put(tmp_path / "in", {"workload-1.csv": workload})
    tables(tmp_path / "in", BERT | {name.replace("_", "-") + ".csv": text for name, text in files.items()})
    (tmp_path / "out").mkdir(exist_ok=True)
    return Converted(
        tmp_path / "out", convert(source, tmp_path / "out" / "case.toml", None, given or Given(pools=POOLS))
    )


def made(tmp_path: Path, files: dict[str, str]) -> Application | None:
    with (tmp_path / "audit.csv").open("w") as file:
        return Applications(tables(tmp_path, files, "app"), Audit(file)).get("app")


def test_goodput_is_that_of_the_best_batch(tmp_path: Path) -> None:
    """100 iterations of 8 samples, or 40 of 32. A GPU takes 1 s and 0.1 s a sample; two of them 0.5 s more.

    On one GPU 32 samples are two parts of 16: 2.6 + 2.6 s. On two the large batch is one part of each.
    """
    found = made(tmp_path, {
        "placements-x.csv": PLACED + "4,1.4,0,1\n16,2.6,0,1\n2,1.7,0.5,2\n16,3.1,0.5,2\n2,9.7,8.5,11\n16,9.1,8.5,11\n",
        "validation-8.csv": VALIDATED + "1,50,0,0,0\n2,100,0,0,0\n3,200,0,0,0\n", "validation-32.csv": VALIDATED
        + "1,20,0,0,0\n2,40,0,0,0\n",
    })  # fmt: skip
    assert found is not None and found.steps == 100
    assert found.rates["x"] == {1: pytest.approx(100 / min(100 * 1.8, 40 * 5.2)), 2: pytest.approx(100 / (40 * 3.1))}
    assert found.rate("x", 3) == found.rates["x"][2] and found.rate("x", 2) == found.rates["x"][2]


def test_fewer_samples_than_were_measured_are_no_batch_of_that(tmp_path: Path) -> None:
    files = {"scalability.csv": SCALED + "4,1,0,1,1\n4,1,0,1,4\n", "validation-8.csv": VALIDATED + "1,10,0,0,0\n"}
    found = made(tmp_path, files)
    assert found is not None and found.rates == {"GPU": {1: pytest.approx(0.5)}}


def test_a_workload_with_tables_has_steps_speeds_and_ranges(tmp_path: Path) -> None:
    """A dgx-ext takes 48 samples at a time. One is best off with 1885 steps of two of these, four with 480 of eight."""
    result = bert(tmp_path)
    assert [(job["steps"], job["duration_s"], job["kind"]) for job in result.jobs] == [("14774", "", "bert")] * 6
    assert result.cluster["elastic"] == [{"kind": "bert", "least_gpus": 1, "most_gpus": 16}]
    assert result.pools == [("rtx", 3, 8), ("dgx-ext", 2, 8)]
    found = {(row["gpus"], row["gpu"]): float(row["steps_per_s"]) for row in rows(result.folder / "speeds.csv")}
    assert {gpus for gpus, _ in found} == {"1", "2", "4", "6", "8", "12", "16"}
    step_s, sync_s = 0.3417792171239853, 0.003075583934783936
    assert found["1", "dgx-ext"] == pytest.approx(14774 / (1885 * (step_s + (step_s - sync_s))))
    step_s, sync_s = 0.34062662720682237, 0.01708403205871582
    assert found["4", "dgx-ext"] == pytest.approx(14774 / (480 * (step_s + (step_s - sync_s))))
    assert found["12", "rtx"] == pytest.approx((found["8", "rtx"] + found["16", "rtx"]) / 2)
    assert found["12", "dgx-ext"] == found["8", "dgx-ext"] > found["8", "rtx"]
    assert result.summary[1].startswith("asked: ")


@pytest.mark.parametrize("scheduler", ["sia", "pollux", "fcfs", "max-min-perf"])
def test_the_config_runs_to_its_end(scheduler: str, tmp_path: Path) -> None:
    config, out = bert(tmp_path).folder / "case.toml", tmp_path / "results"
    assert main([str(config), "--set", f"cluster.scheduler={scheduler}", "--set", f'output.dir="{out}"']) == 0
    assert json.loads((out / "result.json").read_text())["jobs_done"] == 6


def test_a_job_alone_takes_its_work_by_its_goodput(tmp_path: Path) -> None:
    workload = "\n".join(WORKLOAD.splitlines()[:2])
    config, out = bert(tmp_path, workload).folder / "case.toml", tmp_path / "results"
    assert main([str(config), "--set", "cluster.scheduler=sia", "--set", f'output.dir="{out}"']) == 0
    found = max(float(row["steps_per_s"]) for row in rows(config.with_name("speeds.csv")))
    took_s = json.loads((out / "result.json").read_text())["completion_s"]["most"]
    assert took_s == pytest.approx(14774 / found, rel=1e-6)


def test_durations_go_before_tables_unless_the_command_names_these(tmp_path: Path) -> None:
    workload = "name,time,application,num_replicas,duration\nbert-0,5,bert,4,60\n"
    assert [job["duration_s"] for job in bert(tmp_path, workload, Given(2)).jobs] == ["60"]
    source, folder = tmp_path / "in" / "workload-1.csv", tmp_path / "in" / "traces"
    words = ["--pool", "rtx=3x8", "--profiles", str(folder)]
    assert main(["convert", "cluster", str(source), "-o", str(tmp_path / "out" / "case.toml"), *words]) == 0
    assert [job["steps"] for job in Converted(tmp_path / "out", []).jobs] == ["14774"]


def test_bad_rows_and_applications_without_tables_are_named(tmp_path: Path) -> None:
    more = "4,fast,0,1\n4,0,0,1\n4,1,0,0x\n4,1,0\n4,nan,0,1\n"
    workload = WORKLOAD + "gpt-9,900,gpt,4,384\nup-9,900,../bert,4,384\n"
    result = bert(tmp_path, workload, placements_rtx=BERT["placements-rtx.csv"] + more)
    assert len(result.jobs) == 6
    found = {(row["file"], row["line"], row["column"], row["found"]) for row in result.audit}
    table = "bert/placements-rtx.csv"
    assert found >= {
        (table, "12", "step_time", 'row that is none: "fast"'), (table, "13", "step_time", 'row that is none: "0"'),
        (table, "14", "placement", 'row that is none: "0x"'), (table, "16", "step_time", 'row that is none: "nan"'),
        ("traces", "", "", 'no tables of an application: "gpt", a folder'),
        ("workload-1.csv", "8", "application", 'no tables of its application: "gpt"'),
        ("workload-1.csv", "9", "application", 'no tables of its application: "../bert"'),
    }  # fmt: skip
    assert any("another number of columns" in one for _, line, _, one in found if line == "15")


@pytest.mark.parametrize("missing", ["validation", "placements|scalability"])
def test_an_application_without_one_kind_of_table(missing: str, tmp_path: Path) -> None:
    files = {name: text for name, text in BERT.items() if not any(word in name for word in missing.split("|"))}
    source = put(tmp_path / "in", {"workload-1.csv": WORKLOAD})
    tables(tmp_path / "in", files)
    with pytest.raises(ConfigError, match="traces: has no tables of the workload's applications. Accepted|APPLICATION"):
        convert(source, tmp_path / "case.toml", None, Given(pools=POOLS))
    assert not (tmp_path / "jobs.csv").exists() and not (tmp_path / "case.toml").exists()


def test_what_is_missing_is_one_message(tmp_path: Path) -> None:
    source = put(tmp_path / "in", {"workload-1.csv": WORKLOAD})
    with pytest.raises(ConfigError, match="no column duration.*--profiles with the folder of Sia's tables"):
        convert(source, tmp_path / "case.toml")
    with pytest.raises(ConfigError, match="nowhere: is no folder"):
        convert(source, tmp_path / "case.toml", profiles=tmp_path / "nowhere")
    folder = tables(tmp_path, BERT)
    with pytest.raises(ConfigError, match="nothing says how many GPUs of which type.*for dgx-ext, rtx, as"):
        convert(source, tmp_path / "case.toml", profiles=folder)
    with pytest.raises(ConfigError, match='servers with "t4", which traces has no speeds of. Accepted: dgx-ext, rtx'):
        convert(source, tmp_path / "case.toml", None, Given(pools=("t4=4x4",)), folder)
