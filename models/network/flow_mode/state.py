"""What flow mode keeps of messages from their posting to their ends, the same on every rank. See `transfers`.

All ranks hear of all messages and find all rates; each tells its own hosts when theirs end.
"""

from typing import NamedTuple

import numpy as np

from models.topology.graph import Topology
from pdes.engine.gathering import Gathering
from pdes.engine.jit import record
from pdes.engine.time_index import make_time_index
from pdes.skipping.max_min.table import MaxMin
from pdes.units import BITS_PER_BYTE, PS_PER_S

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
POST_PAIR, POST_SIZE, POST_POSTED_PS, POST_ID, POST_END, POST_KIND, N_POST_COLUMN = range(7)

# Words.
(
    FREE_WAITING, N_FREE_WAITING, N_DUE, DUE_PS, N_INSTANT, N_MESSAGE, N_CHANGED, N_MOVED_PAIR,
    N_SHARED,
    SHARED_AT,  # max_min.words[MARK] when ports were shared last: each change of flows has another
    N_AS_PACKETS,  # messages that went as packets
    N_ENDED,  # rows of FlowMode.ended
) = range(12)  # fmt: skip
N_TRANSFER_WORD = 12
# Numbers.
QUEUE_PS, MOVED_HOPS = range(2)  # how long the last packet waits at a port that flows share; hops on ways of before


# How sure it is what a message gets, Hybrid.trusts: it has the port that limits it alone; that is its own NIC, which it
# shares; it is another, which it shares.
ALONE, AT_SOURCE, IN_NETWORK = range(3)


class Hybrid(NamedTuple):
    """What is kept where some messages go as packets, see `hybrid`; of no rows where there are none."""

    trusts: np.ndarray  # uint8[3]  ALONE .. IN_NETWORK, 1: such a message needs no packets
    n_packet: np.ndarray  # int32[n_qp]  messages under way as packets
    is_shadow: np.ndarray  # uint8[n_qp]  1: for these the queue pair has its share among `max_min.flows`
    is_counted: np.ndarray  # uint8[n_qp]  1: it has a message
    n_pair: np.ndarray  # int32[n_port]  such queue pairs that use the port
    n_shadow: np.ndarray  # int32[n_port]  of these, with packets
    shared: np.ndarray  # int32[n_port]  ports with n_shadow, words[N_SHARED] of them, in no order
    is_shared: np.ndarray  # uint8[n_port]  1: it is among these
    ps_per_byte: np.ndarray  # int32[n_port]  of the port if packets have it alone, and
    rate_bps: np.ndarray  # int64[n_port]
    goes: np.ndarray  # uint8[n_qp]  Nic.goes
    touched: np.ndarray  # int32[n_qp]  scratch: queue pairs of which something was heard in a round
    is_touched: np.ndarray  # uint8[n_qp]  1, or see `hybrid`


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
    order: np.ndarray  # int64[a post each]  hybrid, scratch: by queue pair, see `hybrid`
    # int64[n_qp, 4]  audit: of messages that ended, queue pair, end in its stream, when it was posted, is acknowledged;
    # of no rows if there is no audit, which takes them after each instant
    ended: np.ndarray
    gathering: Gathering
    hybrid: Hybrid
    numbers: np.ndarray  # float64[N_NUMBER]
    words: np.ndarray  # int64[N_TRANSFER_WORD]


def make_flow_mode(
    max_min: MaxMin, transfers: np.ndarray, changes: np.ndarray, moves: np.ndarray, gathering: Gathering,
    queue_ps: float, hybrid: Hybrid,
) -> FlowMode:  # fmt: skip
    """Nothing is posted. transfers: TRANSFER[n_qp], with what never changes."""
    n_pair, words, none = len(transfers), np.zeros(N_TRANSFER_WORD, np.int64), np.zeros(0, np.int64)
    transfers["first_waiting"] = transfers["last_waiting"] = words[FREE_WAITING] = -1
    made = FlowMode(
        max_min, transfers, np.zeros(0, WAITING), make_time_index(n_pair), np.zeros(n_pair, np.int64),
        np.zeros(n_pair, np.int32), changes, moves, np.zeros(len(max_min.ports)), none, none, none,
        np.zeros((0, 4), np.int64), gathering,
        hybrid, np.array([queue_ps, 0.0]), words,
    )  # fmt: skip
    return grow_posts(grow_waiting(made, 1024), 1024)


def make_hybrid(trusts: tuple[bool, ...] | None, goes: np.ndarray, topology: Topology) -> Hybrid:
    """No message is under way. trusts: see Hybrid.trusts; None: there are no packets. goes: Nic.goes."""
    n_pair, n_port = (0, 0) if trusts is None else (len(goes), topology.n_port)
    rate_bps = topology.port_rate_bps[:n_port].astype(np.int64)
    bit_s = BITS_PER_BYTE * PS_PER_S
    whole = (bit_s % rate_bps == 0) & (bit_s // rate_bps < 2**31)

    def rows(n: int, kind: type = np.int32) -> np.ndarray:
        return np.zeros(n, kind)

    return Hybrid(
        np.array(trusts or (True,) * 3, np.uint8), rows(n_pair), rows(n_pair, np.uint8), rows(n_pair, np.uint8),
        rows(n_port), rows(n_port), rows(n_port), rows(n_port, np.uint8),
        np.where(whole, bit_s // rate_bps, 0).astype(np.int32), rate_bps, goes, rows(n_pair), rows(n_pair, np.uint8),
    )  # fmt: skip


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
    order = np.zeros(n_post if len(flow.hybrid.n_pair) else 0, np.int64)
    own = posts if len(flow.gathering.n_word) == 1 else np.zeros_like(posts)
    return flow._replace(posts=posts, own=own, order=order)
