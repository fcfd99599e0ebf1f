"""Taking checkpoints of a run: every rank writes what it has, rank 0 names the whole once all of it is there.

The state at a round's end is read, and nothing in it changes.
"""

import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pdes.checkpoint_places import checkpoint_directory
from pdes.checkpoint_requests import FAILED_STATUS, STOPPED_STATUS, Requests
from pdes.engine import pickled
from pdes.engine.checkpoint_folder import Checkpoint, CheckpointFolder, Written, reuse_file, write_file
from pdes.engine.round import ASKS, N_ROUND
from pdes.simulation.checkpoints.files import ALIKE, SCENARIO, own_file
from pdes.simulation.checkpoints.saved import save_alike, save_own
from pdes.simulation.job import Run
from pdes.simulation.versions import program
from pdes.units import PS_PER_S, format_duration, format_size


class Checkpoints:
    """One rank's part in taking them: `tick` now and then, `rest` at the end of a round that all ranks have."""

    def __init__(self, job: Run, requests: Requests, say: Callable[[str], None]) -> None:
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
        written = [write_file(folder, own_file(rank), lambda stream: pickled.dump(save_own(job), stream))]
        for name, spool in job.rows.spools.items():
            written.append(write_file(folder, f"{name}{rank}", spool.save))
        if rank == 0:
            written.append(write_file(folder, ALIKE, lambda stream: pickled.dump(save_alike(job), stream)))
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
