"""Checkpoints of a run: what is in one, and how it is taken up again, on any number of ranks.

Every rank saves what its nodes own; rank 0 also the scenario, which has all that was read from files, and what all
ranks decide alike. Taking one reads the state at a round's end and changes nothing in it.
"""

import hashlib
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

import numpy as np

from models.network.checkpoint.saved_chains import pairs_of_messages
from models.network.checkpoint.saved_fast_forward import load_fast_forward, save_alike, save_own
from models.network.checkpoint.saved_state import load_network, save_network
from models.network.state.owners import Owners
from models.network.state.records import EVENTS, PACKET_HOPS
from pdes.config import Config
from pdes.engine import pickled
from pdes.engine.checkpoint_folder import Checkpoint, CheckpointFolder, Written, open_file, reuse_file, write_file
from pdes.engine.jit import source_digest
from pdes.engine.round import ASKS, HORIZON, LEAST, LIMIT, N_ROUND, NEXT_LOOK, NOW
from pdes.errors import ConfigError
from pdes.results.folder import ResultFolder
from pdes.results.spool import RowSpool
from pdes.simulation.requests import Requests
from pdes.units import PS_PER_S, format_duration, format_size

if TYPE_CHECKING:
    from pdes.simulation.job import Run

SCENARIO = "scenario"
DEFAULT_NAME = "checkpoint"  # of the folder, in that of the results
STOPPED_STATUS, FAILED_STATUS = 75, 1  # exit status after a signal to stop: there is a new checkpoint; there is none
LOOP_WORDS = [NOW, HORIZON, N_ROUND, NEXT_LOOK, LIMIT]


@cache
def program() -> str:
    """What has to be the same to take up a checkpoint: version and sources, as states follow from them."""
    from pdes.simulation.write import version_of

    root, digest = Path(__file__).resolve().parents[2], hashlib.sha256(source_digest().encode())
    for path in sorted(path for folder in ("pdes", "partition") for path in (root / folder).rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return f"pdes-sim {version_of('pdes-sim')} ({digest.hexdigest()[:12]})"


def checkpoint_directory(config: Config) -> Path:
    """Where a run's checkpoints go."""
    return Path(config.checkpoint.dir or Path(config.output.dir) / DEFAULT_NAME)


def check_directory(config: Config, results: ResultFolder) -> None:
    """Prove that checkpoints can be written, where they will be without anybody's asking. ConfigError: they cannot."""
    if config.checkpoint.every_ps is not None:
        try:
            CheckpointFolder(checkpoint_directory(config), config.checkpoint.keep, results.token).check()
        except ConfigError:
            results.abandon()
            raise


class Checkpoints:
    """One rank's part in taking them: `tick` now and then, `rest` at the end of a round that all ranks have."""

    def __init__(self, job: "Run", requests: Requests, say: Callable[[str], None]) -> None:
        """say: tells people, on rank 0."""
        self._job, self._requests, self._say = job, requests, say
        config, run = job.scenario.config, job.run_id
        self._folder = CheckpointFolder(checkpoint_directory(config), config.checkpoint.keep, run)
        self._scenario: tuple[Written, Path] | None = None  # as the last checkpoint has it
        self.n_written, self.n_byte, self.seconds, self.exit_status = 0, 0, 0.0, 0

    def facts(self) -> dict[str, Any]:
        """What `run.json` says of them."""
        directory = str(self._folder.directory.absolute())
        return {"directory": directory, "written": self.n_written, "bytes": self.n_byte, "seconds": self.seconds}

    def tick(self) -> None:
        """Ask for a rest if one is due."""
        self._job.loop[ASKS] = self._requests.is_pending

    def rest(self) -> bool:
        """Take a checkpoint on all ranks; whether the run goes on."""
        job, begin_s = self._job, time.monotonic()
        asked = job.world.allgather(self._requests.take())
        stops = any(request.stops for request in asked)
        job.model.flush()
        found = self._write()
        self._requests.restart()
        seconds, n_round = time.monotonic() - begin_s, int(job.loop[N_ROUND])
        if isinstance(found, Checkpoint):
            self.n_written += 1
            self.n_byte, self.seconds = _size(found), self.seconds + seconds
            took = f"{format_size(self.n_byte)} in {format_duration(int(seconds * PS_PER_S))}"
            at = f"round {n_round:,}, {format_duration(job.now_ps)}"
            self._say(f"pdes-sim: checkpoint at {at}: {took}, in {found.path}")
        elif job.world.rank == 0:
            print(f"pdes-sim: warning: no checkpoint at round {n_round:,}: {found}", file=sys.stderr, flush=True)
        if stops:
            self.exit_status = STOPPED_STATUS if isinstance(found, Checkpoint) else FAILED_STATUS
            if job.world.rank == 0:
                how = f"go on with: pdes-sim --resume {self._folder.directory}"
                how = how if isinstance(found, Checkpoint) else "what was simulated since the last checkpoint is lost"
                print(f"pdes-sim: stopped by a signal at round {n_round:,}; {how}", file=sys.stderr, flush=True)
        return not stops

    def _write(self) -> Checkpoint | str:
        """A checkpoint of all ranks, or why there is none; the same on every rank."""
        world, begun = self._job.world, None
        if world.rank == 0:
            begun = _or_why(self._folder.begin)
        begun = world.bcast(begun)
        if isinstance(begun, str):
            return begun
        parts = world.gather(_or_why(lambda: self._write_files(begun)))
        return world.bcast(None if parts is None else self._finish(begun, parts))

    def _finish(self, begun: Path, parts: list[list[Written] | str]) -> Checkpoint | str:
        """On rank 0: name it if all parts are there."""
        whys = [part for part in parts if isinstance(part, str)]
        written = [each for part in parts if not isinstance(part, str) for each in part]
        found = whys[0] if whys else _or_why(lambda: self._folder.finish(begun, written, self._facts()))
        if isinstance(found, str):
            self._folder.discard(begun)
        elif self._scenario is not None:
            self._scenario = self._scenario[0], found.path
        return found

    def _facts(self) -> dict[str, Any]:
        job = self._job
        return {
            "program": program(),
            "round": int(job.loop[N_ROUND]),
            "simulated_ps": job.now_ps,
            "ranks": job.world.size,
            "rank_of_lp": job.rank_of_lp.tolist(),
            "output": str(Path(job.scenario.config.output.dir).absolute()),
            "folder": os.getcwd(),
            "written": datetime.now(UTC).isoformat(timespec="seconds"),
        }

    def _write_files(self, folder: Path) -> list[Written]:
        job, rank = self._job, self._job.world.rank
        written = [write_file(folder, f"rank{rank}", lambda stream: pickled.dump(_own(job), stream))]
        for name, spool in _spools(job).items():
            written.append(write_file(folder, f"{name}{rank}", spool.save))
        if rank == 0:
            written.append(write_file(folder, "alike", lambda stream: pickled.dump(_alike(job), stream)))
            written.append(self._write_scenario(folder))
        return written

    def _write_scenario(self, folder: Path) -> Written:
        """It never changes: a link to what the last checkpoint has, if there can be one."""
        if self._scenario is None or not reuse_file(folder, *self._scenario):
            scenario = self._job.scenario
            written = write_file(folder, SCENARIO, lambda stream: pickled.dump(scenario, stream))
            self._scenario = written, folder
        return self._scenario[0]


def _or_why(act: Callable[[], Any]) -> Any:
    """What comes of it, or why the file system refuses."""
    try:
        return act()
    except OSError as error:
        return f"{error.filename or 'writing'}: {error.strerror or error}"


def _size(checkpoint: Checkpoint) -> int:
    return sum(file["bytes"] for file in checkpoint.facts["files"].values())


def _spools(job: "Run") -> dict[str, RowSpool]:
    return {"flows": job.flows, "tasks": job.tasks, "breakdown": job.spent}


def hidden_head(job: "Run") -> np.ndarray | None:
    """Where the first packets of frozen ports' links are, if anything can be frozen."""
    return None if job.model.fast_forward is None else job.model.fast_forward.link_head


def _own(job: "Run") -> dict[str, Any]:
    """What this rank has."""
    model, is_here = job.model, job.model.rank_of_node == job.world.rank
    return {
        "network": save_network(job.scenario.topology, model.state, is_here, hidden_head(job)),
        "n_flow_done": job.n_flow_done,
        "flow_ps": job.flow_ps,
        "last_finish_ps": job.last_finish_ps,
        **save_observers(job),
        "fast": None if model.fast_forward is None else save_own(model.fast_forward),
    }


def save_observers(job: "Run") -> dict[str, Any]:
    """What this rank has seen and will go on from."""
    return {
        "parts": None if job.parts is None else job.parts.save(),
        "sampler": None if job.sampler is None else job.sampler.save(),
        "watch": None if job.watch is None else job.watch.save(job.model.state),
    }


def save_alike_of(job: "Run") -> dict[str, Any]:
    """What all ranks have alike."""
    fast = job.model.fast_forward
    return {
        "iterations": None if job.iterations is None else job.iterations.save(),
        "repeats": None if job.repeats is None else job.repeats.save(),
        "stall": None if job.stall is None else job.stall.save(),
        "fast": None if fast is None else save_alike(fast),
    }


def _alike(job: "Run") -> dict[str, Any]:
    """The same, and what rank 0 alone knows."""
    return save_alike_of(job) | {
        "loop": job.loop[LOOP_WORDS],
        "memo": None if job.memo is None else job.memo.save(),
        "queue_model": job.queue_model_digest,
    }


def restore(job: "Run", path: Path, facts: dict[str, Any]) -> None:
    """Bring a run that nothing has happened in to where a checkpoint was taken. On every rank, after compiling."""
    s, model, rank = job.scenario, job.model, job.world.rank
    owns, alike = [_read(path, f"rank{i}") for i in range(facts["ranks"])], _read(path, "alike")
    was_rank_of_node = np.array(facts["rank_of_lp"])[s.lp_of_node]
    is_here, networks = model.rank_of_node == rank, [own["network"] for own in owns]
    nodes = [was_rank_of_node == i for i in range(facts["ranks"])]
    model.state = load_network(s.topology, model.state, networks, nodes, is_here, rank == 0, hidden_head(job))
    job.loop[LOOP_WORDS], job.loop[LEAST] = alike["loop"], -1
    job.restored = {"rounds": facts["round"], "hops": 0, "events": 0}
    if rank == 0:
        job.n_flow_done, job.flow_ps = (sum(own[name] for own in owns) for name in ("n_flow_done", "flow_ps"))
        job.last_finish_ps = max(own["last_finish_ps"] for own in owns)
        for name, spool in _spools(job).items():
            for i in range(facts["ranks"]):
                with open_file(path, f"{name}{i}") as stream:
                    spool.load(stream)
    counters = model.state.fabric.counters
    job.restored |= {"hops": int(counters[PACKET_HOPS]), "events": int(counters[EVENTS])}
    messages = pairs_of_messages(networks)
    load_observers(job, owns, alike, messages, is_here)
    if model.fast_forward is not None:
        fast = [own["fast"] for own in owns]
        load_fast_forward(model.fast_forward, alike["fast"], fast, [own["held"] for own in fast], rank == 0)
    if job.memo is not None:
        job.memo.load(alike["memo"], model.fast_forward)
    if rank == 0 and alike["queue_model"] != job.queue_model_digest:
        found = f"[wormhole.paper] restoration_model has sha256 {job.queue_model_digest}, not {alike['queue_model']}"
        raise ConfigError(f"--resume {path}", found, "the file that the run began with")


def load_observers(
    job: "Run", owns: list[dict[str, Any]], alike: dict[str, Any], messages: tuple[np.ndarray, np.ndarray],
    is_here: np.ndarray,
) -> None:  # fmt: skip
    """Go on from what all ranks' `save_observers` have. messages: of all ranks, see `pairs_of_messages`."""
    model, s = job.model, job.scenario
    owners = Owners.of(s.topology, model.state)
    if job.parts is not None:
        flows, pairs = messages
        receivers = dict(zip(flows.tolist(), owners.pair_receives[pairs].tolist(), strict=True))
        job.parts.load([own["parts"] for own in owns], is_here, receivers)
    if job.sampler is not None:
        sends_here = is_here[owners.pair_sends][model.pairs.row_of_pair]
        job.sampler.load([own["sampler"] for own in owns], sends_here)
    if job.watch is not None:
        job.watch.load([own["watch"] for own in owns], model.state)
    if job.iterations is not None:
        job.iterations.load(alike["iterations"])
    if job.repeats is not None:
        job.repeats.load(alike["repeats"])
    if job.stall is not None:
        job.stall.load(alike["stall"])


def _read(path: Path, name: str) -> Any:
    try:
        with open_file(path, name) as stream:
            return pickled.load(stream)
    except (UnpicklingError, EOFError, ImportError, AttributeError) as error:
        found = f"{name} cannot be read: {error}"
        raise ConfigError(f"--resume {path}", found, "Accepted: a checkpoint that this version has written") from error


def read_scenario(path: Path) -> Any:
    """The scenario of a checkpoint."""
    return _read(path, SCENARIO)
