"""Flow level in the packet network: one rank's part of what `pdes.skipping.fluid.flow_level` decides."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.skip.flow_level_ends import (
    N_PROGRESS_COLUMN,
    list_unseen,
    move_markers,
    note_progress,
    take_behind,
)
from models.network.skip.freeze import Hidden
from models.network.skip.lane_ends import BASE_BYTE, CLOSED_PAIR, place_predicted
from models.network.state.records import N_FREE_PACKET, N_LANE, N_UNSEEN
from pdes.engine.exchange import World
from pdes.skipping.fluid.at_flow_level import FlowLevel
from pdes.skipping.fluid.flow_table import (
    FAR_PS,
    MOST_MESSAGES,
    N_POST_COLUMN,
    N_SAID_COLUMN,
    POST_END,
    POST_FLOW,
    POST_PS,
)
from pdes.skipping.prediction import (
    N_PREDICTED_COLUMN,
    PREDICTED_BEGIN_PS,
    PREDICTED_DELIVERED_PS,
    PREDICTED_END,
    PREDICTED_ENDED_PS,
    PREDICTED_FLOW,
    PREDICTED_FREE_PS,
    PREDICTED_ID,
    PREDICTED_SIZE,
)

if TYPE_CHECKING:
    from models.network.skip.lane_states import LaneStates

SPAN_PS = 2**50  # of the straight line that says how far a message is
LEAST_LEFT = 1e-6  # of a message that is not over


class FlowLevelStates:
    """One rank's part."""

    def __init__(self, states: "LaneStates", world: World, hidden: Hidden, level: FlowLevel) -> None:
        self._states, self._world, self._hidden, self.level = states, world, hidden, level
        self._posts = np.zeros((MOST_MESSAGES * len(level.table.form), N_POST_COLUMN), np.int64)

    def compile(self, state: NetworkState) -> None:
        """Compile what happens at ticks, or load it from the cache."""
        parts = (state.fabric, state.buffers, state.nic, self._hidden)
        list_unseen(state.fabric, state.nic, self._posts)
        move_markers(*parts, np.zeros((0, N_SAID_COLUMN), np.int64))
        take_behind(state.fabric, state.nic, self._hidden, np.zeros(0, np.int64), self._posts)
        note_progress(state.fabric, state.nic, self._hidden, np.zeros((0, N_PROGRESS_COLUMN), np.int64))

    def note_news(self, state: NetworkState) -> None:
        """Let flows go at flow level of which `shares` knows now what they get."""
        shares = self._states.lanes.shares
        if shares is None or not shares.news:
            return
        is_more = [self.level.note(key, known) for key, known in sorted(shares.news.items())]
        shares.news.clear()
        if any(is_more):
            state.nic.lanes["is_shared"] = self.level.is_form[self.level.table.form]

    def tick(
        self, state: NetworkState, now_ps: int, senders: Callable[[], np.ndarray], grow: Callable[[], NetworkState]
    ) -> tuple[NetworkState, dict[int, int]]:
        """See to what was posted and what ends; (the network's state, queue pairs that have to send packets, with their
        instants).

        senders: says which queue pairs have packets to send, on any rank. grow: for more packets.
        """
        if not self.level.is_used:
            return state, {}
        is_due, n_post = now_ps >= self.level.next_ps, 0
        if state.fabric.counters[N_UNSEEN] > 0:
            n_post = list_unseen(state.fabric, state.nic, self._posts)
        posts = self._posts[:n_post]
        if self._world.size > 1:
            posts = self._world.gather_rows(posts)
            posts = posts[np.lexsort((posts[:, POST_END], posts[:, POST_FLOW]))]
        if len(posts) == 0 and not is_due:
            return state, {}
        self._states.lanes.counters.at_shares += len(posts)
        self._states.lanes.counters.shared += len(posts)
        others = senders()
        is_behind = (self.level.table.n_message[others] > 0) | np.isin(others, posts[:, POST_FLOW])
        said, broken = self.level.tick(now_ps, state.nic.lane_of_port, posts, others[~is_behind])
        if len(said):
            n_missing = move_markers(state.fabric, state.buffers, state.nic, self._hidden, said)
            assert n_missing == 0, f"{n_missing} ends of messages at flow level are missing"
        again = self._go_on(state, broken, now_ps, now_ps)
        behind = others[is_behind]
        predicted = self.follow(state, behind[self.level.table.n_message[behind] > 0], now_ps)
        while state.fabric.counters[N_FREE_PACKET] < 2 * len(predicted):
            state = grow()
        place_predicted(state.fabric, state.buffers, state.nic, self._hidden, predicted)
        return state, again

    def interrupt(self, state: NetworkState, interrupts: dict[int, int], horizon_ps: int) -> dict[int, int]:
        """Somebody has come packet by packet; queue pairs that have to send packets, too, with their instants."""
        flows = np.array(sorted(interrupts), np.int64)
        broken = self.level.interrupt(flows, state.nic.lane_of_port, horizon_ps)
        return self._go_on(state, broken, min(interrupts.values()), horizon_ps)

    def follow(self, state: NetworkState, pairs: np.ndarray, now_ps: int) -> np.ndarray:
        """What waits behind messages at flow level goes there, too, up to some messages; predictions of it."""
        if len(pairs) == 0:
            return np.zeros((0, N_PREDICTED_COLUMN), np.int64)
        n_post = take_behind(state.fabric, state.nic, self._hidden, pairs, self._posts)
        posts = self._world.gather_rows(self._posts[:n_post])
        posts = posts[np.lexsort((posts[:, POST_END], posts[:, POST_FLOW]))]
        self.level.follow(posts)
        self._states.lanes.counters.at_shares += len(posts)
        self._states.lanes.counters.shared += len(posts)
        predicted = np.zeros((len(posts), N_PREDICTED_COLUMN), np.int64)
        predicted[:, [PREDICTED_FLOW, PREDICTED_ID, PREDICTED_SIZE, PREDICTED_END]] = posts[:, :POST_PS]
        predicted[:, PREDICTED_BEGIN_PS] = now_ps
        predicted[:, [PREDICTED_DELIVERED_PS, PREDICTED_ENDED_PS, PREDICTED_FREE_PS]] = now_ps + FAR_PS
        return predicted

    def _go_on(self, state: NetworkState, pairs: np.ndarray, at_ps: int, horizon_ps: int) -> dict[int, int]:
        """Queue pairs go on packet by packet, as of an instant."""
        if len(pairs) == 0:
            return {}
        unsaid = pairs[self.level.table.is_said[pairs] == 0]
        end, size, left = self.level.left(unsaid, at_ps)
        done_ps = (SPAN_PS * (1 - np.maximum(left / size, LEAST_LEFT))).astype(np.int64)
        begin_ps = at_ps + self._states.lanes.behind_ps[unsaid] - done_ps
        progress = np.column_stack([unsaid, end, begin_ps, begin_ps + SPAN_PS])
        note_progress(state.fabric, state.nic, self._hidden, progress)
        rows = self._states.close_at(state, np.sort(pairs), at_ps, horizon_ps)
        self._states.lanes.forget(pairs)
        state.fabric.counters[N_LANE] = self._states.lanes.n_open
        return dict.fromkeys(rows[rows[:, BASE_BYTE] >= 0, CLOSED_PAIR].tolist(), at_ps)
