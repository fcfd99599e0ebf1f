"""Iteration times of the cluster level are run by all ranks but the first: the same results as on one."""

import json
from collections.abc import Callable
from pathlib import Path

from reference.run_jobs import write

FILES = ("jobs.parquet", "events.parquet", "usage.parquet", "result.json")


def test_ranks_run_what_one_would(tmp_path: Path, start: Callable) -> None:
    for n in (1, 2):
        config = write(tmp_path / str(n), out="out")
        done = start(n, "-m", "pdes", config, "--out", tmp_path / str(n) / "out")
        assert done.returncode == 0, done.stderr
        runs = json.loads((tmp_path / str(n) / "out" / "run.json").read_text())["iteration_times"]
        assert runs["run"] == runs["asked"] > 4
        assert f"{runs['run']} of them run now" in done.stdout
    differ = [
        f for f in FILES if (tmp_path / "1" / "out" / f).read_bytes() != (tmp_path / "2" / "out" / f).read_bytes()
    ]
    assert not differ


def test_a_run_that_fails_ends_all_ranks(tmp_path: Path, start: Callable) -> None:
    """The network lets nothing through: found when a case is run, on another rank."""
    config = write(tmp_path)
    text = config.read_text().replace(
        "[cluster.runs]", '[cluster.runs]\nnetwork = { loss = { probability = 1.0 } }\nwormhole = { mode = "off" }'
    )
    config.write_text(text)
    done = start(2, "-m", "pdes", config, "--out", tmp_path / "out")
    assert done.returncode not in (0, None)
    assert "error" in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "out" / "result.json").exists()
