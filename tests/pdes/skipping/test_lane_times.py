"""Claims about times of messages that are alone: those of sizes near one that is known follow from it."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pdes.skipping import history as h
from pdes.skipping.fluid.ack_load import Slowdown
from pdes.skipping.fluid.lane_records import Ended, Watched
from pdes.skipping.fluid.lane_times import MAX_SIZE_BITS, MIN_ROUND_TRIPS, MOST_TIMES, LaneTimes

TOLERANCE, RTT_PS, LATENCY_PS = 0.02, 1000, 900
SIZE = 1_000_000


def times_of(forms: list[int]) -> LaneTimes:
    """A flow of each form, on lines of 1 byte per ps."""
    n = len(forms)
    return LaneTimes(np.array(forms), TOLERANCE, RTT_PS, Slowdown(0.05, np.ones(n)), np.full(n, LATENCY_PS))


def rows_of(*messages: tuple[int, int]) -> np.ndarray:
    """(flow, size) each."""
    rows = np.zeros((len(messages), h.N_COLUMN), np.int64)
    rows[:, [h.FLOW, h.MESSAGE_END]] = messages
    return rows


def learn(times: LaneTimes, took_ps: int, marked: int = 0) -> None:
    """Two messages of the first flow, of 1 MB, took that."""
    keys, none = times.keys(rows_of((0, SIZE))), np.zeros(1, np.int64)
    for _ in range(2):
        watched = Watched(none, none + SIZE, keys, none, none != 0)
        times.learn(watched, Ended(none + SIZE, none + took_ps, none + marked, none + took_ps - 400))


def derived(times: LaneTimes, size: int, flow: int = 0) -> int | None:
    """What a message takes that is alone and was not seen before."""
    rows = rows_of((flow, size))
    keys = times.keys(rows)
    is_more = times.derive(keys, rows[:, h.FLOW])
    found = times.of(int(keys[0]))
    assert is_more == (found is not None) == bool(times.are_known(keys)[0])
    return None if found is None else found.ended_ps


@given(st.integers(1000, 3 * SIZE), st.integers(0, 10**6), st.floats(1.0, 1.5))
@example(1_040_000, 300_000, 1.0)
def test_who_takes_so_much_once_and_so_much_for_each_byte_is_off_by_the_tolerance_at_most(
    size: int, once_ps: int, byte_ps: float
) -> None:
    """Whatever is taken once and for each byte: what is said of another size is not off by more than the tolerance."""

    def truth_ps(size: int) -> float:
        return LATENCY_PS + once_ps + size * byte_ps

    times = times_of([0])
    learn(times, round(truth_ps(SIZE)))
    said_ps = derived(times, size)
    if size == SIZE:
        return
    if said_ps is not None:
        assert abs(said_ps - truth_ps(size)) <= TOLERANCE * said_ps + 2
    elif once_ps == 0 and byte_ps == 1.0:  # then nothing can be wrong
        assert size < MIN_ROUND_TRIPS * RTT_PS


def test_only_a_size_that_is_near_enough_for_what_the_message_may_have_taken_once() -> None:
    times = times_of([0, 0, 1])
    learn(times, SIZE + LATENCY_PS + 250_000, marked=100)
    assert derived(times, 1_120_000) is None  # a fifth may have been taken once: of that, an eighth is too much
    said_ps = derived(times, 1_050_000)
    assert said_ps == LATENCY_PS + (SIZE + 250_000) * 105 // 100
    assert derived(times, 1_050_000, flow=2) is None  # of its form nothing is known
    assert times.table().tolist() == [
        [0, SIZE, SIZE + LATENCY_PS + 250_000 - 400, SIZE + LATENCY_PS + 250_000, 100],
        [0, 1_050_000, said_ps - 400, said_ps, 105],
    ]
    assert derived(times, 1_140_000) is None  # nor does it follow from what was derived
    assert len(times) == 2 and times.keys(rows_of((2, 5))).tolist() == [(1 << MAX_SIZE_BITS) + 5]


@pytest.mark.parametrize("size", [MIN_ROUND_TRIPS * RTT_PS - LATENCY_PS - 1, MIN_ROUND_TRIPS * RTT_PS - LATENCY_PS])
def test_messages_of_a_few_round_trips_are_simulated(size: int) -> None:
    times = times_of([0])
    learn(times, SIZE + LATENCY_PS)
    assert (derived(times, size) is None) == (size < MIN_ROUND_TRIPS * RTT_PS - LATENCY_PS)


def test_where_all_sizes_differ_no_more_are_kept_than_there_is_room_for() -> None:
    times = times_of([0])
    learn(times, SIZE + LATENCY_PS)
    for i in range(1, MOST_TIMES):
        assert derived(times, SIZE + i) is not None
    rows = rows_of((0, 2 * SIZE))
    assert not times.derive(times.keys(rows), rows[:, h.FLOW]) and len(times) == MOST_TIMES
