"""A run at the cluster level as people start it: what it writes, what it says of a config that is wrong."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pdes.cli import main
from pdes.cluster.outcome import outcome
from pdes.cluster.run import run_cluster
from pdes.config.cluster.load import load_cluster
from reference.cluster_config import CONFIG, run

ROOT = Path(__file__).resolve().parents[2]
JOBS = "job,submit_s,duration_s,gpus\na,0,60,1\nb,10.5,120,2\n"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    return path


def test_a_run_leaves_tables_that_agree(config: Path, tmp_path: Path) -> None:
    result = run(config, tmp_path / "out")
    jobs = pq.read_table(tmp_path / "out" / "jobs.parquet").to_pydict()
    assert jobs["job_id"] == list(range(300)) and result["jobs_done"] == result["jobs"] == 300
    assert set(jobs["tenant"]) == {"research", "product"}
    waits = [start - submit for start, submit in zip(jobs["start_us"], jobs["submit_us"], strict=True)]
    assert min(waits) >= 0 and sum(waits) / 300e6 == pytest.approx(result["first_wait_s"]["mean"])
    usage = pq.read_table(tmp_path / "out" / "usage.parquet").to_pydict()
    assert sum(usage["held_gpus_us"]) == sum(jobs["gpu_us"])
    assert sum(usage["waiting_jobs_us"]) == sum(jobs["waited_us"])
    events = pq.read_table(tmp_path / "out" / "events.parquet").to_pydict()
    assert events["event"].count("start") == sum(jobs["starts"]) and events["event"].count("end") == 300
    assert events["event"].count("interrupt") == sum(jobs["failures"]) == result["interruptions"] > 0
    hours = result["gpu_hours"]
    parts = hours["productive"] + hours["lost"] + hours["overhead"]
    assert parts == pytest.approx(hours["held"]) and hours["productive"] == pytest.approx(
        sum(w * n for w, n in zip(jobs["work_us"], jobs["gpus"], strict=True)) / 3.6e9
    )


def test_the_same_config_leaves_the_same_bytes(config: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        run(config, tmp_path / name)
    for file in ("result.json", "jobs.parquet", "usage.parquet", "events.parquet", "places.parquet"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_jobs_of_a_file(config: Path, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(JOBS)
    config.write_text('[cluster]\njobs = "jobs.csv"\n[[cluster.pool]]\nservers = 1\ngpus_per_server = 2\n')
    run(config, tmp_path / "out")
    jobs = pq.read_table(tmp_path / "out" / "jobs.parquet").to_pydict()
    assert jobs["job"] == ["a", "b"]
    assert jobs["end_us"] == [60_000_000, 180_000_000]  # b needs what a has


def test_steps_take_as_long_as_the_table_says(config: Path, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("submit_s,gpus,kind,steps\n0,1,net,100\n0,1,net,100\n")
    (tmp_path / "speeds.csv").write_text("kind,gpus,gpu,steps_per_s\nnet,1,A,5\nnet,1,B,2\n")
    config.write_text(
        '[cluster]\njobs = "jobs.csv"\nspeeds = "speeds.csv"\n'
        '[[cluster.pool]]\ngpu = "A"\nservers = 1\ngpus_per_server = 1\n'
        '[[cluster.pool]]\ngpu = "B"\nservers = 1\ngpus_per_server = 1\n'
    )
    run(config, tmp_path / "out")
    assert pq.read_table(tmp_path / "out" / "jobs.parquet").to_pydict()["end_us"] == [20_000_000, 50_000_000]


def test_a_scheduler_of_ones_own(config: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from models.cluster.schedulers.scheduler import Scheduler\n"
        "class Largest(Scheduler):\n"
        "    options = {'limit': 64}\n"
        "    def key(self, job):\n        return (-min(job.n_gpu, self.limit),)\n"
        "    def decide(self):\n        self.start_what_fits()\n"
    )
    more = ("--set", 'cluster.scheduler="mine.py:Largest"')
    large = run(config, tmp_path / "large", *more)
    plain = run(config, tmp_path / "plain", *more, "--set", "cluster.options={limit=1}")
    assert large["completion_s"] != plain["completion_s"]


def test_the_summary_says_what_was(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(config), "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "300 of 300 jobs done" in said and "on 64 GPUs in 8 servers, backfill, packed" in said
    assert "interruptions of jobs" in said and "Completion mean" in said
    assert main([str(config), "--out", str(tmp_path / "out"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["jobs_done"] == 300


WRONG = {
    "scheduler=fcsf": ("--set cluster.scheduler: ", 'found "fcsf"', 'Did you mean "fcfs"'),
    "scheduler=nothing.py:A": ("--set cluster.scheduler: ", "there is no file", "file.py:Class"),
    "options={depht=3}": ("--set cluster.options.depht: ", "is no option of", 'Did you mean "depth"'),
    "options={depth='x'}": ("--set cluster.options.depth: ", 'found "x"', "as the default, 100"),
    "placement=pakced": ("--set cluster.placement: ", 'found "pakced"', 'Did you mean "packed"'),
    "jobs=jobs.csv": ("[cluster]", "both jobs and arrivals", "one of them"),
    "pool=[]": ("--set cluster.pool: ", "is empty", ""),
    "stop=3": ("--set cluster.stop: ", "found 3, which is not text", "36h"),
    "arrivals.duration=3 parsecs": ("--set cluster.arrivals.duration: ", 'found "3 parsecs"', "36h"),
    "arrivals.duration={distribution='weibull',mean='1h'}": ("duration", "shape is missing", "mean, shape"),
    "arrivals.gpus={x=1}": ("--set cluster.arrivals.gpus.x: ", "is no number of them", "whole numbers from 1"),
    "arrivals.gpus={65=1}": ("[cluster] pool", 'job "0" needs 65 GPUs', "each job fits"),
    "checkpoint.write=0s": ("[cluster.checkpoint] interval", 'found "daly", without write', "checkpoints take time"),
    "failure.0.gpu=A100": ("--set cluster.failure.0.gpu: ", 'found "A100"', '"H100"'),
    "failure.0.takes=job": ("[[cluster.failure]] 1", "and a repair", "no repair"),
    "sceduler=fcfs": ("--set cluster.sceduler: ", "unknown key", 'Did you mean "scheduler"'),
    "speeds=no.csv": ("no.csv", "there is no file", "kind, gpus, gpu"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_config_gets_one_message(
    what: str, config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main([str(config), "--out", str(out), "--set", f"cluster.{what}"]) == 2
    said = capsys.readouterr()
    assert said.out == "" and "Traceback" not in said.err
    for part in WRONG[what]:
        assert part in said.err, said.err
    assert not out.exists()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "no column submit_s"),
        ("submit_s,gpus\n0,1\n", "neither duration_s nor steps"),
        ("submit_s,gpus,duration_s\n", "has no jobs"),
        ("submit_s,gpus,duration_s\n0,1,x\n", 'line 2, duration_s: found "x"'),
        ("submit_s,gpus,duration_s\n0,1,5\n0,0,5\n", 'line 3, gpus: found "0"'),
        ("submit_s,gpus,duration_s\n9,1,5\n8,1,5\n", "line 3: submit_s is before"),
        ("submit_s,gpus,steps\n0,1,5\n", 'no speed of kind "" on 1 GPUs'),
        ("submit_s,gpus,duration_s\n0,1,1e300\n", 'duration_s: found "1e300"'),
        ("submit_s,gpus,duration_s\n0,9999999999999999999999999,1\n", "gpus: found"),
    ],
)
def test_a_wrong_file_of_jobs_gets_one_message(
    text: str, found: str, config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "jobs.csv").write_text(text)
    config.write_text('[cluster]\njobs = "jobs.csv"\n[[cluster.pool]]\nservers = 1\n')
    assert main([str(config), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr()
    assert said.out == "" and f"{tmp_path / 'jobs.csv'}" in said.err and found in said.err
    assert not (tmp_path / "out").exists()


def test_options_of_packets_are_refused(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(config), "--trace", "flow=1"]) == 2
    assert "--trace: the config has [cluster], which has no packets" in capsys.readouterr().err


def test_a_converted_trace_runs(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(
        "timestamp,duration,num_gpus,gpu_time,cluster\n"
        "2017-10-09 06:13:03,2951.0,1,2951.0,6214e9\n2017-10-09 07:01:55,66.0,8,528.0,11cb48\n"
    )
    assert main(["convert", "cluster", str(tmp_path / "trace.csv"), "-o", str(tmp_path / "config.toml")]) == 0
    result = run(tmp_path / "config.toml", tmp_path / "out")
    assert result["jobs_done"] == 2


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "cluster").glob("*.toml")), ids=lambda path: path.stem)
def test_an_example_runs(path: Path, tmp_path: Path) -> None:
    n_job = 40 if path.stem == "elastic" else 300  # an integer programme a minute takes its time
    result = run(path, tmp_path / "out", "--set", "cluster.stop=1d", "--set", f"cluster.first={n_job}")
    assert result["gpu_hours"]["held"] > 0


def test_a_plan_says_what_is_asked_for(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(config)]) == 0
    said = capsys.readouterr().out
    assert "8 servers x 8 H100" in said and "300 jobs in" in said and "load" in said
    # 64 GPUs, each failing every 20 days; a job of 24 of them
    assert "failures   3.2 a day; a job of 24 GPUs is interrupted every 20 h" in said
    assert "checkpoint every" in said and "which takes 60 s" in said


def test_a_report_has_what_the_summary_says(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run(config, tmp_path / "out")
    capsys.readouterr()
    assert main(["report", str(tmp_path / "out")]) == 0
    said, page = capsys.readouterr().out, (tmp_path / "out" / "report.html").read_text()
    assert "300 of 300 jobs done" in said
    for text in ("How full it was", "Who waited", "Where GPU time went", f"{result['gpu_hours']['lost']:,.0f}"):
        assert text in page
    assert main(["report", str(tmp_path / "out"), str(tmp_path / "out")]) == 2
    assert "one at a time" in capsys.readouterr().err


def test_who_needs_packets_says_so(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["timeline", str(config.parent)]) == 2
    assert main(["export", "goal", str(config), "-o", str(config.parent / "x")]) == 2
    assert "jobs on a cluster have no packets" in capsys.readouterr().err


def test_the_other_ranks_have_nothing_to_do(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under a launcher the first rank runs; a fault is said once."""
    monkeypatch.setenv("PMI_SIZE", "2")
    monkeypatch.setenv("PMI_RANK", "1")
    assert main([str(config), "--out", str(tmp_path / "out")]) == 0
    assert main([str(config), "--set", "cluster.scheduler=x"]) == 0
    assert capsys.readouterr() == ("", "") and not (tmp_path / "out").exists()


@pytest.mark.parametrize(("name", "text"), [("run.json", "{}"), ("jobs.parquet", "no table"), ("usage.parquet", "")])
def test_a_damaged_folder_gets_one_message(
    name: str, text: str, config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(config, tmp_path / "out")
    (tmp_path / "out" / name).write_text(text)
    capsys.readouterr()
    assert main(["report", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert "the results cannot be read" in said and len(said.splitlines()) == 1


def test_results_have_finish_time_fairness(tmp_path: Path) -> None:
    """Two jobs on one GPU, one after the other: see tests/models/cluster/test_fairness.py."""
    folder = tmp_path
    (folder / "jobs.csv").write_text("job,submit_s,gpus,duration_s\na,0,1,100\nb,0,1,100\n")
    (folder / "config.toml").write_text(
        '[cluster]\njobs = "jobs.csv"\n[[cluster.pool]]\nservers = 1\ngpus_per_server = 1\n'
        f'[output]\ndir = "{folder}/out"\n'
    )
    loaded = load_cluster(folder / "config.toml", [])
    result = run_cluster(loaded, is_quiet=True)
    found = result["finish_time_fairness"]
    assert found["mean"] == pytest.approx((1 / 2 + 4 / 3) / 2) and found["most"] == pytest.approx(4 / 3)
    assert found["above_1"] == 0.5 and outcome(loaded)["finish_time_fairness"] == found
    assert pq.read_table(folder / "out" / "jobs.parquet")["isolated_us"].to_pylist() == [200_000_000, 150_000_000]
