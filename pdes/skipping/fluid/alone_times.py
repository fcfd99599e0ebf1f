"""How long messages take that have their ways to themselves: what is learned of those that were simulated.

A message is alone if no other flow's data uses a port of its way as long as it lasts; acknowledgements of others may.
If its flow has been alone for some round trips before, its control has settled, and how long the message takes is up to
its way's form (rates and delays in order) and its size. Once two took the same within a part of the tolerance, or the
nearest two of three within the tolerance, their mean is known: this is Wormhole's memo (section 4) with a single flow
for a conflict graph. A message that is over before a control settles anew, one of less than eight round trips, counts
if its bytes took what they take at line rate: then nothing was kept from it, whatever was before.

A control that leaves a part of a port free, as HPCC does, sends a flow's first messages at the line's rate and later
ones below it. So flows in lockstep take the same time long before it is the time that they go on to take. Of such a
control the last messages of one flow have to agree, and short ones do not count.

Deviations: the key knows nothing of rates, an episode is a whole message, and it may go on from the last one without a
break.

Where packets of a flow go different ways, messages that are alone have stages in common (`stage_load`), and how many
packets meet there is drawn. So many have to agree: see `generations`.

Acknowledgements of others do slow data down (`ack_load`), so times are kept as if there were none.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pdes.engine.time_index import NEVER
from pdes.skipping import history as h
from pdes.skipping.fluid.ack_load import Slowdown
from pdes.skipping.fluid.alone_rates import MIN_ROUND_TRIPS
from pdes.skipping.fluid.generations import Generations
from pdes.skipping.fluid.make_table import Links
from pdes.skipping.fluid.stage_load import N_LOAD

MAX_SIZE_BITS = 44
MAX_SIZE = (1 << MAX_SIZE_BITS) - 1
CLOSE = 0.25  # of the tolerance: two times that agree so well suffice
MOST_SEEN = 3
MOST_TRIED = 64  # short messages of one form and size that are looked for, if their times are not known then
LEAST_ROUND_TRIPS = 2  # that a message takes: one that its bytes fill, one for the last of them and its acknowledgement


class Ended(NamedTuple):
    """How flows' last messages ended; int64[n]."""

    end_byte: np.ndarray
    ended_ps: np.ndarray
    marked: np.ndarray
    delivered_ps: np.ndarray


class Watched(NamedTuple):
    """Messages that were alone and are over. Arrays int64[n]."""

    flows: np.ndarray
    end_byte: np.ndarray
    size: np.ndarray
    posted_ps: np.ndarray
    is_loaded: np.ndarray  # bool[n], whether they met acknowledgements


class AloneTime(NamedTuple):
    """What is known of a message of a flow's form and of this size, now and not before."""

    flow: int
    size: int
    delivered_ps: int  # from its posting on
    ended_ps: int


class AloneTimes:
    """Times that are known; alike on every rank."""

    def __init__(self, links: Links, tolerance: float, rtt_ps: int, slowdown: Slowdown) -> None:
        self._form, self._tolerance, self._least_ps = links.form, tolerance, LEAST_ROUND_TRIPS * rtt_ps
        self._slowdown, self._of_one_flow = slowdown, slowdown.leaves_room
        self._stage_start = np.zeros(len(links.form) + 1, np.int64) if links.stages is None else links.stages.start
        self._late_ps, self._rtt_ps = links.behind_ps + links.ack_ps, rtt_ps
        self._seen: dict[tuple[int, int], list[tuple[int, int]]] = {}  # of the last messages, see `_agreed`
        self._generations: dict[int, Generations] = {}  # by form and size, where packets go different ways
        self._known: set[int] = set()
        self._n_tried: dict[int, int] = {}  # by form and size, of short ones

    def __len__(self) -> int:
        return len(self._known)

    def learn(self, over: Watched, ended: Ended) -> list[AloneTime]:
        """Note how long messages would have taken without acknowledgements of others; what is known now and was not."""
        delivered_ps, ended_ps = ended.delivered_ps - over.posted_ps, ended.ended_ps - over.posted_ps
        is_right = (ended.end_byte == over.end_byte) & (delivered_ps > 0) & (ended_ps > delivered_ps)
        is_right &= (ended_ps >= self._least_ps) & (over.size <= MAX_SIZE)
        found = []
        for i in np.flatnonzero(is_right).tolist():
            flow, size = int(over.flows[i]), int(over.size[i])
            key = (int(self._form[flow]) << MAX_SIZE_BITS) + size
            if key in self._known:
                continue
            is_short = ended_ps[i] < MIN_ROUND_TRIPS * self._rtt_ps
            late_ps, line_ps = int(self._late_ps[flow]), size * float(self._slowdown.line_ps[flow])
            sent_ps = int(ended_ps[i]) - late_ps  # what acknowledgements of others slow down: not the way's latency
            is_spread = bool(self._stage_start[flow + 1] > self._stage_start[flow])
            if not (is_spread and self._form[flow] % N_LOAD):  # over a full stage data does not fill its NICs' ports
                sent_ps = int(sent_ps * self._slowdown.times(flow, size, sent_ps, bool(over.is_loaded[i]), False))
            new = late_ps + sent_ps - int(ended_ps[i] - delivered_ps[i]), late_ps + sent_ps
            if is_short:
                self._n_tried[key] = self._n_tried.get(key, 0) + 1
                if self._of_one_flow or sent_ps > line_ps * (1 + CLOSE * self._tolerance):
                    continue
            if not self._slowdown.may_be_alone(flow, size, new[1]):
                continue
            if is_spread:
                generations = self._generations.setdefault(key, Generations())
                mean = generations.add(int(over.posted_ps[i]), new, self._tolerance)
            else:
                mean = self._agreed((key, flow if self._of_one_flow else -1), new)
            if mean is not None:
                self._known.add(key)
                found.append(AloneTime(flow, size, *mean))
        return found

    def _agreed(self, message: tuple[int, int], new: tuple[int, int]) -> tuple[int, int] | None:
        """The mean of two times that agree; None if there are none. message: (form and size, flow or -1: any)."""
        seen = self._seen[message] = [*self._seen.get(message, [])[1 - MOST_SEEN :], new]
        pairs = [seen[-2:]] if self._of_one_flow else list(pairwise(sorted(seen, key=lambda times: times[1])))
        within = self._tolerance if len(seen) == MOST_SEEN else CLOSE * self._tolerance
        apart = [(abs(pair[1][1] / pair[0][1] - 1), *pair) for pair in pairs if len(pair) == 2]
        if not apart or min(apart)[0] > within:
            return None
        _, a, b = min(apart)
        return (a[0] + b[0]) // 2, (a[1] + b[1]) // 2

    def seeks(self, flows: np.ndarray, size: np.ndarray) -> np.ndarray:
        """bool[n]: of which forms and sizes more short messages are looked for. int64[n], int64[n]."""
        if self._of_one_flow:
            return np.zeros(len(flows), np.bool_)
        keys, place = np.unique((self._form[flows].astype(np.int64) << MAX_SIZE_BITS) + size, return_inverse=True)
        seeks = [key not in self._known and self._n_tried.get(key, 0) < MOST_TRIED for key in keys.tolist()]
        return np.array(seeks, np.bool_)[place]


class Watch:
    """Messages that are watched from their posting to their end, as long as they are alone; alike on every rank."""

    def __init__(self, n_flow: int, rtt_ps: int) -> None:
        self._settles_ps = MIN_ROUND_TRIPS * rtt_ps
        self._message = np.full(n_flow, -1, np.int64)  # that is watched
        self._is_loaded = np.zeros(n_flow, np.bool_)  # whether it meets acknowledgements
        self._form = np.zeros(n_flow, np.int64)  # of its way, with the load of stages
        self._rows = np.zeros((0, h.N_COLUMN), np.int64)
        self.alone_since_ps = np.full(n_flow, NEVER, np.int64)  # by all looks since then

    def note_alone(self, now_ps: int, rows: np.ndarray, is_alone: np.ndarray) -> np.ndarray:
        """bool[n]: messages that nothing has held up since they were posted by flows that had been alone for long."""
        flows = rows[:, h.FLOW]
        since_ps = np.where(is_alone, np.minimum(self.alone_since_ps[flows], now_ps), NEVER)
        self.alone_since_ps[flows] = since_ps
        is_settled = rows[:, h.POSTED_PS] >= np.where(is_alone, since_ps, 0) + self._settles_ps
        return is_alone & is_settled & (rows[:, h.IS_CLEAR] != 0)

    def begin(self, rows: np.ndarray, is_loaded: np.ndarray, form: np.ndarray) -> None:
        """Watch messages, unless they are watched. rows: their flows' samples. form: int64[n_flow]."""
        is_new = self._message[rows[:, h.FLOW]] != rows[:, h.ID]
        if not is_new.any():
            return
        flows = rows[is_new, h.FLOW]
        self._message[flows], self._is_loaded[flows] = rows[is_new, h.ID], is_loaded[is_new]
        self._form[flows] = form[flows]
        self._rows = np.concatenate([self._rows, rows[is_new, : h.N_COLUMN]])

    def over(
        self, rows: np.ndarray, is_alone: np.ndarray, is_loaded: np.ndarray, is_skipped: np.ndarray, form: np.ndarray
    ) -> Watched:  # fmt: skip
        """Those that are over; those that are alone no more are given up. rows: samples of all active flows, ascending.

        is_skipped: bool[n_flow], frozen flows, which have none. form: int64[n_flow], of their ways now.
        """
        mine, flows = self._rows, rows[:, h.FLOW]
        mine = mine[form[mine[:, h.FLOW]] == self._form[mine[:, h.FLOW]]]  # else it is given up
        if len(mine) == 0:
            return as_watched(mine, np.zeros(0, np.bool_))
        skips = is_skipped[mine[:, h.FLOW]]
        goes_on, is_good = skips, skips
        if len(flows):
            at = np.minimum(np.searchsorted(flows, mine[:, h.FLOW]), len(flows) - 1)
            goes_on = skips | (flows[at] == mine[:, h.FLOW]) & (rows[at, h.ID] == mine[:, h.ID])
            is_good = skips | is_alone[at] & (is_loaded[at] == self._is_loaded[mine[:, h.FLOW]])
        over = mine[~goes_on]
        self._message[over[:, h.FLOW]] = -1
        self._rows = mine[goes_on & is_good]  # one that is given up is not watched again
        return as_watched(over, self._is_loaded[over[:, h.FLOW]])

    @property
    def rows(self) -> np.ndarray:
        """Samples of messages that are watched, of the looks at which that began."""
        return self._rows

    def end(self, rows: np.ndarray) -> np.ndarray:
        """bool[n]: which of these messages are watched, and were not given up; they are watched no more."""
        watched = set(zip(self._rows[:, h.FLOW].tolist(), self._rows[:, h.ID].tolist(), strict=True))
        is_mine = np.array([(int(row[h.FLOW]), int(row[h.ID])) in watched for row in rows], np.bool_)
        self._message[rows[is_mine, h.FLOW]] = -1
        self._rows = self._rows[self._message[self._rows[:, h.FLOW]] == self._rows[:, h.ID]]
        return is_mine


def as_watched(rows: np.ndarray, is_loaded: np.ndarray) -> Watched:
    """Messages that were alone, by samples of their flows."""
    flows, ends, posted_ps = (rows[:, column].copy() for column in (h.FLOW, h.MESSAGE_END, h.POSTED_PS))
    return Watched(flows, ends, rows[:, h.MESSAGE_END] - rows[:, h.MESSAGE_BEGIN], posted_ps, is_loaded)
