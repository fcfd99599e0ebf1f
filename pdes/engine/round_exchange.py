"""One reduction, and one exchange with the neighbours, per round: what ranks say to each other in compiled code.

Compiled loops call MPI by address (`pdes.engine.foreign`), so that a round costs no trip through Python. Ranks that
are all on one machine exchange through memory that they share instead (`pdes.engine.meeting`): one meeting is both, and
nobody spins.
"""

from typing import NamedTuple

import numpy as np

from pdes.engine.exchange import ALLREDUCE, COMM, INT64, IRECV, ISEND, MIN, REQUEST_BYTES, WAITALL, World
from pdes.engine.foreign import call3, call6, call7, clock_address
from pdes.engine.jit import loop_kernel
from pdes.engine.meeting import (
    BOXES,
    LINE_WORDS,
    MEETING,
    MORE_EVEN,
    MORE_ODD,
    futex_number,
    meet,
    syscall_address,
)

ROUND_TAG = 7
HEADER_WORDS = 2  # of a message: its length in words, itself included; the sender's least pending time
# Of a rank's boxes in shared memory, at most, and of one at least: what is longer goes in pieces.
BOXES_WORDS, LEAST_BOX_WORDS = 2**18, 2**12
# Where ExchangeState.shared_facts holds what.
IS_SHARED, SPIN, SYSCALL, FUTEX, STRIDE, BOX = range(6)


class ExchangeState(NamedTuple):
    """Buffers of one rank's rounds. A model writes records into outbox and n_out, and reads inbox and n_in.

    Row i belongs to neighbour peer[i]; records begin behind HEADER_WORDS.
    """

    n_rank: np.ndarray  # int64[1]
    is_complete: np.ndarray  # int64[1]  1 if `swap` says the least of all ranks
    peer: np.ndarray  # int64[n_peer]  neighbour ranks, ascending
    outbox: np.ndarray  # int64[n_peer, n_word]
    inbox: np.ndarray  # int64[n_peer, n_word]
    n_out: np.ndarray  # int64[n_peer]  words written behind the header
    n_in: np.ndarray  # int64[n_peer]  words received behind the header
    reduced: np.ndarray  # int64[2, 1]  what goes into the reduction, what comes out
    mpi: np.ndarray  # int64[8]
    requests: np.ndarray  # int64[2 * n_peer], big enough for either library's handles
    statuses: np.ndarray  # int64[2 * n_peer, 8]
    clock: np.ndarray  # int64[3]  address of clock_gettime, and its buffer
    shared_facts: np.ndarray  # int64[6]  IS_SHARED .. BOX
    shared: np.ndarray  # int64[n]  `pdes.engine.meeting`'s words, with boxes for records behind them; empty without
    box_out: np.ndarray  # int64[n_peer]  this rank's box for each neighbour; STRIDE words on lies that of odd meetings
    box_in: np.ndarray  # int64[n_peer]  each neighbour's for this rank


def make_exchange(world: World, peers: list[int], n_word: int) -> ExchangeState:
    """Buffers for messages of at most n_word int64 to each neighbour in a round; every rank must call it."""
    n_peer = len(peers) if world.size > 1 else 0
    peers = sorted(peers)[:n_peer]
    is_complete = min(world.allgather(n_peer)) == world.size - 1
    facts, shared, box_out, box_in = _make_shared(world, peers, n_word + HEADER_WORDS)
    return ExchangeState(
        n_rank=np.array([world.size], np.int64),
        is_complete=np.array([is_complete or facts[IS_SHARED]], np.int64),
        peer=np.array(peers, np.int64),
        outbox=np.zeros((n_peer, n_word + HEADER_WORDS), np.int64),
        inbox=np.zeros((n_peer, n_word + HEADER_WORDS), np.int64),
        n_out=np.zeros(n_peer, np.int64),
        n_in=np.zeros(n_peer, np.int64),
        reduced=np.zeros((2, 1), np.int64),
        mpi=world.addresses(),
        requests=np.zeros(2 * n_peer, np.int64),
        statuses=np.zeros((2 * n_peer, 8), np.int64),
        clock=np.array([clock_address(), 0, 0], np.int64),
        shared_facts=facts,
        shared=shared,
        box_out=box_out,
        box_in=box_in,
    )


def most_box_words(n_rank: int) -> int:
    """Words of a box at most: they share a rank's room, so that it does not grow with the square of the ranks."""
    return max(LEAST_BOX_WORDS, BOXES_WORDS // max(n_rank - 1, 1) // LINE_WORDS * LINE_WORDS)


def _make_shared(world: World, peers: list[int], box_words: int) -> tuple[np.ndarray, ...]:
    """shared_facts, shared, box_out and box_in, where all ranks are on one machine and may share memory."""
    facts, nothing = np.zeros(6, np.int64), np.zeros(0, np.int64)
    most = most_box_words(world.size)
    box_words = min(box_words + -box_words % LINE_WORDS, most)
    boxes = world.allgather((peers, box_words)) if world.may_share() else []
    if not boxes:
        return facts, nothing, nothing, nothing
    n_half = sum(len(theirs) * words for theirs, words in boxes)
    shared = world.share(BOXES + 2 * n_half)
    if shared is None:
        return facts, nothing, nothing, nothing
    place, at = {}, BOXES
    for rank, (theirs, words) in enumerate(boxes):
        for peer in theirs:
            place[rank, peer] = at
            at += words
    facts[:] = 1, world.spin_ns(), syscall_address(), futex_number(), n_half, most
    ways = [(world.rank, peer) for peer in peers]
    box_out = np.array([place[way] for way in ways], np.int64)
    box_in = np.array([place[there, here] for here, there in ways], np.int64)
    return facts, shared, box_out, box_in


@loop_kernel
def reduce_min(ex: ExchangeState, value):
    """The least value over all ranks (int64)."""
    if ex.n_rank[0] == 1:
        return value
    if ex.shared_facts[IS_SHARED]:
        return meet(ex.shared, ex.n_rank[0], value, ex.shared_facts[SPIN], ex.shared_facts[SYSCALL:STRIDE], ex.clock)
    ex.reduced[0, 0] = value
    address = ex.reduced.ctypes.data
    mpi = ex.mpi
    call6(mpi[ALLREDUCE], address, address + 8, 1, mpi[INT64], mpi[MIN], mpi[COMM])
    return ex.reduced[1, 0]


@loop_kernel
def swap(ex: ExchangeState, least_ps):
    """Send every outbox to its neighbour and receive every inbox; outboxes are empty afterwards.

    least_ps: least time of what is pending here or in the outboxes. Returns the least one of this rank and its
    neighbours; of all ranks, if is_complete.
    """
    if ex.shared_facts[IS_SHARED]:
        return _swap_in_memory(ex, least_ps)
    n_peer, mpi = ex.peer.size, ex.mpi
    n_word = ex.outbox.shape[1] if n_peer else 0
    request_bytes = mpi[REQUEST_BYTES]
    requests = ex.requests.ctypes.data
    for i in range(n_peer):
        target = ex.inbox.ctypes.data + 8 * i * n_word
        call7(mpi[IRECV], target, n_word, mpi[INT64], ex.peer[i], ROUND_TAG, mpi[COMM], requests + i * request_bytes)
    for i in range(n_peer):
        ex.outbox[i, 0], ex.outbox[i, 1] = ex.n_out[i] + HEADER_WORDS, least_ps
        source, request = ex.outbox.ctypes.data + 8 * i * n_word, requests + (n_peer + i) * request_bytes
        call7(mpi[ISEND], source, ex.outbox[i, 0], mpi[INT64], ex.peer[i], ROUND_TAG, mpi[COMM], request)
    if n_peer:
        call3(mpi[WAITALL], 2 * n_peer, requests, ex.statuses.ctypes.data)
    for i in range(n_peer):
        ex.n_in[i] = ex.inbox[i, 0] - HEADER_WORDS
        ex.n_out[i] = 0
        least_ps = min(least_ps, ex.inbox[i, 1])
    return least_ps


@loop_kernel
def _swap_in_memory(ex: ExchangeState, least_ps):
    """The same through the boxes, piece by piece, and for the least of all ranks."""
    shared, facts, begin, is_over = ex.shared, ex.shared_facts, np.int64(HEADER_WORDS), False
    piece = facts[BOX] - HEADER_WORDS
    while not is_over:
        is_odd = shared[MEETING] & 1
        at, more = facts[STRIDE] if is_odd else 0, MORE_ODD if is_odd else MORE_EVEN
        for i in range(ex.peer.size):
            box, n_word = ex.box_out[i] + at, ex.n_out[i] + HEADER_WORDS
            end = min(n_word, begin + piece)
            shared[box] = n_word
            for k in range(begin, end):
                shared[box + HEADER_WORDS + k - begin] = ex.outbox[i, k]
            if end < n_word:
                shared[more] = 1
        least_ps = meet(shared, ex.n_rank[0], least_ps, facts[SPIN], facts[SYSCALL:STRIDE], ex.clock)
        is_over = shared[more] == 0
        for i in range(ex.peer.size):
            box = ex.box_in[i] + at
            n_word = shared[box]
            for k in range(begin, min(n_word, begin + piece)):
                ex.inbox[i, k] = shared[box + HEADER_WORDS + k - begin]
            ex.n_in[i] = n_word - HEADER_WORDS
        begin += piece
    ex.n_out[:] = 0
    return least_ps
