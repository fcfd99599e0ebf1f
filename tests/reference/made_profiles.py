"""Small profiles in the forms of PyTorch's profiler and Nsight Systems, made here: kernels on streams and calls."""

import json
import sqlite3
import struct
from pathlib import Path

COMPUTE_STREAM, NCCL_STREAM = 7, 20
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def event(category: str, name: str, ts: float, dur: float, **args: object) -> dict:
    """An event of a time span, us."""
    return {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": 1, "ts": ts, "dur": dur, "args": args}


def kernel(
    name: str, ts: float, dur: float, stream: int = COMPUTE_STREAM, correlation: int = 0, **args: object
) -> dict:
    """A kernel on a stream of GPU 0."""
    return event("kernel", name, ts, dur, device=0, stream=stream, correlation=correlation, **args)


def launch(correlation: int, ts: float) -> dict:
    """The call that launched a kernel."""
    return event("cuda_runtime", "cudaLaunchKernel", ts, 2, correlation=correlation)


def words(name: str, n_element: int, ranks: list[int], group: str = "0", **more: object) -> dict:
    """What PyTorch says of a communication of floats."""
    return {
        "Collective name": name, "dtype": "Float", "In msg nelems": n_element, "Out msg nelems": n_element,
        "Group size": len(ranks), "Process Group Name": group, "Process Group Ranks": str(ranks), **more,
    }  # fmt: skip


def all_reduce(ts: float, dur: float, n_element: int, ranks: list[int], **args: object) -> dict:
    """A kernel of an all-reduce on NCCL's stream."""
    return kernel(ALL_REDUCE, ts, dur, **({"stream": NCCL_STREAM} | args), **words("allreduce", n_element, ranks))


def write_kineto(path: Path, events: list[dict], rank: int = 0, n_rank: int = 4, **more: object) -> Path:
    """A trace of one rank."""
    content = {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": n_rank}}
    path.write_text(json.dumps(content | more | {"traceEvents": events}))
    return path


HEAD = "<IIIIQQ"  # domain, -, schema, -, bytes of the payload, bytes with this head
TABLES = """
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, "end" INTEGER, deviceId INTEGER, streamId INTEGER,
    correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, "end" INTEGER, deviceId INTEGER, streamId INTEGER,
    correlationId INTEGER, globalPid INTEGER, bytes INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, "end" INTEGER, globalTid INTEGER, correlationId INTEGER,
    nameId INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER, "end" INTEGER, globalTid INTEGER, text TEXT, textId INTEGER, jsonText TEXT,
    binaryData BLOB);
CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES (domainId INTEGER, schemaId INTEGER, idx INTEGER, type INTEGER, name TEXT,
    offset INTEGER);
"""
SCHEMAS = {  # of NCCL: fields as name, type of NVTX, offset
    1: [("NCCL communicator ID", 18, None), ("Message size [bytes]", 22, 8)],
    2: [("NCCL communicator ID", 18, None), ("No. of ranks", 5, 8), ("Rank", 5, 12)],
}


class NsightFile:
    """A recording of Nsight Systems, row by row. Processes are numbered from 1; times are us."""

    def __init__(self, path: Path, tables: str = TABLES) -> None:
        self.path = path
        self.base = sqlite3.connect(path)
        self.base.executescript(tables)
        self._strings: dict[str, int] = {}
        for schema, fields in SCHEMAS.items():
            for place, (name, kind, offset) in enumerate(fields):
                self._add("NVTX_PAYLOAD_SCHEMA_ENTRIES", (0, schema, place, kind, name, offset))

    def _add(self, table: str, row: tuple) -> None:
        self.base.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)

    def string(self, text: str) -> int:
        """The number of a text."""
        if text not in self._strings:
            self._strings[text] = len(self._strings) + 1
            self._add("StringIds", (self._strings[text], text))
        return self._strings[text]

    def kernel(self, name: str, start: int, dur: int, process: int = 1, **more: int) -> None:
        """A kernel. more: stream, device, correlation."""
        stream, correlation = more.get("stream", COMPUTE_STREAM), more.get("correlation", 0)
        times = (start * 1000, (start + dur) * 1000, more.get("device", 0), stream, correlation, process << 24)
        self._add("CUPTI_ACTIVITY_KIND_KERNEL", (*times, self.string(name), None))

    def call(
        self, correlation: int, start: int, dur: int = 1, process: int = 1, name: str = "cudaLaunchKernel"
    ) -> None:
        """A call of CUDA."""
        row = (start * 1000, (start + dur) * 1000, (process << 24) + 7, correlation, self.string(name))
        self._add("CUPTI_ACTIVITY_KIND_RUNTIME", row)

    def range(self, text: str, start: int, dur: int, process: int = 1, schema: int = 0, **more: object) -> None:
        """A range of NVTX. more: numbers of its schema in their order, or json."""
        numbers = [value for key, value in more.items() if key != "json"]
        form = "<QQ" if schema == 1 else "<QII"
        content = struct.pack(form, *numbers) if schema else b""
        head = struct.pack(HEAD, 0, 0, schema, 0, len(content), 32 + len(content)) if schema else None
        row = (start * 1000, (start + dur) * 1000, (process << 24) + 7, text, None, more.get("json"))
        self._add("NVTX_EVENTS", (*row, head + content if head else None))

    def close(self) -> Path:
        """Write it all."""
        self.base.commit()
        self.base.close()
        return self.path
