"""How long messages take that have their ways to themselves: what `lanes` has learned of it.

It is up to the form of a message's way (rates and delays in order) and its size. Once two in a row agree within the
tolerance, their mean is known. The times of other sizes of that form follow from it, if they are near enough: beyond
the latency of its way a message takes so much for each byte and something once, such as what its control needs to gain
its rate, and all of it is taken to be for bytes. What is really taken once is no more than what the known message took
beyond its latency and its bytes at line rate; so this bounds the error, which has to be within the tolerance.
"""

import numpy as np

from pdes.skipping import history as h
from pdes.skipping.fluid.ack_load import Slowdown
from pdes.skipping.fluid.lane_records import Ended, Times, Watched

MIN_ROUND_TRIPS = 8  # that a message lasts, and that its flow was alone before: then its control has settled
MAX_SIZE_BITS = 44
MAX_SIZE = (1 << MAX_SIZE_BITS) - 1
MOST_TIMES = 1024  # with more of them known none is derived: where all sizes differ, none comes again


class LaneTimes:
    """Times that are known; alike on every rank."""

    def __init__(
        self, form: np.ndarray, tolerance: float, rtt_ps: int, slowdown: Slowdown, latency_ps: np.ndarray
    ) -> None:
        """form: int64[n_flow], equal where ways are. latency_ps: int64[n_flow], from a last byte's leaving to its
        acknowledgement, on idle ways."""
        self._form, self._tolerance, self._least_ps = form, tolerance, MIN_ROUND_TRIPS * rtt_ps
        self._slowdown, self._latency_ps = slowdown, latency_ps
        self._first: dict[int, Times] = {}  # of forms and sizes that were seen once
        self._known: dict[int, Times] = {}
        self._sizes: dict[int, list[int]] = {}  # by form, that were measured
        self._keys = np.zeros(0, np.int64)  # that are known, ascending

    def __len__(self) -> int:
        return len(self._known)

    def keys(self, rows: np.ndarray) -> np.ndarray:
        """int64[n]: what the time of each row's message is up to: its way's form and its size."""
        return (self._form[rows[:, h.FLOW]] << MAX_SIZE_BITS) + rows[:, h.MESSAGE_END] - rows[:, h.MESSAGE_BEGIN]

    def are_known(self, keys: np.ndarray) -> np.ndarray:
        """bool[n]: whether the times of messages are known."""
        if len(self._keys) == 0:
            return np.zeros(len(keys), np.bool_)
        return self._keys[np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)] == keys

    def of(self, key: int) -> Times | None:
        """What a message takes, None: it is not known."""
        return self._known.get(key)

    def learn(self, over: Watched, ended: Ended) -> list[tuple[int, int, Times]]:
        """Note how long messages would have taken without acknowledgements of others; (flow, size, times) of what is
        known now and was not."""
        delivered_ps, ended_ps = ended.delivered_ps - over.posted_ps, ended.ended_ps - over.posted_ps
        is_right = (ended.end_byte == over.end_byte) & (delivered_ps > 0) & (ended_ps > delivered_ps)
        is_right &= ended_ps >= self._least_ps
        found = []
        for i in np.flatnonzero(is_right).tolist():
            key, flow = int(over.key[i]), int(over.flows[i])
            size = key & MAX_SIZE
            longer = self._slowdown.times(flow, size, int(ended_ps[i]), bool(over.is_loaded[i]), False)
            new = Times(int(delivered_ps[i] * longer), int(ended_ps[i] * longer), int(ended.marked[i]))
            if key in self._known or not self._slowdown.may_be_alone(flow, size, new.ended_ps):
                continue
            old = self._first.get(key)
            if old is not None and abs(old.ended_ps - new.ended_ps) <= self._tolerance * old.ended_ps:
                self._known[key] = Times(*((a + b) // 2 for a, b in zip(old, new, strict=True)))
                self._sizes.setdefault(key >> MAX_SIZE_BITS, []).append(size)
                found.append((flow, size, self._known[key]))
            self._first[key] = new
        self._sort(bool(found))
        return found

    def derive(self, keys: np.ndarray, flows: np.ndarray) -> bool:
        """Tell the times of messages that are not known (int64[n] each) from those of sizes near theirs; whether there
        were any."""
        n = len(self._known)
        if n >= MOST_TIMES:
            return False
        for key, flow in dict(zip(keys.tolist(), flows.tolist(), strict=True)).items():
            form, size = key >> MAX_SIZE_BITS, key & MAX_SIZE
            sizes = self._sizes.get(form)
            if not sizes:
                continue
            near = min(sizes, key=lambda other: (abs(other - size), other))
            times, latency_ps = self._known[(form << MAX_SIZE_BITS) + near], int(self._latency_ps[flow])
            ended_ps = latency_ps + (times.ended_ps - latency_ps) * size // near
            once_ps = max(0.0, times.ended_ps - latency_ps - near * self._slowdown.line_ps[flow])
            if ended_ps < self._least_ps or once_ps * abs(size - near) > self._tolerance * ended_ps * near:
                continue
            ack_ps = times.ended_ps - times.delivered_ps
            self._known[key] = Times(ended_ps - ack_ps, ended_ps, times.marked * size // near)
        self._sort(len(self._known) > n)
        return len(self._known) > n

    def _sort(self, is_more: bool) -> None:
        if is_more:
            self._keys = np.array(sorted(self._known), np.int64)

    def table(self) -> np.ndarray:
        """int64[n, 5]: form, size, times of delivery and of its acknowledgement, marked packets; by form and size."""
        rows = [(key >> MAX_SIZE_BITS, key & MAX_SIZE, *self._known[key]) for key in self._keys.tolist()]
        return np.array(rows, np.int64).reshape(-1, 5)
