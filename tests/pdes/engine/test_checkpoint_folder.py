"""A folder of checkpoints: what is torn, corrupt or of another version is refused, and what came before it is used."""

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pdes.engine.checkpoint_folder import (
    FORMAT,
    MANIFEST,
    CheckpointFolder,
    find_checkpoint,
    open_file,
    reuse_file,
    write_file,
)
from pdes.errors import ConfigError

PROGRAM = "pdes-sim 1 (abc)"


def take(directory: Path, text: str, keep: int = 2, run: str = "mine", program: str = PROGRAM) -> Path:
    """A checkpoint with a file "a" that has this text, and a file "b"."""
    folder = CheckpointFolder(directory, keep, run)
    begun = folder.begin()
    written = [write_file(begun, name, lambda stream: stream.write(text.encode() * 100)) for name in "ab"]
    return folder.finish(begun, written, {"program": program, "round": 1}).path


def found(directory: Path) -> tuple[Path, list[str]]:
    """What would be used, and what was said of others."""
    said: list[str] = []
    return find_checkpoint(directory, PROGRAM, said.append).path, said


def test_the_newest_is_found_and_reads_back(tmp_path: Path) -> None:
    take(tmp_path, "one")
    newest = take(tmp_path, "two")
    assert found(tmp_path) == (newest, [])
    with open_file(newest, "a") as stream:
        assert stream.read() == b"two" * 100


def test_a_single_one_can_be_named(tmp_path: Path) -> None:
    first = take(tmp_path, "one")
    take(tmp_path, "two")
    assert found(first) == (first, [])


def test_older_ones_go(tmp_path: Path) -> None:
    paths = [take(tmp_path, str(i), keep=3) for i in range(5)]
    assert sorted(tmp_path.iterdir()) == paths[2:]


def test_what_another_run_has_left_goes_when_this_one_has_something(tmp_path: Path) -> None:
    take(tmp_path, "other", run="other")
    assert found(tmp_path)[0].name == "checkpoint-000001"
    mine = take(tmp_path, "mine")
    assert list(tmp_path.iterdir()) == [mine]


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a bit": (lambda path: flip(path / "b"), "b: wrong checksum"),
    "cut short": (lambda path: (path / "b").write_bytes((path / "b").read_bytes()[:-1]), "b has"),
    "a file gone": (lambda path: (path / "b").unlink(), "No such file"),
    "the manifest's bit": (lambda path: flip(path / MANIFEST), ""),
    "the manifest cut": (lambda path: (path / MANIFEST).write_bytes((path / MANIFEST).read_bytes()[:40]), ""),
    "no manifest": (lambda path: (path / MANIFEST).unlink(), "No such file"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_one_that_is_not_whole_is_passed_over_with_a_message(name: str, tmp_path: Path) -> None:
    damage, text = DAMAGES[name]
    first, second = take(tmp_path, "one"), take(tmp_path, "two")
    damage(second)
    path, (said,) = found(tmp_path)
    assert path == first and str(second) in said and text in said
    damage(first)
    with pytest.raises(ConfigError, match="no checkpoint in it is whole"):
        found(tmp_path)


@pytest.mark.parametrize("facts", [{"program": "pdes-sim 2 (abc)"}, {"format": FORMAT + 1}])
def test_another_version_is_refused_with_both_named(facts: dict[str, Any], tmp_path: Path) -> None:
    take(tmp_path, "old")
    folder = CheckpointFolder(tmp_path, 2, "mine")
    folder.finish(folder.begin(), [], {"program": PROGRAM, **facts})
    with pytest.raises(ConfigError) as error:
        found(tmp_path)
    for text in (PROGRAM, *map(str, facts.values())):
        assert text in str(error.value)
    assert error.value.exit_status == 2


def test_what_was_begun_and_never_finished_is_neither_found_nor_kept(tmp_path: Path) -> None:
    first = take(tmp_path, "one")
    begun = CheckpointFolder(tmp_path, 2, "mine").begin()
    write_file(begun, "a", lambda stream: stream.write(b"half"))
    assert found(tmp_path) == (first, [])
    take(tmp_path, "two")
    assert not begun.exists()


@pytest.mark.parametrize(("name", "text"), [("", "has no checkpoint in it"), ("none", "is not a folder")])
def test_where_there_is_none_the_message_says_so(name: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=text):
        found(tmp_path / name)


def test_a_full_disk_is_an_error_of_the_system(tmp_path: Path) -> None:
    """/dev/full takes nothing: what a disk without room says."""
    (tmp_path / "a").symlink_to("/dev/full")
    with pytest.raises(OSError) as error:
        write_file(tmp_path, "a", lambda stream: stream.write(b"x" * 10**6))
    assert error.value.errno == errno.ENOSPC


def test_a_file_that_never_changes_is_linked(tmp_path: Path) -> None:
    first = take(tmp_path, "one")
    written = write_file(first, "c", lambda stream: stream.write(b"c"))
    (tmp_path / "new").mkdir()
    assert reuse_file(tmp_path / "new", written, first)
    assert (tmp_path / "new" / "c").samefile(first / "c")
    assert not reuse_file(tmp_path / "new", written, tmp_path / "gone")


def test_the_manifest_is_for_people_too(tmp_path: Path) -> None:
    facts = json.loads((take(tmp_path, "one") / MANIFEST).read_text())
    assert facts["format"] == FORMAT and facts["program"] == PROGRAM and set(facts["files"]) == {"a", "b"}


def test_a_folder_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot write checkpoints") as error:
        CheckpointFolder(tmp_path / "file", 2, "mine").check()
    assert error.value.where == "[checkpoint] dir"
