"""Pending events of a rank in total order (design R2): time, then source, then sequence number.

A calendar queue (Brown 1988): events hang unsorted on buckets of equal width, and a bucket is sorted when its time
comes. With a bucket for a few events each, an event costs O(1) whatever the number pending. For models that keep one
pending set per rank (PHOLD); the network keeps its events in its links instead. No allocation: fixed capacity.
"""

from typing import NamedTuple

import numpy as np

from pdes.engine.bits import WORD_BITS, lowest_bit
from pdes.engine.jit import loop_kernel, record
from pdes.engine.time_index import NEVER

EVENT = record(
    [
        ("time_ps", np.int64),
        ("sequence", np.int64),
        ("source", np.int32),
        ("target", np.int32),  # for the model
        ("next", np.int32),
        ("spare", np.int32),
    ]
)
# What `cursor` holds: first free event, events pending, the bucket (counted from time 0) that is sorted, events in it,
# how many of these are gone.
FREE, N_PENDING, BUCKET, N_SORTED, N_GONE = range(5)
EVENTS_PER_BUCKET = 4


class EventQueue(NamedTuple):
    """A rank's pending events. Bucket b holds times b * width .. (b + 1) * width - 1, modulo the number of buckets."""

    events: np.ndarray  # EVENT[capacity]
    heads: np.ndarray  # int32[n_bucket]  chains, n_bucket a power of two
    filled: np.ndarray  # int64[n_bucket / WORD_BITS]  bit: the bucket has a chain
    sorted_events: np.ndarray  # int32[capacity]  the current bucket, in order
    cursor: np.ndarray  # int64[5]
    width_ps: np.ndarray  # int64[1]


def make_event_queue(capacity: int, horizon_ps: int) -> EventQueue:
    """An empty queue for up to `capacity` events that mostly lie within horizon_ps of the present."""
    n_bucket = 1 << max(6, (capacity // EVENTS_PER_BUCKET).bit_length())
    events = np.zeros(capacity, EVENT)
    events["next"] = np.arange(1, capacity + 1)
    events["next"][-1] = -1
    return EventQueue(
        events=events,
        heads=np.full(n_bucket, -1, np.int32),
        filled=np.zeros(n_bucket // WORD_BITS, np.int64),
        sorted_events=np.zeros(capacity, np.int32),
        cursor=np.zeros(5, np.int64),
        width_ps=np.array([max(1, horizon_ps // n_bucket)], np.int64),
    )


@loop_kernel
def is_before(a, b):
    """True if event record a comes before b."""
    if a.time_ps != b.time_ps:
        return a.time_ps < b.time_ps
    if a.source != b.source:
        return a.source < b.source
    return a.sequence < b.sequence


@loop_kernel
def _insert_sorted(queue: EventQueue, event):
    """Put an event into the sorted bucket, behind what is gone already."""
    events, order, cursor = queue.events, queue.sorted_events, queue.cursor
    item = events[np.uint64(event)]
    if cursor[N_SORTED] == order.size:  # full of events that are gone
        gone = cursor[N_GONE]
        for k in range(gone, order.size):
            order[np.uint64(k - gone)] = order[np.uint64(k)]
        cursor[N_SORTED] -= gone
        cursor[N_GONE] = 0
    i = cursor[N_SORTED]
    cursor[N_SORTED] = i + 1
    while i > cursor[N_GONE] and is_before(item, events[np.uint64(order[np.uint64(i - 1)])]):
        order[np.uint64(i)] = order[np.uint64(i - 1)]
        i -= 1
    order[np.uint64(i)] = event


@loop_kernel
def _hang(queue: EventQueue, event, bucket):
    """Put an event on its bucket's chain. bucket: counted from time 0."""
    place = bucket & (queue.heads.size - 1)
    queue.events[np.uint64(event)].next = queue.heads[np.uint64(place)]
    queue.heads[np.uint64(place)] = event
    queue.filled[np.uint64(place // WORD_BITS)] |= np.int64(1) << (place & (WORD_BITS - 1))


@loop_kernel
def push_event(queue: EventQueue, time_ps, source, sequence, target):
    """Add an event, not before the last one taken; the caller makes sure of room."""
    cursor = queue.cursor
    event = cursor[FREE]
    item = queue.events[np.uint64(event)]
    cursor[FREE] = item.next
    cursor[N_PENDING] += 1
    item.time_ps, item.source, item.sequence, item.target = time_ps, source, sequence, target
    bucket = time_ps // queue.width_ps[0]
    if bucket <= cursor[BUCKET]:
        _insert_sorted(queue, event)
    else:
        _hang(queue, event, bucket)


@loop_kernel
def _next_filled(queue: EventQueue, place):
    """The first bucket with a chain at or behind `place`, going around; its distance. Some bucket has one."""
    n_word = queue.filled.size
    i_word = place // WORD_BITS
    word = queue.filled[np.uint64(i_word)] & ~((np.int64(1) << (place & (WORD_BITS - 1))) - 1)
    distance = -(place & (WORD_BITS - 1))
    while word == 0:
        i_word = (i_word + 1) & (n_word - 1)
        distance += WORD_BITS
        word = queue.filled[np.uint64(i_word)]
    return distance + lowest_bit(word)


@loop_kernel
def _sort_next_bucket(queue: EventQueue):
    """Go to the next bucket that has events of its own time; something is pending outside the sorted bucket."""
    events, cursor, width_ps = queue.events, queue.cursor, queue.width_ps[0]
    mask = queue.heads.size - 1
    cursor[N_SORTED], cursor[N_GONE] = 0, 0
    bucket = cursor[BUCKET] + 1
    n_tried = 0
    while cursor[N_SORTED] == 0:
        distance = _next_filled(queue, bucket & mask)
        bucket += distance
        n_tried += distance + 1
        if n_tried > 2 * mask:  # a year without events: go straight to the earliest
            least_ps = NEVER
            for place in range(queue.heads.size):
                event = np.int64(queue.heads[place])
                while event >= 0:
                    least_ps = min(least_ps, events[np.uint64(event)].time_ps)
                    event = np.int64(events[np.uint64(event)].next)
            bucket, n_tried = least_ps // width_ps, 0
        cursor[BUCKET] = bucket
        place = np.uint64(bucket & mask)
        event = np.int64(queue.heads[place])
        queue.heads[place] = -1
        queue.filled[np.uint64((bucket & mask) // WORD_BITS)] &= ~(np.int64(1) << (bucket & (WORD_BITS - 1)))
        while event >= 0:
            following = np.int64(events[np.uint64(event)].next)
            own = events[np.uint64(event)].time_ps // width_ps
            if own == bucket:
                _insert_sorted(queue, event)
            else:
                _hang(queue, event, own)
            event = following
        bucket += 1


@loop_kernel
def peek_time(queue: EventQueue):
    """Time of the first event, NEVER if none is pending."""
    cursor = queue.cursor
    if cursor[N_PENDING] == 0:
        return NEVER
    if cursor[N_GONE] == cursor[N_SORTED]:
        _sort_next_bucket(queue)
    return queue.events[np.uint64(queue.sorted_events[np.uint64(cursor[N_GONE])])].time_ps


@loop_kernel
def pop_event(queue: EventQueue):
    """Take the first event, after a peek_time that was not NEVER; return its row, valid until the next push."""
    cursor = queue.cursor
    event = np.int64(queue.sorted_events[np.uint64(cursor[N_GONE])])
    cursor[N_GONE] += 1
    cursor[N_PENDING] -= 1
    queue.events[np.uint64(event)].next = cursor[FREE]
    cursor[FREE] = event
    return event
