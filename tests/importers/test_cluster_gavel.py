"""What belongs to Gavel's traces: throughputs become speeds.csv, a list of GPUs pools, and the config runs."""

import csv
import json
from pathlib import Path

import pytest

from models.cluster.job import Request
from models.cluster.machine import Pool as MachinePool
from pdes.cli import main
from pdes.cluster.speeds import read_speeds
from pdes.convert.cluster.machines import Given
from pdes.convert.cluster.trace import convert
from pdes.errors import ConfigError

from .cluster_samples import Converted, put

THROUGHPUTS = {
    "k80": {"('A3C', 1)": {"null": 1.0, "('A3C', 1)": [0.5, 0.5]}, "('LM (batch size 5)', 4)": {"null": 0.0}},
    "v100": {"('A3C', 1)": {"null": 4.0}, "('LM (batch size 5)', 4)": {"null": 8.0}},
    "v100_unconsolidated": {"('A3C', 1)": {"null": 4.0}, "('LM (batch size 5)', 4)": {"null": 2.0}},
}
JOBS = (("A3C", 400, 1, 0), ("LM (batch size 5)", 800, 4, 10), ("A3C", 4, 1, 20), ("CycleGAN", 5, 1, 30))
TRACE = "".join(
    f"{kind}\tpython3 main.py\tfolder\t-n\t1\t{steps}\t{gpus}\t1\t-1.0\t{at}\n" for kind, steps, gpus, at in JOBS
)
SPECS = '{\n    "philly": ["4:0:8"]\n}\n'
POOLS = Given(pools=("v100=4", "k80=8"))


def gavel(tmp_path: Path, given: Given | None = None, **files: str) -> Converted:
    """files: text by the part of its name; the trace and its throughputs are always there."""
    named = {f"{name}.json": text for name, text in files.items()}
    source = put(tmp_path / "in", {"t.trace": TRACE, "rates.json": json.dumps(THROUGHPUTS)} | named)
    out = tmp_path / "out"
    out.mkdir(exist_ok=True)
    return Converted(out, convert(source, out / "case.toml", None, given))


def speeds(folder: Path) -> list[list[str]]:
    with (folder / "speeds.csv").open(newline="") as file:
        return list(csv.reader(file))


def test_throughputs_and_gpus_beside_a_trace_become_speeds_and_pools(tmp_path: Path) -> None:
    """Pairs are no speeds; 0.0 is none; a job goes where it can, or is named; servers have a GPU, as Gavel's have."""
    result = gavel(tmp_path, specs=SPECS)
    assert result.pools == [("k80", 8, 1), ("v100", 4, 1)] and result.cluster["speeds"] == "speeds.csv"
    assert speeds(result.folder) == [
        ["kind", "gpus", "gpu", "steps_per_s", "spread_steps_per_s"], ["A3C", "1", "k80", "1.0", ""],
        ["A3C", "1", "v100", "4.0", ""], ["LM (batch size 5)", "4", "v100", "8.0", "2.0"],
    ]  # fmt: skip
    assert [(job["job"], job["gpu_type"], job["steps"]) for job in result.jobs] == [
        ("0", "", "400"), ("1", "v100", "800"), ("2", "", "4"),
    ]  # fmt: skip
    assert result.found(2) == [
        ("2", "", 'no speed on some types of GPU: "LM (batch size 5)" on 4 GPUs', "taken as v100")
    ]
    assert result.found(4) == [("4", "", 'no speed on the cluster\'s GPUs: "CycleGAN" on 1 GPUs', "left out")]
    assert "2 x 8" not in result.summary[0] and "as specs.json says" in result.summary[0]
    assert result.summary[1].startswith("asked: 0.139 of 0.0667 GPU-hours")


@pytest.mark.parametrize("scheduler", ["fcfs", "backfill", "fifo-rounds", "fifo-perf", "max-min", "max-min-perf"])
def test_the_config_runs_to_its_end(scheduler: str, tmp_path: Path) -> None:
    """On a V100 the first job takes 400 steps at 4 a second; then all four are free for the other, for 100 s."""
    result = gavel(tmp_path, POOLS)
    config, out = str(result.folder / "case.toml"), tmp_path / "results"
    words = ["cluster.scheduler=" + scheduler, f'output.dir="{out}"']
    assert main([config, *(word for one in words for word in ("--set", one))]) == 0
    found = json.loads((out / "result.json").read_text())
    assert found["jobs"] == 3
    if scheduler == "fifo-perf":
        assert found["completion_s"]["most"] == pytest.approx(190.0)


def test_a_job_on_more_servers_than_it_needs_has_the_speed_of_that(tmp_path: Path) -> None:
    """2 steps a second in place of 8. Servers of one GPU are as few as there can be, whatever their number."""
    path = gavel(tmp_path, POOLS).folder / "speeds.csv"
    job = Request(0, "0", 0, 4, 1, kind="LM (batch size 5)")
    of_four = read_speeds(path, [MachinePool("v100", 4, 4, 4, 1.0)])
    assert of_four.step(job.kind, 4) == pytest.approx(1 / 8)
    assert of_four(job, 0, [(0, 4)]) == 1.0
    assert of_four(job, 0, [(0, 3), (1, 1)]) == pytest.approx(0.25)
    of_one = read_speeds(path, [MachinePool("v100", 4, 1, 4, 1.0)])
    assert of_one(job, 0, [(k, 1) for k in range(4)]) == 1.0


def test_options_of_the_command_say_tables_and_pools(tmp_path: Path) -> None:
    trace = put(tmp_path / "a", {"t.trace": TRACE})
    table = put(tmp_path / "b", {"any.json": json.dumps(THROUGHPUTS)})
    words = ["--pool", "v100=2x4", "--pool", "k80=8", "--gpus-per-server", "2", "--profiles", str(table)]
    assert main(["convert", "cluster", str(trace), "-o", str(tmp_path / "case.toml"), *words]) == 0
    assert Converted(tmp_path, []).pools == [("v100", 2, 4), ("k80", 8, 2)]


@pytest.mark.parametrize(
    ("given", "files", "text"),
    [
        (None, {}, r"t\.trace: nothing says how many GPUs of which type.*--pool TYPE=SERVERS for k80, v100, as"),
        (Given(pools=("a100=3",)), {}, 'types of GPU: found 3 servers|"a100", which rates.json has no speeds of.*k80'),
        (Given(3), {}, '3 servers with "GPU", which rates.json has no speeds of. Accepted: k80, v100'),
        (Given(pools=("v100:3",)), {}, '--pool: found "v100:3". TYPE=SERVERS, or'),
        (Given(pools=("v100=0",)), {}, '--pool: found "v100=0"'),
        (Given(3, pools=("v100=3",)), {}, "--servers: beside --pool"),
        (Given(gpu="v100", pools=("v100=3",)), {}, "--gpu: beside --pool"),
        (None, {"specs": '{"a": ["1:0:0", "2:0:0"]}'}, r"specs\.json: found 2 clusters.*--pool v100=36"),
        (None, {"specs": '{"a": ["0:0:0"]}'}, r'specs\.json: found "0:0:0"'),
        (POOLS, {"rates": '{"k80": {"(\'A3C\', 1)": {"null": 1.0}}, }'}, "json, line 1, column 40: is not JSON"),
        (POOLS, {"rates": '{"k80": {"(\'A3C\', 1)": {"null": -1}}}'}, r'"k80", "\(\'A3C\', 1\)", "null": found "-1"'),
        (POOLS, {"rates": '{"k80": {"(\'A3C\', 1)": {"null": 1}, "x": 1}}'}, '"k80", "x": is no kind of job'),
        (POOLS, {"rates": '{"k80": {"(\'A3C\', 1)": {"null": 0}}}'}, "has no speed above 0"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_message_and_no_file(
    given: Given | None, files: dict[str, str], text: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        gavel(tmp_path, given, **files)
    assert caught.value.exit_status == 2 and not list((tmp_path / "out").iterdir())


def test_speeds_are_of_traces_with_steps_only(tmp_path: Path) -> None:
    trace = put(tmp_path / "a", {"p.csv": "timestamp,duration,num_gpus\n2017-10-09 07:00:00,66.0,1\n"})
    with pytest.raises(ConfigError, match="--profiles: for a trace of philly-csv. Accepted: --profiles for gavel and"):
        convert(trace, tmp_path / "case.toml", profiles=trace)


def test_a_table_of_throughputs_by_itself_is_no_trace(tmp_path: Path) -> None:
    table = put(tmp_path, {"any.json": json.dumps(THROUGHPUTS)})
    with pytest.raises(ConfigError, match="is a table of speeds, not of jobs"):
        convert(table, tmp_path / "case.toml")


@pytest.mark.parametrize("word", ["fast", "0", "-1"])
def test_a_speed_on_several_servers_that_is_none(word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = gavel(tmp_path, POOLS)
    text = (result.folder / "speeds.csv").read_text().replace(",8.0,2.0", f",8.0,{word}")
    (result.folder / "speeds.csv").write_text(text)
    assert main([str(result.folder / "case.toml")]) == 2
    assert f'speeds.csv, line 4, spread_steps_per_s: found "{word}"' in capsys.readouterr().err


def test_a_job_of_centuries_is_left_out_and_the_summary_names_the_table(tmp_path: Path) -> None:
    slow = json.dumps({"k80": {"('A3C', 1)": {"null": 1e-9}}, "v100": {"('LM (batch size 5)', 4)": {"null": 8.0}}})
    result = gavel(tmp_path, POOLS, rates=slow)
    assert [job["job"] for job in result.jobs] == ["1", "2"]
    found = 'more than three hundred years: 400 steps of "A3C" on 1 GPUs'
    assert result.found(1) == [("1", "", found, "left out")]
    assert f"speeds: 2 of rates.json, in {result.folder / 'speeds.csv'}" in result.summary
