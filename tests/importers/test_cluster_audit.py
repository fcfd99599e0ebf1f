"""The audit names what is wrong with a trace by line and column, says what was done, and never ends an import."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdes.convert.cluster.lines import MAX_LINE_BYTES
from pdes.convert.cluster.machines import Given
from pdes.convert.cluster.trace import convert

from .cluster_samples import (
    ACME_HEADER,
    GAVEL,
    NODES,
    PHILLY_CSV,
    PHILLY_JOBS,
    PODS,
    SAMPLES,
    Converted,
    attempt,
    converted,
    philly_job,
    put,
    rows,
)

HEADER, GOOD = PHILLY_CSV.splitlines()[0], "2017-10-09 08:00:00,60,1,60,vc1"
JOBS_HEADER = "job,submit_s,duration_s,gpus,tenant,priority,kind,gpu_type,steps,status"
ROOM = Given(10**4)


@pytest.mark.parametrize(
    ("row", "finding"),
    [
        (",60,1,60,vc1", ("timestamp", "no submit time", "left out")),
        ("None,60,1,60,vc1", ("timestamp", "no submit time", "left out")),
        ("yesterday,60,1,60,vc1", ("timestamp", 'submit time that is none: "yesterday"', "left out")),
        ("2017-10-09 08:00:00,,1,60,vc1", ("duration", "no duration", "left out")),
        ("2017-10-09 08:00:00,long,1,60,vc1", ("duration", 'duration that is none: "long"', "left out")),
        ("2017-10-09 08:00:00,-4,1,60,vc1", ("duration", "duration below zero: -4 s", "left out")),
        ("2017-10-09 08:00:00,0.0,1,60,vc1", ("duration", "duration of zero: 0 s", "taken as 1 s")),
        ("2017-10-09 08:00:00,60,,60,vc1", ("num_gpus", "no number of GPUs", "left out")),
        ("2017-10-09 08:00:00,60,two,60,vc1", ("num_gpus", 'GPU count that is none: "two"', "left out")),
        ("2017-10-09 08:00:00,60,0,60,vc1", ("num_gpus", "zero GPUs: 0", "left out")),
        ("2017-10-09 08:00:00,60,-8,60,vc1", ("num_gpus", "GPUs below zero: -8", "left out")),
        ("2017-10-09 08:00:00,60,1.5,60,vc1", ("num_gpus", "fraction of a GPU: 1.5", "rounded up to whole GPUs")),
        ("2017-10-09 08:00:00,60,9999999,60,vc1", ("num_gpus", "more than a million GPUs: 9999999", "left out")),
        ("2017-10-09 08:00:00,60,1", ("", "another number of columns: 3 instead of 5", "left out")),
        ('2017-10-09 08:00:00,60,"1,60,vc1', ("", "quotes that are wrong: unexpected end of data", "left out")),
        (
            "2017-10-09 07:59:00,60,1,60,vc1",
            ("timestamp", "before the job of the line before: by 60 s", "sorted by time"),
        ),
    ],
)  # fmt: skip
def test_a_finding_has_its_line_and_column_and_what_was_done(
    row: str, finding: tuple[str, str, str], tmp_path: Path
) -> None:
    result = converted(tmp_path, f"{HEADER}\n{GOOD}\n\n{row}\n{GOOD}\n", ROOM)
    wrong = [one for one in result.found() if one[0] and int(one[0]) < 5]
    assert wrong == [("4", *finding)]
    assert len(result.jobs) == 2 + (finding[2] != "left out")
    assert all(one["file"] == "trace" for one in result.audit)


def test_jobs_of_one_time_stay_in_their_order_and_others_are_sorted(tmp_path: Path) -> None:
    lines = ["d,9,1,1,,,,,,", "a,5,1,1,,,,,,", "c,9,1,1,,,,,,", "b,5,1,1,,,,,,"]
    result = converted(tmp_path, "\n".join([JOBS_HEADER, *lines]), ROOM)
    assert [(job["job"], job["submit_s"]) for job in result.jobs] == [("a", "0"), ("b", "0"), ("d", "4"), ("c", "4")]
    assert [one[:2] for one in result.found() if one[3] == "sorted by time"] == [("3", "submit_s"), ("5", "submit_s")]


def test_ids_that_are_missing_or_there_twice(tmp_path: Path) -> None:
    lines = ["a,1,1,1,,,,,,", ",2,1,1,,,,,,", "a,3,1,1,,,,,,"]
    result = converted(tmp_path, "\n".join([JOBS_HEADER, *lines]), ROOM)
    assert [job["job"] for job in result.jobs] == ["a", "line-3"]
    assert result.found(3) == [("3", "", "no id", "named line- and its number")]
    assert result.found(4) == [("4", "", "duplicate id: line 2 has it", "left out")]


@pytest.mark.parametrize(
    ("times", "finding", "duration"),
    [
        ("00:10:00,00:20:00,00:19:00,60", ("end_time", "end before start: 60 s before start_time", "left out"), None),
        ("00:10:00,00:09:00,00:20:00,660", ("start_time", "start before submission: 60 s before it", "kept"), "660"),
        (
            "00:10:00,00:20:00,00:21:00,9",
            ("duration", "duration that is not end - start: 9 s, not 60 s", "taken as end - start"),
            "60",
        ),
        ("00:10:00,00:20:00,00:21:00,", ("duration", "no duration", "taken as end - start"), "60"),
        ("00:10:00,00:20:00,late,60", ("end_time", 'time that is none: "2023-03-01 late"', "taken as missing"), "60"),
        ("00:10:00,00:20:00,00:20:00,0", ("end_time", "duration of zero: 0 s", "taken as 1 s"), "1"),
    ],
)
def test_times_that_do_not_fit(times: str, finding: tuple[str, str, str], duration: str | None, tmp_path: Path) -> None:
    *clock, seconds = times.split(",")
    dates = ",".join(f"2023-03-01 {time}" for time in clock)
    good = "y,u,1,1,1,Other,COMPLETED,2023-03-01 00:30:00,2023-03-01 00:30:00,2023-03-01 00:31:00,60,0"
    result = converted(tmp_path, f"{ACME_HEADER}x,u,1,1,1,Other,COMPLETED,{dates},{seconds},0\n{good}\n", ROOM)
    assert result.found(2) == [("2", *finding)]
    assert [job["duration_s"] for job in result.jobs if job["job"] == "x"] == ([duration] if duration else [])


def test_jobs_that_do_not_fit_the_machines(tmp_path: Path) -> None:
    pods = [
        "a,1,1,8,1000,T4,LS,Running,0,10,0", "b,1,1,4,1000,T4,LS,Running,1,10,1", "c,1,1,1,1000,H100,LS,Running,2,10,2",
        "d,1,1,16,1000,V100M32,LS,Running,3,10,3", "e,1,1,17,1000,V100M32,LS,Running,4,10,4",
    ]  # fmt: skip
    files = {"pods.csv": "\n".join([PODS.splitlines()[0], *pods]), "nodes.csv": NODES}
    result = converted(tmp_path, files)
    assert [one for one in result.found() if one[0]] == [
        ("2", "gpus", "more GPUs than the cluster has for it: 8, not 2", "left out"),
        ("3", "gpus", "more GPUs than the cluster has for it: 4, not 2", "left out"),
        ("4", "gpu_type", 'unknown type of GPU: "H100"', "taken as any"),
        ("5", "gpus", "more GPUs than a server has: 16 on one, which has 8", "kept: it takes several servers"),
        ("6", "gpus", "more GPUs than the cluster has for it: 17, not 16", "left out"),
    ]
    assert [(job["job"], job["submit_s"], job["gpu_type"]) for job in result.jobs] == [
        ("c", "0", ""), ("d", "1", "V100M32"),
    ]  # fmt: skip


def test_a_machine_without_a_number_is_named(tmp_path: Path) -> None:
    result = converted(tmp_path, {"pods.csv": PODS, "nodes.csv": NODES.replace("262144,2,T4", "262144,two,T4")})
    row = result.audit[0]
    assert (row["file"], row["line"], row["job"], row["found"]) == (
        "nodes.csv", "2", "n0", 'machine without a number of GPUs: "two"',
    )  # fmt: skip


def test_demand_above_capacity_is_told_overall_and_for_the_worst_day(tmp_path: Path) -> None:
    """24 GPU-hours are asked on the first day, 72 on the second."""
    lines = ["2017-10-09 00:00:00,86400,1,0,a", "2017-10-10 00:00:00,86400,3,0,a", "2017-10-11 00:00:00,1,1,0,a"]
    text = "\n".join([HEADER, *lines])
    result = converted(tmp_path, text, Given(3, 1))
    asked = "96 of 144 GPU-hours in 2.0 days, 67 %", "72 of 72 GPU-hours by the jobs of 2017-10-10, 100 %"
    assert result.summary[1] == f"asked: {asked[0]}; at most {asked[1]}" and result.found() == []
    overall = "demand above capacity: 72 of 48 GPU-hours in 2.0 days, 150 %"
    worst = "demand above capacity on a day: 48 of 24 GPU-hours by the jobs of 2017-10-10, 200 %"
    assert converted(tmp_path, text.replace("86400,3", "172800,1"), Given(1, 1)).found() == [
        ("", "duration", overall, "kept"), ("", "duration", worst, "kept"),
    ]  # fmt: skip


def test_what_is_wrong_with_jobs_of_philly(tmp_path: Path) -> None:
    day = "2017-10-07"
    jobs = [
        *PHILLY_JOBS,
        philly_job("none", f"{day} 03:00:00"),
        philly_job("open", f"{day} 03:00:00", attempt(f"{day} 03:00:00", None, 1)),
        philly_job("later", f"{day} 03:00:00", attempt("None", None, 2), attempt(f"{day} 03:00", f"{day} 03:00:09", 4)),
        philly_job("back", f"{day} 03:00:00", attempt(f"{day} 03:00:09", f"{day} 03:00:00", 1)),
        philly_job("empty", f"{day} 03:00:00", attempt(f"{day} 03:00:00", f"{day} 03:00:09")),
        philly_job(None, None, 7, attempt(5, [], 1)),
        philly_job("application_1_1", f"{day} 04:00:00", attempt(f"{day} 04:00:00", f"{day} 04:00:09", 1)),
    ]
    text = json.dumps(jobs[:-1])[:-1] + ",\n" + json.dumps(jobs[-1]) + "]"
    result = converted(tmp_path, text.replace('}, {"status"', '},\n{"status"'), ROOM)
    assert [(job["job"], job["duration_s"], job["gpus"]) for job in result.jobs] == [
        ("application_1_1", "193256", "8"), ("application_1_2", "60", "4"), ("later", "9", "4"),
    ]  # fmt: skip
    assert result.found() == [
        ("3", "attempts", "no attempt", "left out"),
        ("4", "attempts.end_time", 'attempt without a time: attempt 1: ""', "attempt passed over"),
        ("4", "attempts", "no duration", "left out"),
        ("5", "attempts.start_time", 'attempt without a time: attempt 1: "None"', "attempt passed over"),
        ("5", "attempts.detail", "attempts on other numbers of GPUs: 2, 4", "taken as the largest"),
        ("6", "attempts.end_time", "end before start: 9 s before attempts.start_time", "left out"),
        ("6", "attempts", "no duration", "left out"),
        ("7", "attempts.detail", "zero GPUs", "left out"),
        ("8", "submitted_time", "no submit time", "left out"),
        ("8", "attempts.start_time", 'attempt without a time: attempt 1: "5"', "attempt passed over"),
        ("8", "attempts", "no duration", "left out"),
        ("9", "", "duplicate id: line 1 has it", "left out"),
    ]


def test_a_damaged_job_of_philly_takes_no_other_with_it(tmp_path: Path) -> None:
    times = "2017-10-07 02:00:10", "2017-10-07 02:01:10"
    lines = [json.dumps(philly_job(f"j{k}", "2017-10-07 01:11:39", attempt(*times, 8))) for k in range(5)]
    lines[1] = lines[1].replace('"attempts": [', '"attempts": [[[{"', 1)
    lines[3] = lines[3][:-30]
    result = converted(tmp_path, "[" + ",\n".join(lines) + "]", ROOM)
    assert [job["job"] for job in result.jobs] == ["j0", "j2", "j4"]
    assert [(row["line"], row["done"]) for row in result.audit if row["found"].startswith("not JSON")] == [
        ("2", "left out"), ("4", "left out"),
    ]  # fmt: skip


@settings(max_examples=60)
@given(row=st.integers(0, 4), n_char=st.integers(1, 400))
def test_a_job_of_philly_that_is_cut_off_is_named(
    row: int, n_char: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    times = "2017-10-07 02:00:10", "2017-10-07 02:01:10"
    lines = [json.dumps(philly_job(f"j{k}", "2017-10-07 01:11:39", attempt(*times, 8))) for k in range(5)]
    lines[row] = lines[row][: min(n_char, len(lines[row]) - 1)]
    text = "[" + ",\n".join(lines) + "]"
    result = converted(tmp_path_factory.mktemp("cut"), text, ROOM, form="philly")
    assert [job["job"] for job in result.jobs] == [f"j{k}" for k in range(5) if k != row]
    assert [one[0] for one in result.found()] == [str(row + 1)]


def test_what_is_wrong_with_the_tables_of_pai(tmp_path: Path) -> None:
    files = dict(SAMPLES["alibaba-2020-tables"])
    bad = "j4,worker,one,Terminated,soon,190.0,1,1,half,T4\nj5,worker,one,Terminated,soon,190.0,1,1,50.0,T4\n"
    files["task.csv"] += bad + "j6,worker,1.0,Terminated,150.0,140.0,1,1,50.0,T4\nj7,w,1.0,Failed,1,2,1,1,100,T4\n"
    files["job.csv"] += "j5,i5,u1,Terminated,100,1\nj6,i6,u1,Terminated,,1\nj6,i6,u1,Terminated,100,1\n"
    result = converted(tmp_path, files, ROOM)
    assert [job["job"] for job in result.jobs] == ["j1", "j2"]
    found = [tuple(row.values()) for row in result.audit if row["line"] and row["column"] != "gpu_type"]
    assert [(*row[:3], *row[4:]) for row in found] == [
        ("task.csv", "5", "j4", 'GPU count that is none: "half"', "left out"),
        ("task.csv", "6", "j5", 'instances that are none: "one"', "taken as 1"),
        ("task.csv", "6", "j5", 'time that is none: "soon"', "taken as missing"),
        ("job.csv", "4", "j5", "fraction of a GPU: 50", "rounded up to whole GPUs"),
        ("job.csv", "4", "j5", "no duration", "left out"),
        ("job.csv", "5", "j6", "no submit time", "left out"),
        ("job.csv", "6", "j6", "fraction of a GPU: 50", "rounded up to whole GPUs"),
        ("job.csv", "6", "j6", "end before start: 10 s before start_time", "left out"),
        ("task.csv", "8", "j7", "job that the table of jobs lacks", "left out"),
        ("job.csv", "3", "", "no GPU: 1 from line 3 on", "left out"),
    ]


def test_what_is_wrong_with_jobs_of_gavel(tmp_path: Path) -> None:
    good = GAVEL.splitlines()[0]
    steps = [good.replace("\t5000\t", f"\t{word}\t") for word in ("", "-5", "many", "1.5")]
    text = "\n".join([good, *steps, good.replace("\t1\t-1.0", "\theavy\t-1.0"), "one\tfield", good])
    result = converted(tmp_path, text)
    assert [job["job"] for job in result.jobs] == ["0", "5", "7"]
    assert [one[1:] for one in result.found() if one[0]] == [
        ("total_steps", "no steps", "left out"), ("total_steps", 'steps that are none: "-5"', "left out"),
        ("total_steps", 'steps that are none: "many"', "left out"),
        ("total_steps", 'steps that are none: "1.5"', "left out"),
        ("priority_weight", 'priority that is none: "heavy"', "taken as 0"),
        ("", "another number of columns: 2 instead of 6, 7, 10, 11", "left out"),
    ]  # fmt: skip


def test_lines_that_are_endless_or_no_text_are_passed_over(tmp_path: Path) -> None:
    source = put(tmp_path, {"a.csv": f"{HEADER}\n{GOOD}\n"})
    with source.open("ab") as file:
        file.write(b"x" * (3 * MAX_LINE_BYTES) + b"\n\xff\xfe,1\n" + GOOD.encode() + b"\n" + b"y" * MAX_LINE_BYTES)
    convert(source, tmp_path / "case.toml", None, ROOM)
    result = Converted(tmp_path, [])
    assert len(result.jobs) == 2
    assert [one for one in result.found() if one[0]] == [
        ("3", "", "line of more than a megabyte", "left out"), ("4", "", "not UTF-8 text: byte 0", "left out"),
        ("6", "", "line of more than a megabyte", "left out"),
    ]  # fmt: skip


def test_a_summary_has_at_most_twenty_lines_with_the_first_examples(tmp_path: Path) -> None:
    bad = [f"2017-10-09 08:00:0{k % 9},{'-' * (k % 2)}{k},{k % 4},x,v" + ",z" * (k % 5 == 3) for k in range(1, 200)]
    odd = [",1,1,1,1", "x,1,1,1,1", f"{GOOD},", f'{GOOD}"', GOOD.replace("60,1", ",1"), GOOD.replace("60,1", "a,1")]
    odd += [GOOD.replace("60,1", f"60,{word}") for word in ("", "a", "-1", "0.5", "99999999")]
    result = converted(tmp_path, "\n".join([HEADER, *bad, *odd]), ROOM)
    assert 12 < len(result.summary) <= 20
    line = next(line for line in result.summary if " x duration below zero" in line)
    assert re.fullmatch(r"\d+ x duration below zero; left out: line 2 \(job 0\), duration -1 s; line .* more", line)
    assert "other kinds" in result.summary[-1]
    n = sum(int(line.partition(" x ")[0].replace(",", "")) for line in result.summary if " x " in line[:9])
    assert n <= len(result.audit)


# Random damage

TEXT = {name: files for name, files in SAMPLES.items() if name not in ("philly", "alibaba-2020-tables")}
NEEDED = {  # columns whose loss is a finding, by position
    "philly-csv": (0, 1, 2), "sia": (1, 3, 5), "gavel": (5, 6, 9), "alibaba-2020": (2, 4, 6),
    "alibaba-2023": (3, 8, 9, 10), "acme": (3, 7), "helios": (3, 7), "jobs": (1, 3),
}  # fmt: skip
BROKEN = st.sampled_from(
    [
        "",
        "x",
        "nan",
        "1e",
        "--1",
        "\u00e9\u20ac",
        "\u0000",
        "0x10",
        "1 2",
        "\u2028",
        "'",
        "inf",
        "1_",
        "1" * 300,
        "\u0663",
    ]
)


@settings(max_examples=100)
@given(data=st.data())
def test_every_damaged_row_is_in_the_audit(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    name = data.draw(st.sampled_from(sorted(TEXT)))
    files = dict(TEXT[name])
    main = next(iter(files))
    mark = "\t" if name == "gavel" else ","
    lines = files[main].splitlines()
    n_header = int(name != "gavel")
    row = data.draw(st.integers(n_header, n_header + 1))
    words = lines[row].split(mark)
    if name == "jobs":  # its kind has a comma
        words = lines[row].replace('"bert, large"', "bert").split(mark)
    at = data.draw(st.sampled_from(NEEDED[name]))
    words[at] = data.draw(BROKEN)
    damaged = mark.join(words)
    damaged = data.draw(st.sampled_from([damaged, damaged, f"{damaged}{mark}", damaged[: len(damaged) // 3]]))
    files[main] = "\n".join([*lines[:row], damaged, *lines[row + 1 :]]) + "\n"
    result = converted(tmp_path_factory.mktemp("damage"), files)
    in_file = {one["line"] for one in result.audit if one["file"] == main}
    assert not damaged.strip() or str(row + 1) in in_file


@settings(max_examples=100)
@given(data=st.data())
def test_no_damage_ends_in_anything_but_one_message(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from pdes.errors import ConfigError

    name = data.draw(st.sampled_from(sorted(SAMPLES)))
    files = SAMPLES[name]
    source = put(tmp_path_factory.mktemp("any"), files)
    target = source.with_name(data.draw(st.sampled_from(list(files))))
    raw = bytearray(target.read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(raw)))
        raw[at : at + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=6))
    target.write_bytes(raw)
    out = source.parent / "case.toml"
    try:
        summary = convert(source, out)
    except ConfigError as error:
        assert "\n" not in str(error)
        assert not out.exists() and not (source.parent / "audit.csv").exists()
        return
    jobs = rows(source.parent / "jobs.csv")
    assert len(summary) <= 20 and jobs and all(int(job["gpus"]) > 0 for job in jobs)
    assert [float(job["submit_s"]) for job in jobs] == sorted(float(job["submit_s"]) for job in jobs)
