"""Folders whose files are run as code, so that nobody else may have put anything there.

Compiled kernels come back from the disk as pickles and machine code. Whoever can write to their folder, or put another
in its place, runs what they like as whoever reads it.
"""

import contextlib
import os
import stat
from pathlib import Path

OTHERS_WRITE, OTHERS_ANY = stat.S_IWGRP | stat.S_IWOTH, stat.S_IRWXG | stat.S_IRWXO
CACHE_NAME = "pdes-sim"


def cache_base() -> Path:
    """Where compiled code of all versions lies, in a folder CACHE_NAME: $PDES_CACHE_DIR, or the user's cache folder."""
    given = os.environ.get("PDES_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    return Path(given or os.path.expanduser("~/.cache"))


def is_first_run() -> bool:
    """Whether nothing of any version has been compiled there, as far as can be seen without importing a compiler."""
    with contextlib.suppress(OSError):
        return not os.listdir(cache_base() / CACHE_NAME)
    return True


def make_private(base: Path, names: tuple[str, ...], refused_mode: int = OTHERS_WRITE) -> Path:
    """The folder base/names[0]/names[1]..; what is missing of it, base included, is made with mode 0700.

    refused_mode: bits that none of `names` may have. OSError: it cannot be made. PermissionError: it, or a folder on
    the way from base, is somebody else's or is open to others; the text says which one and why.
    """
    missing = [path for path in (base, *base.parents) if not path.exists()]
    for path in reversed(missing):
        _make(path)
    base = Path(os.path.realpath(base))  # what leads there is the user's business: a cache may lie on another disk
    if why := _why_base_is_unsafe(os.lstat(base)):
        raise PermissionError(f"{base} {why}")
    folder = base
    for name in names:
        folder /= name
        _make(folder)
        if why := _why_unsafe(os.lstat(folder), refused_mode):
            raise PermissionError(f"{folder} {why}")
    return folder


def _make(path: Path) -> None:
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:  # another rank, or an earlier run
        pass


def _why_base_is_unsafe(found: os.stat_result) -> str:
    """Of a folder in which ours lie: others must not be able to exchange them. "": it is safe."""
    if found.st_uid not in (os.geteuid(), 0):
        return f"belongs to user {found.st_uid}"
    is_open = found.st_mode & OTHERS_WRITE and not found.st_mode & stat.S_ISVTX
    return f"can be written by others, mode {stat.S_IMODE(found.st_mode):04o}" if is_open else ""


def _why_unsafe(found: os.stat_result, refused_mode: int) -> str:
    if not stat.S_ISDIR(found.st_mode):
        return "is a symbolic link" if stat.S_ISLNK(found.st_mode) else "is no folder"
    if found.st_uid != os.geteuid():
        return f"belongs to user {found.st_uid}"
    mode = stat.S_IMODE(found.st_mode)
    return f"is open to others, mode {mode:04o}" if mode & refused_mode else ""
