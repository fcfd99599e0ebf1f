"""Traces with other names of columns than they were published with: told all the same, and every bad row named."""

import json
from pathlib import Path

import pytest

from pdes.cli import main
from pdes.convert.cluster.recognition import find
from pdes.convert.cluster.trace import convert
from pdes.convert.cluster.variants import SIA as SIA_VARIANTS
from pdes.convert.cluster.variants import as_published
from pdes.errors import ConfigError

from .cluster_samples import ACME, HELIOS, PHILLY_CSV, SAMPLES, SIA, Converted, converted, put
from .cluster_samples import rows as rows_of

PUBLISHED = "\n".join(line.rpartition(",")[0] for line in SIA.splitlines())
DURATIONS = "application,num_replicas,duration\ncifar10,,600\ncifar10,12,350\nbert,12,7200.25\nbert,x,5\nncf,4,-1\n"


def values(result: Converted, *columns: str) -> list[tuple[str, ...]]:
    return [tuple(job[column] for column in columns) for job in result.jobs]


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def renamed(text: str, **names: str) -> str:
    head, _, rest = text.partition("\n")
    return ",".join(names.get(word, word) for word in head.split(",")) + "\n" + rest


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (PHILLY_CSV, {"timestamp": "Submit Time", "num_gpus": "GPUs", "duration": "run-time", "cluster": "vc"}),
        (SIA, {"time": "arrival_time", "num_replicas": "num_gpus", "application": "model", "duration": "duration_s"}),
        (SIA, {"name": "job_id", "time": "submission_time", "num_replicas": "requested_num_replicas"}),
        (HELIOS, {"gpu_num": "num_gpus", "submit_time": "submitted_time", "vc": "virtual_cluster", "job_id": "jobid"}),
        (HELIOS, {"state": "status", "start_time": "start", "end_time": "finished_time", "duration": "run_time"}),
        (ACME, {"gpu_num": "gpus", "node_num": "num_nodes", "state": "job_status", "user": "user_id"}),
    ],
)
def test_columns_of_other_names_are_the_same_jobs(text: str, names: dict[str, str], tmp_path: Path) -> None:
    as_is = converted(made(tmp_path / "a"), text)
    other = converted(made(tmp_path / "b"), renamed(text, **names))
    assert other.jobs == as_is.jobs and as_is.jobs
    assert [one[2:] for one in other.found()] == [one[2:] for one in as_is.found()]


def test_a_column_of_an_index_before_the_others_does_no_harm(tmp_path: Path) -> None:
    lines = SIA.splitlines()
    text = "\n".join([f",{lines[0]}", *(f"{i},{line}" for i, line in enumerate(lines[1:]))])
    assert converted(made(tmp_path / "b"), text).jobs == converted(made(tmp_path / "a"), SIA).jobs


def test_sias_own_workloads_take_durations_of_a_table_beside_them(tmp_path: Path) -> None:
    """Of cifar10 on 6 GPUs its row for all others, of bert its own; rows of the table that are wrong are named."""
    more = "cifar10-2,500,cifar10,12,4096\nyolov3-3,600,yolov3,4,64\nbert-4,700,bert,8,384\n"
    result = converted(tmp_path, {"workload-1.csv": f"{PUBLISHED}\n{more}", "durations.csv": DURATIONS})
    assert values(result, "job", "submit_s", "duration_s", "gpus", "kind") == [
        ("cifar10-0", "0", "600", "6", "cifar10"), ("bert-1", "380.661836", "7200.25", "12", "bert"),
        ("cifar10-2", "393", "350", "12", "cifar10"),
    ]  # fmt: skip
    found = [(one[0], one[1], one[2]) for one in result.found()]
    assert ("5", "application", 'no duration: "yolov3" on 4 GPUs') in found
    assert ("6", "application", 'no duration: "bert" on 8 GPUs') in found
    assert ("5", "num_replicas", 'GPU count that is none: "x"') in found
    assert ("6", "duration", 'duration that is none: "-1"') in found


def test_a_table_of_durations_by_itself_is_no_trace(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a table of durations, not of jobs"):
        converted(tmp_path, DURATIONS)


def test_a_name_as_published_is_never_taken_for_another_one() -> None:
    assert as_published(("time", "arrival_time", "model", "gpus"), SIA_VARIANTS) == (
        "time", "arrival_time", "application", "num_replicas",
    )  # fmt: skip
    assert as_published(("name", "duration"), SIA_VARIANTS) == ("name", "duration")


def test_every_bad_row_of_a_variant_is_named_by_its_line(tmp_path: Path) -> None:
    rows = ["a,,1,60", "b,5,zero,60", "c,6,2,", "d,7,2,60,9", 'e,"8,2,60', "f,9,4,30"]
    result = converted(tmp_path, "\n".join(["model,submit_time,num_gpus,runtime", *rows, ""]))
    assert values(result, "gpus", "duration_s", "kind") == [("4", "30", "f")]
    assert [one[0] for one in result.found() if one[0]] == ["2", "3", "4", "5", "6"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "id,job_num,cpu_job_num,gpu_job_num,avg_gpu_num\nSeren,9,4,5,5.68\n",
            "a summary of clusters.*seren",
        ),
        (
            "==========\n20_Jobs\nalloc,preempt,avg_jct,wait_time\n(SJF , LGF),5.1,9.9\n",
            "a simulator's results.*pai",
        ),
    ],
)
def test_what_is_about_a_trace_and_none_is_named_with_what_is_missing(text: str, found: str, tmp_path: Path) -> None:
    path = put(tmp_path, {"a.csv": text})
    with pytest.raises(ConfigError, match=found):
        find(path, None)
    with pytest.raises(ConfigError, match=f"no file is a known trace; a.csv is {found}"):
        find(tmp_path, None)


@pytest.mark.parametrize("name", [name for name in SAMPLES if name not in ("gavel", "jobs")])
def test_what_is_converted_runs(name: str, tmp_path: Path) -> None:
    """All of the sample's jobs that are converted are done. Gavel's and our own have steps alone."""
    source = put(tmp_path / "in", SAMPLES[name])
    convert(source, tmp_path / "case.toml", name)
    out = tmp_path / "results"
    assert main([str(tmp_path / "case.toml"), "--set", f'output.dir="{out}"']) == 0
    assert json.loads((out / "result.json").read_text())["jobs_done"] == len(rows_of(tmp_path / "jobs.csv"))
