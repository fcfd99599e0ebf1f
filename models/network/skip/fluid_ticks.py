"""Ticks of flow level (`pdes.skipping.fluid.flow_level`) in the packet network, compiled: what was posted goes there,
it is said how messages end, and what waits behind them follows.

Rounds tick without a trip through Python as long as nothing else is to be seen to (`round_looks`). On several ranks
they meet for it: they gather what was posted, and all find the same.
"""

from typing import NamedTuple

import numpy as np

from models.network.skip.fluid_ends import place_one
from models.network.skip.fluid_moves import Moves, list_unseen, make_moves, move_markers, take_behind
from models.network.skip.progress import MESSAGE_END, PAIR, Samples, sample_all
from models.network.skip.suspend.hidden import Hidden
from models.network.state.records import N_FREE_PACKET, N_UNSEEN, Fabric, Nic
from models.network.state.switch_state import Buffers
from pdes.engine.gathering import RANK, Gathering, offer, take_in_order
from pdes.engine.jit import loop_kernel, step_kernel
from pdes.skipping import prediction as m
from pdes.skipping.fluid.flow_level import append, tick
from pdes.skipping.fluid.flow_table import FAR_PS, HAS_NEW_LOADS, MOST_MESSAGES, NEXT_PS, Table
from pdes.skipping.fluid.make_table import Links, make_table

# What `Ticks.words` holds.
(
    EVERY_PS,  # ticks are at multiples of it
    IS_AUDITED,  # 1: some messages at flow level are simulated, too, so that ticks are Python's
    LEFT_PS,  # a tick that rounds have begun and left to Python; -1: there is none
    N_BROKEN,  # flows that go on packet by packet, in the table
    N_PREDICTED,  # messages whose ends it has predicted, in the table
    N_MISSING,  # markers that are not there
    N_BEHIND,  # flows that may have more behind what is at flow level
    N_UNPLACED,  # messages in `posts` that have followed and have no markers yet
    N_SAMPLE,  # rows of the sample that it was made from
) = range(9)
N_TICK_WORD = 9


class Ticks(NamedTuple):
    """What ticks need, on one rank."""

    words: np.ndarray  # int64[N_TICK_WORD]
    table: Table
    holder: np.ndarray  # int32[n_port], see `flow_level.tick`
    shadow_end: np.ndarray  # int64[n_qp], see `FluidAudit`
    hidden: Hidden
    posts: np.ndarray  # int64[MOST_MESSAGES * n_qp, m.N_POSTED], of all ranks, by queue pair and end
    own: np.ndarray  # int64[the same], this rank's; posts itself if there is no other rank
    own_words: np.ndarray  # int64[]  the same words
    gathered: np.ndarray  # int64[]  scratch; empty without others
    gathering: Gathering
    others: np.ndarray  # int64[n_qp]  queue pairs that are simulated packet by packet
    behind: np.ndarray  # int64[n_qp]  see N_BEHIND
    is_posted: np.ndarray  # uint8[n_qp]  zeros, scratch
    prediction: np.ndarray  # int64[m.N_COLUMN]  scratch
    moves: Moves


def make_ticks(
    table: Table, tick_ps: int, arrays: tuple[np.ndarray, np.ndarray], hidden: Hidden, gathering: Gathering
) -> Ticks:  # fmt: skip
    """One rank's part. arrays: holder, shadow_end."""
    n_pair, n_rank = len(table.form), len(gathering.n_word)
    words = np.zeros(N_TICK_WORD, np.int64)
    words[[EVERY_PS, LEFT_PS]] = tick_ps, -1
    posts = np.zeros((MOST_MESSAGES * n_pair, m.N_POSTED), np.int64)
    own = posts if n_rank == 1 else np.zeros_like(posts)
    return Ticks(
        words, table, *arrays, hidden, posts, own, own.reshape(-1),
        np.zeros(0 if n_rank == 1 else posts.size, np.int64), gathering,
        np.zeros(n_pair, np.int64), np.zeros(n_pair, np.int64), np.zeros(n_pair, np.uint8),
        np.zeros(m.N_COLUMN, np.int64), make_moves(n_pair, len(hidden.port_src)),
    )  # fmt: skip


def no_ticks(ways: tuple[np.ndarray, np.ndarray], hidden: Hidden, gathering: Gathering) -> Ticks:
    """Where nothing goes at flow level. ways: of which it takes the kinds of numbers alone."""
    none = np.zeros(0, np.int64)
    no_ways = ways[0][:1], ways[1][:0]
    table = make_table(Links(no_ways, no_ways, none, np.zeros(0), none, none), 0.0, 1, 0)
    return make_ticks(table, 1, (np.zeros(0, np.int32), none), hidden, gathering)


@step_kernel
def _gather(t: Ticks, n_own, least):
    """Put t.own's rows of all ranks into t.posts; (how many there are, the least of what ranks bring)."""
    least = offer(t.gathering, t.own_words, n_own * m.N_POSTED, least)
    n_own = t.gathering.n_word[t.gathering.facts[RANK]]
    return take_in_order(t.gathering, t.own_words, n_own, t.gathered, t.posts), least


@loop_kernel
def gather_posts(fabric: Fabric, nic: Nic, t: Ticks):
    """What all ranks have posted at flow level since the last tick, in t.posts; how many. Every rank must."""
    n_own = list_unseen(fabric, nic, t.own) if fabric.counters[N_UNSEEN] > 0 else 0
    return _gather(t, np.int64(n_own), np.int64(0))[0]


@loop_kernel
def begin_tick(fabric: Fabric, buffers: Buffers, nic: Nic, s: Samples, t: Ticks, n_post, now_ps):
    """Tick, up to where flows go on packet by packet: see N_BROKEN. n_post: rows of t.posts. Every rank must."""
    n_row, n_other, n_behind = sample_all(fabric, nic, s), 0, 0
    for i in range(n_post):
        t.is_posted[np.uint64(t.posts[i, m.FLOW])] = 1
    for i in range(n_row):
        pair = s.rows[i, PAIR]
        if t.shadow_end[pair] >= s.rows[i, MESSAGE_END]:
            continue
        if t.table.n_message[pair] > 0 or t.is_posted[pair]:
            t.behind[n_behind] = pair
            n_behind += 1
        else:
            t.others[n_other] = pair
            n_other += 1
    for i in range(n_post):
        t.is_posted[np.uint64(t.posts[i, m.FLOW])] = 0
    n_predicted, n_broken = tick(t.table, t.holder, now_ps, t.words[EVERY_PS], t.posts[:n_post], t.others[:n_other])
    predicted = t.table.predicted[:n_predicted]
    n_missing = move_markers(fabric, buffers, nic, t.hidden, predicted, t.table.is_shadow, t.moves)
    t.words[N_BROKEN], t.words[N_PREDICTED], t.words[N_MISSING] = n_broken, n_predicted, n_missing
    t.words[N_BEHIND], t.words[N_UNPLACED], t.words[N_SAMPLE] = n_behind, 0, n_row


@loop_kernel
def follow(fabric: Fabric, nic: Nic, t: Ticks, pairs):
    """What waits behind messages at flow level goes there, too, up to some messages: see N_UNPLACED. Whether all ranks
    have the packets to mark their ends. Every rank must."""
    n_own = take_behind(fabric, nic, t.hidden, pairs, t.own)
    n_post, n_free = _gather(t, np.int64(n_own), np.int64(fabric.counters[N_FREE_PACKET]))
    append(t.table, t.posts[:n_post])
    t.words[N_UNPLACED] = n_post
    return n_free >= 2 * n_post


@loop_kernel
def place_followers(fabric: Fabric, buffers: Buffers, nic: Nic, t: Ticks, now_ps):
    """Mark the ends of what has followed, which are not known yet."""
    row = t.prediction
    for i in range(t.words[N_UNPLACED]):
        for column in range(m.N_POSTED):
            row[column] = t.posts[i, column]
        row[m.BEGIN_PS] = now_ps
        row[m.FREE_PS] = row[m.DELIVERED_PS] = row[m.ENDED_PS] = now_ps + FAR_PS
        place_one(fabric, buffers, nic, t.hidden, row)
    t.words[N_UNPLACED] = 0


@loop_kernel
def end_tick(fabric: Fabric, buffers: Buffers, nic: Nic, t: Ticks, now_ps):
    """Have followed what waits behind messages at flow level; whether that is all, else packets are short: see
    N_UNPLACED. Every rank must."""
    n = 0
    for i in range(t.words[N_BEHIND]):
        pair = t.behind[i]
        if t.table.n_message[pair] > 0 and t.table.is_shadow[pair] == 0:
            t.behind[n] = pair
            n += 1
    t.words[N_BEHIND] = 0
    if n == 0:
        return True
    if not follow(fabric, nic, t, t.behind[:n]):
        return False
    place_followers(fabric, buffers, nic, t, now_ps)
    return True


@step_kernel
def tick_in_rounds(fabric: Fabric, buffers: Buffers, nic: Nic, s: Samples, t: Ticks, now_ps):
    """Tick; the next one's instant, -1: Python has to see to what is left of this one. Every rank must."""
    n_post = gather_posts(fabric, nic, t)
    begin_tick(fabric, buffers, nic, s, t, n_post, now_ps)
    t.words[LEFT_PS] = now_ps
    if t.words[N_BROKEN] > 0 or t.words[N_MISSING] > 0 or t.table.words[HAS_NEW_LOADS] > 0:
        return np.int64(-1)
    if not end_tick(fabric, buffers, nic, t, now_ps):
        return np.int64(-1)
    t.words[LEFT_PS] = -1
    return t.table.words[NEXT_PS]
