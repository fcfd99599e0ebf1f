"""Nsight Systems' recordings as SQLite (`nsys export --type sqlite`): kernels of one process or several, NCCL's ranges.

A GPU of a process is a rank. A kernel belongs to the call that launched it (its correlation), and that to the range of
NCCL around it on the same thread. NCCL says there how many bytes it moves and for which communicator. Who a
communicator's ranks are follows from the ranges of their initialisation, if all of them are in the recording, or if it
has as many as the job. What is not known keeps the time that it took, and people are told.
"""

import re
import sqlite3
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pdes.convert.profile.communication import (
    MAX_BYTES,
    call_operation,
    is_communication,
    kernel_operation,
    measured,
    note,
)
from pdes.convert.profile.payload import COMMUNICATOR, N_RANK, RANK, SIZE, payload_of, schemas_of
from pdes.convert.profile.recording import Call, OnGpu, Recording, process_of
from pdes.convert.profile.seen import RECEIVE, SEND, Communication, Kernel, RankProfile
from pdes.convert.profile.steps import Marked, of_step
from pdes.errors import ConfigError
from pdes.units import PS_PER_NS

PER_RANK = ("all-gather", "reduce-scatter", "all-to-all", "gather", "scatter")  # NCCL counts one rank's share of these
MOST_DEPTH, MOST_IN_GROUP = 16, 4096  # ranges in ranges, calls in a group
MAX_NS = 2**62
_STEP = re.compile(r"(?:ProfilerStep#|(?:train(?:ing)?[ _])?(?:iter(?:ation)?|step)[ _#:]*)(\d{1,18})", re.IGNORECASE)
_WAITS = re.compile(r"(cuda|cu)(Device|Stream|Event|Ctx)Synchronize|cudaMemcpy(_|$)")


@dataclass(frozen=True)
class _Range:
    """A range of NCCL on a thread."""

    begin_ns: int
    end_ns: int
    operation: str
    said: dict[str, int]


@dataclass
class _Seen:
    """What a recording holds besides kernels."""

    launches: dict[tuple[int, int], Call] = field(default_factory=dict)  # by process and correlation
    waits: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # by process, ps
    steps: dict[int, list[Marked]] = field(default_factory=dict)  # by process
    ranges: dict[int, list[_Range]] = field(default_factory=dict)  # by thread, in the order of their begins
    groups: dict[int, tuple[list[int], list[tuple[int, int]]]] = field(default_factory=dict)  # starts, ends, by thread
    begun_groups: set[tuple[int, int]] = field(default_factory=set)
    begun: list[tuple[int, int, dict[str, int]]] = field(default_factory=list)  # process, time, of communicators

    def around(self, call: Call) -> _Range | None:
        """The range of NCCL in which a call is, the innermost one."""
        listed = self.ranges.get(call.thread, [])
        last = bisect_right(listed, call.begin_ns, key=lambda one: one.begin_ns)
        for one in reversed(listed[max(0, last - MOST_DEPTH) : last]):
            if one.end_ns >= call.begin_ns:
                return one
        return self._of_group(call, listed[:last] if last < MOST_IN_GROUP else listed[last - MOST_IN_GROUP : last])

    def _of_group(self, call: Call, before: list[_Range]) -> _Range | None:
        """What a group of calls does together that NCCL begins at its end, if it is one kind on one communicator."""
        starts, ends = self.groups.get(call.thread, ([], []))
        last = bisect_right(ends, (call.begin_ns, MAX_NS)) - 1
        if last < 0 or ends[last][1] < call.begin_ns:
            return None
        place = bisect_right(starts, ends[last][0]) - 1
        inside = [one for one in before if place >= 0 and one.begin_ns >= starts[place]]
        if len({(one.operation, one.said.get(COMMUNICATOR), SIZE in one.said) for one in inside}) != 1:
            return None
        first, is_first = inside[0], (call.thread, ends[last][0]) not in self.begun_groups
        self.begun_groups.add((call.thread, ends[last][0]))  # further kernels of a group share its bytes
        if SIZE not in first.said:
            return first
        return replace(first, said=first.said | {SIZE: sum(one.said[SIZE] for one in inside) if is_first else 0})


class _Communicators:
    """Ranks of communicators by their numbers, as far as the recording tells."""

    def __init__(self, seen: _Seen, places: list[tuple[int, int]], n_rank: int | None) -> None:
        self._size: dict[int, int] = {}
        self._member: dict[int, dict[int, int]] = {}  # rank in the communicator by process
        n_gpu = {process: sum(p == process for p, _ in places) for process, _ in places}
        for process, _, said in seen.begun:
            number, n, rank = (said.get(name) for name in (COMMUNICATOR, N_RANK, RANK))
            if number is not None and n is not None and rank is not None and n_gpu.get(process) == 1:
                self._size[number] = n
                self._member.setdefault(number, {})[process] = rank
        self.n_rank = n_rank or max(self._size.values(), default=len(places))
        everyone = next((n for n, size in sorted(self._size.items()) if size == self.n_rank), None)
        known = self._member.get(everyone, {}) if everyone is not None else {}
        is_known = len({known.get(process) for process, _ in places} - {None}) == len(places)
        self.rank_of = {place: known[place[0]] if is_known else i for i, place in enumerate(places)}
        self._rank_of_process = {process: rank for (process, _), rank in self.rank_of.items()}

    def group(self, number: int | None) -> tuple[int, ...] | None:
        """Its ranks, None: not known. Without any number it is everyone's."""
        if number is None or self._size.get(number, self.n_rank if not self._size else 0) == self.n_rank:
            return tuple(range(self.n_rank))
        members = self._member.get(number, {})
        if len(set(members.values())) != self._size.get(number, -1):
            return None
        ranks = sorted((place, self._rank_of_process[process]) for process, place in members.items())
        return tuple(rank for _, rank in ranks)


def read_nsight(
    path: Path, step: int | None, sizes: Mapping[str, int], notes: dict[str, int], n_rank: int | None = None
) -> list[RankProfile]:
    """The profiles of a recording's ranks, or of its first if it does not have all of the job's.

    sizes: bytes by operation, of those without. notes: counts of what people are told. ConfigError names the table.
    """
    try:
        with Recording(path) as recording:
            seen, rows = _seen(recording), list(recording.on_gpu())
    except sqlite3.Error as error:
        raise ConfigError(str(path), f"is no recording: {error}", "a file of nsys export --type sqlite") from error
    if not rows:
        raise ConfigError(str(path), "no kernel of a GPU", "a recording with --trace cuda,nvtx")
    by_place: dict[tuple[int, int], list[OnGpu]] = {}
    for row in rows:
        by_place.setdefault(row.place, []).append(row)
    communicators = _Communicators(seen, sorted(by_place), n_rank)
    profiles = []
    for place, rank in communicators.rank_of.items():
        kernels = [_kernel(row, seen, communicators, sizes, notes) for row in by_place[place]]
        taken, begin_ps, said = of_step(kernels, seen.steps.get(place[0], []), step, str(path))
        waits = seen.waits.get(place[0], [])
        profiles.append(RankProfile(rank, communicators.n_rank, str(path), begin_ps, taken, [], waits, False, said))
    profiles.sort(key=lambda one: one.rank)
    return profiles if len(profiles) == communicators.n_rank else profiles[:1]


def _seen(recording: Recording) -> _Seen:
    seen = _Seen()
    for call in recording.calls():
        process = process_of(call.thread)
        seen.launches[process, call.correlation] = call
        if _WAITS.match(call.name):
            seen.waits.setdefault(process, []).append((call.begin_ns * PS_PER_NS, call.end_ns * PS_PER_NS))
    schemas = schemas_of(recording.entries())
    for one in recording.markings():
        process, number = process_of(one.thread), _STEP.fullmatch(one.text)
        if number:
            marked = Marked(int(number[1]), one.begin_ns * PS_PER_NS, one.end_ns * PS_PER_NS)
            seen.steps.setdefault(process, []).append(marked)
        if not one.text.startswith("nccl"):
            continue
        said, operation = payload_of(one.json, one.content, schemas), call_operation(one.text)
        if "Init" in one.text:
            seen.begun.append((process, one.begin_ns, said))
        elif one.text.startswith(("ncclGroupStart", "ncclGroupEnd")):
            starts, ends = seen.groups.setdefault(one.thread, ([], []))
            if one.text.startswith("ncclGroupStart"):
                starts.append(one.begin_ns)
            else:
                ends.append((one.begin_ns, one.end_ns))
        elif operation is not None:
            seen.ranges.setdefault(one.thread, []).append(_Range(one.begin_ns, one.end_ns, operation, said))
    for starts, ends in seen.groups.values():
        starts.sort()
        ends.sort()
    for listed in seen.ranges.values():
        listed.sort(key=lambda one: (one.begin_ns, -one.end_ns))
    return seen


def _kernel(
    row: OnGpu, seen: _Seen, communicators: _Communicators, sizes: Mapping[str, int], notes: dict[str, int]
) -> Kernel:
    call = seen.launches.get((row.place[0], row.correlation))
    communication = None
    if row.is_kernel and is_communication(row.name):
        around = seen.around(call) if call is not None else None
        communication = _communication(row, around, communicators, sizes, notes)
    launch_ps = call.begin_ns * PS_PER_NS if call is not None else None
    times = (row.start_ns * PS_PER_NS, row.end_ns * PS_PER_NS)
    return Kernel(row.name, row.stream, *times, launch_ps, communication, row.where)


def _communication(
    row: OnGpu, around: _Range | None, communicators: _Communicators, sizes: Mapping[str, int], notes: dict[str, int]
) -> Communication | None:
    """What the range says, else the kernel's name and `sizes`; None: its measured time stays."""
    operation = around.operation if around is not None else kernel_operation(row.name)
    said = around.said if around is not None else {}
    if operation in (None, SEND, RECEIVE):
        note(notes, measured(row.name))
        return None
    group = communicators.group(said.get(COMMUNICATOR))
    size = said.get(SIZE)
    if group is None:
        text = "the ranks of its communicator are not in the profile, so the time that it took is kept"
        note(notes, f"{operation}: {text}")
        return None
    if size is not None and operation in PER_RANK:
        size *= len(group)
    size = sizes.get(operation) if size is None else size
    if size is None:
        note(notes, measured(operation))
        return None
    if not 0 <= size <= MAX_BYTES:
        raise ConfigError(row.where, f"{size} bytes", f"at most {MAX_BYTES}")
    return Communication(operation, size, group, f"{said[COMMUNICATOR]:x}" if COMMUNICATOR in said else "all")
