"""Tables of a run at the cluster level: jobs, events, places, usage.

Their rows go to files while the run goes on, and from there, in order, into the tables.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from models.cluster.job import Job
from models.cluster.usage import COLUMNS, Usage
from pdes.cluster.rows import Rows, Texts
from pdes.results.arrow import taken, texts, whole_numbers

JOB_COLUMNS = (
    "job_id", "submit_us", "start_us", "end_us", "waited_us", "gpus", "work_us", "done_us", "gpu_us", "lost_gpu_us",
    "overhead_gpu_us", "isolated_us", "starts", "preemptions", "failures", "moves", "priority", "tenant", "kind", "job",
)  # fmt: skip
EVENT_COLUMNS = ("time_us", "event", "job_id", "server", "gpus", "component")
PLACE_COLUMNS = ("job_id", "start_us", "end_us", "server", "servers", "gpus")
LEAVES = ("stop", "end", "requeue", "move")  # events with which a job gives back its GPUs
NAMED = ("tenant", "kind", "event", "component")
NONE = -(2**63)  # null
GROUP = 1 << 16  # rows that are compressed together


class Names:
    """Texts by number, in the order in which they came; "" is the first."""

    def __init__(self) -> None:
        self.numbers = {"": 0}

    def number(self, text: str) -> int:
        """Of a text, new or not."""
        return self.numbers.setdefault(text, len(self.numbers))


class Recorder:
    """Hears of everything that happens (`loop.Watch`). has_events: whether there are to be tables of events and places.

    A row of the places is a stretch of servers, one after the other, with as many GPUs each, that a job has had.
    folder: of the files that rows go to; None: all stay in memory. isolated_us: of a job that ends, set by who has the
    cluster.
    """

    def __init__(self, has_events: bool, folder: Path | None = None) -> None:
        self.jobs, self.events, self.places = (
            Rows(len(columns), folder) for columns in (JOB_COLUMNS, EVENT_COLUMNS, PLACE_COLUMNS)
        )
        self.texts = Texts(folder)  # names of jobs
        self.names = {name: Names() for name in NAMED}
        self.has_events = has_events
        self.isolated_us: Callable[[Job], int] = lambda job: job.request.work_us

    def happened(self, now_us: int, what: str, job: Job | None, server: int, why: str) -> None:
        """A row of the events."""
        if self.has_events:
            row = (
                now_us, self.names["event"].number(what), NONE if job is None else job.number,
                NONE if server < 0 else server, NONE if job is None else job.n_held or job.n_gpu,
                self.names["component"].number(why),
            )  # fmt: skip
            self.events.add(row)
            if job is not None and what in LEAVES:
                self.add_place(job, now_us)

    def add_place(self, job: Job, end_us: int) -> None:
        """Where a job has been since its start. end_us: NONE of one that is still there."""
        first = n_server = n_gpu = 0
        for server, n in [*sorted(job.place), (-1, 0)]:
            if n_server and (server != first + n_server or n != n_gpu):
                self.places.add((job.number, job.start_us, end_us, first, n_server, n_gpu))
                n_server = 0
            if not n_server:
                first, n_gpu = server, n
            n_server += 1

    def left(self, job: Job) -> None:
        """A row of the jobs: of one that is done."""
        self.add(job, job.end_us)

    def add(self, job: Job, end_us: int) -> None:
        """A row of the jobs. end_us: NONE of one that is not done."""
        request, number = job.request, self.names
        row = (
            job.number, request.submit_us, NONE if job.first_start_us < 0 else job.first_start_us, end_us,
            job.waited_us, job.n_gpu, request.work_us, job.saved_us, job.gpu_us, job.lost_gpu_us, job.overhead_gpu_us,
            NONE if end_us == NONE else self.isolated_us(job), job.n_start, job.n_preemption, job.n_failure,
            job.n_move, job.priority, number["tenant"].number(job.tenant), number["kind"].number(request.kind),
            self.texts.add(request.name),
        )  # fmt: skip
        self.jobs.add(row)

    def save(self, stream: Any) -> None:
        """All rows, and the names of jobs."""
        for part in (self.jobs, self.events, self.places, self.texts):
            part.save(stream)

    def load(self, stream: Any) -> None:
        """What `save` wrote, into tables without rows. EOFError: that is not all there."""
        for part in (self.jobs, self.events, self.places, self.texts):
            part.load(stream)

    def job_arrays(self) -> "JobArrays":
        """Columns of the jobs, by job_id."""
        return JobArrays(self.jobs)

    def write(self, folder: Path) -> list[str]:
        """The tables, a group of rows at a time; their names."""
        order = np.argsort(self.jobs.column(0))
        _write(folder / "jobs.parquet", self._parts(self.jobs, JOB_COLUMNS, order), self.names)
        if not self.has_events:
            return ["jobs.parquet"]
        _write(folder / "events.parquet", self._parts(self.events, EVENT_COLUMNS), self.names)
        _write(folder / "places.parquet", self._parts(self.places, PLACE_COLUMNS), self.names)
        return ["jobs.parquet", "events.parquet", "places.parquet"]

    def _parts(self, rows: Rows, columns: Sequence[str], order: np.ndarray | None = None) -> Iterator[dict[str, Any]]:
        for begin in range(0, max(len(rows), 1), GROUP):
            which = slice(begin, begin + GROUP)
            part = rows.part(which if order is None else order[which])
            found: dict[str, Any] = {name: part[:, i] for i, name in enumerate(columns)}
            if "job" in found:
                found["job"] = self.texts.part(found["job"])
            yield found


class JobArrays(Mapping[str, np.ndarray]):
    """Columns of the jobs, by job_id, each read when it is asked for."""

    def __init__(self, rows: Rows) -> None:
        self._rows, self._order = rows, np.argsort(rows.column(0))

    def __getitem__(self, name: str) -> np.ndarray:
        return self._rows.column(JOB_COLUMNS.index(name))[self._order]

    def __iter__(self) -> Iterator[str]:
        return iter(JOB_COLUMNS)

    def __len__(self) -> int:
        return len(JOB_COLUMNS)


def usage_arrays(usage: Usage) -> dict[str, np.ndarray]:
    """A row for each interval: when it begins, and integrals over it, in jobs or GPUs times microseconds."""
    columns = {f"{name}_us": np.array(values, np.int64) for name, values in zip(COLUMNS, usage.intervals, strict=True)}
    return {"begin_us": np.array(usage.begins_us, np.int64)} | columns


def write_usage(path: Path, usage: Usage) -> None:
    """The table of the usage."""
    arrays = usage_arrays(usage)
    n = len(arrays["begin_us"])
    _write(path, ({k: v[i : i + GROUP] for k, v in arrays.items()} for i in range(0, max(n, 1), GROUP)), {})


def _write(path: Path, parts: Iterable[Mapping[str, Any]], names: Mapping[str, Names]) -> None:
    """A table as Parquet, each part a group of rows; its bytes depend on what is in it alone."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    settings: dict[str, Any] = {"compression": "zstd", "compression_level": 3, "version": "2.6", "store_schema": False}
    known = {name: texts(list(each.numbers)) for name, each in names.items()}
    writer = None
    for part in parts:
        columns: dict[str, Any] = {}
        for name, values in part.items():
            if name in known:
                columns[name] = taken(known[name], whole_numbers(values))
            elif isinstance(values, list):
                columns[name] = texts(values)
            else:
                columns[name] = whole_numbers(values, values == NONE)
        table = pa.table(columns)
        if writer is None:
            settings["use_dictionary"] = [n for n in part if pa.types.is_string(table.schema.field(n).type)]
            writer = pq.ParquetWriter(path, table.schema, **settings)
        writer.write_table(table, row_group_size=GROUP)
    assert writer is not None
    writer.close()
