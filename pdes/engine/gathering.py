"""What every rank has, on every rank, in rank order: words that ranks give each other in one compiled call.

For what is decided between two rounds, where one of MPI's gathers through Python takes longer than what hangs on it.
Ranks that are all on one machine give their words through memory that they share, and meet there as rounds do
(`pdes.engine.meeting`); others call MPI by address. Either way they agree at once on the least of a word that each
brings, so that a rank that has nothing to give may say why.

A gather has two halves: `offer` tells every rank how many words there are, and `take` copies them.
"""

from typing import NamedTuple

import numpy as np

from pdes.engine.foreign import call7, clock_address
from pdes.engine.jit import loop_kernel
from pdes.engine.meeting import BOXES, LINE_WORDS, MEETING, futex_number, meet, syscall_address

# Of all boxes in shared memory; and of one of them at least and at most: what is longer goes in pieces.
BOXES_WORDS, LEAST_BOX_WORDS, MOST_BOX_WORDS = 2**17, 2**9, 2**15
SENT_BOX_WORDS = 2**9  # of one that MPI carries, whole each time
HEADER_WORDS = 2  # of a box: how many words its rank has; the word of which the least is asked for
# Where Gathering.facts holds what.
N_RANK, RANK, IS_SHARED, SPIN, SYSCALL, FUTEX, BOX = range(7)
# And Gathering.mpi.
ALLGATHER, COMM, INT64 = range(3)


class Gathering(NamedTuple):
    """One rank's part of what gathers need. All ranks make theirs together."""

    facts: np.ndarray  # int64[7]  N_RANK .. BOX: words of a box
    mpi: np.ndarray  # int64[3]  ALLGATHER .. INT64
    clock: np.ndarray  # int64[3]  address of clock_gettime, and its buffer
    words: np.ndarray  # int64[]  `pdes.engine.meeting`'s words and the boxes, of even and odd meetings; or boxes alone
    n_word: np.ndarray  # int64[n_rank]  words that each rank has offered
    n_taken: np.ndarray  # int64[n_rank]  zeros, scratch


def box_words(n_rank: int) -> int:
    """Words of a box in shared memory: all of them share their room, so that it does not grow with the ranks."""
    words = min(max(BOXES_WORDS // n_rank, LEAST_BOX_WORDS), MOST_BOX_WORDS)
    return words // LINE_WORDS * LINE_WORDS


def shared_words(n_rank: int) -> int:
    """Words of memory that n_rank ranks share to gather through it."""
    return BOXES + 2 * n_rank * box_words(n_rank)


def make_gathering(n_rank: int, rank: int, mpi: np.ndarray, shared: np.ndarray | None, spin_ns: int) -> Gathering:
    """A rank's part. mpi: int64[3]. shared: `shared_words`, as all ranks see them; None: they call MPI."""
    facts = np.zeros(7, np.int64)
    facts[[N_RANK, RANK, SPIN, BOX]] = n_rank, rank, spin_ns, SENT_BOX_WORDS
    if shared is not None:
        facts[[IS_SHARED, SYSCALL, FUTEX, BOX]] = 1, syscall_address(), futex_number(), box_words(n_rank)
    words = np.zeros((n_rank + 1) * SENT_BOX_WORDS if n_rank > 1 else 0, np.int64) if shared is None else shared
    return Gathering(facts, mpi, np.array([clock_address(), 0, 0], np.int64), words, *np.zeros((2, n_rank), np.int64))


@loop_kernel
def offer(g: Gathering, own, n_own, least):
    """Meet the other ranks; the least of what they bring. g.n_word says then how many words each of them offers.

    own: int64[], of which the first n_own words are offered. They stay as they are until `take`.
    """
    if g.facts[N_RANK] == 1:
        g.n_word[0] = n_own
        return least
    return _give(g, own, n_own, least, np.int64(0))


@loop_kernel
def _give(g: Gathering, own, n_own, least, begin):
    """`offer`, with as many words from begin on as a box holds."""
    words, facts, mpi = g.words, g.facts, g.mpi
    n_rank, stride = facts[N_RANK], facts[BOX]
    at = _first_box(g, np.int64(1)) + stride * facts[RANK] if facts[IS_SHARED] else stride * n_rank
    words[at], words[at + 1] = n_own, least
    for k in range(begin, min(n_own, begin + stride - HEADER_WORDS)):
        words[at + HEADER_WORDS + k - begin] = own[k]
    if facts[IS_SHARED]:
        least = meet(words, n_rank, least, facts[SPIN], facts[SYSCALL:BOX], g.clock)
    else:
        target = words.ctypes.data
        call7(mpi[ALLGATHER], target + 8 * at, stride, mpi[INT64], target, stride, mpi[INT64], mpi[COMM])
    first = _first_box(g, np.int64(0))
    for rank in range(n_rank):
        g.n_word[rank] = words[first + stride * rank]
        least = min(least, words[first + stride * rank + 1])
    return least


@loop_kernel
def _first_box(g: Gathering, is_next):
    """Where rank 0's box begins for the next meeting (1), or the last one (0)."""
    if not g.facts[IS_SHARED]:
        return np.int64(0)
    is_odd = (g.words[MEETING] & 1) if is_next else (g.words[MEETING] & 1) ^ 1
    return BOXES + is_odd * g.facts[N_RANK] * g.facts[BOX]


@loop_kernel
def n_offered(g: Gathering):
    """How many words all ranks offer together."""
    n_word = np.int64(0)
    for rank in range(g.n_word.size):
        n_word += g.n_word[rank]
    return n_word


@loop_kernel
def _is_any_longer(g: Gathering, n_word):
    """Whether some rank offers more words."""
    for rank in range(g.n_word.size):
        if g.n_word[rank] > n_word:
            return True
    return False


@loop_kernel
def take(g: Gathering, own, n_own, out):
    """Copy what was offered into out, in rank order. own, n_own: as they were offered; out: int64[n_offered] at least.

    Every rank must, or none.
    """
    n_rank, piece, begin = g.facts[N_RANK], g.facts[BOX] - HEADER_WORDS, np.int64(0)
    if n_rank == 1:
        for k in range(n_own):
            out[k] = own[k]
        return
    while True:
        box, at = _first_box(g, np.int64(0)) + HEADER_WORDS, np.int64(0)
        for rank in range(n_rank):
            for k in range(begin, min(g.n_word[rank], begin + piece)):
                out[at + k] = g.words[box + k - begin]
            at += g.n_word[rank]
            box += g.facts[BOX]
        begin += piece
        if not _is_any_longer(g, begin):
            return
        _give(g, own, n_own, np.int64(0), begin)


@loop_kernel
def take_in_order(g: Gathering, own, n_own, gathered, out):
    """Copy what was offered, rows that every rank has by ascending first words, into out by these; how many rows.

    own: int64[], the first n_own words of which are rows; out's own words where there is no other rank. gathered:
    int64[n_offered] at least, scratch of others. out: int64[n, columns]. No two ranks have the same first word. Every
    rank must, or none.
    """
    n_column, n_rank = out.shape[1], g.n_word.size
    if n_rank == 1:
        return g.n_word[0] // n_column
    n_word = n_offered(g)
    take(g, own, n_own, gathered)
    for i in range(n_word // n_column):
        first, of_rank, begin = np.int64(-1), 0, np.int64(0)  # where the least of what is left lies, of all ranks
        for rank in range(n_rank):
            at = begin + g.n_taken[rank]
            begin += g.n_word[rank]
            if at < begin and (first < 0 or gathered[at] < gathered[first]):
                first, of_rank = at, rank
        for k in range(n_column):
            out[i, k] = gathered[first + k]
        g.n_taken[of_rank] += n_column
    for rank in range(n_rank):
        g.n_taken[rank] = 0
    return n_word // n_column


@loop_kernel
def gather_words(g: Gathering, own, out):
    """Words of all ranks; how many there are. They are in out if it has room for them; else all ranks have to `take`.

    own: int64[]. out: int64[], equally long on all ranks.
    """
    n_own = np.int64(own.size)
    offer(g, own, n_own, np.int64(0))
    n_word = n_offered(g)
    if n_word <= out.size:
        take(g, own, n_own, out)
    return n_word


@loop_kernel
def agree_on_least(g: Gathering, value):
    """The least of all ranks' values, int64."""
    return offer(g, g.n_word, np.int64(0), value)


def compile_gathers() -> None:
    """Compile what Python gathers by, or load it from the cache, without talking to other ranks."""
    lone, none = make_gathering(1, 0, np.zeros(3, np.int64), None, 0), np.zeros(0, np.int64)
    gather_words(lone, none, none)
    take(lone, none, 0, none)
    agree_on_least(lone, 0)
