"""Compiled code is read only from folders to which nobody else can write: what is read there is run."""

import os
import pickle
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pdes.engine.private_folder import CACHE_NAME, OTHERS_ANY, OTHERS_WRITE, is_first_run, make_private

ROOT = Path(__file__).resolve().parents[3]
NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to somebody else")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_all_that_is_missing_is_made_for_us_alone(tmp_path):
    before = os.umask(0)  # under which mkdir gives what it is asked for
    try:
        folder = make_private(tmp_path / "new" / "base", ("a", "b"))
    finally:
        os.umask(before)
    assert folder == tmp_path / "new" / "base" / "a" / "b"
    assert [mode(path) for path in (folder, *folder.parents[:3])] == [0o700] * 4
    assert make_private(tmp_path / "new" / "base", ("a", "b")) == folder


@pytest.mark.parametrize("place", ["a", "a/b"])
@pytest.mark.parametrize(
    ("found", "refused", "is_used"),
    [
        (0o700, OTHERS_WRITE, True),
        (0o755, OTHERS_WRITE, True),
        (0o775, OTHERS_WRITE, False),
        (0o777, OTHERS_WRITE, False),
        (0o1777, OTHERS_WRITE, False),
        (0o700, OTHERS_ANY, True),
        (0o755, OTHERS_ANY, False),
        (0o711, OTHERS_ANY, False),
    ],
)
def test_a_folder_that_others_can_write_is_refused(tmp_path, place, found, refused, is_used):
    make_private(tmp_path, ("a", "b"))
    (tmp_path / place).chmod(found)
    if is_used:
        assert make_private(tmp_path, ("a", "b"), refused).is_dir()
        return
    with pytest.raises(PermissionError, match=f"{tmp_path / place} is open to others, mode {found:04o}"):
        make_private(tmp_path, ("a", "b"), refused)


@needs_root
@pytest.mark.parametrize("place", ["base", "base/a", "base/a/b"])
def test_a_folder_of_somebody_else_is_refused(tmp_path, place):
    make_private(tmp_path / "base", ("a", "b"))
    os.chown(tmp_path / place, NOBODY, -1)
    with pytest.raises(PermissionError, match=f"{tmp_path / place} belongs to user {NOBODY}"):
        make_private(tmp_path / "base", ("a", "b"))


@pytest.mark.parametrize("place", ["a", "a/b"])
def test_a_link_is_refused_wherever_it_leads(tmp_path, place):
    make_private(tmp_path / "elsewhere", ("b",))
    make_private(tmp_path, ("a",))
    if place == "a":
        (tmp_path / "a").rmdir()
    (tmp_path / place).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match=f"{tmp_path / place} is a symbolic link"):
        make_private(tmp_path, ("a", "b"))


def test_the_users_own_folder_may_be_a_link_or_a_common_one_but_not_one_that_anyone_may_rearrange(tmp_path):
    (tmp_path / "disk").mkdir(0o700)
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    assert make_private(tmp_path / "link", ("a",)) == tmp_path / "disk" / "a"
    (tmp_path / "disk").chmod(0o1777)  # as /tmp
    assert make_private(tmp_path / "disk", ("a",)).is_dir()
    (tmp_path / "disk").chmod(0o777)
    with pytest.raises(PermissionError, match="disk can be written by others, mode 0777"):
        make_private(tmp_path / "disk", ("a",))


SLOW = pytest.mark.slow  # that such folders are refused is tested above, without a process


class Payload:
    """Leaves a file when it is read from a pickle."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self._marker),)


def compile_one(environment: dict[str, str]) -> str:
    """A process that compiles, or loads, a kernel; the cache folder that it uses."""
    text = "import numpy as np; from pdes.engine.foreign import clock_address, clock_ns; from numba import config\n"
    text += "print(config.CACHE_DIR); clock_ns(clock_address(), np.zeros(2, np.int64))"
    command = [sys.executable, "-P", "-c", text]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    return done.stdout.strip()  # it may fail on what has been planted


@needs_root
@pytest.mark.skipif(bool(os.environ.get("NUMBA_DISABLE_JIT")), reason="nothing is compiled")
@pytest.mark.parametrize(
    "whose", ["ours", "open to all", *(pytest.param(case, marks=SLOW) for case in ("nobody's", "a link's"))]
)
def test_what_somebody_else_has_planted_in_the_temporary_folder_is_not_run(tmp_path, whose):
    (tmp_path / "tmp").mkdir()
    (tmp_path / "file").write_text("")  # where no folder can be
    drop = ("NUMBA_CACHE_DIR", "PDES_CACHE_DIR")
    environment = {name: value for name, value in os.environ.items() if name not in drop}
    environment |= {"PDES_CACHE_DIR": str(tmp_path / "file"), "TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": str(ROOT)}
    folder = tmp_path / "tmp" / f"pdes-sim-{os.getuid()}"
    first = compile_one(environment)
    assert Path(first).parent == folder
    indices, marker = list(folder.rglob("*.nbi")), tmp_path / "it ran"
    assert indices
    for index in indices:
        index.write_bytes(pickle.dumps(Payload(marker)))
    if whose == "nobody's":
        os.chown(folder, NOBODY, -1)
    elif whose == "open to all":
        folder.chmod(0o755)
    elif whose == "a link's":
        folder = folder.rename(tmp_path / "elsewhere")
        (tmp_path / "tmp" / f"pdes-sim-{os.getuid()}").symlink_to(folder)
    used = compile_one(environment)
    assert marker.exists() == (whose == "ours")  # where it is ours, what lies there is read: the trap works
    assert Path(used).is_relative_to(folder) == (whose == "ours")
    left = {path.name for path in (tmp_path / "tmp").iterdir()}
    assert left <= {folder.name, f"pdes-sim-{os.getuid()}"}, "a folder for one process goes with it"


@pytest.mark.parametrize("names", [None, (), ("abc",)])
def test_a_run_is_a_first_one_until_something_lies_in_the_cache(tmp_path, monkeypatch, names):
    monkeypatch.setenv("PDES_CACHE_DIR", str(tmp_path))
    if names is not None:
        make_private(tmp_path, (CACHE_NAME, *names))
    assert is_first_run() == (not names)
