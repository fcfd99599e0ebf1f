"""Runs that take a checkpoint every so many rounds, whatever the clock says, and runs that go on from one."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self
from unittest import mock

from models.network.state.records import N_FROZEN_PORT
from pdes import simulation
from pdes.checkpoint_requests import Request
from pdes.config import load_config
from pdes.engine.checkpoint_folder import open_file
from pdes.engine.exchange import World
from pdes.engine.pickled import load
from pdes.engine.round import ASKS

EVERY_ROUND = ("checkpoint.every=1us", "checkpoint.keep=9999")  # of the clock: then rounds pause after each


class _Counted:
    """In the place of `Requests`: asks at every n-th round."""

    def __init__(self, every: int) -> None:
        self._every, self._n, self._is_due = every, 0, False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def is_pending(self) -> bool:
        self._n += 1
        self._is_due |= self._n % self._every == 0
        return self._is_due

    def take(self) -> Request:
        found, self._is_due = Request(self._is_due, False), False
        return found

    def restart(self) -> None:
        pass


@contextmanager
def asked_every(n_round: int) -> Iterator[None]:
    """Runs meanwhile take a checkpoint every n rounds."""
    with mock.patch("pdes.simulation.loop.Requests", lambda *_: _Counted(n_round)):
        yield


@contextmanager
def asked_while_frozen(every: int) -> Iterator[None]:
    """The same at every n-th look or round at which something is frozen."""
    n_seen = [0]

    def tick(checkpoints: Any) -> None:
        job = checkpoints._job
        is_frozen = bool(job.model.state.fabric.counters[N_FROZEN_PORT])
        n_seen[0] += is_frozen
        job.loop[ASKS] = is_frozen and n_seen[0] % every == 0

    with mock.patch("pdes.simulation.checkpoints.take.Checkpoints.tick", tick):
        yield


def simulate(config: Path, out: Path, *sets: str) -> None:
    """A run from its beginning, in this process."""
    prepared = simulation.prepare(load_config(config, [*sets, f'output.dir="{out}"']), quiet=True)
    assert simulation.run(prepared, World(), quiet=True) == 0


def resume(checkpoint: Path, out: Path, every: int = 10**9) -> None:
    """A run that goes on, in this process. every: rounds between its own checkpoints."""
    prepared = simulation.prepare_resumed(str(checkpoint), str(out), quiet=True)
    with asked_every(every):  # by the clock it would be at every round
        assert simulation.run(prepared, World(), quiet=True) == 0


def rounds_of(out: Path) -> int:
    """Rounds that a process has had."""
    return json.loads((out / "run.json").read_text())["rounds"]


def checkpoints_of(out: Path) -> list[Path]:
    """Those in a result folder, the oldest first."""
    try:
        return sorted((out / "checkpoint").glob("checkpoint-*"))
    except FileNotFoundError:  # a run that begins has just moved the folder away: there is none
        return []


def saved(checkpoint: Path, name: str) -> Any:
    """What a file of one has."""
    with open_file(checkpoint, name) as stream:
        return load(stream)


def different(one: Path, other: Path) -> list[str]:
    """Result files that are not the same bytes in both folders, or are in one alone; without `run.json`."""
    files = [{path.name for path in folder.iterdir() if path.is_file()} - {"run.json"} for folder in (one, other)]
    both = sorted(files[0] & files[1])
    assert "result.json" in both
    return sorted(files[0] ^ files[1]) + [n for n in both if (one / n).read_bytes() != (other / n).read_bytes()]
