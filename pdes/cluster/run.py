"""A run at the cluster level: read, simulate, write. It takes one rank; the others have nothing to do."""

import sys
import time
from pathlib import Path
from typing import Any, TextIO

from models.cluster.asked import StuckError
from models.cluster.job import Job
from models.cluster.loop import Cluster
from models.cluster.saved import load
from models.cluster.schedulers.scheduler import Scheduler
from models.cluster.usage import Usage
from pdes.checkpoint_places import check_directory
from pdes.checkpoint_requests import Requests
from pdes.cluster.build import build
from pdes.cluster.checkpoints import Parts, Saver, find, read_rows, read_state, unpacked
from pdes.cluster.figures import figures, summary
from pdes.cluster.iterations.speeds import RunAll
from pdes.cluster.iterations.told import iteration_times, runs_text
from pdes.cluster.scheduling import made, own_errors, own_file, short_turns
from pdes.cluster.tables import NONE, Recorder, write_usage
from pdes.config.cluster.load import Loaded
from pdes.engine.checkpoint_folder import Checkpoint
from pdes.errors import SimError
from pdes.results.folder import ResultFolder
from pdes.results.summary import write_json
from pdes.units import PS_PER_S, format_long_duration
from pdes.workers import here

JOBS_BETWEEN_LOOKS, SILENT_S = 256, 2.0


class _Progress(Recorder):
    """A line on the terminal, once a run takes longer than two seconds. stream: None for none."""

    def __init__(self, has_events: bool, folder: Path, stream: TextIO | None) -> None:
        super().__init__(has_events, folder)
        self.stream, self.began_s = stream, time.perf_counter()
        self.told_s = self.began_s
        self.is_told = False

    def left(self, job: Job) -> None:
        """Every so many jobs."""
        super().left(job)
        if self.stream is not None and len(self.jobs) % JOBS_BETWEEN_LOOKS == 0:
            now_s = time.perf_counter()
            if now_s - self.told_s > SILENT_S:
                self.told_s, self.is_told = now_s, True
                text = f"{len(self.jobs):,} jobs done, {format_long_duration(job.end_us)}"
                print(f"\r\033[Kpdes-sim: {text}", end="", file=self.stream, flush=True)

    def say(self, text: str) -> None:
        """On a line of its own."""
        if self.stream is not None:
            self.clear()
            print(f"pdes-sim: {text}", file=self.stream, flush=True)

    def clear(self) -> None:
        """The line is gone."""
        if self.is_told:
            print("\r\033[K", end="", file=self.stream, flush=True)


def run_cluster(
    loaded: Loaded, is_quiet: bool, requests: Requests | None = None, run_all: RunAll = here
) -> dict[str, Any]:  # fmt: skip
    """Simulate, and put the results in place; result.json as it is there.

    requests: for checkpoints, in use already; None: none is taken. run_all: where iteration times are run. Raises
    SimError, ConfigError, StoppedError.
    """
    folder = ResultFolder(loaded.run.output.dir)
    with folder:
        check_directory(loaded.run, folder)
        return _simulated(loaded, folder, is_quiet, requests, None, run_all)


def resume_cluster(
    directory: str, out: str | None, is_quiet: bool, requests: Requests | None = None, run_all: RunAll = here
) -> tuple[dict[str, Any], str]:
    """The same from a checkpoint on; also the result folder. out: of the results, None: the run's own."""
    found, loaded = find(directory, out)
    if requests is not None:
        requests.set_interval(every_s(loaded))
    folder = ResultFolder(loaded.run.output.dir)
    with folder:
        loaded = unpacked(found.path, loaded, folder)
        return _simulated(loaded, folder, is_quiet, requests, found, run_all), loaded.run.output.dir


def every_s(loaded: Loaded) -> float | None:
    """Wall time between checkpoints; None: only when a signal asks for one."""
    every_ps = loaded.run.checkpoint.every_ps
    return None if every_ps is None else every_ps / PS_PER_S


def _simulated(
    loaded: Loaded, folder: ResultFolder, is_quiet: bool, requests: Requests | None, resumed: Checkpoint | None,
    run_all: RunAll,
) -> dict[str, Any]:  # fmt: skip
    state = None if resumed is None else read_state(resumed.path)
    following = None if state is None else state["cluster"]["next"]
    built = build(loaded, 0 if following is None else following.number + 1, run_all)
    jobs = iter(()) if state is not None and following is None else built.requests
    stream = sys.stderr if not is_quiet and sys.stderr.isatty() else None
    watch = _Progress(loaded.run.output.events, folder.work, stream)
    cluster = Cluster(built.machine, built.rules, jobs, built.failures, watch)
    watch.isolated_us = cluster.isolated_us
    cluster.spares, cluster.usage = built.spares, Usage(loaded.run.output.interval_us)
    if built.runs is not None:
        built.runs.tell = watch.say
        cluster.sharing = built.sharing
    text = short_turns(loaded, built.scheduler)
    if text:
        print(f"pdes-sim: warning: {text}", file=sys.stderr, flush=True)
    source = own_file(loaded)
    scheduler = made(built.scheduler, cluster, built.options, source)
    if resumed is not None:
        assert state is not None
        read_rows(resumed.path, watch, state["names"])
        load(cluster, scheduler, state)
        if built.runs is not None:
            built.runs.used = state["used"] | built.runs.used
        del state
        print(f"pdes-sim: resumed from event {cluster.n_event:,} of {resumed.path}", file=sys.stderr, flush=True)
    saver = None
    if requests is not None:
        run_id = folder.token if resumed is None else resumed.facts["run"]
        saver = Saver(Parts(loaded, cluster, scheduler, watch, built.runs), run_id, requests, watch.say)
    began_s, n_before = time.perf_counter(), cluster.n_event
    _run(cluster, scheduler, watch, saver, source)
    wall_s = time.perf_counter() - began_s
    for job in (*cluster.running.values(), *cluster.waiting.values()):
        _settle(cluster, job)
        watch.add(job, NONE)
        if watch.has_events:
            watch.add_place(job, NONE)
    result = figures(loaded, cluster, watch.job_arrays())
    if built.runs is not None:
        result["iteration_times"] = iteration_times(built.runs)
    names = [*watch.write(folder.work), "usage.parquet", "result.json", "run.json"]
    write_usage(folder.work_path("usage.parquet"), cluster.usage)
    write_json(folder.work_path("result.json"), result)
    run = {"level": "cluster", "events": cluster.n_event - n_before, "wall_s": wall_s, "config": str(loaded.source)}
    if n_before:
        run["resumed_from_event"] = n_before
    if built.runs is not None:
        runs = built.runs
        run["iteration_times"] = {
            "run": runs.n_run, "in_packets": runs.n_in_packets, "asked": len(runs.used), "bad": runs.memo.n_bad
        }  # fmt: skip
    write_json(folder.work_path("run.json"), run)
    folder.commit(names)
    if not is_quiet:
        print(summary(result, cluster.n_event - n_before, wall_s, str(Path(loaded.run.output.dir))))
        if built.runs is not None:
            print(runs_text(built.runs))
    return result


def _run(
    cluster: Cluster, scheduler: Scheduler, watch: _Progress, saver: Saver | None, source: Path | None
) -> None:  # fmt: skip
    try:
        with own_errors(scheduler, source):
            cluster.run(scheduler, None if saver is None else saver.rests)
    except StuckError as error:
        waiting = next(iter(cluster.waiting.values()))
        text = f"{len(cluster.waiting):,} jobs wait that the scheduler never starts, {waiting.request.name} first. "
        raise SimError(f"{text}Does a quota or an option of the scheduler forbid it?") from error
    finally:
        watch.clear()
    if saver is not None and saver.stopped is not None:
        raise saver.stopped


def _settle(cluster: Cluster, job: Job) -> None:
    """Of a job that is not done: what it has had until now."""
    if job.number in cluster.running:
        cluster.settle(job)
    else:
        job.waited_us += cluster.now_us - job.ready_us
