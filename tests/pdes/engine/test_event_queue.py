"""The event queue against a sorted list: total order, whatever the times, and nothing written past its capacity."""

from heapq import heappop, heappush

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdes.engine.event_queue import EventQueue, is_before, make_event_queue, peek_time, pop_event, push_event
from pdes.engine.time_index import NEVER

GUARD = -77


def make_guarded_queue(capacity: int, horizon_ps: int) -> tuple[EventQueue, np.ndarray]:
    """A queue whose list of sorted events is followed by guard words that nobody may write."""
    queue = make_event_queue(capacity, horizon_ps)
    memory = np.full(len(queue.sorted_events) + 1000, GUARD, np.int32)
    memory[:-1000] = queue.sorted_events
    return queue._replace(sorted_events=memory[:-1000]), memory[-1000:]


def take(queue: EventQueue) -> tuple[int, int, int, int]:
    time_ps = peek_time(queue)
    event = queue.events[pop_event(queue)]
    assert event["time_ps"] == time_ps
    return tuple(int(event[name]) for name in ("time_ps", "source", "sequence", "target"))


STEPS = st.lists(
    st.one_of(
        st.none(),  # take one
        st.tuples(
            st.one_of(st.integers(0, 3), st.integers(0, 2_000), st.integers(0, 10**7)),  # how far ahead of the last
            st.integers(-3, 5),
            st.integers(-5, 5),
        ),
    ),
    max_size=120,
)


@given(STEPS, st.integers(1, 120), st.sampled_from([1, 100, 5_000, 10**6, 10**12]))
def test_events_come_in_total_order(steps, capacity, horizon_ps):
    (queue, _), plain, now_ps, number = make_guarded_queue(capacity, horizon_ps), [], 0, 0
    for step in steps:
        if step is None and plain:
            expected = heappop(plain)
            assert take(queue) == expected
            now_ps = expected[0]
        elif step is not None and len(plain) < capacity:
            ahead_ps, source, sequence = step
            number += 1
            event = now_ps + ahead_ps, source, sequence * 1000 + number, number
            push_event(queue, *event)
            heappush(plain, event)
        assert peek_time(queue) == (plain[0][0] if plain else NEVER)
    assert [take(queue) for _ in range(len(plain))] == [heappop(plain) for _ in range(len(plain))]
    assert peek_time(queue) == NEVER


@pytest.mark.parametrize("capacity", [1, 2, 10])
def test_a_bucket_that_is_filled_again_and_again_stays_inside_the_capacity(capacity):
    """Each event taken makes one at the same time: all of them pass through one bucket."""
    queue, guard = make_guarded_queue(capacity, 10**12)
    for k in range(capacity):
        push_event(queue, 5, 0, k, k)
    for k in range(5 * capacity):
        assert take(queue) == (5, 0, k, k)
        push_event(queue, 5, 0, capacity + k, capacity + k)
    assert (guard == GUARD).all()


def test_an_event_that_is_far_ahead_is_found():
    queue = make_event_queue(3, 1000)
    for time_ps in (10**15, 3, 10**9):
        push_event(queue, time_ps, 0, 0, 0)
    assert [take(queue)[0] for _ in range(3)] == [3, 10**9, 10**15]
    push_event(queue, 10**15 + 1, 0, 0, 0)
    assert take(queue)[0] == 10**15 + 1


@given(*[st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 2))] * 2)
def test_order_is_time_then_source_then_sequence(a, b):
    queue = make_event_queue(2, 10)
    push_event(queue, *a, 0)
    push_event(queue, *b, 1)
    assert is_before(queue.events[0], queue.events[1]) == (a < b)
