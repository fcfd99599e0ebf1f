"""How far lanes and groups are off: some messages that they could take are simulated all the same, and compared.

A message is drawn by its id where a lane would take it, a group by its flows and messages. What is drawn goes on packet
by packet to its end, and what would have been said of it is kept until then. All else is as if it had been taken: the
lane is open, what is learned is what would have been said, a group keeps its ports until its planned end. So whoever
comes to these ports is noticed as ever; that ends the comparison, as nobody could have known.

The acknowledgements of lanes are not in the network, and slow nothing down that is simulated. So what a message takes
is made longer by their share for as long as looks see that it would have met some, and meets none (`ack_load`).
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from pdes.engine.rng import PURPOSE_AUDIT, uniform_plain
from pdes.engine.time_index import NEVER
from pdes.wormhole import history as h
from pdes.wormhole.kind_errors import KindErrors

LANE_STREAM, GROUP_STREAM = 2, 3  # of PURPOSE_AUDIT: `audit` has 0, `waves` 1
SHARE_BITS = 53  # of a uniform number

# What is said of a message that is followed, a row of int64.
(
    EXPECTED_FLOW,
    EXPECTED_END,  # its last byte's end in the flow's stream
    EXPECTED_SIZE,  # bytes that a lane could have had
    EXPECTED_POSTED_PS,
    EXPECTED_FROM_PS,  # from then on
    EXPECTED_ENDED_PS,
    MISSED_PS,  # so long it would have met acknowledgements and has not
    MISSED_UNTIL_PS,  # as was seen up to then
    MISSES,  # 1: it did so then
) = range(9)
N_EXPECTED_COLUMN = 9


class FollowedGroup(NamedTuple):
    """A group that is simulated. Arrays int64[n_flow]."""

    flows: np.ndarray
    end: np.ndarray  # of their messages, in the streams
    posted_ps: np.ndarray
    done: np.ndarray  # bytes acknowledged at the beginning
    done_ps: np.ndarray  # and when that was
    pace_bytes: np.ndarray  # they were to go on by so much
    pace_ps: np.ndarray  # in so much time


def expected_of(*columns: np.ndarray) -> np.ndarray:
    """Rows of what is said of messages. columns: int64[n] each, the first six."""
    rows = np.zeros((len(columns[0]), N_EXPECTED_COLUMN), np.int64)
    rows[:, :MISSED_PS] = np.column_stack(columns)
    rows[:, MISSED_UNTIL_PS] = rows[:, EXPECTED_FROM_PS]
    return rows


def below_of(share: float) -> int:
    """A share as the number of uniform numbers below it, of 2**SHARE_BITS."""
    return int(np.ceil(share * 2.0**SHARE_BITS))


class LaneAudit:
    """Draws messages and groups, follows those drawn, and adds up their errors; alike on every rank."""

    def __init__(self, n_flow: int, share: float = 0.0, seed: int = 0) -> None:
        """share: 0..1, of all that could be taken."""
        self.share, self._seed = share, seed
        self.running = np.zeros((0, N_EXPECTED_COLUMN), np.int64)
        self.groups: dict[int, FollowedGroup] = {}  # by number
        self.n_followed = np.zeros(n_flow, np.int64)  # messages of each flow that are
        self._last_end = np.zeros(n_flow, np.int64)  # of each flow's last message that was drawn
        self._changed: list[int] = []  # flows of which others are followed than before
        self._lanes, self._groups = KindErrors(), KindErrors()

    def draws(self, messages: np.ndarray) -> np.ndarray:
        """bool[n]: which messages, int64[n], are simulated if a lane could have them."""
        if self.share == 0:
            return np.zeros(len(messages), np.bool_)
        return np.array([self._draws(message, LANE_STREAM) for message in messages.tolist()], np.bool_)

    def draws_group(self, digest: int) -> bool:
        """Whether a group is simulated. digest: of its flows and messages."""
        return self.share > 0 and self._draws(digest, GROUP_STREAM)

    def _draws(self, entity: int, stream: int) -> bool:
        return uniform_plain(self._seed, entity, PURPOSE_AUDIT, stream) < self.share

    def had(self, rows: np.ndarray) -> np.ndarray:
        """bool[n]: whose messages were drawn. rows: samples."""
        return self._last_end[rows[:, h.FLOW]] >= rows[:, h.MESSAGE_END]

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

    def follow(self, expected: np.ndarray) -> None:
        """Follow messages. expected: int64[n, N_EXPECTED_COLUMN]."""
        flows = expected[:, EXPECTED_FLOW]
        self.running = np.concatenate([self.running, expected])
        np.maximum.at(self._last_end, flows, expected[:, EXPECTED_END])
        self._lanes.n_audited += len(expected)
        self._count(flows, 1)

    def over(self, rows: np.ndarray) -> np.ndarray:
        """Of what is followed, the messages that are over. rows: samples of all active flows, ascending."""
        mine = self.running
        if len(mine) == 0 or len(rows) == 0:
            return mine
        at = np.minimum(np.searchsorted(rows[:, h.FLOW], mine[:, EXPECTED_FLOW]), len(rows) - 1)
        is_there = rows[at, h.FLOW] == mine[:, EXPECTED_FLOW]
        return mine[~is_there | (rows[at, h.DONE] >= mine[:, EXPECTED_END])]

    def note_missing(self, now_ps: int, misses: Callable[[np.ndarray], np.ndarray]) -> None:
        """Note for how long messages have not met acknowledgements that they would have met, by looks."""
        mine = self.running
        if len(mine) == 0:
            return
        is_new = mine[:, MISSED_UNTIL_PS] == mine[:, EXPECTED_FROM_PS]
        now = misses(mine[:, EXPECTED_FLOW].copy())
        mine[:, MISSED_PS] += np.where(is_new, now, mine[:, MISSES]) * np.maximum(now_ps - mine[:, MISSED_UNTIL_PS], 0)
        mine[:, MISSED_UNTIL_PS], mine[:, MISSES] = np.maximum(now_ps, mine[:, MISSED_UNTIL_PS]), now

    def missed(self, over: np.ndarray, ended_ps: np.ndarray) -> Iterator[tuple[int, int, int, int]]:
        """Of messages that have ended: (flow, bytes, time that they took, part of it in which they have not met
        acknowledgements that they would have met)."""
        took_ps = np.maximum(ended_ps - over[:, EXPECTED_FROM_PS], 0)
        last_ps = over[:, MISSES] * np.maximum(ended_ps - over[:, MISSED_UNTIL_PS], 0)
        columns = (over[:, EXPECTED_FLOW], over[:, EXPECTED_SIZE], took_ps, over[:, MISSED_PS] + last_ps)
        return zip(*(column.tolist() for column in columns), strict=True)

    def of(self, flows: np.ndarray) -> np.ndarray:
        """Of what is followed, the messages of some flows."""
        return self.running[np.isin(self.running[:, EXPECTED_FLOW], flows)]

    def end(self, over: np.ndarray, end_byte: np.ndarray, ended_ps: np.ndarray, late_ps: np.ndarray) -> None:
        """Follow messages no more: compare those that have ended.

        over: some of `running`. end_byte, ended_ps: of the last message of each flow that has ended. late_ps: by how
        much later it would have, see `missed`.
        """
        is_ended = end_byte == over[:, EXPECTED_END]
        self._lanes.n_void += int((~is_ended).sum())
        for row, at_ps in zip(over[is_ended], (ended_ps + late_ps)[is_ended].tolist(), strict=True):
            posted_ps, from_ps = row[EXPECTED_POSTED_PS : EXPECTED_POSTED_PS + 1], row[EXPECTED_FROM_PS]
            took_ps = np.maximum(at_ps - from_ps, 1)
            expected_ps = np.maximum(row[EXPECTED_ENDED_PS] - from_ps, 1)
            self._lanes.add(np.array([expected_ps]), np.array([took_ps]), from_ps - posted_ps)
        gone = {(int(row[EXPECTED_FLOW]), int(row[EXPECTED_END])) for row in over}
        keys = zip(self.running[:, EXPECTED_FLOW].tolist(), self.running[:, EXPECTED_END].tolist(), strict=True)
        self.running = self.running[[key not in gone for key in keys]]
        self._count(over[:, EXPECTED_FLOW], -1)

    def follow_group(self, number: int, rows: np.ndarray, paces: Iterable[tuple[int, int]]) -> None:
        """Follow a group. rows: samples of its flows; paces: (bytes, ps) of each."""
        flows, end, posted_ps, done, done_ps = (
            rows[:, column].copy() for column in (h.FLOW, h.MESSAGE_END, h.POSTED_PS, h.DONE, h.DONE_PS)
        )
        each = np.array(list(paces), np.int64)
        self.groups[number] = FollowedGroup(flows, end, posted_ps, done, done_ps, each[:, 0], each[:, 1])
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
        if found is None:
            self._groups.n_void += 1
            return
        done, done_ps, end_byte, ended_ps = found.T
        is_over = done >= group.end
        n_byte = np.where(is_over, group.end, done) - group.done
        took_ps = np.where(is_over, ended_ps, np.where(n_byte > 0, done_ps, at_ps)) - group.done_ps
        expected_ps = np.maximum(n_byte, 1) * group.pace_ps // group.pace_bytes
        is_right = (~is_over | (end_byte == group.end)) & (took_ps > 0)
        before_ps = group.done_ps - group.posted_ps
        self._groups.add(*(each[is_right] for each in (np.maximum(expected_ps, 1), took_ps, before_ps)))

    def facts(self) -> dict[str, Any]:
        """What `result.json` says of both kinds."""
        return {"lanes": self._lanes.facts(), "groups": self._groups.facts()}
