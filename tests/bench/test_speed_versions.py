"""Versions side by side: an older tree lives as long as it is used, and a version's process answers and ends."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cases import fat_tree_permutation
from speed_guard import HPCC, write_permutation
from speed_versions import Version, commit_of, older_tree

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """One commit with pdes/version.txt, which the working tree has changed since."""
    folder = tmp_path / "repository"
    (folder / "pdes").mkdir(parents=True)
    (folder / "pdes" / "version.txt").write_text("committed")
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
        subprocess.run(["git", *who, *words], cwd=folder, check=True)
    (folder / "pdes" / "version.txt").write_text("changed")
    return folder


def test_an_older_tree_has_what_was_committed_and_goes_away(repository: Path, tmp_path: Path) -> None:
    commit, parent = commit_of(repository, "HEAD"), tmp_path / "older"
    for _ in range(2):  # in the same place each time
        with older_tree(repository, commit, parent) as tree:
            assert tree == parent / commit and (tree / "pdes" / "version.txt").read_text() == "committed"
            with pytest.raises(SystemExit, match="another process"), older_tree(repository, commit, parent):
                pass
            assert tree.exists()
        assert not tree.exists()


def test_it_goes_away_when_interrupted_and_leftovers_are_not_used(repository: Path, tmp_path: Path) -> None:
    commit, parent = commit_of(repository, "HEAD"), tmp_path / "older"
    (parent / commit).mkdir(parents=True)
    (parent / commit / "left.txt").write_text("of a process that was killed")
    with pytest.raises(KeyboardInterrupt), older_tree(repository, commit, parent) as tree:
        assert sorted(path.name for path in tree.iterdir()) == ["pdes"]
        raise KeyboardInterrupt
    assert not tree.exists()


def test_a_name_without_a_commit_is_said(repository: Path) -> None:
    with pytest.raises(SystemExit, match="nosuch"):
        commit_of(repository, "nosuch")


@pytest.fixture
def this(tmp_path: Path) -> Iterator[Version]:
    version = Version("this", ROOT, tmp_path / "version")
    yield version
    version.end()


def test_a_version_answers_and_ends(this: Version, tmp_path: Path) -> None:
    """16 hosts, 10 packets and 10 ACKs each, over 2, 4 or 6 links."""
    config = write_permutation(tmp_path / "k4", 4, 10_000)
    full = this.ask(config, (), None)
    assert this.ask(config, (), None)["hops"] == full["hops"] and full["seconds"] > 0
    assert 16 * 20 * 2 <= full["hops"] <= 16 * 20 * 6
    assert 0 < this.ask(config, (), 2_000_000)["hops"] < full["hops"]
    assert "my-law" in this.ask(config, ("network.congestion_control=my-law",), None)["cannot"]
    assert this.ask(config, (), None)["hops"] == full["hops"]  # it goes on after that
    this.end()
    assert this._process.poll() is not None


def test_a_config_is_the_same_as_the_case_of_that_name(this: Version, tmp_path: Path) -> None:
    scenario = fat_tree_permutation(4, 10_000, network={"congestion_control": "hpcc"})
    answer = this.ask(write_permutation(tmp_path / "k4", 4, 10_000, network=HPCC), (), None)
    assert answer["hops"] == int(scenario.port_hops.sum())


def test_a_process_that_ends_ends_the_guard(tmp_path: Path) -> None:
    """A tree without the program: the worker asserts that it runs the tree's."""
    (tmp_path / "empty").mkdir()
    version = Version("empty", tmp_path / "empty", tmp_path / "version")
    with pytest.raises(SystemExit, match="the process of empty ended with status 1"):
        version.ask("x", (), None)
    version.end()
