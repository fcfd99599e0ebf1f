"""Versions of the program side by side: an older commit's tree, and a process of a version that answers requests."""

import fcntl
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WORKER = Path(__file__).resolve().parent / "speed_worker.py"
END_S = 3  # for a process to end, by itself or when told, before it is told in stronger words


def git(repository: Path, *words: str) -> bytes:
    """What git says. SystemExit, with its error, if it fails."""
    done = subprocess.run(["git", "-C", str(repository), *words], capture_output=True)
    if done.returncode:
        raise SystemExit(f"error: git {' '.join(words)}: {done.stderr.decode().strip()}")
    return done.stdout


def commit_of(repository: Path, name: str) -> str:
    """A commit's full hash. SystemExit if there is none of that name."""
    return git(repository, "rev-parse", "--verify", f"{name}^{{commit}}").decode().strip()


@contextmanager
def older_tree(repository: Path, commit: str, parent: Path) -> Iterator[Path]:
    """A folder with a commit's files, removed at the end. SystemExit while another process has it.

    parent/<commit>: Numba keeps compiled code by the path of its source, so that a folder whose name differs from call
    to call would have everything compiled again. What a process that was killed left there is removed first.
    """
    folder = parent / commit
    parent.mkdir(parents=True, exist_ok=True)
    with open(parent / f"{commit}.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SystemExit(f"error: another process has {folder} in use; wait until it has ended") from None
        shutil.rmtree(folder, ignore_errors=True)
        try:
            with tarfile.open(fileobj=io.BytesIO(git(repository, "archive", commit))) as archive:
                archive.extractall(folder, filter="data")
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


class Version:
    """Processes of the version in `tree`, one per rank, alive until `end`.

    folder: for the requests, this version's own. A request is a config file, absolute or of the version's tree,
    overrides, and where to stop.
    """

    def __init__(self, name: str, tree: Path, folder: Path, n_rank: int = 1) -> None:
        self.name = name
        command = [sys.executable, "-P", str(WORKER), str(folder), str(n_rank)]
        if n_rank > 1:
            command = [str(Path(sys.executable).parent / "mpirun"), "-n", str(n_rank), *command]
        folder.mkdir(parents=True)
        self._requests = [_pipe(folder / f"requests.{rank}") for rank in range(n_rank)]
        paths = os.pathsep.join([str(tree), str(tree / "bench")])
        self._process = subprocess.Popen(
            command, cwd=tree, env=os.environ | {"PYTHONPATH": paths}, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
            text=True, start_new_session=True,
        )  # fmt: skip

    def ask(self, config: str, overrides: Sequence[str], stop_ps: int | None) -> dict[str, Any]:
        """A run's "seconds" and "hops"; or "cannot" alone: what this version says of a config that it does not know.

        SystemExit if the process ends instead.
        """
        line = json.dumps({"config": config, "overrides": list(overrides), "stop_ps": stop_ps}) + "\n"
        for request in self._requests:
            os.write(request, line.encode())
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"error: the process of {self.name} ended with status {self._process.wait()}")
        return json.loads(answer)

    def end(self) -> None:
        """End the processes: by themselves if they wait for a request, so that MPI cleans up, or whatever they do."""
        while self._requests:
            os.close(self._requests.pop())
        for number in (None, signal.SIGTERM, signal.SIGKILL):  # the second one goes from mpirun to its ranks
            if number is not None and self._process.poll() is None:
                os.killpg(self._process.pid, number)
            try:
                self._process.wait(END_S)
                break
            except subprocess.TimeoutExpired:
                continue
        if self._process.stdout is not None:
            self._process.stdout.close()


def _pipe(path: Path) -> int:
    """A new named pipe, open for writing at once, before there is a reader."""
    os.mkfifo(path)
    return os.open(path, os.O_RDWR | os.O_CLOEXEC)
