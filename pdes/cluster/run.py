"""A run at the cluster level: read, simulate, write. It takes one rank; the others have nothing to do."""

import sys
import time
from pathlib import Path
from typing import Any, TextIO

from models.cluster.job import Job
from models.cluster.loop import Cluster, StuckError
from models.cluster.usage import Usage
from pdes.cluster.build import build
from pdes.cluster.figures import figures, summary
from pdes.cluster.tables import NONE, Recorder, usage_arrays, write
from pdes.config.cluster.load import Loaded
from pdes.errors import SimError
from pdes.results.folder import ResultFolder
from pdes.results.summary import write_json
from pdes.units import format_long_duration

JOBS_BETWEEN_LOOKS, SILENT_S = 256, 2.0


class _Progress(Recorder):
    """A line on the terminal, once a run takes longer than two seconds. stream: None for none."""

    def __init__(self, has_events: bool, stream: TextIO | None) -> None:
        super().__init__(has_events)
        self.stream, self.began_s = stream, time.perf_counter()
        self.told_s = self.began_s
        self.is_told = False

    def left(self, job: Job) -> None:
        """Every so many jobs."""
        super().left(job)
        if self.stream is not None and len(self.jobs[0]) % JOBS_BETWEEN_LOOKS == 0:
            now_s = time.perf_counter()
            if now_s - self.told_s > SILENT_S:
                self.told_s, self.is_told = now_s, True
                text = f"{len(self.jobs[0]):,} jobs done, {format_long_duration(job.end_us)}"
                print(f"\r\033[Kpdes-sim: {text}", end="", file=self.stream, flush=True)

    def clear(self) -> None:
        """The line is gone."""
        if self.is_told:
            print("\r\033[K", end="", file=self.stream, flush=True)


def run_cluster(loaded: Loaded, is_quiet: bool) -> dict[str, Any]:
    """Simulate, and put the results in place; result.json as it is there. Raises SimError, ConfigError."""
    folder = ResultFolder(loaded.run.output.dir)
    with folder:
        built = build(loaded)
        watch = _Progress(loaded.run.output.events, sys.stderr if not is_quiet and sys.stderr.isatty() else None)
        cluster = Cluster(built.machine, built.rules, built.requests, built.failures, watch)
        cluster.spares, cluster.usage = built.spares, Usage(loaded.run.output.interval_us)
        began_s = time.perf_counter()
        try:
            cluster.run(built.scheduler(cluster, built.options))
        except StuckError as error:
            waiting = next(iter(cluster.waiting.values()))
            text = f"{len(cluster.waiting):,} jobs wait that the scheduler never starts, {waiting.request.name} first. "
            raise SimError(f"{text}Does a quota or an option of the scheduler forbid it?") from error
        finally:
            watch.clear()
        wall_s = time.perf_counter() - began_s
        for job in (*cluster.running.values(), *cluster.waiting.values()):
            _settle(cluster, job)
            watch.add(job, NONE)
        jobs = watch.job_arrays()
        result = figures(loaded, cluster, jobs)
        names = ["jobs.parquet", "usage.parquet", "result.json", "run.json"]
        write(folder.work_path("jobs.parquet"), jobs, watch.names)
        write(folder.work_path("usage.parquet"), usage_arrays(cluster.usage), watch.names)
        if watch.has_events:
            write(folder.work_path("events.parquet"), watch.event_arrays(), watch.names)
            names.append("events.parquet")
        write_json(folder.work_path("result.json"), result)
        run = {"level": "cluster", "events": cluster.n_event, "wall_s": wall_s, "config": str(loaded.source)}
        write_json(folder.work_path("run.json"), run)
        folder.commit(names)
    if not is_quiet:
        print(summary(result, cluster.n_event, wall_s, str(Path(loaded.run.output.dir))))
    return result


def _settle(cluster: Cluster, job: Job) -> None:
    """Of a job that is not done: what it has had until now."""
    if job.number in cluster.running:
        cluster.settle(job)
    else:
        job.waited_us += cluster.now_us - job.ready_us
