"""A binary heap of events in total order (design R2): time, then kind and source, then sequence number.

For models that keep one pending set per rank (PHOLD); the network keeps its events in its links instead. An event is
a row of int64[n_column]: TIME, SOURCE, SEQUENCE, then what the model wants. Kind is part of SOURCE for models that
need it. No allocation: the heap has a fixed capacity.
"""

import numpy as np

from pdes.engine.jit import loop_kernel

TIME, SOURCE, SEQUENCE, TARGET = range(4)
N_COLUMN = 4


def make_heap(capacity: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows int64[capacity, N_COLUMN] and their count int64[1]."""
    return np.zeros((capacity, N_COLUMN), np.int64), np.zeros(1, np.int64)


@loop_kernel
def event_before(time_a, source_a, sequence_a, time_b, source_b, sequence_b):
    """True if event a comes before event b."""
    if time_a != time_b:
        return time_a < time_b
    if source_a != source_b:
        return source_a < source_b
    return sequence_a < sequence_b


@loop_kernel
def push_event(heap, count, time_ps, source, sequence, target):
    """Add an event; the caller makes sure of room."""
    i = count[0]
    count[0] = i + 1
    while i > 0:
        up = (i - 1) >> 1
        row = heap[np.uint64(up)]
        if not event_before(time_ps, source, sequence, row[TIME], row[SOURCE], row[SEQUENCE]):
            break
        heap[np.uint64(i), :] = row
        i = up
    _store(heap, i, time_ps, source, sequence, target)


@loop_kernel
def _store(heap, i, time_ps, source, sequence, target):
    row = heap[np.uint64(i)]
    row[TIME], row[SOURCE], row[SEQUENCE], row[TARGET] = time_ps, source, sequence, target


@loop_kernel
def pop_event(heap, count):
    """Remove the first event; its row is heap[count] afterwards. count > 0."""
    n = count[0] - 1
    count[0] = n
    first_time, first_source, first_seq, first_target = (
        heap[0, TIME],
        heap[0, SOURCE],
        heap[0, SEQUENCE],
        heap[0, TARGET],
    )
    last = heap[np.uint64(n)]
    time_ps, source, sequence, target = last[TIME], last[SOURCE], last[SEQUENCE], last[TARGET]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        row = heap[np.uint64(child)]
        if child + 1 < n:
            other = heap[np.uint64(child + 1)]
            if event_before(other[TIME], other[SOURCE], other[SEQUENCE], row[TIME], row[SOURCE], row[SEQUENCE]):
                child += 1
                row = other
        if not event_before(row[TIME], row[SOURCE], row[SEQUENCE], time_ps, source, sequence):
            break
        heap[np.uint64(i), :] = row
        i = child
    if n > 0:
        _store(heap, i, time_ps, source, sequence, target)
    _store(heap, n, first_time, first_source, first_seq, first_target)
