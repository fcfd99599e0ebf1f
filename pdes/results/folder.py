"""The folder of a run's results: nothing appears under a final name before everything is complete (design R11).

Files are made in a hidden work folder inside it. `commit` puts them in place in an order in which `result.json` exists
only while the set around it is complete: old `result.json` goes first, the new one comes last. A plan of the renames,
written before the first of them, lets the next run (or report) finish a commit that was killed half way.
"""

import contextlib
import errno
import fcntl
import json
import os
import secrets
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from pdes.errors import ConfigError, SimError
from pdes.files import read_json
from pdes.units import shown

RESULT_FILES = (
    "flows.parquet",
    "ports.parquet",
    "tasks.parquet",
    "breakdown.parquet",
    "samples_ports.parquet",
    "samples_flows.parquet",
    "rtt.parquet",
    "partitions.parquet",
    "trace.parquet",
    "trace.txt",
    "jobs.parquet",
    "events.parquet",
    "places.parquet",
    "usage.parquet",
    "run.json",
    "result.json",
)
"""All names a run may leave; those that a run does not make go when it commits. The last marks completeness."""

DERIVED_FILES = ("report.html", "trace.json.gz", "alone.json")
"""What `report`, `timeline` and --alone make of a run's results: gone when another run's results come."""

MARKER = RESULT_FILES[-1]
_WORK_PREFIX = ".pdes-work-"
_PLAN = "commit-plan.json"
_GOING_S = 2.0  # that a run takes at most to be gone once its launcher has said that it ended


class ResultFolder:
    """One run's access to its result folder.

    Rank 0 calls `check`, then at the end `commit` or `abandon`; other ranks only ask for `work_path`, after being given
    rank 0's `token`, which names the work folder. As a context manager: `check` on entry, `abandon` on exit.
    """

    def __init__(self, directory: str | Path, token: str | None = None) -> None:
        self.directory = Path(directory)
        self.token = token or f"{os.getpid()}-{secrets.token_hex(4)}"
        self._lock: int | None = None
        self._made: list[Path] = []

    def __enter__(self) -> Self:
        self.check()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.abandon()

    @property
    def work(self) -> Path:
        """The hidden work folder; exists from `check` to `commit` or `abandon`."""
        return self.directory / f"{_WORK_PREFIX}{self.token}"

    def work_path(self, name: str) -> Path:
        """Where to make the file `name`, whether it is a result or scratch."""
        return self.work / name

    def check(self) -> None:
        """Make the folder and the work folder, and prove that a file can be written, before anything runs.

        Holds the folder until `commit` or `abandon`, finishes an interrupted commit of an earlier run and removes what
        killed runs left. ConfigError: the folder cannot be used, or another run is using it.
        """
        try:
            self._made = [path for path in (self.directory, *self.directory.parents) if not path.exists()]
            self.directory.mkdir(parents=True, exist_ok=True)
            if self._take_lock(_GOING_S):
                self._recover()
                for stale in self.directory.glob(f"{_WORK_PREFIX}*"):
                    shutil.rmtree(stale, ignore_errors=True)
            self.work.mkdir()
            probe = self.work_path("probe")
            probe.write_bytes(b"pdes-sim can write here")
            probe.unlink()
        except OSError as error:
            self.abandon()
            reason = error.strerror or str(error)
            found = f'cannot write results to "{self.directory}": {reason}'
            raise ConfigError("[output] dir", found, "Name a folder that can be written, or use --out DIR") from error

    def commit(self, names: Sequence[str]) -> None:
        """Put the finished files `names` of the work folder in place; result.json must be one of them.

        Older results give way only here. Killed before the plan is written, it leaves the older set untouched; killed
        later, it leaves the old set or a folder without result.json, and `recover` completes the new set.
        SimError: the file system refuses.
        """
        assert MARKER in names, "a result set without result.json would never count as complete"
        assert set(names) <= set(RESULT_FILES)
        try:
            for name in names:
                _sync(self.work_path(name))
            self._write_plan(names)
            _put_in_place(self.directory, self.work, names)
        except OSError as error:
            reason = error.strerror or str(error)
            raise SimError(f'cannot put the results in place in "{self.directory}": {reason}') from error
        self._release()

    def abandon(self) -> None:
        """Remove the work folder, and what `check` made of the way to it if it is empty; harmless after `commit`."""
        if not os.path.exists(self.work_path(_PLAN)):  # else a commit failed half way: leave it to `recover`
            shutil.rmtree(self.work, ignore_errors=True)
            with contextlib.suppress(OSError):  # not empty, or never made
                for path in self._made:
                    path.rmdir()
        self._release()

    def keep(self, names: Sequence[str]) -> None:
        """Put files of the work folder in place by themselves, when there will be no results; before `abandon`."""
        for name in names:
            self.work_path(name).replace(self.directory / name)

    def _write_plan(self, names: Sequence[str]) -> None:
        plan = self.work_path(_PLAN)
        unfinished = plan.with_suffix(".new")
        unfinished.write_text(json.dumps(sorted(names)))
        _sync(unfinished)
        unfinished.rename(plan)
        _sync(self.work)

    def finish_interrupted_commit(self) -> None:
        """`recover`, unless a run holds the folder or the folder cannot be written. ConfigError: a plan is damaged."""
        try:
            is_mine = self._take_lock()
        except (OSError, ConfigError):
            return
        if is_mine:
            with contextlib.suppress(OSError):
                self._recover()
        self._release()

    def _recover(self) -> None:
        try:
            recover(self.directory)
        except ConfigError:
            self._release()
            raise

    def _take_lock(self, wait_s: float = 0.0) -> bool:
        """Lock the folder against other runs; False where the file system has no locks.

        ConfigError: it is taken, and still is after wait_s.
        """
        self._lock, until_s = os.open(self.directory, os.O_RDONLY), time.monotonic() + wait_s
        try:
            while True:
                try:
                    fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError as error:
                    if error.errno not in (errno.EWOULDBLOCK, errno.EACCES) or time.monotonic() >= until_s:
                        raise
                    time.sleep(0.02)
        except OSError as error:
            self._release()
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                found = f'another run is writing its results to "{self.directory}"'
                accepted = "Wait for it, or give this run its own with --out DIR"
                raise ConfigError("[output] dir", found, accepted) from None
            return False
        return True

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def is_complete(directory: Path) -> bool:
    """Whether the folder holds a whole set of results."""
    return (directory / MARKER).is_file()


def recover(directory: Path) -> bool:
    """Finish a commit that was killed after its plan was written; return whether there was one. OSError as it comes.

    Only while no run holds the folder. ConfigError: a plan is damaged; nothing has been moved then.
    """
    plans = {plan: _read_plan(plan) for plan in sorted(directory.glob(f"{_WORK_PREFIX}*/{_PLAN}"))}
    for plan, names in plans.items():
        _put_in_place(directory, plan.parent, names)
    return bool(plans)


def _read_plan(plan: Path) -> list[str]:
    """The names that a plan puts in place."""
    accepted = f"Accepted: a list of results, as a run writes it. Remove {plan.parent} and run the simulation again"
    try:
        names = read_json(plan)
    except ConfigError as error:
        raise ConfigError(error.where, error.found, accepted) from error
    if not isinstance(names, list) or MARKER not in names or not all(name in RESULT_FILES for name in names):
        raise ConfigError(str(plan), f"found {shown(names)}", accepted)
    return names


def _put_in_place(directory: Path, work: Path, names: Sequence[str]) -> None:
    """Rename results from the work folder to their final names and remove it. Repeatable after a kill at any point."""
    if (work / MARKER).exists():  # otherwise a killed commit got as far as its last rename
        (directory / MARKER).unlink(missing_ok=True)
        _sync(directory)
        for name in (*DERIVED_FILES, *RESULT_FILES[:-1]):
            if name not in names:
                (directory / name).unlink(missing_ok=True)
            elif (work / name).exists():
                (work / name).rename(directory / name)
        _sync(directory)
        (work / MARKER).rename(directory / MARKER)
        _sync(directory)
    shutil.rmtree(work, ignore_errors=True)


def _sync(path: Path) -> None:
    """Have a file or the names in a folder on the disk before going on."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot do this for folders
            raise
    finally:
        os.close(file)
