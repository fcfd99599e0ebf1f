"""Each public format of cluster jobs comes out in one form: the same jobs, in the order of submission."""

import json
import re
from pathlib import Path

import pytest

from pdes.cli import main
from pdes.convert.cluster import jobs_csv
from pdes.convert.cluster.fields import date_us, decimal, millionths
from pdes.convert.cluster.jobs import JobTable
from pdes.convert.cluster.machines import Given
from pdes.convert.cluster.names import CLUSTER_FORMATS
from pdes.convert.cluster.recognition import FORMATS, find
from pdes.convert.cluster.trace import convert
from pdes.errors import ConfigError

from .cluster_samples import (
    ACME,
    ACME_HEADER,
    ALIBABA_PERCENT,
    GAVEL,
    GAVEL_MODE,
    GAVEL_OLD,
    GAVEL_OLDEST,
    JOBS,
    NODES,
    PHILLY_CSV,
    PODS,
    SAMPLES,
    SIA,
    TASKS,
    Converted,
    attempt,
    converted,
    philly_job,
    put,
)


def values(result: Converted, *columns: str) -> list[tuple[str, ...]]:
    return [tuple(job[column] for column in columns) for job in result.jobs]


def test_every_format_has_a_sample_and_a_name() -> None:
    assert list(FORMATS) == list(CLUSTER_FORMATS) and set(SAMPLES) == set(FORMATS)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_format_is_told_by_its_columns(name: str, tmp_path: Path) -> None:
    path = put(tmp_path, SAMPLES[name])
    assert find(path, None) == find(tmp_path, None) == (path, name)
    assert find(path, "gavel") == (path, "gavel")


@pytest.mark.parametrize("name", SAMPLES)
def test_columns_are_those_of_the_form_and_jobs_come_in_order(name: str, tmp_path: Path) -> None:
    result = converted(tmp_path, SAMPLES[name])
    header = (result.folder / "jobs.csv").read_text().partition("\n")[0]
    assert header == "job,submit_s,duration_s,gpus,tenant,priority,kind,gpu_type,steps,status"
    times = [float(job["submit_s"]) for job in result.jobs]
    assert len(times) > 1 and times == sorted(times) and times[0] == 0
    assert all(int(job["gpus"]) >= 1 and bool(job["duration_s"]) != bool(job["steps"]) for job in result.jobs)
    assert len({job["job"] for job in result.jobs}) == len(times)
    assert (result.cluster["jobs"], result.cluster["scheduler"]) == ("jobs.csv", "fcfs")
    assert all(servers >= 1 and gpus >= 1 and gpu for gpu, servers, gpus in result.pools)


@pytest.mark.parametrize("name", SAMPLES)
def test_what_is_written_reads_back_as_the_same_bytes(name: str, tmp_path: Path) -> None:
    jobs = converted(tmp_path, SAMPLES[name]).folder / "jobs.csv"
    again = tmp_path / "again"
    again.mkdir()
    assert convert(jobs, again / "case.toml")[0].startswith("jobs.csv, jobs: ")
    assert (again / "jobs.csv").read_bytes() == jobs.read_bytes()


@pytest.mark.parametrize("name", SAMPLES)
def test_a_conversion_writes_the_same_bytes_each_time(name: str, tmp_path: Path) -> None:
    texts = []
    for _ in range(2):
        result = converted(tmp_path, SAMPLES[name])
        texts.append([(result.folder / file).read_bytes() for file in ("case.toml", "jobs.csv", "audit.csv")])
    assert texts[0] == texts[1]
    assert sorted(path.name for path in result.folder.iterdir()) == ["audit.csv", "case.toml", "jobs.csv"]


# Format by format


def test_philly_as_one_csv(tmp_path: Path) -> None:
    result = converted(tmp_path, PHILLY_CSV)
    assert values(result, "job", "submit_s", "duration_s", "gpus", "tenant", "status") == [
        ("0", "0", "66", "1", "vc1", ""), ("1", "30", "2951.5", "8", "vc2", ""), ("2", "60", "10", "2", "vc1", ""),
    ]  # fmt: skip


def test_philly_as_published_runs_as_long_as_its_attempts(tmp_path: Path) -> None:
    """74 s and 193,182 s are 193,256 s, which is what the CSV of Sia's artifact has for a job with these attempts."""
    result = converted(tmp_path, SAMPLES["philly"])
    assert values(result, "job", "submit_s", "duration_s", "gpus", "tenant", "status") == [
        ("application_1_1", "0", "193256", "8", "vc1", "completed"),
        ("application_1_2", "2901", "60", "4", "vc1", "completed"),
    ]
    assert result.pools == [("GPU-12GB", 1, 2), ("GPU-24GB", 2, 8)]


@pytest.mark.parametrize("indent", [None, 0, 4])
def test_philly_is_read_in_pieces_whatever_its_lines_are(indent: int | None, tmp_path: Path) -> None:
    times = "2017-10-07 02:00:10", "2017-10-07 02:01:10"
    jobs = [philly_job(f"j{k}", "2017-10-07 01:11:39", attempt(*times, 8, 8, 8)) for k in range(6000)]
    result = converted(tmp_path, json.dumps(jobs, indent=indent))
    assert [job["job"] for job in result.jobs] == [f"j{k}" for k in range(6000)]
    assert [one for one in result.found() if one[0]] == []


def test_sia_with_durations(tmp_path: Path) -> None:
    assert values(converted(tmp_path, SIA), "job", "submit_s", "duration_s", "gpus", "kind") == [
        ("cifar10-0", "0", "600", "6", "cifar10"), ("bert-1", "380.661836", "7200.25", "12", "bert"),
    ]  # fmt: skip


def test_sia_as_published_says_no_duration_and_is_refused(tmp_path: Path) -> None:
    text = "\n".join(line.rpartition(",")[0] for line in SIA.splitlines())
    with pytest.raises(ConfigError, match="line 1: no column duration: how long a job runs follows from a table"):
        converted(tmp_path, text)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("text", [GAVEL, GAVEL_MODE])
def test_gavel_has_steps_and_weights(text: str, tmp_path: Path) -> None:
    result = converted(tmp_path, text)
    assert values(result, "job", "submit_s", "duration_s", "gpus", "priority", "kind", "steps") == [
        ("0", "0", "", "1", "1", "ResNet-18 (batch size 64)", "5000"),
        ("1", "12.5", "", "4", "5", "LM (batch size 5)", "77"),
    ]
    assert any("no job has a duration" in line for line in result.summary)


@pytest.mark.parametrize("text", [GAVEL_OLD, GAVEL_OLDEST])
def test_gavel_before_it_had_priorities(text: str, tmp_path: Path) -> None:
    assert values(converted(tmp_path, text), "submit_s", "gpus", "priority", "kind", "steps") == [
        ("0", "1", "0", "A3C", "300"), ("124", "8", "0", "LM", "6791"),
    ]  # fmt: skip


def test_alibaba_of_2020_rounds_up_and_leaves_out_what_needs_no_gpu(tmp_path: Path) -> None:
    result = converted(tmp_path, SAMPLES["alibaba-2020"])
    assert values(result, "job", "duration_s", "gpus", "gpu_type", "tenant") == [
        ("7", "900", "1", "MISC", "u1"), ("8", "1800", "4", "V100", "u2"),
    ]  # fmt: skip
    assert result.found(2) == [("2", "num_gpu", "fraction of a GPU: 0.5", "rounded up to whole GPUs")]
    assert result.found(4) == [("4", "", "no GPU: 1 from line 4 on", "left out")]


def test_alibaba_of_2020_in_percent_of_each_instance(tmp_path: Path) -> None:
    assert values(converted(tmp_path, ALIBABA_PERCENT), "job", "gpus") == [("7", "2"), ("8", "8")]


def test_tables_of_pai_are_joined(tmp_path: Path) -> None:
    result = converted(tmp_path, SAMPLES["alibaba-2020-tables"])
    assert values(result, "job", "submit_s", "duration_s", "gpus", "tenant", "kind", "gpu_type", "status") == [
        ("j1", "0", "90", "1", "u1", "", "T4", "completed"), ("j2", "20", "60", "4", "u2", "nmt", "V100", "failed"),
    ]  # fmt: skip
    assert result.pools == [("T4", 2, 2), ("V100", 1, 8)]


def test_tasks_alone_come_when_they_start(tmp_path: Path) -> None:
    result = converted(tmp_path, TASKS)
    assert values(result, "job", "submit_s", "duration_s") == [("j1", "0", "90"), ("j2", "20", "60")]


def test_pods_of_2023_run_once_scheduled_on_the_nodes_that_are_listed(tmp_path: Path) -> None:
    result = converted(tmp_path, SAMPLES["alibaba-2023"])
    assert values(result, "job", "submit_s", "duration_s", "gpus", "gpu_type", "kind", "status") == [
        ("p0", "0", "4990", "1", "", "LS", ""), ("p1", "20", "300", "1", "T4", "BE", "completed"),
        ("p2", "30", "90", "8", "V100M32", "LS", "failed"),
    ]  # fmt: skip
    assert result.pools == [("T4", 1, 2), ("V100M16", 1, 4), ("V100M32", 2, 8)]
    assert result.found(3) == [("3", "gpu_milli", "fraction of a GPU: 460", "rounded up to whole GPUs")]
    assert result.found(4) == [("4", "gpu_spec", "several types of GPU: V100M16|V100M32", "taken as V100M32")]
    assert result.found(6) == [("6", "scheduled_time", "never scheduled", "left out")]


def test_a_pod_that_may_run_on_every_type_there_is_may_run_on_any(tmp_path: Path) -> None:
    files = {"pods.csv": PODS.replace("V100M16|V100M32", "T4|V100M16|V100M32|G3"), "nodes.csv": NODES}
    result = converted(tmp_path, files)
    assert values(result, "gpu_type")[-1] == ("",) and result.found(4) == []


def test_acme_and_helios(tmp_path: Path) -> None:
    result = converted(tmp_path, ACME)
    assert values(result, "job", "submit_s", "duration_s", "gpus", "tenant", "kind", "status") == [
        ("51", "0", "117", "8", "u1", "Other", "failed"),
        ("52", "336", "2693", "64", "u2", "Pretrain", "completed"),
    ]
    result = converted(tmp_path, SAMPLES["helios"])
    assert values(result, "job", "submit_s", "duration_s", "gpus", "tenant", "status") == [
        ("11", "0", "36848", "1", "vcA", "completed"), ("12", "26", "249", "4", "vcB", "cancelled"),
    ]  # fmt: skip
    assert result.pools == [("GPU", 4, 8)]
    assert result.found(None)[0] == ("", "total", "GPUs change from day to day: 16 to 25", "25 taken")


def test_a_duration_that_counts_the_queue_is_not_taken(tmp_path: Path) -> None:
    """Kalos of Acme: 18 s from submission to end, of which 8 s on the GPUs."""
    times = "2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,2023-05-17 11:01:16+00:00"
    result = converted(tmp_path, f"{ACME_HEADER}x,u,8,64,9,Other,FAILED,{times},18,10.0\n")
    assert values(result, "duration_s") == [("8",)]
    assert result.found(2)[0] == (
        "2",
        "duration",
        "duration that is not end - start: 18 s, not 8 s",
        "taken as end - start",
    )


def test_zones_of_dates_count(tmp_path: Path) -> None:
    later = ACME.replace("2023-03-01 00:23:58+08:00", "2023-02-28 16:23:58+00:00")
    assert values(converted(tmp_path, later), "submit_s") == [("0",), ("336",)]


# Machines


def test_machines_are_assumed_for_a_load_of_80_percent(tmp_path: Path) -> None:
    """1001 jobs of 2 GPUs for 80 s, one each 10 s: 16.016 GPUs are busy, of 20.02: three servers of 8."""
    lines = [f"j{k},{10 * k},80,2,,,,,," for k in range(1001)]
    result = converted(tmp_path, "\n".join([",".join(jobs_csv.COLUMNS), *lines]))
    assert result.pools == [("GPU", 3, 8)]
    done = "assumed 3 x 8 GPU: a load of 80 %, and room for the largest job"
    assert ("", "", "machines are not named", done) in result.found()


def test_machines_have_room_for_the_largest_job_of_each_type(tmp_path: Path) -> None:
    header = ",".join(jobs_csv.COLUMNS)
    text = f"{header}\na,0,1,17,,,,T4,,\nb,9000,100,4,,,,V100,,\nc,9000,1,40,,,,,,\n"
    assert converted(tmp_path, text).pools == [("T4", 3, 8), ("V100", 5, 8)]


@pytest.mark.parametrize(
    ("given", "pools"),
    [
        (Given(9, 4, "V100"), [("V100", 9, 4)]), (Given(9), [("GPU", 9, 8)]),
        (Given(gpu="P40"), [("P40", 1, 2), ("P40", 2, 8)]),
        (Given(None, 4), [("GPU-12GB", 1, 4), ("GPU-24GB", 4, 4)]),
    ],
)  # fmt: skip
def test_machines_are_what_the_command_says(given: Given, pools: list[tuple[str, int, int]], tmp_path: Path) -> None:
    assert sorted(converted(tmp_path, SAMPLES["philly"], given).pools) == pools


@pytest.mark.parametrize(
    ("given", "option"), [(Given(0), "--servers"), (Given(1, -1), "--gpus-per-server"), (Given(gpu=" "), "--gpu")]
)
def test_machines_that_are_none_are_refused(given: Given, option: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"^{option}: found"):
        converted(tmp_path, PHILLY_CSV, given)


# Files


def test_a_folder_with_several_traces_or_none_is_refused(tmp_path: Path) -> None:
    put(tmp_path, {"a.csv": PHILLY_CSV, "b.trace": GAVEL, "c.txt": "nothing\n"})
    with pytest.raises(ConfigError, match=r"2 files are traces: a.csv \(philly-csv\), b.trace \(gavel\)"):
        find(tmp_path, None)
    assert find(tmp_path, "gavel")[0].name == "b.trace"
    with pytest.raises(ConfigError, match="no file is a known trace"):
        find(put(tmp_path / "x", {"c.txt": "nothing\n"}).parent, None)


def test_a_folder_can_be_converted_again_into_itself(tmp_path: Path) -> None:
    put(tmp_path, {"a.csv": PHILLY_CSV})
    texts = []
    for _ in range(2):
        convert(tmp_path, tmp_path / "case.toml")
        texts.append((tmp_path / "jobs.csv").read_text())
    assert texts[0] == texts[1]


def test_the_input_is_not_written_over(tmp_path: Path) -> None:
    path = put(tmp_path, {"jobs.csv": JOBS})
    with pytest.raises(ConfigError, match="is the input, and would be written over"):
        convert(path, tmp_path / "case.toml")
    with pytest.raises(ConfigError, match="is the name of a file that comes beside the config"):
        convert(path, put(tmp_path / "y", {"x": ""}).with_name("jobs.csv"))
    assert path.read_text() == JOBS


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"), (b"a,b,c\n1,2,3\n", "is no known trace; it begins"),
        (b"\x1f\x8b\x08\x00", "is packed with gzip"),
        (b"\x00\xff\xfe" * 1000, "is no known trace"), (NODES.encode(), "is a list of nodes, not of jobs"),
        (b"timestamp,duration,num_gpus\n", "no usable row of 0"), (b"[]", "is no known trace"),
        (b"timestamp,duration,num_gpus\n2017-10-09 07:00:00,-4,1\n", r"no usable row of 1; .*: line 2 \(job 0\), dur"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_one_message_and_status_2(
    data: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x").write_bytes(data)
    out = tmp_path / "out"
    out.mkdir()
    assert main(["convert", "cluster", str(tmp_path / "x"), "-o", str(out / "case.toml")]) == 2
    error = capsys.readouterr().err
    assert pytest.raises(ConfigError, convert, tmp_path / "x", out / "c.toml").match(message)
    assert error.startswith("pdes-sim: ") and error.count("\n") == 1 and "Traceback" not in error
    assert list(out.iterdir()) == []


def test_a_file_that_is_not_there_and_a_format_that_does_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no file"):
        convert(tmp_path / "none", tmp_path / "case.toml")
    with pytest.raises(ConfigError, match="line 1: no column name in"):
        converted(tmp_path, PHILLY_CSV, form="alibaba-2023")
    with pytest.raises(ConfigError, match="cannot be written"):
        convert(put(tmp_path, {"a.csv": PHILLY_CSV}), tmp_path / "no" / "case.toml")


def test_the_command_prints_the_audit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = put(tmp_path, {"a.csv": PHILLY_CSV})
    options = ["--servers", "9", "--gpus-per-server", "4", "--gpu", "V100", "--format", "philly-csv"]
    assert main(["convert", "cluster", str(path), "-o", str(tmp_path / "case.toml"), *options]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "pdes-sim: a.csv, philly-csv: 3 rows, 3 jobs on 9 x 4 V100"
    assert lines[1].startswith("pdes-sim: asked: 6.58 of 0.6 GPU-hours in 0.00069 days, 1,097 %")
    assert (tmp_path / "case.toml").read_text() == (
        "# Made by `pdes-sim convert cluster` of a.csv, as philly-csv.\n\n[cluster]\njobs = \"jobs.csv\"\n"
        'scheduler = "fcfs"\n\n[[cluster.pool]]\ngpu = "V100"\nservers = 9\ngpus_per_server = 4\n'
    )  # fmt: skip


# Numbers


def test_numbers_are_exact() -> None:
    assert [millionths(word) for word in ("1", "0.5", "-2.25", "1.0000005", "1e3", "", "x", "nan", "1" * 30)] == [
        10**6, 500_000, -2_250_000, 1_000_001, 10**9, None, None, None, None,
    ]  # fmt: skip
    assert [decimal(value) for value in (0, 1, 10**6, -1_500_000)] == ["0", "0.000001", "1", "-1.5"]
    assert date_us("2017-10-09 07:00:00") == date_us("2017-10-09 00:00:00-07:00") == 1507532400 * 10**6
    assert date_us("2017-10-09 07:00:00 PDT") == date_us("2017-10-09 07:00:00")
    assert [date_us(word) for word in ("", "5", "2017-13-01", "2017-10-09 7", "0001-01-01 00:00:00")] == [None] * 5


def test_a_table_of_jobs_is_small() -> None:
    """Some hundred bytes a job: millions of them fit."""
    table = JobTable()
    columns = (table.submit_us, table.duration_us, table.gpus, table.priority, table.steps)
    words = (table.tenant, table.kind, table.gpu_type, table.status)
    assert sum(one.itemsize for one in columns) + sum(one.column.itemsize for one in words) <= 64


def test_the_example_of_the_documentation_says_and_writes_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "cluster-traces.md").read_text()
    example = page.partition("## An example")[2]
    log, said, jobs = re.findall(r"^```\w+\n(.*?)^```", example, re.DOTALL | re.MULTILINE)
    command = re.findall(r"^`pdes-sim (.*?)`", example, re.MULTILINE)[0].split()
    put(tmp_path, {"cluster_log.csv": log})
    monkeypatch.chdir(tmp_path)
    assert main(command) == 0
    assert capsys.readouterr().err == said and Path("jobs.csv").read_text() == jobs
    assert set(re.findall(r"^\| `([\w-]+)` \|", page.partition("## jobs.csv")[0], re.MULTILINE)) == set(FORMATS)
    assert tuple(re.findall(r"^\| `(\w+)` \|", page.partition("## jobs.csv")[2], re.MULTILINE)) == jobs_csv.COLUMNS
