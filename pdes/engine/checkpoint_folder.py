"""A folder of checkpoints: each a folder of its own that appears whole or not at all, with a checksum of every file.

Rank 0 begins and finishes a checkpoint; all ranks write files in between. It knows no model: what is in the files is
the caller's. The manifest says of which run a checkpoint is, so that what an earlier run has left in the same place is
not taken for one of this run.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pdes.errors import ConfigError
from pdes.files import read_json, require_file

FORMAT = 1
MANIFEST = "manifest.json"
_NAME = re.compile(r"checkpoint-(\d{6,})")
_UNFINISHED = ".unfinished-checkpoint-"
_CHECKSUM = "manifest_sha256"
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Checkpoint:
    """A complete one. facts: what its manifest says."""

    path: Path
    facts: dict[str, Any]


@dataclass(frozen=True)
class Written:
    """A file as it went to the disk."""

    name: str
    n_byte: int
    sha256: str


class _Sink:
    """Takes bytes for a file, and counts and digests them."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.n_byte, self.digest, self.closed = file, 0, hashlib.sha256(), False

    def write(self, data: Any) -> int:
        """Append bytes."""
        view = memoryview(data).cast("B")
        self._file.write(view)
        self.digest.update(view)
        self.n_byte += len(view)
        return len(view)

    def flush(self) -> None:
        """Nothing is kept here."""

    def close(self) -> None:
        """The file is the caller's."""
        self.closed = True


def write_file(folder: Path, name: str, fill: Callable[[Any], None]) -> Written:
    """Write a compressed file and have it on the disk. fill: gets something with a `write`. OSError as it comes."""
    import pyarrow as pa

    with open(folder / name, "wb") as file:
        sink = _Sink(file)
        with pa.CompressedOutputStream(pa.PythonFile(sink, mode="w"), "zstd") as stream:
            fill(stream)
        file.flush()
        os.fsync(file.fileno())
    return Written(name, sink.n_byte, sink.digest.hexdigest())


@contextlib.contextmanager
def open_file(folder: Path, name: str) -> Iterator[Any]:
    """A file of `write_file`, to be read from its beginning."""
    import pyarrow as pa

    with pa.CompressedInputStream(pa.OSFile(str(folder / name), "rb"), "zstd") as stream:
        yield stream


def reuse_file(folder: Path, written: Written, earlier: Path) -> bool:
    """Have a file that an earlier checkpoint has; False if that cannot be."""
    try:
        os.link(earlier / written.name, folder / written.name)
    except OSError:
        return False
    return True


class CheckpointFolder:
    """One run's checkpoints, on rank 0. run: what tells this run, resumed ones included, from others."""

    def __init__(self, directory: Path, keep: int, run: str) -> None:
        self.directory, self._keep, self._run = directory, keep, run

    def check(self) -> None:
        """Prove that a checkpoint could be written. ConfigError: it could not."""
        try:
            self.discard(self.begin())
        except OSError as error:
            found = f'cannot write checkpoints to "{self.directory}": {error.strerror or error}'
            raise ConfigError("[checkpoint] dir", found, "Name a folder that can be written") from error

    def begin(self) -> Path:
        """A folder to write the files of a new checkpoint into. OSError as it comes."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for torn in self.directory.glob(f"{_UNFINISHED}*"):  # a run was killed here
            shutil.rmtree(torn, ignore_errors=True)
        folder = self.directory / f"{_UNFINISHED}{os.getpid()}"
        folder.mkdir()
        return folder

    def finish(self, folder: Path, written: list[Written], facts: dict[str, Any]) -> Checkpoint:
        """Give a folder with all of its files its name, and remove older ones. OSError as it comes."""
        files = {each.name: {"bytes": each.n_byte, "sha256": each.sha256} for each in written}
        manifest = {"format": FORMAT, "run": self._run, **facts, "files": files}
        manifest[_CHECKSUM] = _checksum(manifest)
        with open(folder / MANIFEST, "w", encoding="utf-8") as file:
            file.write(json.dumps(manifest, indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        _sync(folder)
        number = max((n for n, _ in _numbered(self.directory)), default=0) + 1
        path = self.directory / f"checkpoint-{number:06d}"
        folder.rename(path)
        _sync(self.directory)
        self._prune()
        return Checkpoint(path, manifest)

    def discard(self, folder: Path) -> None:
        """Remove what was begun and will not be finished."""
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # not empty
            self.directory.rmdir()

    def _prune(self) -> None:
        """Keep the newest ones of this run. Of those that cannot be read nobody knows whose they are: they go."""
        mine = []
        for _, path in _numbered(self.directory):
            try:
                is_mine = _read_manifest(path)["run"] == self._run
            except (OSError, ValueError):
                is_mine = False
            if is_mine:
                mine.append(path)
            else:
                shutil.rmtree(path, ignore_errors=True)
        for path in mine[: -self._keep]:
            shutil.rmtree(path, ignore_errors=True)


def find_checkpoint(directory: Path, program: str, warn: Callable[[str], None]) -> Checkpoint:
    """The newest checkpoint in a folder that is whole; or the one that the folder is. warn: told what is passed over.

    program: what wrote it has to be the same. ConfigError: there is none, or another version wrote it.
    """
    candidates = [directory] if (directory / MANIFEST).exists() else [p for _, p in reversed(_numbered(directory))]
    accepted = "Accepted: a [checkpoint] dir, or a checkpoint in it"
    if not candidates:
        what = "has no checkpoint in it" if directory.is_dir() else "is not a folder"
        raise ConfigError(f"--resume {directory}", what, accepted)
    for path in candidates:
        try:
            facts = _read_manifest(path)
            if facts["format"] != FORMAT or facts["program"] != program:
                wrote = f"written by {facts['program']}, format {facts['format']}"
                text = f"Accepted: checkpoints of this program, {program}, format {FORMAT}"
                raise ConfigError(f"--resume {path}", wrote, text)
            _verify_files(path, facts)
            return Checkpoint(path, facts)
        except (OSError, ValueError) as error:
            warn(f"{path} is not whole, so the one before it is used: {error}")
    raise ConfigError(f"--resume {directory}", "no checkpoint in it is whole", accepted)


def _read_manifest(path: Path) -> dict[str, Any]:
    """ValueError, OSError: it is torn."""
    try:
        found = read_json(path / MANIFEST)
    except ConfigError as error:
        raise ValueError(str(error)) from error
    if not isinstance(found, dict) or found.get(_CHECKSUM) != _checksum(found):
        raise ValueError(f"{MANIFEST}: wrong checksum")
    return found


def _checksum(manifest: dict[str, Any]) -> str:
    rest = {key: value for key, value in manifest.items() if key != _CHECKSUM}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _verify_files(path: Path, facts: dict[str, Any]) -> None:
    for name, known in facts["files"].items():
        digest, n_byte = hashlib.sha256(), 0
        with open(require_file(path / name), "rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
                n_byte += len(chunk)
        if n_byte != known["bytes"]:
            raise ValueError(f"{name} has {n_byte} bytes, not {known['bytes']}")
        if digest.hexdigest() != known["sha256"]:
            raise ValueError(f"{name}: wrong checksum")


def _numbered(directory: Path) -> list[tuple[int, Path]]:
    """(number, path) of all checkpoints in a folder, ascending."""
    paths = directory.iterdir() if directory.is_dir() else ()
    found = ((match, path) for path in paths if (match := _NAME.fullmatch(path.name)))
    return sorted((int(match.group(1)), path) for match, path in found)


def _sync(folder: Path) -> None:
    """Have the names in a folder on the disk."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    except OSError:  # a file system that cannot do this for folders
        pass
    finally:
        os.close(file)
