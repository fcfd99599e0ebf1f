"""A memo that runs share: one file of entries, read at the start of a run and added to at its end.

Each record has the identity of what gives its entry a meaning, so entries of other networks and other versions lie in
the same file untouched. The file is replaced as a whole under a lock, after it was read again: what other runs have
added stays, and a run that is killed loses what it would have added. The oldest records go when the file is full.

The checksum finds damage, not malice. No code is in the file, and the model tries each entry before it is used; but
what an entry could say just as well is believed, so results are only as good as the entries.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import struct
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from pdes.errors import ConfigError, SimError
from pdes.files import read_bytes
from pdes.skipping.replay.memo import Entry
from pdes.units import shown

MAGIC, VERSION = b"pdes-sim memo\r\n\x00", 2
HEADER = struct.Struct("<16sQQ32s")  # magic, version, bytes that follow, their sha256
RECORD = struct.Struct("<QQ32s32s")  # packed bytes, words unpacked, identity, key
NUMBERS = tuple(field.name for field in fields(Entry) if field.type is int)
OTHERS = ("words", "port_bytes")
COLUMNS = tuple(field.name for field in fields(Entry) if field.type is np.ndarray and field.name not in OTHERS)
WORD_BYTES = 8
LOCK_SECONDS = 60.0
KEY = "[wormhole] memo"

Records = dict[tuple[bytes, bytes], bytes]
"""(identity, key) -> the whole record, oldest first."""


class MemoFile:
    """The file of a run, on rank 0. Relative paths are relative to the folder in which the program runs."""

    def __init__(self, path: str | Path, limit_bytes: int, lock_seconds: float = LOCK_SECONDS) -> None:
        self.path, self.limit_bytes = Path(os.path.realpath(path)), limit_bytes
        self.sha256: str | None = None  # of the file as it was read; None: there was none
        self.records: Records = {}
        self._lock_seconds = lock_seconds

    def read(self) -> None:
        """Read the file, if it is there, and see that it could be written. ConfigError: it is no memo, or damaged."""
        folder = self.path.parent
        if not (folder.is_dir() and os.access(folder, os.W_OK)):
            found = f"no file can be written in {shown(str(folder))}"
            raise ConfigError(KEY, found, "Accepted: a file in a folder that is there and can be written")
        self.records, self.sha256 = self._read()

    def take(self, identity: bytes) -> dict[bytes, bytes]:
        """Key -> packed entry of all that were read with an identity, oldest first; lets go of what was read."""
        own = {key: record for (name, key), record in self.records.items() if name == identity}
        self.records = {}
        return own

    def add(self, identity: bytes, entries: Mapping[bytes, Entry]) -> int:
        """Put entries into the file, in the place of those with the same keys; how many of them are in it now.

        SimError: the file cannot be written, or is not a memo any more.
        """
        if not entries:
            return 0
        try:
            with self._locked() as is_locked:
                records, _ = self._read()
                for key, entry in entries.items():
                    records.pop((identity, key), None)
                    records[identity, key] = pack(identity, key, entry)
                _drop_oldest(records, self.limit_bytes - HEADER.size)
                self._replace(records, is_locked)
        except OSError as error:
            raise SimError(f"{self.path}: cannot be written: {error.strerror or error}") from error
        return sum((identity, key) in records for key in entries)

    def _read(self) -> tuple[Records, str | None]:
        """(records, sha256 of the file); without a file none."""
        try:
            content = read_bytes(self.path)
        except FileNotFoundError:
            return {}, None
        except OSError as error:
            raise self._fault(f"cannot be read: {error.strerror}") from error
        return self._parse(content), hashlib.sha256(content).hexdigest()

    def _parse(self, content: bytes) -> Records:
        if len(content) < HEADER.size or not content.startswith(MAGIC):
            raise self._fault("is not a memo of this program")
        _, version, n_byte, digest = HEADER.unpack_from(content)
        if version != VERSION:
            raise self._fault(f"has format {version}, and this version knows {VERSION}")
        body = memoryview(content)[HEADER.size :]
        if len(body) != n_byte or hashlib.sha256(body).digest() != digest:
            raise self._fault("is damaged: its checksum does not fit what is in it")
        records, at = {}, 0
        while at < n_byte:
            is_whole = at + RECORD.size <= n_byte
            packed, _, identity, key = RECORD.unpack_from(body, at) if is_whole else (n_byte, 0, b"", b"")
            end = at + RECORD.size + packed
            if end > n_byte or (identity, key) in records:
                raise self._fault("is damaged: its records do not fit together")
            records[identity, key] = bytes(body[at:end])
            at = end
        return records

    def _fault(self, found: str) -> ConfigError:
        accepted = "Accepted: a file that an earlier run has written, or a name that is not taken; it was left as it is"
        return ConfigError(f"{KEY}: {self.path}", found, accepted)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[bool]:
        """Keep other runs from writing; False where the file system has no locks: then the last one to write wins."""
        side = os.open(self._beside(".lock"), os.O_RDWR | os.O_CREAT, 0o666)
        try:
            yield self._wait_for(side)
        finally:
            os.close(side)

    def _wait_for(self, side: int) -> bool:
        end_s = time.monotonic() + self._lock_seconds
        while True:
            try:
                fcntl.flock(side, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    return False
                if time.monotonic() >= end_s:
                    text = f"{self.path}: another run has held it for {self._lock_seconds:g} s"
                    raise SimError(f"{text}. If none does, remove {self._beside('.lock')}") from None
                time.sleep(0.02)
            else:
                return True

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(f".{self.path.name}{ending}")

    def _replace(self, records: Records, is_locked: bool) -> None:
        """Write a new file beside the old one, and put it in its place when it is on the disk."""
        if is_locked:
            for stale in self.path.parent.glob(f".{_literal(self.path.name)}.new-*"):  # of runs that were killed
                stale.unlink(missing_ok=True)
        new = self._beside(f".new-{os.getpid()}-{secrets.token_hex(4)}")
        digest, n_byte = hashlib.sha256(), 0
        for record in records.values():
            digest.update(record)
            n_byte += len(record)
        try:
            with new.open("wb") as file:
                file.write(HEADER.pack(MAGIC, VERSION, n_byte, digest.digest()))
                file.writelines(records.values())
                file.flush()
                os.fsync(file.fileno())
            new.replace(self.path)
        finally:
            new.unlink(missing_ok=True)
        _sync_folder(self.path.parent)


def pack(identity: bytes, key: bytes, entry: Entry) -> bytes:
    """An entry's record: how many flows, ports and columns of steady progress there are, its numbers, its arrays."""
    period_ps, n_period, *steady = entry.progress or (0, 0)
    sizes = [len(entry.done_bytes), len(entry.port_bytes), len(steady)]
    facts = [*sizes, period_ps, n_period, *(getattr(entry, name) for name in NUMBERS)]
    parts = [facts, *(getattr(entry, name) for name in COLUMNS), *steady, entry.port_bytes, entry.words]
    words = np.concatenate([np.asarray(part, "<i8") for part in parts])
    packed = zlib.compress(words.tobytes(), 1)
    return RECORD.pack(len(packed), len(words), identity, key) + packed


def unpack(record: bytes) -> Entry | None:
    """A record's entry, None if it cannot be one."""
    n_word, stream = RECORD.unpack_from(record)[1], zlib.decompressobj()
    try:
        content = stream.decompress(record[RECORD.size :], n_word * WORD_BYTES + 1)
    except (zlib.error, OverflowError):
        return None
    n_fact = 5 + len(NUMBERS)
    if not stream.eof or stream.unused_data or len(content) != n_word * WORD_BYTES or n_word < n_fact:
        return None
    words = np.frombuffer(content, "<i8").astype(np.int64)
    n_pair, n_port, n_steady, period_ps, n_period, *numbers = words[:n_fact].tolist()
    n_column = len(COLUMNS) + n_steady
    if not (0 < n_pair <= n_word and 0 < n_port <= n_word) or n_steady not in (0, 3):
        return None
    if n_word < n_fact + n_column * n_pair + n_port:
        return None
    columns = words[n_fact : n_fact + n_column * n_pair].reshape(n_column, n_pair)
    found: dict[str, Any] = dict(zip(NUMBERS, numbers, strict=True)) | dict(zip(COLUMNS, columns, strict=False))
    packets, done_ps, marked = columns[len(COLUMNS) :] if n_steady else columns[:3]
    is_steady = period_ps > 0 and n_period >= 0 and bool((packets > 0).all() and (done_ps > 0).all())
    if found["duration_ps"] < 0 or (n_steady and not is_steady):
        return None
    progress = (period_ps, n_period, packets, done_ps, marked) if n_steady else None
    port_bytes, rest = np.split(words[n_fact + columns.size :], [n_port])
    return Entry(**found, port_bytes=port_bytes, words=rest, progress=progress)


def _drop_oldest(records: Records, limit_bytes: int) -> None:
    n_byte = sum(len(record) for record in records.values())
    for name in list(records):
        if n_byte <= limit_bytes:
            return
        n_byte -= len(records.pop(name))


def _literal(name: str) -> str:
    """A file's name as a pattern that fits it alone."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk, where the file system can."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(file)
