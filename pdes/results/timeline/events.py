"""Events of the Trace Event Format (Google, "Trace Event Format"), which Perfetto and Chrome's viewer read.

A GPU is a process; each kind of its streams' work is a row (a thread), and so are the messages that it sends and gets.
Times are whole ns, rounded down alike, so that what follows on each other never overlaps. No two rows have the same
number, of whatever process.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from pdes.units import PS_PER_NS

Event = dict[str, Any]
FABRIC_PID = 1
FIRST_GPU_PID = 100_000  # viewers show it behind the name, so that it is to look like the number of the GPU

CATEGORY = {
    "forward": "compute", "backward": "compute", "optimizer": "compute", "tp": "TP", "cp": "CP", "ep": "EP",
    "pp-wait": "PP", "dp": "DP", "collective": "collective",
}  # fmt: skip
ROW_ORDER = ("compute", "TP", "CP", "EP", "PP", "DP", "collective")


class RowNumbers:
    """Rows of a process, each with a number that no other row of the trace has. A row where slices overlap is split."""

    def __init__(self) -> None:
        self._tid: dict[tuple[int, str, int], int] = {}
        self._end_ns: dict[int, int] = {}

    def place(self, pid: int, name: str, begin_ns: int, end_ns: int) -> int:
        """The row of a slice; slices come in order of time. The first of that name that is free by then."""
        lane = 0
        while True:
            tid = self._tid.setdefault((pid, name, lane), len(self._tid) + 1)
            if self._end_ns.get(tid, 0) <= begin_ns:
                self._end_ns[tid] = end_ns
                return tid
            lane += 1

    def settle(self) -> None:
        """Number the rows in the order in which they are to be read, as some viewers go by that alone; begin again."""
        ordered = sorted(self._tid, key=lambda row: (row[0], _place_of(row[1]), row[1:]))
        self._tid = {row: i + 1 for i, row in enumerate(ordered)}
        self._end_ns.clear()

    def names(self) -> Iterator[Event]:
        """Events that name and order the rows."""
        for (pid, name, lane), tid in self._tid.items():
            shown = name if lane == 0 else f"{name}, {lane + 1}"
            yield _meta("thread_name", pid, {"name": shown}, tid)
            yield _meta("thread_sort_index", pid, {"sort_index": tid}, tid)


def _place_of(name: str) -> int:
    """Work before messages, and these by their way."""
    work = name.split(" (")[0]
    return (
        ROW_ORDER.index(work)
        if work in ROW_ORDER
        else len(ROW_ORDER) + name.startswith("to ") + 2 * name.startswith("from ")
    )


def process_names(names: Iterable[tuple[int, str]]) -> Iterator[Event]:
    """Events that name and order processes."""
    for pid, name in names:
        yield _meta("process_name", pid, {"name": name}, 0)
        yield _meta("process_sort_index", pid, {"sort_index": pid}, 0)


def _meta(name: str, pid: int, args: Event, tid: int) -> Event:
    return {"ph": "M", "name": name, "pid": pid, "args": args} | ({"tid": tid} if tid else {})


def to_ns(time_ps: int) -> int:
    """Whole ns."""
    return time_ps // PS_PER_NS


def to_us(time_ns: int) -> float:
    """As the format wants times: us, to the ns."""
    return time_ns / 1000


def slice_event(name: str, category: str, pid: int, tid: int, begin_ns: int, end_ns: int, args: Event) -> Event:
    """Something that lasts."""
    times = {"ts": to_us(begin_ns), "dur": to_us(end_ns - begin_ns)}
    return {"ph": "X", "name": name, "cat": category, "pid": pid, "tid": tid, **times, "args": args}


def arrow_events(number: int, name: str, begin: tuple[int, int, int], end: tuple[int, int, int]) -> list[Event]:
    """An arrow from a slice to a slice. begin, end: process, row and time in ns, within the slices."""
    base = {"name": name, "cat": "message", "id": number}
    first, last = ({"pid": pid, "tid": tid, "ts": to_us(time_ns)} for pid, tid, time_ns in (begin, end))
    return [base | {"ph": "s"} | first, base | {"ph": "f", "bp": "e"} | last]


def counter_event(name: str, time_ns: int, value: int) -> Event:
    """A point of a queue over time."""
    return {"ph": "C", "name": name, "pid": FABRIC_PID, "ts": to_us(time_ns), "args": {"bytes": value}}
