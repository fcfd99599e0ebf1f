"""Tables of a run at the cluster level: jobs, events, places, usage.

They are in memory until the run ends, 8 bytes a value.
"""

from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from models.cluster.job import Job
from models.cluster.usage import COLUMNS, Usage

JOB_COLUMNS = (
    "job_id", "submit_us", "start_us", "end_us", "waited_us", "gpus", "work_us", "done_us", "gpu_us", "lost_gpu_us",
    "overhead_gpu_us", "starts", "preemptions", "failures", "moves", "priority", "tenant", "kind", "job",
)  # fmt: skip
EVENT_COLUMNS = ("time_us", "event", "job_id", "server", "gpus", "component")
PLACE_COLUMNS = ("job_id", "start_us", "end_us", "server", "servers", "gpus")
LEAVES = ("stop", "end", "requeue", "move")  # events with which a job gives back its GPUs
NAMED = ("tenant", "kind", "job", "event", "component")
NONE = -(2**63)  # null
CHUNK_BYTES = 1 << 20


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
    """

    def __init__(self, has_events: bool) -> None:
        self.jobs = [array("q") for _ in JOB_COLUMNS]
        self.events = [array("q") for _ in EVENT_COLUMNS]
        self.places = [array("q") for _ in PLACE_COLUMNS]
        self.names = {name: Names() for name in NAMED}
        self.has_events = has_events

    def happened(self, now_us: int, what: str, job: Job | None, server: int, why: str) -> None:
        """A row of the events."""
        if self.has_events:
            row = (
                now_us, self.names["event"].number(what), NONE if job is None else job.number,
                NONE if server < 0 else server, NONE if job is None else job.n_held or job.n_gpu,
                self.names["component"].number(why),
            )  # fmt: skip
            for column, value in zip(self.events, row, strict=True):
                column.append(value)
            if job is not None and what in LEAVES:
                self.add_place(job, now_us)

    def add_place(self, job: Job, end_us: int) -> None:
        """Where a job has been since its start. end_us: NONE of one that is still there."""
        first = n_server = n_gpu = 0
        for server, n in [*sorted(job.place), (-1, 0)]:
            if n_server and (server != first + n_server or n != n_gpu):
                row = job.number, job.start_us, end_us, first, n_server, n_gpu
                for column, value in zip(self.places, row, strict=True):
                    column.append(value)
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
            job.n_start, job.n_preemption, job.n_failure, job.n_move, job.priority, number["tenant"].number(job.tenant),
            number["kind"].number(request.kind), number["job"].number(request.name),
        )  # fmt: skip
        for column, value in zip(self.jobs, row, strict=True):
            column.append(value)

    def save(self, stream: Any) -> None:
        """All rows, as they are in memory."""
        for column in (*self.jobs, *self.events, *self.places):
            stream.write(len(column).to_bytes(8, "little"))
            stream.write(memoryview(column).cast("B"))

    def load(self, stream: Any) -> None:
        """What `save` wrote, into tables without rows. EOFError: that is not all there."""
        for column in (*self.jobs, *self.events, *self.places):
            n_byte = int.from_bytes(_read(stream, 8), "little") * column.itemsize
            while n_byte:
                n = min(n_byte, CHUNK_BYTES)
                column.frombytes(_read(stream, n))
                n_byte -= n

    def job_arrays(self) -> dict[str, np.ndarray]:
        """Columns of the jobs, by job_id."""
        order = np.argsort(np.frombuffer(self.jobs[0], np.int64)) if self.jobs[0] else np.empty(0, np.int64)
        return {name: np.array(column, np.int64)[order] for name, column in zip(JOB_COLUMNS, self.jobs, strict=True)}

    def place_arrays(self) -> dict[str, np.ndarray]:
        """Columns of the places, in the order in which they were left."""
        return {name: np.array(column, np.int64) for name, column in zip(PLACE_COLUMNS, self.places, strict=True)}

    def event_arrays(self) -> dict[str, np.ndarray]:
        """Columns of the events, as they happened."""
        return {name: np.array(column, np.int64) for name, column in zip(EVENT_COLUMNS, self.events, strict=True)}


def _read(stream: Any, n: int) -> bytes:
    found = bytes(stream.read(n))
    if len(found) < n:
        raise EOFError("rows are missing")
    return found


def usage_arrays(usage: Usage) -> dict[str, np.ndarray]:
    """A row for each interval: when it begins, and integrals over it, in jobs or GPUs times microseconds."""
    columns = {f"{name}_us": np.array(values, np.int64) for name, values in zip(COLUMNS, usage.intervals, strict=True)}
    return {"begin_us": np.array(usage.begins_us, np.int64)} | columns


def write(path: Path, arrays: Mapping[str, np.ndarray], names: Mapping[str, Names]) -> None:
    """A table as Parquet; its bytes depend on what is in it alone."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, Any] = {}
    for name, values in arrays.items():
        if name in names:
            known = list(names[name].numbers)
            columns[name] = pa.array(known, pa.string()).take(pa.array(values, pa.int64()))
        else:
            columns[name] = pa.array(values, pa.int64(), mask=values == NONE)
    settings: dict[str, Any] = {"compression": "zstd", "compression_level": 3, "version": "2.6", "store_schema": False}
    settings["use_dictionary"] = [name for name in arrays if name in names]
    pq.write_table(pa.table(columns), path, row_group_size=1 << 16, **settings)
