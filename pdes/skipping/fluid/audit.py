"""How far flow level is off: for stretches of time what could go there is simulated all the same, and compared.

In a stretch that is drawn (`stretches`) messages are sent packet by packet, and have shadows at flow level: there they
are posted, take over, are slowed down, end and are broken off as if they had no packets. When a message has ended its
time is compared with its shadow's. A shadow that is broken off, as somebody comes packet by packet or as no rate is
known, says nothing; nor does one of a message that was taken over from the packet level and lost its shadow.
"""

from typing import Any

import numpy as np

from pdes.engine.time_index import NEVER
from pdes.skipping import history as h
from pdes.skipping import prediction as m
from pdes.skipping.fluid.stretches import NO_STRETCH, Stretches
from pdes.skipping.kind_errors import KindErrors

# What is kept of a message that has a shadow: the shadow's prediction (ENDED_PS: NEVER until it is known), and then
TRUE_ENDED_PS = m.N_COLUMN  # when the message itself was acknowledged, NEVER: not yet
UNIT = m.N_COLUMN + 1  # what was drawn together; NO_STRETCH: it is not compared
N_KEPT_COLUMN = m.N_COLUMN + 2


def _message(row: np.ndarray) -> tuple[int, int]:
    """What a prediction is of."""
    return int(row[m.FLOW]), int(row[m.END])


class FluidAudit:
    """Follows messages that have shadows, and adds up their errors; alike on every rank."""

    def __init__(self, n_flow: int, stretches: Stretches) -> None:
        self.stretches = stretches
        self.running = np.zeros((0, N_KEPT_COLUMN), np.int64)
        self.shadow_end = np.zeros(n_flow, np.int64)  # of each flow's last message that has one
        self._errors = KindErrors()

    @property
    def is_on(self) -> bool:
        """Whether anything is compared."""
        return self.stretches.share > 0

    def next_tick_ps(self, tick_ps: int) -> int:
        """When it wants to see how messages get on: at the next tick as long as some have shadows, else NEVER."""
        return tick_ps if len(self.running) else NEVER

    def has_shadow(self, rows: np.ndarray) -> np.ndarray:
        """bool[n]: whose messages have shadows, or had one that ended before them. rows: samples."""
        return self.shadow_end[rows[:, h.FLOW]] >= rows[:, h.MESSAGE_END]

    def follow(self, posts: np.ndarray, from_ps: np.ndarray) -> None:
        """Messages have shadows from some instants on: those of posts (int64[n, N_POSTED]) that say so."""
        mine = posts[:, m.HAS_SHADOW] != 0
        if not mine.any():
            return
        posts, from_ps = posts[mine], from_ps[mine]
        shadows, flows = m.predictions(posts), posts[:, m.FLOW]
        shadows[:, m.BEGIN_PS], shadows[:, m.ENDED_PS] = from_ps, NEVER
        new = np.column_stack([shadows, np.full(len(posts), NEVER), self.stretches.unit_of(flows, from_ps)])
        self.running = np.concatenate([self.running, new])
        np.maximum.at(self.shadow_end, flows, posts[:, m.END])
        self._errors.n_audited += len(new)

    def predict(self, predicted: np.ndarray) -> None:
        """It is known how shadows end."""
        ends = {_message(row): int(row[m.ENDED_PS]) for row in predicted}
        for row in self.running:
            row[m.ENDED_PS] = ends.get(_message(row), int(row[m.ENDED_PS]))
        self._compare()

    def over(self, rows: np.ndarray) -> np.ndarray:
        """Of what is followed, the messages that are over, and are not known to be. rows: samples of all active flows,
        ascending."""
        mine = self.running[self.running[:, TRUE_ENDED_PS] == NEVER]
        if len(mine) == 0 or len(rows) == 0:
            return mine
        at = np.minimum(np.searchsorted(rows[:, h.FLOW], mine[:, m.FLOW]), len(rows) - 1)
        is_there = rows[at, h.FLOW] == mine[:, m.FLOW]
        return mine[~is_there | (rows[at, h.DONE] >= mine[:, m.END])]

    def end(self, over: np.ndarray, end_byte: np.ndarray, ended_ps: np.ndarray) -> None:
        """Messages are over. end_byte, ended_ps: int64[n], of the last message of each one's flow that has ended."""
        ended = {_message(row): i for i, row in enumerate(over)}
        is_void = np.zeros(len(self.running), np.bool_)
        for k, row in enumerate(self.running):
            i = ended.get(_message(row), -1)
            if i < 0:
                continue
            row[TRUE_ENDED_PS] = ended_ps[i]
            is_void[k] = end_byte[i] != row[m.END]  # another one has ended since
        self._void(is_void)
        self._compare()

    def finish(self) -> None:
        """The run is over: what is still followed says nothing."""
        self._void(np.ones(len(self.running), np.bool_))

    def let_go(self, flows: np.ndarray) -> None:
        """Flows' shadows are broken off."""
        self.shadow_end[flows] = 0
        self._void(np.isin(self.running[:, m.FLOW], flows))

    def _void(self, is_void: np.ndarray) -> None:
        self._errors.n_void += int(is_void.sum())
        self.running = self.running[~is_void]

    def _compare(self) -> None:
        """Compare what has ended, both the messages and their shadows."""
        mine = self.running
        is_over = (mine[:, m.ENDED_PS] < NEVER) & (mine[:, TRUE_ENDED_PS] < NEVER)
        for row in mine[is_over]:
            if row[UNIT] == NO_STRETCH:
                self._errors.n_void += 1
                continue
            from_ps = row[m.BEGIN_PS]
            expected_ps, took_ps = (np.maximum(row[[k]] - from_ps, 1) for k in (m.ENDED_PS, TRUE_ENDED_PS))
            before_ps = from_ps - row[[m.POSTED_PS]]
            self._errors.add(expected_ps, took_ps, before_ps, int(row[UNIT]))
        longest_ps = (mine[is_over, TRUE_ENDED_PS] - mine[is_over, m.POSTED_PS]).max(initial=0)
        self.stretches.note(int(longest_ps))
        self.running = mine[~is_over]

    def facts(self) -> dict[str, Any]:
        """What `result.json` says of it."""
        return {"fluid": self._errors.facts()} if self.is_on else {}
