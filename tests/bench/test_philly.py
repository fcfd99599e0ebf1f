"""The bench of Philly's trace, on a trace of four jobs."""

import subprocess
import sys
from pathlib import Path

import pytest
from philly import quotas, run

from pdes.convert.cluster.machines import Given
from pdes.convert.cluster.trace import convert

ROOT = Path(__file__).resolve().parents[2]
TRACE = """timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:00:00,3600,6,21600,a
2017-10-09 07:00:10,3600,4,14400,b
2017-10-09 07:00:20,3580,2,7160,b
2017-10-09 07:00:30,100,1,100,a
"""


def test_jobs_wait_as_they_do_by_hand(tmp_path: Path) -> None:
    """On 8 GPUs: 6 and 4 do not fit together. First come, all behind wait; backfilled, the two small ones do not."""
    (tmp_path / "trace.csv").write_text(TRACE)
    config = tmp_path / "case.toml"
    convert(tmp_path / "trace.csv", config, None, Given(1, 8))
    waits = {name: run(config, name)[0]["wait_s"]["mean"] * 4 for name in ("fcfs", "backfill")}
    assert waits["fcfs"] == pytest.approx(3590 + 3580 + 3570)
    assert waits["backfill"] == pytest.approx(3590 + 0 + 3570)
    assert run(config, "quota")[0]["jobs_done"] == 4


def test_quotas_are_shares_of_gpu_time(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("job,gpus,duration_s,tenant\n1,2,30,x\n2,1,30,y\n3,1,10,\n")
    assert quotas(tmp_path / "jobs.csv", 10) == {"": 1, "x": 6, "y": 3}


def test_the_table_has_a_line_for_each_scheduler(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(TRACE)
    command = [sys.executable, str(ROOT / "bench" / "philly.py"), str(tmp_path), "--servers", "1"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert said[0] == "trace.csv, philly-csv: 4 rows, 4 jobs on 1 x 8 GPU"
    assert [line.split()[:2] for line in said[3:]] == [["fcfs", "4"], ["backfill", "4"], ["quota", "4"]]


def test_a_folder_without_a_trace_is_one_message(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "bench" / "philly.py"), str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 2 and "no file is a known trace" in found.stderr and len(found.stderr.splitlines()) == 1
