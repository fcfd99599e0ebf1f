"""Traces of PyTorch's profiler (Kineto): JSON for Chrome's viewer, a file per rank.

Read are kernels, copies and fills with their streams, the calls that launched them (by `correlation`), calls that wait,
and what PyTorch says about each communication of NCCL: on the kernel, or on the `record_param_comms` with its external
id. Times are exact: microseconds since 1970 with three decimals are more than a float holds.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pdes.convert.profile.communication import (
    MAX_BYTES,
    buffer_bytes,
    element_bytes,
    is_communication,
    kernel_operation,
    measured,
    note,
    operation_of,
)
from pdes.convert.profile.ranks import Job, ranks_of_group
from pdes.convert.profile.seen import RECEIVE, SEND, Communication, Kernel, RankProfile, StreamWait
from pdes.convert.profile.steps import Marked, of_step
from pdes.errors import ConfigError
from pdes.files import read_json
from pdes.units import PS_PER_US, exact_number, shown

MOST_BYTES = 2**31  # of a trace as text
MAX_PS, MAX_LENGTH_PS = 2**80, 2**61
ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
RUNTIME = ("cuda_runtime", "cuda_driver")
_PLAIN = re.compile(r"(\d{1,18})(?:\.(\d{1,6}))?")
_WAITS = re.compile(r"(cuda|hip|cu)(Device|Stream|Event|Ctx)Synchronize|(cuda|hip)Memcpy$")


class KinetoFile:
    """One file's events, sorted by what they are."""

    def __init__(self, path: Path) -> None:
        content = read_json(path, MOST_BYTES, exact=True)
        events = content.get("traceEvents") if isinstance(content, dict) else content
        if not isinstance(events, list):
            raise ConfigError(
                str(path), "holds no traceEvents", "a trace of PyTorch's profiler, a .json or .json.gz file"
            )
        self.path = path
        self.job = Job.of(content.get("distributedInfo") if isinstance(content, dict) else None, str(path))
        self.launch_ps: dict[int, int] = {}
        self.gpu_events: list[tuple[int, dict]] = []
        self.param_comms: dict[object, dict] = {}
        self.steps: list[Marked] = []
        self.host_waits: list[tuple[int, int]] = []
        self.syncs: list[tuple[int, dict]] = []
        for number, event in enumerate(events):
            if isinstance(event, dict) and event.get("ph") == "X":
                self._sort(number, event)

    def where(self, number: int, event: Mapping[str, Any]) -> str:
        """File, event and its name, for messages."""
        return f"{self.path}, event {number} ({str(event.get('name', ''))[:60]})"

    def _sort(self, number: int, event: dict) -> None:
        kind, name = event.get("cat"), event.get("name", "")
        if isinstance(kind, str):
            kind = kind.lower()
        if not isinstance(name, str):
            raise ConfigError(f"{self.path}, event {number}", f"name {shown(name)}", "text")
        if kind in ON_GPU:
            self.gpu_events.append((number, event))
        elif kind in RUNTIME:
            begin, end = self.span(number, event)
            correlation = _arguments(event).get("correlation")
            if type(correlation) is int:
                self.launch_ps[correlation] = begin
            if _WAITS.match(name):
                self.host_waits.append((begin, end))
        elif kind == "cuda_sync" and "stream wait event" in name.lower():
            self.syncs.append((number, event))
        elif name == "record_param_comms":
            self.param_comms[str(_arguments(event).get("External id"))] = event
        elif kind == "user_annotation" and name.startswith("ProfilerStep#"):
            digits = name.removeprefix("ProfilerStep#")
            if digits.isdecimal() and len(digits) < 19:
                self.steps.append(Marked(int(digits), *self.span(number, event)))

    def launched(self, correlation: object) -> int | None:
        """When the call with this number was made; None: it was not recorded."""
        return self.launch_ps.get(correlation) if type(correlation) is int else None

    def span(self, number: int, event: Mapping[str, Any]) -> tuple[int, int]:
        """Begin and end of an event, ps."""
        begin = _ps(event.get("ts"), f"{self.where(number, event)}, ts", MAX_PS)
        length = _ps(event.get("dur"), f"{self.where(number, event)}, dur", MAX_LENGTH_PS)
        return begin, begin + length


def _arguments(event: Mapping[str, Any]) -> dict:
    found = event.get("args")
    return found if isinstance(found, dict) else {}


def _ps(value: object, where: str, most: int) -> int:
    """Microseconds, as a number or its text, in whole ps."""
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    match = _PLAIN.fullmatch(text)
    if match:
        found = int(match[1]) * PS_PER_US + int((match[2] or "").ljust(6, "0"))
    else:
        try:
            found = round(exact_number(text) * PS_PER_US)
        except ValueError as error:
            raise ConfigError(where, f"found {shown(value)}", "microseconds, from 0") from error
    if not 0 <= found <= most:
        raise ConfigError(where, f"found {shown(value)}", f"microseconds, from 0 to {most // PS_PER_US}")
    return found


def read_kineto(
    path: Path, step: int | None, sizes: Mapping[str, int], notes: dict[str, int], n_rank: int | None = None
) -> list[RankProfile]:
    """One rank's profile of one iteration. sizes: bytes by operation, of those without.

    notes: counts of what people are told. n_rank: of the job, before what the file says. ConfigError names the event.
    """
    file = KinetoFile(path)
    job = replace(file.job, n_rank=n_rank or file.job.n_rank)
    named = re.search(r"rank[-_]?(\d{1,7})", path.name)
    if not job.has_rank and named:
        job = replace(job, rank=int(named[1]))
    devices = {str(_arguments(event).get("device")) for _, event in file.gpu_events}
    if not file.gpu_events or len(devices) > 1:
        found = f"kernels of {len(devices)} GPUs" if devices else "no kernel of a GPU"
        raise ConfigError(str(path), found, "a trace of one rank with ProfilerActivity.CUDA")
    kernels = list(_kernels(file, job, sizes, notes))
    taken, begin_ps, said = of_step(kernels, file.steps, step, str(path))
    groups = [kernel.communication.group for kernel in taken if kernel.communication is not None]
    profile = RankProfile(
        job.rank, job.n_rank or max((max(g) + 1 for g in groups), default=1), str(path), begin_ps, taken, iteration=said
    )
    profile.host_waits, profile.stream_waits = file.host_waits, list(_stream_waits(file))
    profile.has_stream_waits = bool(profile.stream_waits)
    return [profile]


def _kernels(file: KinetoFile, job: Job, sizes: Mapping[str, int], notes: dict[str, int]) -> Iterator[Kernel]:
    for number, event in file.gpu_events:
        where, words, name = file.where(number, event), _arguments(event), event.get("name", "")
        begin, end = file.span(number, event)
        stream = words.get("stream", event.get("tid"))
        if type(stream) is not int:
            raise ConfigError(where, f"stream {shown(stream)}", "args.stream, a whole number")
        launch = file.launched(words.get("correlation"))
        communication = None
        if event.get("cat") == "kernel" and ("Collective name" in words or is_communication(name)):
            if "Collective name" not in words:
                words = words | _arguments(file.param_comms.get(str(words.get("External id")), {}))
            communication = _communication(name, words, job, sizes, notes, where)
        yield Kernel(name, stream, begin, end, launch, communication, where)


def _communication(
    kernel: str, words: dict, job: Job, sizes: Mapping[str, int], notes: dict[str, int], where: str
) -> Communication | None:
    """What PyTorch or, without that, the kernel's name and `sizes` say; None: its measured time stays."""
    named = words.get("Collective name")
    operation = kernel_operation(kernel) if named is None else operation_of(str(named))
    if named is not None and operation is None:
        accepted = "allreduce, _allgather_base, _reduce_scatter_base, all_to_all, broadcast, send, recv, ..."
        raise ConfigError(where, f'Collective name "{str(named)[:60]}"', accepted)
    if named is None:
        if operation in (None, SEND, RECEIVE) or operation not in sizes:
            note(notes, measured(operation or kernel))
            return None
        if not job.n_rank:
            raise ConfigError(where, "no group, and no number of ranks in the file", "--gpus N, the GPUs of the job")
        return Communication(operation, sizes[operation], tuple(range(job.n_rank)), "all")
    assert operation is not None
    n = _count(words, "Group size", where)
    group, name = ranks_of_group(words, n, job, where)
    if operation == "barrier":
        return Communication(operation, 0, group, name)
    element = element_bytes(str(words.get("dtype")), where)
    inside, outside = (_count(words, key, where) * element for key in ("In msg nelems", "Out msg nelems"))
    size = buffer_bytes(operation, inside, outside, n)
    if size > MAX_BYTES:
        raise ConfigError(where, f"{size} bytes", f"at most {MAX_BYTES}")
    splits = words.get("In split size")
    if operation == "all-to-all" and _is_uneven(splits):
        note(notes, "all-to-alls with unequal parts are taken for equal parts of the same sum")
    peer = None
    if operation in (SEND, RECEIVE):
        key = "Dst Rank" if operation == SEND else "Src Rank"
        peer = _count(words, key, where)
        if peer not in group or peer == job.rank or job.rank not in group:
            raise ConfigError(where, f"{key} {peer} of rank {job.rank}", "another rank of the group")
    root, has_root = words.get("Rank"), operation in ("broadcast", "reduce", "gather", "scatter")
    if not has_root or type(root) is not int or not 0 <= root < n:  # else "Rank" is the root's place in the group
        return Communication(operation, size, group, name, None, peer)
    return Communication(operation, size, group, name, group[root])


def _is_uneven(splits: object) -> bool:
    listed = re.findall(r"\d+", splits) if isinstance(splits, str) else splits
    return isinstance(listed, list) and len({str(one) for one in listed}) > 1


def _count(words: Mapping[str, Any], key: str, where: str) -> int:
    value = words.get(key)
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        value = int(value)
    if type(value) is not int or not 0 <= value < 2**62:
        raise ConfigError(where, f'"{key}" {shown(value)}' if key in words else f'no "{key}"', "a whole number")
    return value


def _stream_waits(file: KinetoFile) -> Iterator[StreamWait]:
    for number, event in file.syncs:
        words = _arguments(event)
        record, call = (file.launched(words.get(key)) for key in ("wait_on_cuda_event_record_corr_id", "correlation"))
        stream, other = words.get("stream"), words.get("wait_on_stream")
        if type(stream) is int and type(other) is int and record is not None:
            begin = file.span(number, event)[0] if call is None else call
            yield StreamWait(stream, begin, other, record)
