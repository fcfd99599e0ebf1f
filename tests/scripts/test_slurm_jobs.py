"""The job files are sound shell, and the one that goes back into the queue resumes; with stand-ins for Slurm."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
JOBS = sorted((ROOT / "scripts" / "slurm").glob("*.sh"))
CONFIG = """\
[simulation]
iterations = 1500
[topology]
kind = "leaf-spine"
leaves = 2
spines = 1
hosts_per_leaf = 2
[workload]
kind = "collectives"
[[workload.collective]]
name = "ring"
operation = "all-reduce"
size = "200kB"
"""
# As srun does: options, then a command. The first time it sends SIGTERM after a checkpoint, as Slurm does when the time
# is nearly up.
SRUN = """\
#!/bin/sh
while [ "${1#--}" != "$1" ]; do shift; done
shift
echo "$@" >> "$STATE/steps"
"$PYTHON" -m pdes "$@" --quiet &
if [ "$(wc -l < "$STATE/steps")" -eq 1 ]; then
    until ls -d "$RESULTS"/checkpoint/checkpoint-* > /dev/null 2>&1; do
        kill -0 $! || break
        sleep 0.01
    done
    kill -TERM $!
fi
wait $!
"""
SCONTROL = '#!/bin/sh\necho "$@" >> "$STATE/scontrol"\n'
SHORTER = "s/checkpoint.every=10min/checkpoint.every=50ms/"  # runs here are short


@pytest.fixture
def cluster(tmp_path: Path) -> dict[str, str]:
    """An environment with an srun and a scontrol in it; what they were told is in its STATE."""
    commands, state = tmp_path / "bin", tmp_path / "state"
    commands.mkdir()
    state.mkdir()
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PMI", "SLURM", "OMPI"))}
    return inherited | {
        "PATH": f"{commands}:{os.environ['PATH']}", "STATE": str(state), "RESULTS": str(tmp_path / "out"),
        "PYTHON": sys.executable, "PYTHONPATH": str(ROOT), "SLURM_JOB_ID": "4711",
    }  # fmt: skip


def submit(job: str, cluster: dict[str, str], *arguments: object) -> subprocess.CompletedProcess[str]:
    text = subprocess.run(["sed", SHORTER, str(ROOT / "scripts" / "slurm" / job)], capture_output=True, text=True)
    command = ["sh", "-c", text.stdout, job, *map(str, arguments)]
    return subprocess.run(command, env=cluster, capture_output=True, text=True, timeout=240, cwd=cluster["STATE"])


def test_there_are_job_files() -> None:
    assert {path.name for path in JOBS} == {"one-node.sh", "many-nodes.sh", "sweep.sh", "requeue.sh"}


@pytest.mark.parametrize("job", JOBS, ids=lambda path: path.name)
def test_a_job_file_is_sound_shell(job: Path) -> None:
    for shell in ("sh", "bash"):
        done = subprocess.run([shell, "-n", str(job)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert job.read_text().startswith("#!/bin/sh\n") and "#SBATCH --time=" in job.read_text()
    checker = shutil.which("shellcheck")
    if checker is not None:
        done = subprocess.run([checker, str(job)], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("job", JOBS, ids=lambda path: path.name)
def test_a_job_without_arguments_says_how_it_is_used(job: Path, cluster: dict[str, str]) -> None:
    done = submit(job.name, cluster)
    assert done.returncode != 0 and "usage: sbatch" in done.stderr
    assert not (Path(cluster["STATE"]) / "steps").exists()


def test_a_job_whose_time_is_up_goes_back_into_the_queue_and_resumes(tmp_path: Path, cluster: dict[str, str]) -> None:
    config, out, state = tmp_path / "config.toml", tmp_path / "out", Path(cluster["STATE"])
    config.write_text(CONFIG)
    first = submit("requeue.sh", cluster, config, out)
    assert first.returncode == 75, first.stderr
    assert (state / "scontrol").read_text() == "requeue 4711\n" and not (out / "result.json").exists()
    second = submit("requeue.sh", cluster, config, out)
    assert second.returncode == 0, second.stderr
    steps = (state / "steps").read_text().splitlines()
    assert steps[0].startswith(f"{config} --out") and steps[1].startswith(f"--resume {out}/checkpoint")
    assert json.loads((out / "run.json").read_text())["resumed_from_round"] > 0
    whole = tmp_path / "whole"
    command = [sys.executable, "-m", "pdes", str(config), "--out", str(whole), "--quiet"]
    subprocess.run(command, check=True, env=cluster, timeout=240)
    for name in ("result.json", "flows.parquet", "ports.parquet", "tasks.parquet"):
        assert (out / name).read_bytes() == (whole / name).read_bytes()
    third = submit("requeue.sh", cluster, config, out)
    assert third.returncode == 0 and "has its results" in third.stderr
    assert len((state / "steps").read_text().splitlines()) == 2


def test_a_run_of_a_sweep_gets_its_line_and_is_not_run_twice(tmp_path: Path, cluster: dict[str, str]) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    (tmp_path / "lines.txt").write_text("simulation.seed=1\nsimulation.seed=2 simulation.iterations=3\n")
    state = Path(cluster["STATE"])
    (state / "steps").write_text("an earlier one\n")  # so that nobody sends a signal
    arguments = (tmp_path / "lines.txt", tmp_path / "config.toml", tmp_path / "out")
    for _ in range(2):
        done = submit("sweep.sh", cluster | {"SLURM_ARRAY_TASK_ID": "1"}, *arguments)
        assert done.returncode == 0, done.stderr
    assert len((state / "steps").read_text().splitlines()) == 2
    config = json.loads((tmp_path / "out" / "1" / "result.json").read_text())["config"]
    assert config["simulation"]["seed"] == 2 and config["simulation"]["iterations"] == 3
