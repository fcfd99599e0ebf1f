"""Checkpoints of a run at the cluster level: when they are taken, what is in them, how a run goes on from one.

The loop rests at the end of an instant; what it has is read and does not change. Files that the config names are
copied into the first checkpoint, and later ones link to them.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from pickle import PicklingError, UnpicklingError
from typing import Any, NamedTuple

from models.cluster.loop import Cluster
from models.cluster.saved import save
from models.cluster.schedulers.scheduler import Scheduler
from pdes.checkpoint_places import checkpoint_directory, place_of
from pdes.checkpoint_requests import FAILED_STATUS, STOPPED_STATUS, Requests
from pdes.cluster.iterations.speeds import RunSpeeds
from pdes.cluster.tables import Recorder
from pdes.config.cluster.load import Loaded
from pdes.engine.checkpoint_folder import (
    MANIFEST,
    Checkpoint,
    CheckpointFolder,
    Written,
    find_checkpoint,
    open_file,
    reuse_file,
    write_file,
)
from pdes.errors import ConfigError
from pdes.files import read_json
from pdes.results.folder import ResultFolder
from pdes.units import format_long_duration, format_size

LEVEL = "cluster"
STATE, ROWS, CONFIG, INPUT = "state", "rows", "config", "input"
CANNOT = (PicklingError, UnpicklingError, TypeError, AttributeError)  # an object of a user's scheduler


class StoppedError(Exception):
    """A signal has ended the run. text: how it is gone on with."""

    def __init__(self, text: str, exit_status: int) -> None:
        super().__init__(text)
        self.exit_status = exit_status


class Parts(NamedTuple):
    """What there is of a run. runs: where iteration times come from, None: from the config."""

    loaded: Loaded
    cluster: Cluster
    scheduler: Scheduler
    rows: Recorder
    runs: RunSpeeds | None


class Saver:
    """Takes them when it is asked to; `rests` is for the loop. say: tells people."""

    def __init__(self, parts: Parts, run_id: str, requests: Requests, say: Callable[[str], None]) -> None:
        self._parts, self._requests, self._say = parts, requests, say
        config = parts.loaded.run
        self._folder = CheckpointFolder(checkpoint_directory(config), config.checkpoint.keep, run_id)
        self._constant: tuple[list[Written], Path] | None = None  # files that never change, as the last one has them
        self._is_proven = False
        self.stopped: StoppedError | None = None

    def rests(self) -> bool:
        """Take a checkpoint if one is asked for; whether the run breaks off."""
        if not self._requests.is_pending:
            return False
        stops, begin_s = self._requests.take().stops, time.monotonic()
        found = self._write()
        self._requests.restart()
        at = format_long_duration(self._parts.cluster.now_us)
        if isinstance(found, Checkpoint):
            size = format_size(sum(file["bytes"] for file in found.facts["files"].values()))
            self._say(f"checkpoint at {at}: {size} in {time.monotonic() - begin_s:.2f} s, in {found.path}")
            how, status = f"go on with: pdes-sim --resume {self._folder.directory}", STOPPED_STATUS
        else:
            print(f"pdes-sim: warning: no checkpoint at {at}: {found}", file=sys.stderr, flush=True)
            how, status = "what was simulated since the last checkpoint is lost", FAILED_STATUS
        if stops:
            self.stopped = StoppedError(f"stopped by a signal at {at}; {how}", status)
        return stops

    def _write(self) -> Checkpoint | str:
        """A checkpoint, or why there is none."""
        begun = None
        try:
            begun = self._folder.begin()
            found = self._folder.finish(begun, self._files(begun), self._facts())
            self._constant = self._constant and (self._constant[0], found.path)
            return found
        except OSError as error:
            why = f"{error.filename or 'writing'}: {error.strerror or error}"
        except CANNOT as error:
            why = f"the scheduler has what no checkpoint can keep: {error}"
        if begun is not None:
            self._folder.discard(begun)
        return why

    def _files(self, folder: Path) -> list[Written]:
        from pdes.engine import pickled

        parts = self._parts
        state = save(parts.cluster, parts.scheduler) | {"names": parts.rows.names}
        state["used"] = {} if parts.runs is None else parts.runs.used
        if not self._is_proven:  # what is written could be read
            pickled.copied(state)
            self._is_proven = True
        written = [
            write_file(folder, STATE, lambda stream: pickled.dump(state, stream)),
            write_file(folder, ROWS, parts.rows.save),
        ]
        if self._constant is not None:
            known, earlier = self._constant
            if all(reuse_file(folder, each, earlier) for each in known):
                return written + known
        loaded = parts.loaded
        plain = loaded._replace(source=loaded.source.absolute(), stored={})
        constant = [write_file(folder, CONFIG, lambda stream: pickled.dump(plain, stream))]
        for i, name in enumerate(loaded.input_names()):
            with open(loaded.input_path(name), "rb") as file:
                constant.append(write_file(folder, f"{INPUT}{i}", lambda stream, f=file: shutil.copyfileobj(f, stream)))
        self._constant = constant, folder
        return written + constant

    def _facts(self) -> dict[str, Any]:
        from pdes.simulation.versions import program

        cluster = self._parts.cluster
        return {
            "program": program(),
            "level": LEVEL,
            "events": cluster.n_event,
            "simulated_us": cluster.now_us,
            "output": str(Path(self._parts.loaded.run.output.dir).absolute()),
            "folder": os.getcwd(),
            "written": datetime.now(UTC).isoformat(timespec="seconds"),
        }


def is_of_cluster(directory: str) -> bool:
    """Whether --resume names checkpoints of such a run; what is wrong with them is said elsewhere."""
    place = place_of(directory)
    for path in (place / MANIFEST, *place.glob(f"*/{MANIFEST}")):
        try:
            facts = read_json(path)
        except ConfigError:
            continue
        if isinstance(facts, dict) and facts.get("level") == LEVEL:
            return True
    return False


def find(directory: str, out: str | None) -> tuple[Checkpoint, Loaded]:
    """The newest whole checkpoint, and its config. out: the result folder, None: the run's own. Raises ConfigError."""
    from pdes.simulation.checkpoints.files import read_part
    from pdes.simulation.checkpoints.resume import warn
    from pdes.simulation.versions import program

    found = find_checkpoint(place_of(directory), program(), warn)
    loaded: Loaded = read_part(found.path, CONFIG)
    tables = {
        "output": loaded.run.output.model_copy(update={"dir": out or found.facts["output"]}),
        "checkpoint": loaded.run.checkpoint.model_copy(update={"dir": str(found.path.parent.absolute())}),
    }
    return found, loaded._replace(run=loaded.run.model_copy(update=tables))


def read_state(path: Path) -> dict[str, Any]:
    """What `save` gave, the names in tables, and the iteration times that were asked for."""
    from pdes.simulation.checkpoints.files import read_part

    return read_part(path, STATE)


def read_rows(path: Path, rows: Recorder, names: dict[str, Any]) -> None:
    """The rows of all tables. ConfigError: they are not all there."""
    try:
        with open_file(path, ROWS) as stream:
            rows.load(stream)
    except (EOFError, OSError) as error:
        accepted = "Accepted: a checkpoint that this version has written"
        raise ConfigError(f"--resume {path}", f"{ROWS} cannot be read: {error}", accepted) from error
    rows.names = names


def unpacked(checkpoint: Path, loaded: Loaded, folder: ResultFolder) -> Loaded:
    """The config with its files as the checkpoint has them."""
    stored = {}
    for i, name in enumerate(loaded.input_names()):
        path = folder.work_path(f"{INPUT}{i}{Path(name).suffix}")
        with open_file(checkpoint, f"{INPUT}{i}") as stream, open(path, "wb") as file:
            shutil.copyfileobj(stream, file)
        stored[name] = path
    return loaded._replace(stored=stored)
