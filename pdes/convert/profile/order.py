"""Who waits for whom among a rank's kernels: streams, calls that make one wait for another, and what else times imply.

A kernel waits for the one before it on its stream. Across streams:

- where calls that make a stream wait were traced, for the last kernel that the other stream had when its event was
  recorded;
- else for the last kernel of another stream that ended while its own stream was idle before it, if the CPU had called
  for that one earlier, and for itself before that one ended: a kernel that was called for later was held up by the CPU;
- for a kernel during whose end the CPU was in a call that waits, if it was called for behind that call.

What was not the last thing that a kernel waited for leaves no trace in the times, and so no dependency without calls.
`waits_for_all` errs on the other side: a kernel then waits for the last one of each other stream that ended before it
began and was called for earlier.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from pdes.convert.profile.seen import Kernel, RankProfile

MOST_LOOKED_AT = 64  # kernels of another stream that ended in a gap, latest first


@dataclass
class _Stream:
    """Numbers of a stream's kernels, in order, with their ends and the latest launch up to each."""

    numbers: list[int]
    ends: list[int]
    launches: list[int]


def in_order(profile: RankProfile) -> list[Kernel]:
    """Kernels by their starts; those of a stream never overlap."""
    return sorted(profile.kernels, key=lambda k: (k.start_ps, k.end_ps, k.stream))


def dependencies(profile: RankProfile, kernels: list[Kernel]) -> list[list[int]]:
    """Places of the kernels that each one waits for, the one before it on its stream first. kernels: `in_order`."""
    streams = _by_stream(kernels)
    place_in_stream = {number: place for one in streams.values() for place, number in enumerate(one.numbers)}
    asked = _asked_by_calls(profile, kernels, streams)
    host_waits = _Waits(profile.host_waits)
    after: list[list[int]] = []
    for number, kernel in enumerate(kernels):
        own = streams[kernel.stream]
        place = place_in_stream[number]
        before = own.numbers[place - 1] if place else None
        idle_from_ps = kernels[before].end_ps if before is not None else profile.begin_ps
        found = asked.get(number, [])
        for stream, other in streams.items():
            if stream == kernel.stream:
                continue
            if profile.waits_for_all and not profile.has_stream_waits:
                found += _before(kernels, kernel, other)
            else:
                found += _implied(
                    kernels, kernel, idle_from_ps, other, None if profile.has_stream_waits else stream, host_waits
                )
        found = sorted({one for one in found if one < number})
        if kernel.communication is not None and len(found) > 1 and not profile.waits_for_all:
            found = _without_other_communications(kernels, found)
        after.append([*([before] if before is not None else []), *found])
    return after


class _Waits:
    """Calls in which the CPU waited, by their begins; they do not overlap on one thread."""

    def __init__(self, calls: list[tuple[int, int]]) -> None:
        self._calls = sorted(calls)
        self._begins = [begin for begin, _ in self._calls]

    def saw(self, end_ps: int, launch_ps: int) -> bool:
        """Whether the CPU waited while a kernel ended, and was done with that when it called for another one."""
        last = bisect_right(self._begins, end_ps)
        return any(end_ps <= end <= launch_ps for _, end in self._calls[max(0, last - 8) : last])


def _by_stream(kernels: list[Kernel]) -> dict[int, _Stream]:
    streams: dict[int, _Stream] = {}
    for number, kernel in enumerate(kernels):
        one = streams.setdefault(kernel.stream, _Stream([], [], []))
        one.numbers.append(number)
        one.ends.append(max(kernel.end_ps, one.ends[-1] if one.ends else kernel.end_ps))
        launch_ps = kernel.start_ps if kernel.launch_ps is None else kernel.launch_ps
        one.launches.append(max(launch_ps, one.launches[-1] if one.launches else launch_ps))
    return streams


def _asked_by_calls(profile: RankProfile, kernels: list[Kernel], streams: dict[int, _Stream]) -> dict[int, list[int]]:
    """What stream waits say: the first kernel called for behind the call waits for the last one before the record."""
    found: dict[int, list[int]] = {}
    for wait in profile.stream_waits:
        waiting, other = streams.get(wait.stream), streams.get(wait.on_stream)
        if waiting is None or other is None or wait.stream == wait.on_stream:
            continue
        first = bisect_left(waiting.launches, wait.call_ps)
        last = bisect_right(other.launches, wait.record_ps) - 1
        if first < len(waiting.numbers) and last >= 0:
            found.setdefault(waiting.numbers[first], []).append(other.numbers[last])
    return {
        number: [one for one in others if kernels[one].end_ps <= kernels[number].start_ps]
        for number, others in found.items()
    }


def _implied(
    kernels: list[Kernel], kernel: Kernel, idle_from_ps: int, other: _Stream, by_gaps: int | None, host_waits: _Waits
) -> list[int]:
    """The kernel of another stream, if any, for which this one waited by what the times say. by_gaps None: no guess."""
    last = bisect_right(other.ends, kernel.start_ps)
    for place in range(last - 1, max(-1, last - 1 - MOST_LOOKED_AT), -1):
        if other.ends[place] <= idle_from_ps:
            return []
        one = kernels[other.numbers[place]]
        if kernel.launch_ps is None or one.launch_ps is None:
            if by_gaps is not None:
                return [other.numbers[place]]
        elif kernel.launch_ps >= one.end_ps:
            return [other.numbers[place]] if host_waits.saw(one.end_ps, kernel.launch_ps) else []
        elif one.launch_ps <= kernel.launch_ps and by_gaps is not None:
            return [other.numbers[place]]
    return []


def _before(kernels: list[Kernel], kernel: Kernel, other: _Stream) -> list[int]:
    """The last kernel of another stream that ended before this one began, and was called for earlier."""
    last = bisect_right(other.ends, kernel.start_ps)
    for number in reversed(other.numbers[max(0, last - MOST_LOOKED_AT) : last]):
        launches = kernels[number].launch_ps, kernel.launch_ps
        if launches[0] is None or launches[1] is None or launches[0] <= launches[1]:
            return [number]
    return []


def _without_other_communications(kernels: list[Kernel], found: list[int]) -> list[int]:
    """A communication follows what computes its data; another one's only if that was the last of all to end."""
    latest = max(found, key=lambda one: (kernels[one].end_ps, one))
    return [one for one in found if kernels[one].communication is None or one == latest]
