"""States of network partitions as words in blocks: (kind, number, words that follow), these; of ranks put together."""

import numpy as np

from pdes.engine.jit import loop_kernel, step_kernel

HEADER_WORDS = 3  # kind, number, words that follow


def blocks(words: np.ndarray) -> list[tuple[int, int, int, int]]:
    """(kind, number, begin, end) of each block."""
    found, at = [], 0
    while at < len(words):
        end = at + HEADER_WORDS + int(words[at + 2])
        found.append((int(words[at]), int(words[at + 1]), at, end))
        at = end
    return found


@step_kernel
def _first(words, head, end, i):
    """The rank whose next block of the i-th network partition comes first, -1: there is none. head: int64[n_rank]."""
    first = -1
    for rank in range(head.size):
        at = head[rank]
        if at >= end[rank, i + 1]:
            continue
        if first >= 0:
            least = head[first]
            if words[at] > words[least] or (words[at] == words[least] and words[at + 1] > words[least + 1]):
                continue
        first = rank
    return first


@loop_kernel
def merge_blocks(words, end, head, out, end_word):
    """Put the blocks of ranks in the order of kind and number, network partition by network partition.

    words: int64[]; a rank's blocks of the i-th, which are in order, are words[end[rank, i] : end[rank, i + 1]].
    head: int64[n_rank], scratch. Written: out, int64[words.size]; end_word, int64[n + 1], where each one's begin there.
    """
    to = 0
    for i in range(end_word.size - 1):
        end_word[i] = to
        for rank in range(head.size):
            head[rank] = end[rank, i]
        rank = _first(words, head, end, i)
        while rank >= 0:
            at = head[rank]
            size = HEADER_WORDS + words[at + 2]
            for k in range(size):
                out[to + k] = words[at + k]
            to, head[rank] = to + size, at + size
            rank = _first(words, head, end, i)
    end_word[end_word.size - 1] = to


@loop_kernel
def find_equal(words, end_word, like_before, like):
    """Of each stretch of words the first that is equal, and has the same like_before. Written: like, int64[n].

    end_word: int64[n + 1], where they begin and the last ends.
    """
    for i in range(like.size):
        like[i], n = i, end_word[i + 1] - end_word[i]
        for j in range(i):
            if like[j] != j or like_before[j] != like_before[i] or end_word[j + 1] - end_word[j] != n:
                continue
            k = 0
            while k < n and words[end_word[i] + k] == words[end_word[j] + k]:
                k += 1
            if k == n:
                like[i] = j
                break
