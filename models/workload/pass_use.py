"""What a pass through a loop of a program does, of many streams at once: messages, task rows, what it takes and opens.

A stream that is put some passes on, and all others with it, finds everything as it left it if each pass posts what a
pass of the receiver takes, opens gates as often as they are passed, and brings all members of a group together. That
follows from the programs; nobody has to look at what the network has at an instant.
"""

from typing import NamedTuple

import numpy as np

from models.workload.program import (
    OP_COMPUTE,
    OP_EXCHANGE,
    OP_GROUP,
    OP_OPEN,
    OP_PASS,
    OP_RECEIVE,
    OP_REPEAT,
    OP_RING,
    OP_SEND,
    Work,
)

_PLAIN = (OP_COMPUTE, OP_GROUP, OP_SEND, OP_RECEIVE, OP_RING, OP_EXCHANGE, OP_OPEN, OP_PASS, OP_REPEAT)


class PassUse(NamedTuple):
    """What one pass of every stream that is in a loop does, all together."""

    flows: np.ndarray  # int64[n_stream]  messages that it posts
    tasks: np.ndarray  # int64[n_stream]  task rows
    posts: np.ndarray  # int64[n_qp]  messages on each queue pair
    packets: np.ndarray  # int64[n_qp]  packets of these
    short_bytes: np.ndarray  # int64[n_qp]  payload that they lack to be full ones
    is_even: bool  # everything that passes give is taken by passes, so that any number of them may be left out


def times_of(operations: np.ndarray, repeat: int) -> np.ndarray:
    """How often a pass runs each operation of a loop's body: int64[body]. repeat: the loop's OP_REPEAT."""
    first = repeat - int(operations["slot"][repeat])
    times = np.ones(repeat - first, np.int64)
    for at in range(first, repeat):
        if operations["kind"][at] == OP_REPEAT:
            times[at - int(operations["slot"][at]) - first : at - first] *= int(operations["n_step"][at])
    return times


def use_of_passes(work: Work, repeat_of: np.ndarray, consumer: np.ndarray, payload_bytes: int) -> PassUse:
    """What passes do. repeat_of: int64[n_stream], the OP_REPEAT of each stream's loop, -1: it is in none.

    consumer: int64[n_qp], the stream that takes a queue pair's messages, -1: nobody does.
    """
    n_stream, n_qp = len(work.streams), len(consumer)
    flows, tasks = np.zeros(n_stream, np.int64), np.zeros(n_stream, np.int64)
    posts, packets, short_bytes = (np.zeros(n_qp, np.int64) for _ in range(3))
    use = PassUse(flows, tasks, posts, packets, short_bytes, True)
    taken, gates, groups = np.zeros(n_qp, np.int64), np.zeros(len(work.gates), np.int64), _Groups(work)
    is_plain = True
    for repeat in np.unique(repeat_of[repeat_of >= 0]).tolist():
        streams = np.flatnonzero(repeat_of == repeat)
        first_slot = work.streams["first_slot"][streams].astype(np.int64)
        times = times_of(work.operations, repeat)
        for at, n in zip(range(repeat - len(times), repeat), times.tolist(), strict=True):
            op = work.operations[at]
            kind, n_step = int(op["kind"]), int(op["n_step"])
            is_plain &= kind in _PLAIN and not (kind == OP_SEND and op["time_ps"] > 0)
            if kind in (OP_SEND, OP_RING, OP_EXCHANGE):
                n_message = 1 if kind == OP_SEND else n_step
                use.flows[streams] += n * n_message
                size = int(op["size_bytes"])
                n_packet = -(-size // payload_bytes)
                for k in range(n_step if kind == OP_EXCHANGE else 1):
                    pairs = work.slots[first_slot + int(op["slot"]) + k]
                    n_post = n if kind == OP_EXCHANGE else n * n_message
                    np.add.at(use.posts, pairs, n_post)
                    np.add.at(use.packets, pairs, n_post * n_packet)
                    np.add.at(use.short_bytes, pairs, n_post * (n_packet * payload_bytes - size))
            if kind == OP_RECEIVE:
                np.add.at(taken, work.slots[first_slot + int(op["slot"])], n)
            elif kind == OP_RING:
                np.add.at(taken, work.slots[first_slot + int(op["slot_in"])], n * n_step)
            elif kind == OP_EXCHANGE:
                for k in range(n_step):
                    np.add.at(taken, work.slots[first_slot + int(op["slot_in"]) + k], n)
            elif kind in (OP_OPEN, OP_PASS):
                np.add.at(gates, work.slots[first_slot + int(op["slot"])], n if kind == OP_OPEN else -n)
            elif kind == OP_GROUP:
                groups.arrive(work.slots[first_slot + int(op["slot"])], streams, n)
            if op["task_kind"] >= 0:
                use.tasks[streams] += n
    is_taken = (taken == use.posts) | ((consumer < 0) & (taken == 0))
    is_even = is_plain and bool(is_taken.all()) and not gates.any() and groups.is_even()
    return use._replace(is_even=is_even)


class _Groups:
    """Whether all members of a group come to it equally often."""

    def __init__(self, work: Work) -> None:
        self._n_member = (work.groups["end_member"] - work.groups["first_member"]).astype(np.int64)
        self._n_stream = len(work.streams)
        self._seen: list[tuple[np.ndarray, np.ndarray, int]] = []

    def arrive(self, groups: np.ndarray, streams: np.ndarray, n: int) -> None:
        """A pass of each of the streams comes n times to its group."""
        self._seen.append((groups.astype(np.int64), streams, n))

    def is_even(self) -> bool:
        """After all have come."""
        if not self._seen:
            return True
        key = np.concatenate([groups * self._n_stream + streams for groups, streams, _ in self._seen])
        n = np.concatenate([np.full(len(streams), n, np.int64) for _, streams, n in self._seen])
        found, place = np.unique(key, return_inverse=True)
        times = np.zeros(len(found), np.int64)
        np.add.at(times, place.reshape(-1), n)
        group = found // self._n_stream
        n_came = np.bincount(group, minlength=len(self._n_member))
        least, most = np.full(len(self._n_member), 2**62), np.zeros(len(self._n_member), np.int64)
        np.minimum.at(least, group, times)
        np.maximum.at(most, group, times)
        came = n_came > 0
        return bool((n_came[came] == self._n_member[came]).all() and (least[came] == most[came]).all())
