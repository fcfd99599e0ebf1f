"""Which flows share ports, and which of them go on evenly: what a look sees of flows that go packet by packet.

Flows that share ports for their data, directly or by others, are a company; one whose ways nobody else's data uses is
alone, a company of one. Once a company is as it is for some round trips, the rate of each of its flows is measured in
windows of which each is twice as long as the one before, and asked for how long it may be relied on (`trusted_rates`).
If that is until the first of the flows has sent all that it has, for all of them, the company goes on so without being
simulated. This is Wormhole's steady skipping (section 5) under a tolerance, whoever shares ports with the flows'
acknowledgements. A window that looks flat is not enough: a control that regains its rate by a packet per round trip
changes by little in any of them, and by half in a long message.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pdes.engine.jit import loop_kernel, step_kernel
from pdes.engine.time_index import NEVER
from pdes.skipping import history as h
from pdes.skipping.components import CLOSED, FREE, find_components, mark_ports
from pdes.skipping.fluid.flow_table import FORM_PRIME, NOBODY, Ways
from pdes.skipping.fluid.trusted_rates import N_COLUMN, N_KEPT, SWING, last_window, trusted_ps
from pdes.skipping.windows import keep_sample, rate_of

SETTLED_ROUND_TRIPS = 8  # that a company has to have been as it is
FIRST_ROUND_TRIPS = 4  # in the first window: what circulates has come by more than once
PATIENCE_ROUND_TRIPS = 256  # so long a company is looked at again and again for its rates


class Memory(NamedTuple):
    """What looks remember of flows, int64[n_flow] each, and scratch."""

    company: np.ndarray  # digest of the flows and messages that it shares ports with
    since_ps: np.ndarray  # and since when these are the same
    window_ps: np.ndarray  # how long its window is
    mark_ps: np.ndarray  # when that begins
    kept: np.ndarray  # int64[n_flow, N_KEPT, N_COLUMN]  samples where windows begin and end, see `history`
    n_kept: np.ndarray
    part: np.ndarray  # by row of a look: the first row of its company
    digest: np.ndarray  # by such a row: of the company's flows and messages
    count: np.ndarray  # its flows
    n_blocked: np.ndarray  # of them that share a port with what is frozen, or at flow level
    n_bad: np.ndarray  # of them that are so, or not under way as they should be
    n_even: np.ndarray  # of them that go on evenly
    n_settled: np.ndarray  # of them whose window ends now and began after the company had settled
    left_ps: np.ndarray  # until the first of them has sent all, by the windows that end now
    may_ps: np.ndarray  # float64, by row: for how long its rate may be relied on; below 0: not at all, or none ends now
    first_row: np.ndarray  # int64[n_port], FREE between looks


def make_memory(n_flow: int, n_port: int) -> Memory:
    """Nothing is known."""

    def flows() -> np.ndarray:
        return np.zeros(n_flow, np.int64)

    return Memory(
        flows(), flows(), flows(), flows(), np.zeros((n_flow, N_KEPT, N_COLUMN), np.int64), flows(), flows(), flows(),
        flows(), flows(), flows(), flows(), flows(), flows(), np.zeros(n_flow), np.full(n_port, FREE, np.int64),
    )  # fmt: skip


@step_kernel
def _digest(flow, message, load):
    """A number that hardly any other message has; sums of them are hardly ever equal either."""
    x = (flow * 1_000_003 + message % FORM_PRIME + load * 7_919) % FORM_PRIME
    return x * x % FORM_PRIME + 1


@step_kernel
def _join(rows, load, port_start, port_of, holder, m: Memory):
    """Find which rows share ports, and which of them share one with what is frozen or at flow level."""
    for row in range(rows.shape[0]):
        m.digest[row], m.count[row], m.n_even[row], m.n_settled[row] = 0, 0, 0, 0
        m.n_blocked[row], m.n_bad[row], m.left_ps[row], m.may_ps[row] = 0, 0, NEVER, -1.0
    find_components(rows[:, h.FLOW], port_start, port_of, m.first_row, m.part)
    for row in range(rows.shape[0]):
        flow, is_blocked = rows[row, h.FLOW], False
        for at in range(port_start[flow], port_start[flow + 1]):
            port = np.uint64(port_of[at])
            is_blocked |= m.first_row[port] == CLOSED or holder[port] != NOBODY
        root = m.part[row]
        is_bad = rows[row, h.IS_WHOLE] == 0 or rows[row, h.HAS_TIMER] != 0
        m.digest[root] += _digest(flow, rows[row, h.ID], load[row])
        m.count[root] += 1
        m.n_blocked[root] += is_blocked
        m.n_bad[root] += is_blocked or is_bad


@step_kernel
def _carry_on(rows, row, root, m: Memory, now_ps, rtt_ps, tolerance):
    """Carry on a flow's windows; if one ends now, note for how long its rate may be relied on."""
    flow = rows[row, h.FLOW]
    if (
        m.count[root] == 1 and rows[row, h.DONE] <= rows[row, h.MESSAGE_BEGIN]
    ):  # what was acknowledged last is of another message
        m.company[flow] = 0
        return
    if m.company[flow] != m.digest[root]:
        m.company[flow], m.since_ps[flow], m.n_kept[flow] = m.digest[root], now_ps, 0
        m.window_ps[flow] = FIRST_ROUND_TRIPS * rtt_ps
    elif now_ps < m.mark_ps[flow] + m.window_ps[flow]:
        return
    else:
        m.window_ps[flow] *= 2
    m.mark_ps[flow] = now_ps
    n = m.n_kept[flow] = keep_sample(m.kept[flow], m.n_kept[flow], rows[row])
    m.may_ps[row] = trusted_ps(m.kept[flow], n, tolerance)
    if m.may_ps[row] >= 0:
        left_ps = (rows[row, h.MESSAGE_END] - rows[row, h.DONE]) / rate_of(m.kept[flow], n - 2, n - 1)
        m.left_ps[root] = min(m.left_ps[root], np.int64(left_ps))


@loop_kernel
def see(rows, load, frozen, ways, holder, m: Memory, times, tolerance):
    """See which companies there are, and which of them go on evenly (`m`); when the next ones may be known to.

    rows: of active flows. load: int64[n_row], a number for what else is on their ways than data. frozen: int64[], flows
    that are. Ports of flow f: ways[1][ways[0][f]] .. . holder: of each port, NOBODY or who is at flow level. times:
    (now, base round trip), ps. NEVER: no more company may be known to go on evenly.
    """
    (port_start, port_of), (now_ps, rtt_ps) = ways, times
    mark_ports(frozen, port_start, port_of, m.first_row, CLOSED)
    _join(rows, load, port_start, port_of, holder, m)
    mark_ports(frozen, port_start, port_of, m.first_row, FREE)
    mark_ports(rows[:, h.FLOW], port_start, port_of, m.first_row, FREE)
    next_ps = NEVER
    for row in range(rows.shape[0]):
        flow, root = rows[row, h.FLOW], m.part[row]
        if m.n_bad[root] > 0:
            m.company[flow] = 0
            continue
        _carry_on(rows, row, root, m, now_ps, rtt_ps, tolerance)
        if m.mark_ps[flow] == now_ps and m.n_kept[flow] > 2:
            m.n_settled[root] += now_ps - m.window_ps[flow] // 2 >= m.since_ps[flow] + SETTLED_ROUND_TRIPS * rtt_ps
        if now_ps < m.since_ps[flow] + PATIENCE_ROUND_TRIPS * rtt_ps:
            next_ps = min(next_ps, m.mark_ps[flow] + m.window_ps[flow])
    for row in range(rows.shape[0]):
        flow, root = rows[row, h.FLOW], m.part[row]
        if m.may_ps[row] >= 0 and now_ps >= m.since_ps[flow] + SETTLED_ROUND_TRIPS * rtt_ps:
            m.n_even[root] += m.left_ps[root] <= m.may_ps[row]
    return next_ps


class Seen:
    """What the last look saw; alike on every rank."""

    def __init__(self, ways: Ways, n_port: int, tolerance: float, rtt_ps: int) -> None:
        self._ways, self._tolerance, self._rtt_ps = ways, tolerance, rtt_ps
        self._memory = make_memory(len(ways[0]) - 1, n_port)
        self._passed = np.zeros((len(ways[0]) - 1, 2), np.int64)  # by a company's first flow: digest and version
        self._n_row, self._flow = 0, np.zeros(0, np.int64)
        self._n_flow_of = np.zeros(0, np.int64)  # of each row's company
        self.is_alone = np.zeros(0, np.bool_)  # bool[n_row]: whose ways nobody else's data uses
        self.next_look_ps = NEVER  # when it wants to see how flows get on

    def look(self, now_ps: int, rows: np.ndarray, load: np.ndarray, frozen: np.ndarray, holder: np.ndarray) -> None:
        """See samples of the flows that go packet by packet, ascending; for the rest see `see`."""
        times = (now_ps, self._rtt_ps)
        self.next_look_ps = int(see(rows, load, frozen, self._ways, holder, self._memory, times, self._tolerance))
        self._n_row, self._flow = len(rows), rows[:, h.FLOW].copy()
        self._n_flow_of = self._of_rows(self._memory.count)
        self.is_alone = (self._n_flow_of == 1) & (self._of_rows(self._memory.n_blocked) == 0)

    def _of_rows(self, counts: np.ndarray) -> np.ndarray:
        return counts[self._memory.part[: self._n_row]]

    def _companies(self, is_one: np.ndarray) -> list[np.ndarray]:
        """int64[] each: rows of every company. is_one: bool[n_row], the same for all of a company."""
        rows = np.flatnonzero(is_one)
        if len(rows) == 0:
            return []
        part = self._memory.part[rows]
        order = np.argsort(part, kind="stable")
        rows, edges = rows[order], np.flatnonzero(np.diff(part[order])) + 1
        return [rows[a:b] for a, b in pairwise([0, *edges.tolist(), len(rows)])]

    def even(self) -> list[np.ndarray]:
        """Rows of each company that goes on evenly."""
        n = self._of_rows(self._memory.n_even)
        return self._companies((n > 0) & (n == self._n_flow_of))

    def whole(self, version: int) -> list[tuple[np.ndarray, bool]]:
        """(rows, whether a window ends now that began after it had settled) of each company of two or more whose flows
        are all under way as they should be; not of those that were passed over (`pass_over`) in this version as they
        are, unless such a window ends.
        """
        m, flow = self._memory, self._flow
        roots = np.flatnonzero(m.part[: self._n_row] == np.arange(self._n_row))
        roots = roots[(m.count[roots] >= 2) & (m.n_bad[roots] == 0)]
        has_settled, passed = m.n_settled[roots] == m.count[roots], self._passed[flow[roots]]
        is_one = np.zeros(self._n_row, np.bool_)
        is_one[roots] = has_settled | (passed[:, 0] != m.digest[roots]) | (passed[:, 1] != version)
        found = self._companies(self._of_rows(is_one))
        return [(rows, bool(m.n_settled[rows[0]] == m.count[rows[0]])) for rows in found]

    def pass_over(self, flows: np.ndarray, version: int) -> None:
        """Nothing is known of a company, until more is known: another version."""
        self._passed[flows[0]] = self._memory.company[flows[0]], version

    def last_window(self, flow: int) -> tuple[int, int]:
        """(bytes, ps) of a flow's last window."""
        return last_window(self._memory.kept, self._memory.n_kept, flow)

    def last_windows(self, flows: np.ndarray, n_later: int = 0) -> np.ndarray:
        """int64[n, 2]: bytes and ps of flows' last windows, or of those that n_later others follow."""
        m = self._memory
        return np.array([last_window(m.kept, m.n_kept, flow, n_later) for flow in flows.tolist()])

    def go_steadily(self, flows: np.ndarray) -> bool:
        """Whether a company that has settled got about the same, in the sum, in its last two windows, and sent about as
        much in the last one.

        After a burst TIMELY may have next to nothing for longer than a window. While a queue fills, all of a port is
        used, and nobody has been told to slow down.
        """
        m = self._memory
        now, before = (self.last_windows(flows, n_later) for n_later in (0, 1))
        total = [float((w[:, 0] / np.maximum(w[:, 1], 1)).sum()) for w in (before, now)]
        n_sent = sum(int(np.diff(m.kept[flow, m.n_kept[flow] - 2 : m.n_kept[flow], h.SENT])[0]) for flow in flows)
        is_even = abs(n_sent - now[:, 0].sum()) <= SWING * now[:, 0].sum()
        return bool(is_even) and abs(total[1] - total[0]) <= SWING * total[0]

    def forget(self, flows: np.ndarray) -> None:
        """Flows go on in another way: their windows begin anew."""
        self._memory.company[flows] = 0
