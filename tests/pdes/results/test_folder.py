"""Results appear whole or not at all, whenever the run is killed."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pdes.errors import ConfigError, SimError
from pdes.results import folder as folder_module
from pdes.results.folder import DERIVED_FILES, RESULT_FILES, ResultFolder, is_complete

NAMES = ["run.json", "flows.parquet", "ports.parquet", "result.json"]
# Changes of file names in a commit: the plan, the old result.json, then every name there is.
N_CHANGE = 2 + len(RESULT_FILES) + len(DERIVED_FILES)


def visible(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in directory.iterdir() if not path.name.startswith(".")}


def run_once(directory: Path, text: str, names: list[str] | None = None) -> None:
    with ResultFolder(directory) as results:
        for name in names or NAMES:
            results.work_path(name).write_text(text)
        results.commit(names or NAMES)


def test_a_commit_shows_exactly_the_named_files_and_leaves_no_work_folder(tmp_path):
    with ResultFolder(tmp_path / "a" / "b") as results:
        results.work_path("flows.part0").write_text("scratch")
        for name in NAMES:
            results.work_path(name).write_text("1")
        assert visible(tmp_path / "a" / "b") == {}
        results.commit(NAMES)
    assert visible(tmp_path / "a" / "b") == dict.fromkeys(NAMES, "1")
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == sorted(NAMES)


def test_new_results_replace_old_ones_whole_and_leave_other_files_alone(tmp_path):
    run_once(tmp_path, "old", list(RESULT_FILES))
    for name in ("notes.txt", *DERIVED_FILES):  # a report of the old results says nothing of the new ones
        (tmp_path / name).write_text("mine")
    run_once(tmp_path, "new")
    assert visible(tmp_path) == {**dict.fromkeys(NAMES, "new"), "notes.txt": "mine"}


def test_an_abandoned_run_leaves_nothing_or_the_older_set(tmp_path):
    fresh = tmp_path / "fresh"
    with pytest.raises(RuntimeError), ResultFolder(fresh) as results:
        results.work_path("flows.parquet").write_text("half")
        raise RuntimeError
    assert not fresh.exists()
    run_once(fresh, "old")
    with ResultFolder(fresh) as results:
        results.work_path("result.json").write_text("half")
    assert visible(fresh) == dict.fromkeys(NAMES, "old") and len(list(fresh.iterdir())) == len(NAMES)


def kill_at_rename(monkeypatch: pytest.MonkeyPatch, n_before: int) -> None:
    """Make the (n_before + 1)-th change of a file name from here on fail as if the process had died there."""
    left = [n_before]

    def wrap(original):
        def change(self, *args, **kwargs):
            if left[0] == 0:
                raise KeyboardInterrupt
            left[0] -= 1
            return original(self, *args, **kwargs)

        return change

    monkeypatch.setattr(Path, "rename", wrap(Path.rename))
    monkeypatch.setattr(Path, "unlink", wrap(Path.unlink))


@pytest.mark.parametrize("had_old", [False, True])
@pytest.mark.parametrize("n_before", range(N_CHANGE + 1))
def test_a_commit_killed_at_any_step_never_mixes_sets_and_is_finished_by_the_next_run(
    tmp_path, monkeypatch, had_old, n_before
):
    if had_old:
        run_once(tmp_path, "old", list(RESULT_FILES))
    before = visible(tmp_path)
    results = ResultFolder(tmp_path)
    results.check()
    for name in NAMES:
        results.work_path(name).write_text("new")
    with monkeypatch.context() as patch:
        kill_at_rename(patch, n_before)
        killed = False
        try:
            results.commit(NAMES)
        except KeyboardInterrupt:
            killed = True
    results._release()  # as the kernel does for a dead process
    assert killed == (n_before < N_CHANGE)
    if is_complete(tmp_path):
        assert visible(tmp_path) in (before, dict.fromkeys(NAMES, "new"))
    second = ResultFolder(tmp_path)
    second.check()
    second.abandon()
    expected = before if n_before == 0 else dict.fromkeys(NAMES, "new")
    assert visible(tmp_path) == expected
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_killed_process_leaves_nothing_visible_and_the_next_run_cleans_up(tmp_path):
    code = f"""
import os, signal
from pdes.results.folder import ResultFolder
results = ResultFolder({str(tmp_path)!r})
results.check()
results.work_path("flows.parquet").write_text("half")
os.kill(os.getpid(), signal.SIGKILL)
"""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], check=False, env=env).returncode == -signal.SIGKILL
    assert visible(tmp_path) == {} and len(list(tmp_path.iterdir())) == 1
    run_once(tmp_path, "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(NAMES)


def test_two_runs_into_one_folder_are_refused_while_the_first_lives(tmp_path):
    with ResultFolder(tmp_path) as first:
        with pytest.raises(ConfigError, match="another run is writing"):
            ResultFolder(tmp_path).check()
        assert first.work.is_dir()
    ResultFolder(tmp_path).check()


def test_a_run_that_is_on_its_way_out_is_waited_for(tmp_path):
    first = ResultFolder(tmp_path)
    first.check()
    threading.Timer(0.2, first.abandon).start()
    with ResultFolder(tmp_path) as second:  # checks
        assert second.work.is_dir() and not first.work.exists()


def test_other_ranks_see_the_same_work_folder_through_the_token(tmp_path):
    with ResultFolder(tmp_path) as results:
        assert ResultFolder(tmp_path, results.token).work_path("x") == results.work_path("x")


@pytest.mark.parametrize("below", ["", "/sub/dir"])
def test_a_folder_that_cannot_be_written_is_named_with_its_reason_before_the_run(tmp_path, below):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        ConfigError, match=rf"\[output\] dir: cannot write results to .*file{below}.*(exists|Not a dir)"
    ):
        ResultFolder(f"{tmp_path}/file{below}").check()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_write_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigError, match="Permission denied"):
        ResultFolder(tmp_path).check()


def test_a_file_system_that_refuses_the_probe_is_refused(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ConfigError, match="No space left"):
        ResultFolder(tmp_path / "new").check()
    assert not (tmp_path / "new").exists()


def test_without_file_locks_a_run_works_and_removes_no_work_of_others(tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(folder_module.fcntl, "flock", no_locks)
    (tmp_path / ".pdes-work-other").mkdir()
    run_once(tmp_path, "new")
    assert visible(tmp_path) == dict.fromkeys(NAMES, "new") and (tmp_path / ".pdes-work-other").is_dir()


def test_a_commit_of_a_missing_file_fails_and_keeps_the_older_set(tmp_path):
    run_once(tmp_path, "old")
    with pytest.raises(SimError, match="cannot put the results in place"), ResultFolder(tmp_path) as results:
        results.commit(NAMES)
    assert visible(tmp_path) == dict.fromkeys(NAMES, "old")
    assert sorted(os.listdir(tmp_path)) == sorted(NAMES)
