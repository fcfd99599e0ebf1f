"""What the bench that kills runs is made of: its cases, the process of a rank, the files it compares."""

import os
import subprocess
import sys
from pathlib import Path

import kill_resume
from pdes.config import load_config


def test_half_of_the_cases_skip(tmp_path: Path) -> None:
    cases = kill_resume.cases()
    for case in cases:
        (tmp_path / "config.toml").write_text(case.text)
        config = load_config(tmp_path / "config.toml", [f"checkpoint.every={kill_resume.EVERY}"])
        assert (config.wormhole.mode != "off") == case.skips and config.checkpoint.every_ps
    assert sum(case.skips for case in cases) * 2 == len(cases)


def test_the_process_of_a_rank_is_found_among_all_that_was_started() -> None:
    """A shell that starts two, as mpirun does, each with its rank in the environment."""
    sleep = f"{sys.executable} -c 'print(1, flush=True); import time; time.sleep(60)'"
    text = f"PMI_RANK=0 {sleep} & PMI_RANK=1 {sleep} & wait"
    parent = subprocess.Popen(["sh", "-c", text], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    try:
        for _ in range(2):  # both have begun
            parent.stdout.readline()
        ranks = [kill_resume.rank_process(parent.pid, rank) for rank in (0, 1)]
        assert len({parent.pid, *ranks}) == 3 and set(ranks) <= set(kill_resume.processes(parent.pid))
        assert kill_resume.rank_process(parent.pid, 2) == parent.pid
    finally:
        for process in reversed(kill_resume.processes(parent.pid)):
            os.kill(process, 9)
        parent.communicate()


def test_files_that_differ_or_are_in_one_folder_alone_are_named(tmp_path: Path) -> None:
    for name, files in (
        ("a", {"x": "1", "y": "1", "run.json": "1"}),
        ("b", {"x": "1", "y": "2", "z": "", "run.json": "2"}),
    ):
        (tmp_path / name).mkdir()
        for file, text in files.items():
            (tmp_path / name / file).write_text(text)
    assert kill_resume.different(tmp_path / "a", tmp_path / "b") == ["z", "y"]


def test_the_newest_checkpoint_is_the_one_with_the_highest_number(tmp_path: Path) -> None:
    assert kill_resume.newest(tmp_path / "none") == 0
    for number in (9, 10, 2):
        (tmp_path / f"checkpoint-{number:06d}").mkdir()
    assert kill_resume.newest(tmp_path) == 10


def test_what_has_ended_before_its_kill_can_be_asked_twice() -> None:
    command = [sys.executable, "-c", "import sys; print('so', file=sys.stderr)"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert kill_resume.finish(process) == "so\n" and kill_resume.finish(process) == ""
