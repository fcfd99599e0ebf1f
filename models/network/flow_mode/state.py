"""What flow mode keeps of messages from their posting to their ends, the same on every rank. See `transfers`.

All ranks hear of all messages and find all rates; each tells its own hosts when theirs end.
"""

from typing import NamedTuple

import numpy as np

from pdes.engine.gathering import Gathering
from pdes.engine.jit import aligned_zeros, record
from pdes.engine.time_index import make_time_index
from pdes.skipping.max_min.table import MaxMin

# The message of a queue pair that is under way or comes next. One at a time: a queue pair is a line.
TRANSFER = record(
    [
        ("size_bytes", np.int64),  # 0: there is none
        ("posted_ps", np.int64),
        ("flow_id", np.int64),
        ("end_byte", np.int64),  # in the queue pair's stream
        ("delay_ps", np.int64),  # of its way
        ("forward_ps", np.float64),  # that a byte of a packet takes at all ports of its way but the slowest
        ("ack_ps", np.int64),  # from a message's delivery to the arrival of its acknowledgement
        ("packets", np.int64),  # of messages that have been delivered
        ("bytes", np.int64),  # on the wire, of data
        ("delivered_ps", np.int64),  # when its last message was, or is going to be
        ("first_waiting", np.int32),  # messages behind it, in order: rows of `waiting`
        ("last_waiting", np.int32),
        ("receiver", np.int32),  # host
        ("sender", np.int32),
    ]
)
WAITING = record(
    [
        ("size_bytes", np.int64),
        ("posted_ps", np.int64),
        ("flow_id", np.int64),
        ("end_byte", np.int64),
        ("next", np.int64),
    ]
)
# What a rank tells the others of a message that was posted.
POST_PAIR, POST_SIZE, POST_POSTED_PS, POST_ID, POST_END, N_POST_COLUMN = range(6)

# Words.
FREE_WAITING, N_FREE_WAITING, N_DUE, DUE_PS, N_INSTANT, N_MESSAGE = range(6)
N_TRANSFER_WORD = 8


class FlowMode(NamedTuple):
    """One rank's."""

    max_min: MaxMin  # its flows are queue pairs
    transfers: np.ndarray  # TRANSFER[n_qp]
    waiting: np.ndarray  # WAITING[]  pool
    starts: np.ndarray  # int64[2 * size]  tree (`time_index`) of queue pairs whose way is about to have a message
    found: np.ndarray  # int64[n_qp]  scratch
    due: np.ndarray  # int32[n_qp]  queue pairs whose messages are delivered at words[DUE_PS], words[N_DUE] of them
    here: np.ndarray  # uint8[n_node]  this rank's nodes
    posts: np.ndarray  # int64[]  what was posted in a round, of all ranks, N_POST_COLUMN words each
    own: np.ndarray  # int64[the same]  this rank's; posts itself if there is no other rank
    gathering: Gathering
    queue_ps: np.ndarray  # float64[1]  how long the last packet waits at a port which flows share
    words: np.ndarray  # int64[N_TRANSFER_WORD]


def make_flow_mode(
    max_min: MaxMin, latencies: tuple[np.ndarray, np.ndarray, np.ndarray], ends: tuple[np.ndarray, np.ndarray],
    here: np.ndarray, gathering: Gathering, queue_ps: float,
) -> FlowMode:  # fmt: skip
    """Nothing is posted. latencies: [n_qp] each, TRANSFER's delay_ps, forward_ps and ack_ps. ends: hosts of senders and
    receivers. here: bool[n_node]."""
    n_pair = len(max_min.flows)
    transfers = aligned_zeros(n_pair, TRANSFER)
    transfers["delay_ps"], transfers["forward_ps"], transfers["ack_ps"] = latencies
    transfers["sender"], transfers["receiver"] = ends
    transfers["first_waiting"] = transfers["last_waiting"] = -1
    words = np.zeros(N_TRANSFER_WORD, np.int64)
    words[FREE_WAITING] = -1
    none = np.zeros(0, np.int64)
    made = FlowMode(
        max_min, transfers, np.zeros(0, WAITING), make_time_index(n_pair), np.zeros(n_pair, np.int64),
        np.zeros(n_pair, np.int32), here.astype(np.uint8), none, none, gathering, np.array([queue_ps], float), words,
    )  # fmt: skip
    return grow_posts(grow_waiting(made, 1024), 1024)


def grow_waiting(flow: FlowMode, n_waiting: int) -> FlowMode:
    """The same with room for n_waiting messages that wait behind others, the new rows free."""
    n_old, words = len(flow.waiting), flow.words
    waiting = np.zeros(n_waiting, WAITING)
    waiting[:n_old] = flow.waiting
    waiting["next"][n_old:] = np.arange(n_old + 1, n_waiting + 1)
    waiting["next"][n_waiting - 1] = words[FREE_WAITING]
    words[FREE_WAITING] = n_old
    words[N_FREE_WAITING] += n_waiting - n_old
    return flow._replace(waiting=waiting)


def n_post_room(flow: FlowMode) -> int:
    """Messages that can be posted in one round."""
    return len(flow.posts) // N_POST_COLUMN


def grow_posts(flow: FlowMode, n_post: int) -> FlowMode:
    """The same with room for n_post messages posted in one round."""
    posts = np.zeros(n_post * N_POST_COLUMN, np.int64)
    return flow._replace(posts=posts, own=posts if len(flow.gathering.n_word) == 1 else np.zeros_like(posts))
