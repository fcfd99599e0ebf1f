"""Flows that share ports, each of which goes on at an even pace: their messages' rests are not simulated until the
first of them ends.

Two messages of a pipeline that meet on a spine share it for most of their time, and nothing happens but that each gets
its part. This is Wormhole's steady skipping (section 5) under a tolerance, of flows that share ports for their data,
whoever shares ports with their acknowledgements. A group is to have been as it is for some round trips; then the pace
of each of its flows has to be one that may be relied on until the group ends (`trusted_paces`), by windows each of
which is twice as long as the one before. The group goes on so until the first of its flows has sent all that it has: at
that instant the others go on packet by packet, from what they have got done.
"""

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from pdes.engine.jit import loop_kernel, step_kernel
from pdes.engine.time_index import NEVER
from pdes.skipping import history as h
from pdes.skipping.fluid.trusted_paces import N_COLUMN, N_KEPT, keep_sample, last_window, trusted_ps
from pdes.skipping.windows import rate_of

SETTLED_ROUND_TRIPS = 8  # that a group has to have been as it is
FIRST_ROUND_TRIPS = 4  # in the first window: what circulates has come by more than once
PATIENCE_ROUND_TRIPS = 256  # so long a group is looked at again and again for its paces
FREE, BLOCKED = -1, -2
PRIME = 2**31 - 1


class Paces(NamedTuple):
    """What looks remember of flows, int64[n_flow] each, and scratch."""

    group: np.ndarray  # digest of the flows and messages that it shares ports with
    since_ps: np.ndarray  # and since when these are the same
    window_ps: np.ndarray  # how long its window is
    mark_ps: np.ndarray  # when that begins
    kept: np.ndarray  # int64[n_flow, N_KEPT, N_COLUMN]  samples where windows begin and end, see `history`
    n_kept: np.ndarray
    part: np.ndarray  # by row of a look: the first row of its group
    digest: np.ndarray  # by such a row: of the group's flows and messages
    count: np.ndarray  # its flows
    n_bad: np.ndarray  # of them that are not under way as they should, or share a port with what is skipped
    n_even: np.ndarray  # of them that go on evenly
    left_ps: np.ndarray  # until the first of them has sent all, by the windows that end now
    may_ps: np.ndarray  # float64, by row: for how long its pace may be relied on; below 0: not at all, or none ends now
    first_row: np.ndarray  # int64[n_port], FREE between looks


def make_paces(n_flow: int, n_port: int) -> Paces:
    """Nothing is known."""

    def flows() -> np.ndarray:
        return np.zeros(n_flow, np.int64)

    return Paces(
        flows(), flows(), flows(), flows(), np.zeros((n_flow, N_KEPT, N_COLUMN), np.int64), flows(), flows(),
        flows(), flows(), flows(), flows(), flows(), np.zeros(n_flow, np.float64), np.full(n_port, FREE, np.int64),
    )  # fmt: skip


@step_kernel
def root_of(part, row):
    """The first of a set of rows, each of which has another one of it in `part`, itself if it is the first."""
    while part[row] != row:
        part[row] = part[part[row]]
        row = part[row]
    return row


@step_kernel
def _mark_ports(flows, port_start, port_of, first_row, value):
    for i in range(flows.size):
        for at in range(port_start[flows[i]], port_start[flows[i] + 1]):
            first_row[np.uint64(port_of[at])] = value


@step_kernel
def _digest(flow, message):
    """A number that hardly any other message has; sums of them are hardly ever equal either."""
    x = (flow * 1_000_003 + message % PRIME) % PRIME
    return x * x % PRIME + 1


@step_kernel
def _join(rows, port_start, port_of, holder, p: Paces):
    """Find which rows share ports, and which of them share one with what is frozen or has a lane."""
    for row in range(rows.shape[0]):
        p.part[row], p.digest[row], p.count[row], p.n_bad[row], p.n_even[row] = row, 0, 0, 0, 0
        p.left_ps[row], p.may_ps[row] = NEVER, -1.0
    for row in range(rows.shape[0]):
        flow = rows[row, h.FLOW]
        for at in range(port_start[flow], port_start[flow + 1]):
            port = np.uint64(port_of[at])
            first = p.first_row[port]
            if first == FREE:
                p.first_row[port] = row
            elif first >= 0:
                one, other = root_of(p.part, first), root_of(p.part, np.int64(row))
                p.part[max(one, other)] = min(one, other)
    for row in range(rows.shape[0]):
        flow, is_bad = rows[row, h.FLOW], rows[row, h.IS_WHOLE] == 0 or rows[row, h.HAS_TIMER] != 0
        for at in range(port_start[flow], port_start[flow + 1]):
            port = np.uint64(port_of[at])
            is_bad |= p.first_row[port] == BLOCKED or holder[port] != -1
        root = root_of(p.part, np.int64(row))
        p.part[row] = root
        p.digest[root] += _digest(flow, rows[row, h.ID])
        p.count[root] += 1
        p.n_bad[root] += is_bad


@step_kernel
def _carry_on(rows, row, root, p: Paces, now_ps, rtt_ps, tolerance):
    """Carry on a flow's windows; if one ends now, note for how long its pace may be relied on."""
    flow = rows[row, h.FLOW]
    if p.group[flow] != p.digest[root]:
        p.group[flow], p.since_ps[flow], p.n_kept[flow] = p.digest[root], now_ps, 0
        p.window_ps[flow] = FIRST_ROUND_TRIPS * rtt_ps
    elif now_ps < p.mark_ps[flow] + p.window_ps[flow]:
        return
    else:
        p.window_ps[flow] *= 2
    p.mark_ps[flow] = now_ps
    n = p.n_kept[flow] = keep_sample(p.kept[flow], p.n_kept[flow], rows[row])
    p.may_ps[row] = trusted_ps(p.kept[flow], n, tolerance)
    if p.may_ps[row] >= 0:
        left_ps = (rows[row, h.MESSAGE_END] - rows[row, h.DONE]) / rate_of(p.kept[flow], n - 2, n - 1)
        p.left_ps[root] = min(p.left_ps[root], np.int64(left_ps))


@loop_kernel
def find_even(rows, frozen, port_start, port_of, holder, p: Paces, now_ps, rtt_ps, tolerance, out):
    """Write into out the rows of groups of two or more that go on evenly, ascending; (how many, the next look).

    rows: of active flows. frozen: int64[], flows that are. Ports of flow f: port_of[port_start[f]] .. . holder: of each
    port, -1: no lane. The next look is when some group's paces may be known, NEVER if none may.
    """
    _mark_ports(frozen, port_start, port_of, p.first_row, BLOCKED)
    _join(rows, port_start, port_of, holder, p)
    _mark_ports(frozen, port_start, port_of, p.first_row, FREE)
    _mark_ports(rows[:, h.FLOW], port_start, port_of, p.first_row, FREE)
    n_out, next_ps = 0, NEVER
    for row in range(rows.shape[0]):
        flow, root = rows[row, h.FLOW], p.part[row]
        if p.count[root] < 2 or p.n_bad[root] > 0:
            p.group[flow] = 0
            continue
        _carry_on(rows, row, root, p, now_ps, rtt_ps, tolerance)
        if now_ps < p.since_ps[flow] + PATIENCE_ROUND_TRIPS * rtt_ps:
            next_ps = min(next_ps, p.mark_ps[flow] + p.window_ps[flow])
    for row in range(rows.shape[0]):
        flow, root = rows[row, h.FLOW], p.part[row]
        if p.may_ps[row] >= 0 and now_ps >= p.since_ps[flow] + SETTLED_ROUND_TRIPS * rtt_ps:
            p.n_even[root] += p.left_ps[root] <= p.may_ps[row]
    for row in range(rows.shape[0]):
        root = p.part[row]
        if p.count[root] >= 2 and p.n_even[root] == p.count[root]:
            out[n_out] = row
            n_out += 1
    return n_out, next_ps


class Groups:
    """Those that go on together without being simulated; alike on every rank."""

    def __init__(self, n_flow: int, n_port: int) -> None:
        self.paces = make_paces(n_flow, n_port)
        self.next_look_ps = NEVER  # when it wants to see how flows get on
        self.of_flow: dict[int, int] = {}  # number of the group
        self._members: dict[int, tuple[np.ndarray, np.ndarray]] = {}  # by number: its flows, when each has sent all
        self._slack_ps: dict[int, int] = {}  # by number: so much earlier it may end with others
        self._n = 0
        self._ends: list[tuple[int, int]] = []  # heap of (planned end, number); some are over
        self._out = np.zeros(n_flow, np.int64)

    def look(
        self, now_ps: int, rows: np.ndarray, frozen: np.ndarray, ways: tuple[np.ndarray, np.ndarray],
        holder: np.ndarray, rtt_ps: int, tolerance: float,
    ) -> list[np.ndarray]:  # fmt: skip
        """Rows of each group that goes on evenly, see `find_even`."""
        n, self.next_look_ps = find_even(rows, frozen, *ways, holder, self.paces, now_ps, rtt_ps, tolerance, self._out)
        if n == 0:
            return []
        found = self._out[:n].copy()
        part = self.paces.part[found]
        return [found[part == first] for first in np.unique(part).tolist()]

    def whole(self, n_row: int) -> list[np.ndarray]:
        """Rows of each group, as the last look saw it, whose flows are all under way as they should be."""
        p = self.paces
        part = p.part[:n_row]
        rows = np.flatnonzero((p.count[part] >= 2) & (p.n_bad[part] == 0))
        if len(rows) == 0:
            return []
        rows = rows[np.argsort(part[rows], kind="stable")]
        return np.split(rows, np.flatnonzero(np.diff(part[rows])) + 1)

    def pace(self, flow: int) -> tuple[int, int]:
        """(bytes, ps) of a flow's last window."""
        return last_window(self.paces.kept, self.paces.n_kept, flow)

    def settled(self, now_ps: int, flows: np.ndarray, rtt_ps: int) -> np.ndarray:
        """int64[n, 2]: bytes and ps of the last windows of a group's flows, if these end now and it has settled before
        they began; else none."""
        p = self.paces
        is_over = (p.mark_ps[flows] == now_ps) & (p.n_kept[flows] > 2)
        if not (is_over & (now_ps - p.window_ps[flows] // 2 >= p.since_ps[flows] + SETTLED_ROUND_TRIPS * rtt_ps)).all():
            return np.zeros((0, 2), np.int64)
        return np.array([self.pace(flow) for flow in flows.tolist()])

    def begin(self, flows: np.ndarray, free_ps: np.ndarray, slack_ps: int = 0) -> int:
        """Flows go on together until the first of the instants at which they have sent all that they have; the number
        of their group.

        slack_ps: who has so much later counts as one of the first, of whom the last counts; and the group may end so
        much earlier.
        """
        is_first = free_ps <= free_ps.min() + slack_ps
        free_ps = np.where(is_first, free_ps[is_first].max(), free_ps)
        self._members[self._n], self._slack_ps[self._n] = (flows, free_ps), slack_ps
        heappush(self._ends, (int(free_ps.min()), self._n))
        self.of_flow |= dict.fromkeys(flows.tolist(), self._n)
        self._n += 1
        return self._n - 1

    @property
    def first_end_ps(self) -> int:
        """When the first group ends, NEVER: there is none."""
        while self._ends and self._ends[0][1] not in self._members:
            heappop(self._ends)
        return self._ends[0][0] if self._ends else NEVER

    @property
    def n_flow(self) -> int:
        """Flows in groups."""
        return len(self.of_flow)

    def due(self, now_ps: int) -> list[int]:
        """Numbers of groups that end, ascending; each has to be ended. If one does, those that may end with it do."""
        found, others = [], []
        most_ps = max(self._slack_ps.values(), default=0) if self.first_end_ps <= now_ps else 0
        while self.first_end_ps <= now_ps + most_ps:
            end = heappop(self._ends)
            (found if end[0] <= now_ps + self._slack_ps[end[1]] else others).append(end)
        for end in others:
            heappush(self._ends, end)
        return sorted(number for _, number in found)

    def end_ps(self, number: int) -> int:
        """When a group ends as planned."""
        return int(self._members[number][1].min())

    def end(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """A group is over: its flows, and when each would have sent all that it has."""
        flows, free_ps = self._members.pop(number)
        del self._slack_ps[number]
        for flow in flows.tolist():
            del self.of_flow[flow]
        self.paces.group[flows] = 0
        return flows, free_ps
