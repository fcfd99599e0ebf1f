"""From result tables to a trace file, bounded in size: chosen GPUs, the longest tasks and messages, chosen queues."""

import gzip
import json
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

from pdes.errors import ConfigError
from pdes.results.fast_forward import last_simulated, simulated_ps
from pdes.results.opened import Results
from pdes.results.report.fabric import HOSTS
from pdes.results.report.groups import group_bounds
from pdes.results.report.ports import Ports, read_ports
from pdes.results.timeline import events
from pdes.results.timeline.rows import Rows, read_messages, read_queues, read_tasks
from pdes.results.timeline.wanted import MOST_GPUS, N_PORT, Wanted
from pdes.units import format_size


def write_timeline(results: Results, wanted: Wanted, path: Path) -> list[str]:
    """Write the trace; lines that say what is in it and what is not. Raises ConfigError."""
    trace = _Trace(results, wanted)
    trace.number_rows()
    n_byte = _write(path, trace.all_events(), trace.metadata())
    return [f"{path}: {format_size(n_byte)}, for https://ui.perfetto.dev", *trace.said]


class _Trace:
    """Everything of a trace, in memory: it is bounded."""

    def __init__(self, results: Results, wanted: Wanted) -> None:
        self._results, self._rows = results, events.RowNumbers()
        folder, result = results.folder, results.result
        ports = read_ports(folder / "ports.parquet")
        hosts = [i for i, name in enumerate(ports.nodes) if name.rstrip("0123456789") in HOSTS]
        self._gpus = choose_gpus(result, len(hosts), wanted.gpus)
        self._node_names = ports.nodes
        self._gpu_of_node = {hosts[gpu]: gpu for gpu in self._gpus}
        digits = len(str(max(self._gpus, default=0)))  # viewers sort by text
        self._names = {gpu: f"GPU {gpu:0{digits}}" for gpu in self._gpus}
        self.said = [_counted("GPUs", len(self._gpus), len(hosts))]
        self._read(folder, wanted, ports)

    def _read(self, folder: Path, wanted: Wanted, ports: Ports) -> None:
        self._tasks, self._flows = Rows(), Rows()
        if (folder / "tasks.parquet").is_file():
            chosen = np.array(self._gpus, np.int64)
            self._tasks, n_task = read_tasks(folder / "tasks.parquet", chosen, wanted.iterations, wanted.most)
            self.said.append(_counted("their tasks, the longest", len(self._tasks["gpu"]), n_task))
        else:
            self.said.append("no tasks: the run kept no table of them ([output] tasks)")
        self._span_ps = (0, simulated_ps(self._results.result) + 1)
        if wanted.iterations is not None and len(self._tasks.get("gpu", ())):
            self._span_ps = (int(self._tasks["start_ps"].min()), int(self._tasks["end_ps"].max()))
        if wanted.has_flows and (folder / "flows.parquet").is_file():
            nodes = np.array(sorted(self._gpu_of_node), np.int64)
            self._flows, n_flow = read_messages(folder / "flows.parquet", nodes, self._span_ps, wanted.most)
            self.said.append(_counted("their messages, the longest", len(self._flows["src"]), n_flow))
        self._queues = self._read_queues(folder / "samples_ports.parquet", wanted, ports)

    def _read_queues(self, path: Path, wanted: Wanted, ports: Ports) -> list[tuple[str, list[tuple[int, int]]]]:
        if not path.is_file():
            if wanted.ports:
                found = "the run kept no queues over time"
                raise ConfigError("--port", found, "Run it with [output] sample_interval")
            self.said.append("no queues: the run kept none over time ([output] sample_interval)")
            return []
        chosen = choose_ports(ports, wanted.ports)
        series = read_queues(path, chosen, self._span_ps, wanted.most)
        names = [ports.name(port) for port in chosen]
        self.said.append(_counted("queues", len(names), len(ports)))
        return list(zip(names, series, strict=False))

    def number_rows(self) -> None:
        """Find out which rows there will be."""
        for _ in self.all_events():
            pass
        self._rows.settle()

    def metadata(self) -> dict[str, str]:
        """What the file says of itself."""
        return {"source": str(self._results.folder.resolve().name), "contents": "; ".join(self.said)}

    def all_events(self) -> Iterator[events.Event]:
        """All events; names come last, when all rows are known."""
        yield from self._iteration_events()
        yield from self._task_events()
        yield from self._flow_events()
        for name, points in self._queues:
            for time_ps, value in points:
                yield events.counter_event(f"queue {name}", events.to_ns(time_ps), value)
        yield from events.process_names([(events.FABRIC_PID, "run and fabric")])
        yield from events.process_names([(_pid(gpu), name) for gpu, name in self._names.items()])
        yield from self._rows.names()

    def _iteration_events(self) -> Iterator[events.Event]:
        begin_ps, result = 0, self._results.result
        for i, time_ps in enumerate(result.get("iteration_time_ps", [])[: last_simulated(result) + 1]):
            begin_ns, end_ns = events.to_ns(begin_ps), events.to_ns(begin_ps + time_ps)
            tid = self._rows.place(events.FABRIC_PID, "iterations", begin_ns, end_ns)
            yield events.slice_event(f"iteration {i}", "iteration", events.FABRIC_PID, tid, begin_ns, end_ns, {})
            begin_ps += time_ps

    def _task_events(self) -> Iterator[events.Event]:
        if not self._tasks:
            return
        columns = [column.tolist() for column in self._tasks.values()]
        n_stream: dict[str, set[str]] = {}
        for kind, stream in set(zip(columns[3], columns[4], strict=True)):
            n_stream.setdefault(_category(kind), set()).add(stream)
        for task_id, gpu, iteration, kind, stream, start_ps, end_ps, size in zip(*columns, strict=True):
            category = _category(kind)
            row = f"{category} ({stream})" if len(n_stream[category]) > 1 else category
            begin_ns, end_ns = events.to_ns(start_ps), events.to_ns(end_ps)
            tid = self._rows.place(_pid(gpu), row, begin_ns, end_ns)
            args = {"task": task_id, "iteration": iteration, "stream": stream} | ({"bytes": size} if size > 0 else {})
            yield events.slice_event(kind or "task", category, _pid(gpu), tid, begin_ns, end_ns, args)

    def _flow_events(self) -> Iterator[events.Event]:
        """A slice where a message is sent, one where it arrives, and an arrow, as far as these GPUs are shown."""
        if not self._flows:
            return
        columns = [column.tolist() for column in self._flows.values()]
        for flow_id, src, dst, size, start_ps, delivered_ps, finish_ps, ideal_ps, tag in zip(*columns, strict=True):
            ends, begin_ns = [], events.to_ns(start_ps)
            args = {"flow": flow_id, "bytes": size, "slowdown": round((finish_ps - start_ps) / max(ideal_ps, 1), 3)}
            for node, way, end_ps in ((src, "to", finish_ps), (dst, "from", delivered_ps)):
                gpu = self._gpu_of_node.get(node)
                if gpu is None:
                    continue
                end_ns = events.to_ns(end_ps)
                tid = self._rows.place(_pid(gpu), f"{way} others: {tag or 'messages'}", begin_ns, end_ns)
                name = f"{tag or 'message'} {self._node_names[src]} -> {self._node_names[dst]}"
                yield events.slice_event(name, "message", _pid(gpu), tid, begin_ns, end_ns, args)
                # Chrome's viewer adds up floats: an arrow to the very end of a slice may miss it.
                ends.append((_pid(gpu), tid, begin_ns if way == "to" else max(end_ns - 1, begin_ns)))
            if len(ends) == 2:
                yield from events.arrow_events(flow_id, tag or "message", *ends)


def choose_gpus(result: dict, n_gpu: int, wanted: frozenset[int] | None) -> list[int]:
    """GPUs to show, ascending: those wanted, or the first ones of every group. Raises ConfigError."""
    if wanted is not None:
        beyond = sorted(gpu for gpu in wanted if gpu >= n_gpu)
        if beyond:
            raise ConfigError("--gpus", f"found {beyond[0]}", f"Accepted: 0 to {n_gpu - 1}")
        return sorted(wanted)
    bounds = group_bounds(result, n_gpu)
    each = max(MOST_GPUS // max(len(bounds), 1), 1)
    return [gpu for _, first, end in bounds for gpu in range(first, min(first + each, end))]


def choose_ports(ports: Ports, wanted: tuple[str, ...]) -> list[int]:
    """Ports whose queues are shown: those wanted, or those with the largest queues. Raises ConfigError."""
    if not wanted:
        order = np.lexsort((np.arange(len(ports)), -ports.columns["max_queue_bytes"]))[:N_PORT]
        return [port for port in order.tolist() if ports.columns["max_queue_bytes"][port] > 0]
    known = {"".join(ports.name(port).split()): port for port in range(len(ports))}
    chosen = []
    for name in wanted:
        port = known.get("".join(name.split()))
        if port is None:
            some = ", ".join(f'"{ports.name(i)}"' for i in range(min(3, len(ports))))
            raise ConfigError("--port", f'no port is called "{name}"', f"Ports have names such as {some}")
        chosen.append(port)
    return chosen


def _category(kind: str | None) -> str:
    return events.CATEGORY.get(kind or "", kind or "tasks")


def _pid(gpu: int) -> int:
    return gpu + events.FIRST_GPU_PID


def _counted(what: str, n: int, n_all: int) -> str:
    return f"{what}: {n:,}" + (f" of {n_all:,}" if n_all > n else "")


def _write(path: Path, found: Iterable[events.Event], metadata: dict[str, str]) -> int:
    """Put the trace in place, whole or not at all; its bytes. The same events give the same bytes."""
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(unfinished, "wb") as file:
            _write_events(file, path.suffix == ".gz", found, metadata)
        os.replace(unfinished, path)
        return path.stat().st_size
    except OSError as error:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise ConfigError(
            str(path), f"cannot be written: {error.strerror}", "Name another file with -o FILE"
        ) from error


def _write_events(file, is_zipped: bool, found: Iterable[events.Event], metadata: dict[str, str]) -> None:
    stream = gzip.GzipFile("", "wb", 6, file, mtime=0) if is_zipped else file
    encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
    stream.write(b'{"displayTimeUnit":"ns","otherData":' + encode(metadata).encode() + b',"traceEvents":[')
    for i, event in enumerate(found):
        stream.write((",\n" if i else "\n").encode() + encode(event).encode())
    stream.write(b"\n]}\n")
    if is_zipped:
        stream.close()
