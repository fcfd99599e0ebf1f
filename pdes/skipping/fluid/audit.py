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
from pdes.skipping.fluid.flow_table import (
    HAS_SHADOW,
    POST_END,
    POST_FLOW,
    POST_PS,
    SAID_END,
    SAID_ENDED_PS,
    SAID_FLOW,
)
from pdes.skipping.fluid.stretches import NO_STRETCH, Stretches
from pdes.skipping.kind_errors import KindErrors

# What is known of a message that has a shadow, a row of int64.
(
    SHADOW_FLOW,
    SHADOW_END,  # its last byte's end in the flow's stream
    SHADOW_POSTED_PS,
    SHADOW_FROM_PS,  # it had one from then on
    SHADOW_ENDED_PS,  # when the shadow was acknowledged as a whole, NEVER: not yet
    TRUE_ENDED_PS,  # and the message, NEVER: not yet
    SHADOW_UNIT,  # what was drawn together; NO_STRETCH: it is not compared
) = range(7)
N_SHADOW_COLUMN = 7


class FluidAudit:
    """Follows messages that have shadows, and adds up their errors; alike on every rank."""

    def __init__(self, n_flow: int, stretches: Stretches) -> None:
        self.stretches = stretches
        self.running = np.zeros((0, N_SHADOW_COLUMN), np.int64)
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
        """Messages have shadows from some instants on: those of posts (int64[n, N_POST_COLUMN]) that say so."""
        mine = posts[:, HAS_SHADOW] != 0
        if not mine.any():
            return
        posts, from_ps = posts[mine], from_ps[mine]
        flows, ends, never = posts[:, POST_FLOW], posts[:, POST_END], np.full(len(posts), NEVER)
        unit = self.stretches.unit_of(flows, from_ps)
        new = np.column_stack([flows, ends, posts[:, POST_PS], from_ps, never, never, unit])
        self.running = np.concatenate([self.running, new])
        np.maximum.at(self.shadow_end, flows, ends)
        self._errors.n_audited += len(new)

    def say(self, said: np.ndarray) -> None:
        """It is known how shadows end. said: int64[n, N_SAID_COLUMN]."""
        ends = {(int(row[SAID_FLOW]), int(row[SAID_END])): int(row[SAID_ENDED_PS]) for row in said}
        for row in self.running:
            key = int(row[SHADOW_FLOW]), int(row[SHADOW_END])
            if key in ends:
                row[SHADOW_ENDED_PS] = ends[key]
        self._compare()

    def over(self, rows: np.ndarray) -> np.ndarray:
        """Of what is followed, the messages that are over, and are not known to be. rows: samples of all active flows,
        ascending."""
        mine = self.running[self.running[:, TRUE_ENDED_PS] == NEVER]
        if len(mine) == 0 or len(rows) == 0:
            return mine
        at = np.minimum(np.searchsorted(rows[:, h.FLOW], mine[:, SHADOW_FLOW]), len(rows) - 1)
        is_there = rows[at, h.FLOW] == mine[:, SHADOW_FLOW]
        return mine[~is_there | (rows[at, h.DONE] >= mine[:, SHADOW_END])]

    def end(self, over: np.ndarray, end_byte: np.ndarray, ended_ps: np.ndarray) -> None:
        """Messages are over. end_byte, ended_ps: int64[n], of the last message of each one's flow that has ended."""
        ended = {(int(row[SHADOW_FLOW]), int(row[SHADOW_END])): i for i, row in enumerate(over)}
        is_void = np.zeros(len(self.running), np.bool_)
        for k, row in enumerate(self.running):
            i = ended.get((int(row[SHADOW_FLOW]), int(row[SHADOW_END])), -1)
            if i < 0:
                continue
            row[TRUE_ENDED_PS] = ended_ps[i]
            is_void[k] = end_byte[i] != row[SHADOW_END]  # another one has ended since
        self._void(is_void)
        self._compare()

    def finish(self) -> None:
        """The run is over: what is still followed says nothing."""
        self._void(np.ones(len(self.running), np.bool_))

    def let_go(self, flows: np.ndarray) -> None:
        """Flows' shadows are broken off."""
        self.shadow_end[flows] = 0
        self._void(np.isin(self.running[:, SHADOW_FLOW], flows))

    def _void(self, is_void: np.ndarray) -> None:
        self._errors.n_void += int(is_void.sum())
        self.running = self.running[~is_void]

    def _compare(self) -> None:
        """Compare what has ended, both the messages and their shadows."""
        mine = self.running
        is_over = (mine[:, SHADOW_ENDED_PS] < NEVER) & (mine[:, TRUE_ENDED_PS] < NEVER)
        for row in mine[is_over]:
            if row[SHADOW_UNIT] == NO_STRETCH:
                self._errors.n_void += 1
                continue
            from_ps = row[SHADOW_FROM_PS]
            expected_ps, took_ps = (np.maximum(row[[k]] - from_ps, 1) for k in (SHADOW_ENDED_PS, TRUE_ENDED_PS))
            before_ps = from_ps - row[[SHADOW_POSTED_PS]]
            self._errors.add(expected_ps, took_ps, before_ps, int(row[SHADOW_UNIT]))
        longest_ps = (mine[is_over, TRUE_ENDED_PS] - mine[is_over, SHADOW_POSTED_PS]).max(initial=0)
        self.stretches.note(int(longest_ps))
        self.running = mine[~is_over]

    def facts(self) -> dict[str, Any]:
        """What `result.json` says of it."""
        return {"fluid": self._errors.facts()} if self.is_on else {}
