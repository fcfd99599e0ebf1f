"""What flow mode keeps of messages from their posting to their ends, the same on every rank. See `transfers`.

All ranks hear of all messages and find all rates; each tells its own hosts when theirs end.
"""

from typing import NamedTuple

import numpy as np

from pdes.engine.gathering import Gathering
from pdes.engine.jit import record
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
        ("byte_ps", np.float64),  # that a byte takes at the slowest port
        ("ack_ps", np.int64),  # from a message's delivery to the arrival of its acknowledgement
        ("ack_wire_ps", np.int64),  # that an acknowledgement takes at the slowest port of its way
        ("packets", np.int64),  # of messages that have been delivered
        ("bytes", np.int64),  # on the wire, of data
        ("delivered_ps", np.int64),  # when its last message was, or is going to be
        ("first_waiting", np.int32),  # messages behind it, in order: rows of `waiting`
        ("last_waiting", np.int32),
        ("data_link", np.int32),  # a port into the receiver, whose host hears there of what is delivered
        ("ack_link", np.int32),  # and one into the sender, -1 each: that host is not on this rank
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
# A port has another rate from an instant on; or a queue pair another way. Both in order of time.
CHANGE = record([("time_ps", np.int64), ("byte_per_ps", np.float64), ("port", np.int64)])
MOVE = record(
    [
        ("time_ps", np.int64),
        ("pair", np.int64),
        ("places", np.int64, (4,)),  # see MaxMin.place_of
        ("delay_ps", np.int64),  # and the rest as in TRANSFER
        ("forward_ps", np.float64),
        ("byte_ps", np.float64),
        ("ack_ps", np.int64),
        ("ack_wire_ps", np.int64),
    ]
)
# What a rank tells the others of a message that was posted.
POST_PAIR, POST_SIZE, POST_POSTED_PS, POST_ID, POST_END, N_POST_COLUMN = range(6)

# Words.
FREE_WAITING, N_FREE_WAITING, N_DUE, DUE_PS, N_INSTANT, N_MESSAGE, N_CHANGED, N_MOVED_PAIR = range(8)
N_TRANSFER_WORD = 8
# Numbers.
QUEUE_PS, MOVED_HOPS = range(2)  # how long the last packet waits at a port that flows share; hops on ways of before


class FlowMode(NamedTuple):
    """One rank's."""

    max_min: MaxMin  # its flows are queue pairs
    transfers: np.ndarray  # TRANSFER[n_qp]
    waiting: np.ndarray  # WAITING[]  pool
    starts: np.ndarray  # int64[2 * size]  tree (`time_index`) of queue pairs whose way is about to have a message
    found: np.ndarray  # int64[n_qp]  scratch
    due: np.ndarray  # int32[n_qp]  queue pairs whose messages are delivered at words[DUE_PS], words[N_DUE] of them
    changes: np.ndarray  # CHANGE[], of which words[N_CHANGED] are over
    moves: np.ndarray  # MOVE[], of which words[N_MOVED_PAIR] are over
    sent_bytes: np.ndarray  # float64[n_port]  by messages on ways that they have no more
    posts: np.ndarray  # int64[]  what was posted in a round, of all ranks, N_POST_COLUMN words each
    own: np.ndarray  # int64[the same]  this rank's; posts itself if there is no other rank
    gathering: Gathering
    numbers: np.ndarray  # float64[N_NUMBER]
    words: np.ndarray  # int64[N_TRANSFER_WORD]


def make_flow_mode(
    max_min: MaxMin, transfers: np.ndarray, changes: np.ndarray, moves: np.ndarray, gathering: Gathering,
    queue_ps: float,
) -> FlowMode:  # fmt: skip
    """Nothing is posted. transfers: TRANSFER[n_qp], with what never changes."""
    n_pair, words, none = len(transfers), np.zeros(N_TRANSFER_WORD, np.int64), np.zeros(0, np.int64)
    transfers["first_waiting"] = transfers["last_waiting"] = words[FREE_WAITING] = -1
    made = FlowMode(
        max_min, transfers, np.zeros(0, WAITING), make_time_index(n_pair), np.zeros(n_pair, np.int64),
        np.zeros(n_pair, np.int32), changes, moves, np.zeros(len(max_min.ports)), none, none, gathering,
        np.array([queue_ps, 0.0]), words,
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
