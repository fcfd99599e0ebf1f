"""How far lanes and groups are off: for stretches of time what they could take is simulated all the same, and compared.

In a stretch that is drawn (`stretches`) nothing is put on a lane, and no group goes on. Their messages are simulated,
and what would have been said of them is kept until they are over. All else is as if they had been taken: the lane is
open, what is learned is what would have been said, a group keeps its ports until its planned end. So whoever comes to
these ports is noticed as ever; that ends the comparison, as nobody could have known. When the stretch is over lanes may
have what is still under way, and it is not compared.
"""

from typing import Any, NamedTuple

import numpy as np

from pdes.engine.time_index import NEVER
from pdes.skipping import history as h
from pdes.skipping.fluid.stretches import NO_STRETCH, Stretches
from pdes.skipping.kind_errors import KindErrors
from pdes.skipping.prediction import (
    N_PREDICTED_COLUMN,
    PREDICTED_BEGIN_PS,
    PREDICTED_ENDED_PS,
    PREDICTED_FREE_PS,
    PREDICTED_MARKED,
    PREDICTED_SIZE,
)

# What is said of a message that is followed, a row of int64.
(
    EXPECTED_FLOW,
    EXPECTED_END,  # its last byte's end in the flow's stream
    EXPECTED_POSTED_PS,
    EXPECTED_FROM_PS,  # from then on
    EXPECTED_ENDED_PS,
    EXPECTED_UNIT,  # what was drawn together; NO_STRETCH: it is not compared
) = range(6)
N_EXPECTED_COLUMN = 6


class FollowedGroup(NamedTuple):
    """A group that is simulated. Arrays int64[n_flow]."""

    unit: int  # what was drawn together; NO_STRETCH: it is not compared
    flows: np.ndarray
    end: np.ndarray  # of their messages, in the streams
    posted_ps: np.ndarray
    done: np.ndarray  # bytes acknowledged at the beginning
    done_ps: np.ndarray  # and when that was
    predicted: np.ndarray  # int64[n_flow, N_PREDICTED_COLUMN]  how they were to go on


class LaneAudit:
    """Follows what is simulated in stretches that are drawn, and adds up its errors; alike on every rank."""

    def __init__(self, n_flow: int, stretches: Stretches) -> None:
        self.stretches = stretches
        self.running = np.zeros((0, N_EXPECTED_COLUMN), np.int64)
        self.groups: dict[int, FollowedGroup] = {}  # by number
        self.n_followed = np.zeros(n_flow, np.int64)  # messages of each flow that are
        self._last_end, self._kept_end = (np.zeros(n_flow, np.int64) for _ in range(2))  # see `had`, `keeps`
        self._changed: list[int] = []  # flows of which others are followed than before
        self._lanes, self._groups = KindErrors(), KindErrors()

    def had(self, rows: np.ndarray) -> np.ndarray:
        """bool[n]: whose messages are followed, or were. rows: samples."""
        return self._last_end[rows[:, h.FLOW]] >= rows[:, h.MESSAGE_END]

    def keeps(self, rows: np.ndarray) -> np.ndarray:
        """bool[n]: whose messages are simulated to the end, or to that of the stretch. rows: samples."""
        return self._kept_end[rows[:, h.FLOW]] >= rows[:, h.MESSAGE_END]

    @property
    def next_look_ps(self) -> int:
        """When the first message that is followed should be over, NEVER: there is none."""
        return int(self.running[:, EXPECTED_ENDED_PS].min(initial=NEVER))

    def changed(self) -> np.ndarray:
        """int64[]: flows whose `n_followed` may have changed since this was asked for."""
        flows, self._changed = np.array(self._changed, np.int64), []
        return flows

    def _count(self, flows: np.ndarray, sign: int) -> None:
        np.add.at(self.n_followed, flows, sign)
        self._changed += flows.tolist()

    def follow(self, said: np.ndarray) -> None:
        """Follow messages. said: int64[n, 5], all of EXPECTED_* but the last."""
        flows, end_byte = said[:, EXPECTED_FLOW], said[:, EXPECTED_END]
        unit = self.stretches.unit_of(flows, said[:, EXPECTED_FROM_PS])
        self.running = np.concatenate([self.running, np.column_stack([said, unit])])
        np.maximum.at(self._last_end, flows, end_byte)
        np.maximum.at(self._kept_end, flows, end_byte)
        self._lanes.n_audited += len(said)
        self._count(flows, 1)

    def over(self, rows: np.ndarray) -> np.ndarray:
        """Of what is followed, the messages that are over. rows: samples of all active flows, ascending."""
        mine = self.running
        if len(mine) == 0 or len(rows) == 0:
            return mine
        at = np.minimum(np.searchsorted(rows[:, h.FLOW], mine[:, EXPECTED_FLOW]), len(rows) - 1)
        is_there = rows[at, h.FLOW] == mine[:, EXPECTED_FLOW]
        return mine[~is_there | (rows[at, h.DONE] >= mine[:, EXPECTED_END])]

    def of(self, flows: np.ndarray) -> np.ndarray:
        """Of what is followed, the messages of some flows."""
        return self.running[np.isin(self.running[:, EXPECTED_FLOW], flows)]

    def end(self, over: np.ndarray, end_byte: np.ndarray, ended_ps: np.ndarray) -> None:
        """Follow messages no more: compare those that have ended.

        over: some of `running`. end_byte, ended_ps: of the last message of each flow that has ended.
        """
        is_right = (end_byte == over[:, EXPECTED_END]) & (over[:, EXPECTED_UNIT] != NO_STRETCH)
        self._lanes.n_void += int((~is_right).sum())
        for row, at_ps in zip(over[is_right], ended_ps[is_right].tolist(), strict=True):
            posted_ps, from_ps = row[EXPECTED_POSTED_PS : EXPECTED_POSTED_PS + 1], row[EXPECTED_FROM_PS]
            took_ps = np.maximum(at_ps - from_ps, 1)
            expected_ps = np.maximum(row[EXPECTED_ENDED_PS] - from_ps, 1)
            each = np.array([expected_ps]), np.array([took_ps]), from_ps - posted_ps
            self._lanes.add(*each, int(row[EXPECTED_UNIT]))
        gone = {(int(row[EXPECTED_FLOW]), int(row[EXPECTED_END])) for row in over}
        keys = zip(self.running[:, EXPECTED_FLOW].tolist(), self.running[:, EXPECTED_END].tolist(), strict=True)
        self.running = self.running[[key not in gone for key in keys]]
        self._count(over[:, EXPECTED_FLOW], -1)

    def rests(
        self, now_ps: int, rows: np.ndarray, flows: np.ndarray, least_ps: int, behind_ps: np.ndarray, ack_ps: np.ndarray
    ) -> np.ndarray:  # fmt: skip
        """int64[n, N_PREDICTED_COLUMN]: what is left of messages of these flows that are followed, to end as was said.

        rows: samples of all active flows. least_ps: what should be over before then is left out. behind_ps, ack_ps:
        see `Lanes`.
        """
        mine = self.of(flows)
        mine = mine[(mine[:, EXPECTED_FROM_PS] <= now_ps) & (mine[:, EXPECTED_ENDED_PS] >= least_ps)]
        mine, now = _under_way(mine, mine[:, EXPECTED_FLOW], mine[:, EXPECTED_END], rows)
        found = np.zeros((len(mine), N_PREDICTED_COLUMN), np.int64)
        flow, end, ended_ps = (mine[:, k] for k in (EXPECTED_FLOW, EXPECTED_END, EXPECTED_ENDED_PS))
        delivered_ps = ended_ps - ack_ps[flow]
        found[:] = np.column_stack([
            flow, now[:, h.ID], end - now[:, h.DONE], end, np.full(len(mine), now_ps), delivered_ps, ended_ps,
            now[:, h.MARKED], delivered_ps - behind_ps[flow],
        ])  # fmt: skip
        return found[np.argsort(flow, kind="stable")]

    def groups_of(self, flows: np.ndarray) -> list[int]:
        """Numbers of groups of these flows that are followed, ascending."""
        return sorted(number for number, group in self.groups.items() if np.isin(group.flows[0], flows))

    def group_rests(self, number: int, now_ps: int, rows: np.ndarray, least_ps: int) -> np.ndarray | None:
        """The same of a group, which ends as was said; None: it cannot go on so."""
        group = self.groups[number]
        predicted, now = _under_way(group.predicted, group.flows, group.end, rows)
        if len(predicted) < len(group.flows) or predicted[:, PREDICTED_FREE_PS].min() < least_ps:
            return None
        found = predicted.copy()
        found[:, PREDICTED_SIZE], found[:, PREDICTED_MARKED] = group.end - now[:, h.DONE], now[:, h.MARKED]
        found[:, PREDICTED_BEGIN_PS] = now_ps
        return found

    def let_go(self, flows: np.ndarray) -> None:
        """A stretch is over, and nothing of these flows is followed any more: lanes may have what is under way."""
        self._kept_end[flows] = 0

    def follow_group(self, number: int, rows: np.ndarray, predicted: np.ndarray, now_ps: int) -> None:
        """Follow a group from now on. rows: samples of its flows; predicted: how they were to go on."""
        flows, end, posted_ps, done, done_ps = (
            rows[:, column].copy() for column in (h.FLOW, h.MESSAGE_END, h.POSTED_PS, h.DONE, h.DONE_PS)
        )
        unit = int(self.stretches.unit_of(flows[:1], now_ps)[0])
        self.groups[number] = FollowedGroup(unit, flows, end, posted_ps, done, done_ps, predicted)
        self._groups.n_audited += 1
        self._count(flows, 1)

    def in_groups(self, flows: np.ndarray) -> np.ndarray:
        """bool[n]: which flows are in groups that are followed."""
        return np.isin(flows, np.concatenate([flows[:0], *(group.flows for group in self.groups.values())]))

    def end_group(self, number: int, at_ps: int, found: np.ndarray | None) -> None:
        """A group is over: compare what its flows have got done since its beginning with their paces.

        at_ps: its end. found: int64[n_flow, 4], bytes acknowledged and when, the end of the last message that has ended
        and when that was; None: nobody could have known how it goes on.
        """
        group = self.groups.pop(number)
        self._count(group.flows, -1)
        if found is None or group.unit == NO_STRETCH:
            self._groups.n_void += 1
            return
        done, done_ps, end_byte, ended_ps = found.T
        is_over = done >= group.end
        n_byte = np.where(is_over, group.end, done) - group.done
        took_ps = np.where(is_over, ended_ps, np.where(n_byte > 0, done_ps, at_ps)) - group.done_ps
        pace_ps = group.predicted[:, PREDICTED_ENDED_PS] - group.done_ps
        expected_ps = np.maximum(n_byte, 1) * pace_ps // (group.end - group.done)
        is_right = (~is_over | (end_byte == group.end)) & (took_ps > 0)
        before_ps = group.done_ps - group.posted_ps
        expected_ps = np.maximum(expected_ps, 1)
        self._groups.add(expected_ps[is_right], took_ps[is_right], before_ps[is_right], group.unit)

    def facts(self) -> dict[str, Any]:
        """What `result.json` says of both kinds."""
        return {"lanes": self._lanes.facts(), "groups": self._groups.facts()}


def _under_way(
    said: np.ndarray, flows: np.ndarray, end: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Of what is said of messages, that of those under way, and nothing but them, with the samples of their flows.

    flows, end: int64[n], of the messages. rows: samples of all active flows, ascending.
    """
    if len(rows) == 0:
        return said[:0], rows
    at = np.minimum(np.searchsorted(rows[:, h.FLOW], flows), len(rows) - 1)
    now = rows[at]
    is_it = (now[:, h.FLOW] == flows) & (now[:, h.MESSAGE_END] == end) & (now[:, h.DONE] < end)
    is_it &= now[:, h.IS_WHOLE] != 0
    return said[is_it], now[is_it]
