"""Claims about messages that are alone: when their times are known, and which rates follow from these."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pdes.skipping import history as h
from pdes.skipping.fluid.ack_load import Slowdown
from pdes.skipping.fluid.alone_rates import MIN_ROUND_TRIPS
from pdes.skipping.fluid.alone_times import CLOSE, MOST_TRIED, AloneTimes, Ended, Watch, Watched
from pdes.skipping.fluid.at_flow_level import ANY_BYTES, FlowLevel
from pdes.skipping.fluid.flow_table import MOST_SIZES
from pdes.skipping.fluid.make_table import Links

TOLERANCE, RTT_PS, LATENCY_PS, ACK_SHARE = 0.02, 1000, 900, 0.05
SIZE = 1_000_000


def links_of(forms: list[int]) -> Links:
    """A flow of each form, with a port of its own of 1 byte per ps."""
    n = len(forms)
    way = np.arange(n + 1), np.arange(n, dtype=np.int32)
    late = np.full(n, 500), np.full(n, LATENCY_PS - 500)
    return Links(way, way, np.array(forms, np.int64), np.ones(n), *late)


class Learned:
    """What is learned of messages, and what is said of others then."""

    def __init__(self, forms: list[int], leaves_room: bool = False) -> None:
        links, slowdown = links_of(forms), Slowdown(ACK_SHARE, np.ones(len(forms)), leaves_room)
        self.times = AloneTimes(links, TOLERANCE, RTT_PS, slowdown)
        self.level = FlowLevel(links, TOLERANCE, RTT_PS, slowdown, 1)
        self.behind_ps = 500

    def take(
        self, took_ps: int, size: int = SIZE, is_loaded: bool = False, posted_ps: int = 7, flow: int = 0
    ) -> int | None:
        """A message of a flow took that; what is known of such ones, if it is known now and was not."""
        one = np.zeros(1, np.int64)
        watched = Watched(one + flow, one + size, one + size, one + posted_ps, np.array([is_loaded]))
        ended_ps = one + posted_ps + took_ps
        found = self.times.learn(watched, Ended(one + size, ended_ps, one, ended_ps - (LATENCY_PS - 500)))
        for new in found:
            self.level.note_alone(new.flow, new.size, new.delivered_ps - self.behind_ps)
        return found[0].ended_ps if found else None

    def said_ps(self, size: int, flow: int = 0, is_loaded: bool = False) -> float | None:
        """What a message takes, acknowledgement included; None: it is not known."""
        rates = self.level.rates_alone(np.array([flow]), np.array([size]), np.array([int(is_loaded)]))
        return None if rates[0] == 0 else LATENCY_PS + size / rates[0]


def test_a_time_is_known_once_two_agree_closely() -> None:
    mine = Learned([0])
    assert mine.take(1_100_000) is None
    assert mine.take(1_100_000 + int(1_100_000 * TOLERANCE * CLOSE)) == pytest.approx(1_102_750, abs=2)
    assert mine.take(5_000_000) is None and len(mine.times) == 1  # what is known stays
    assert mine.said_ps(SIZE) == pytest.approx(1_102_750, abs=2)


def test_of_three_the_nearest_two_count_if_they_agree_within_the_tolerance() -> None:
    mine = Learned([0])
    assert mine.take(1_100_000) is None and mine.take(1_300_000) is None
    assert mine.take(1_115_000) == 1_107_500
    other = Learned([0])
    for took_ps in (1_100_000, 1_300_000, 1_500_000, 1_130_000):  # the first one is forgotten by then
        assert other.take(took_ps) is None
    assert other.take(1_132_000) == 1_131_000


def test_flows_in_lockstep_do_not_vouch_for_each_other_where_a_control_leaves_room() -> None:
    """All are at the line's rate at first, as with HPCC, and slower later on."""
    mine = Learned([0] * 8, leaves_room=True)
    for took_ps in (1_100_000, 1_150_000, 1_170_000):
        for flow in range(8):
            assert mine.take(took_ps, flow=flow) is None or (took_ps, flow) == (1_170_000, 0)
    assert len(mine.times) == 1 and mine.said_ps(SIZE, flow=5) == pytest.approx(1_160_000, abs=2)


def test_short_messages_do_not_count_where_a_control_leaves_room() -> None:
    mine, took_ps = Learned([0], leaves_room=True), LATENCY_PS + 5000
    assert mine.take(took_ps, 5000) is None and mine.take(took_ps, 5000) is None
    assert not mine.times.seeks(np.zeros(1, np.int64), np.array([5000])).any()


def test_nothing_is_learned_of_another_message() -> None:
    mine, one = Learned([0]), np.zeros(1, np.int64)
    for _ in range(3):
        watched = Watched(one, one + SIZE, one + SIZE, one, one != 0)
        ended = Ended(one + SIZE + 1, one + 1_100_000, one, one + 1_099_600)  # of the next one
        assert mine.times.learn(watched, ended) == []


def test_a_short_message_counts_if_its_bytes_took_what_the_line_takes() -> None:
    """Its time is its bytes at line rate and the way's latency, whatever its control was up to before."""
    size, long_ps = 5000, MIN_ROUND_TRIPS * RTT_PS
    slow_ps = LATENCY_PS + round(size * (1 + 2 * CLOSE * TOLERANCE))
    mine = Learned([0])
    assert slow_ps < long_ps
    for _ in range(3):
        assert mine.take(slow_ps, size) is None
    assert mine.take(LATENCY_PS + size, size) is None and mine.take(LATENCY_PS + size, size) == LATENCY_PS + size
    assert mine.said_ps(size) == pytest.approx(LATENCY_PS + size)
    other = Learned([0])  # a long one counts, however slow
    assert other.take(long_ps, size) is None and other.take(long_ps, size) == long_ps


def test_a_short_message_is_asked_for_until_its_time_is_known_or_it_was_slow_too_often() -> None:
    flow, size, other = np.array([0, 0]), np.array([5000, 6000]), Learned([0])
    assert other.times.seeks(flow, size).tolist() == [True, True]
    for _ in range(2):
        other.take(LATENCY_PS + 5000, 5000)
    assert other.times.seeks(flow, size).tolist() == [False, True]
    for _ in range(MOST_TRIED):
        assert other.times.seeks(flow, size).tolist() == [False, True]
        other.take(LATENCY_PS + 6500, 6000)
    assert other.times.seeks(flow, size).tolist() == [False, False]


def test_nothing_is_said_of_messages_shorter_than_one_that_is_known_and_than_eight_round_trips() -> None:
    """Nor do they go at flow level: a tick would have to send them back as packets, late."""
    mine = Learned([0])
    for _ in range(2):
        mine.take(LATENCY_PS + 6000, 6000)
    assert mine.said_ps(3000) is None and mine.said_ps(6000) is not None and mine.said_ps(7000) is not None
    least_bytes = mine.level.least_bytes[0]
    assert mine.said_ps(least_bytes) is not None and mine.said_ps(least_bytes - 1) is None
    for _ in range(2):
        mine.take(LATENCY_PS + 4000, 4000)
    assert mine.level.least_bytes[0] == np.ceil(4000 * (1 - TOLERANCE))
    long = Learned([0])
    for _ in range(2):
        long.take(LATENCY_PS + SIZE, SIZE)
    assert long.level.least_bytes[0] == pytest.approx(MIN_ROUND_TRIPS * RTT_PS, abs=10)
    assert long.said_ps(int(long.level.least_bytes[0])) is not None


@given(st.integers(1000, 3 * SIZE), st.integers(0, 10**6), st.floats(1.0, 1.5))
@example(1_040_000, 300_000, 1.0)
def test_who_takes_so_much_once_and_so_much_for_each_byte_is_off_by_the_tolerance_at_most(
    size: int, once_ps: int, byte_ps: float
) -> None:
    """Whatever is taken once and for each byte: what is said of another size is not off by more than the tolerance."""

    def truth_ps(size: int) -> float:
        return LATENCY_PS + once_ps + size * byte_ps

    mine = Learned([0])
    for _ in range(2):
        mine.take(round(truth_ps(SIZE)))
    said_ps = mine.said_ps(size)
    if said_ps is not None:
        assert abs(said_ps - truth_ps(size)) <= TOLERANCE * said_ps + 3
        assert size <= mine.level.most_bytes[0]  # then it may be posted at flow level
    elif once_ps == 0 and byte_ps == 1.0:  # then nothing can be wrong
        assert size < MIN_ROUND_TRIPS * RTT_PS


def test_only_a_size_that_is_near_enough_for_what_the_message_may_have_taken_once() -> None:
    mine = Learned([0, 0, 1])
    for _ in range(2):
        mine.take(SIZE + LATENCY_PS + 250_000)
    assert mine.said_ps(1_120_000) is None  # a fifth may have been taken once: of that, an eighth is too much
    assert mine.said_ps(1_050_000) == pytest.approx(LATENCY_PS + (SIZE + 250_000) * 1.05, abs=2)
    assert mine.said_ps(1_050_000, flow=1) == mine.said_ps(1_050_000)
    assert mine.said_ps(SIZE, flow=2) is None  # of its form nothing is known
    most = int(mine.level.most_bytes[0])
    assert mine.said_ps(most) is not None and mine.said_ps(most + 2) is None and mine.level.most_bytes[1] == 0
    full = Learned([0])
    for _ in range(2):
        full.take(SIZE + LATENCY_PS + 1000)
    assert full.level.most_bytes[0] == ANY_BYTES  # within the tolerance of the line's rate


def test_there_is_room_for_some_sizes_of_a_form() -> None:
    mine = Learned([0])
    for k in range(MOST_SIZES + 2):
        for _ in range(2):
            mine.take((SIZE + LATENCY_PS) * 2**k, size=SIZE * 2**k)
    assert mine.level.table.known.n_size[0] == MOST_SIZES and mine.said_ps(SIZE * 2 ** (MOST_SIZES - 1)) is not None


def test_what_is_learned_is_the_time_on_an_empty_way() -> None:
    mine = Learned([0])
    mine.take(1_010_000)
    assert mine.take(int(1_010_000 * (1 + ACK_SHARE)), is_loaded=True) == pytest.approx(1_010_000, rel=1e-3)
    empty_ps, loaded_ps = mine.said_ps(SIZE), mine.said_ps(SIZE, is_loaded=True)
    assert empty_ps is not None and loaded_ps is not None
    assert (loaded_ps - LATENCY_PS) / (empty_ps - LATENCY_PS) == pytest.approx(1 + ACK_SHARE)
    slow = Learned([0])
    for _ in range(2):
        slow.take(2 * SIZE)
    assert slow.said_ps(SIZE) == slow.said_ps(SIZE, is_loaded=True)  # it leaves them room
    other = Learned([0])
    for _ in range(3):  # 1 MB cannot have taken so little without them: so few have crossed its way
        assert other.take(int(0.99 * SIZE * (1 + ACK_SHARE)), is_loaded=True) is None


def sample(flow: int, message: int, posted_ps: int, is_clear: bool = True) -> list[int]:
    values = {h.FLOW: flow, h.ID: message, h.POSTED_PS: posted_ps, h.MESSAGE_END: 1000, h.IS_CLEAR: int(is_clear)}
    return [values.get(k, 0) for k in range(h.N_COLUMN)]


def test_a_message_is_watched_if_its_flow_was_alone_long_before_and_until_it_ends() -> None:
    watch, idle = Watch(2, RTT_PS), np.zeros(2, np.bool_)

    def look(now_ps: int, *rows: list[int], is_alone: bool = True, is_loaded: bool = False) -> Watched:
        table = np.array(rows, np.int64).reshape(-1, h.N_COLUMN)
        mine = np.full(len(table), is_alone)
        over = watch.over(table, mine, np.full(len(table), is_loaded), idle, np.zeros(2, np.int64))
        clear = watch.note_alone(now_ps, table, mine)
        watch.begin(table[clear], np.full(int(clear.sum()), is_loaded), np.zeros(2, np.int64))
        return over

    settles_ps = MIN_ROUND_TRIPS * RTT_PS
    assert look(0, sample(1, 5, 0)).flows.tolist() == look(100, sample(1, 6, 100)).flows.tolist() == []
    look(settles_ps, sample(1, 7, settles_ps))  # the first that is watched: none was alone for so long before
    over = look(settles_ps + 50, sample(1, 8, settles_ps + 40))
    assert over.flows.tolist() == [1] and over.posted_ps.tolist() == [settles_ps] and over.size.tolist() == [1000]
    assert look(settles_ps + 60, sample(1, 9, settles_ps + 55), is_loaded=True).flows.tolist() == [1]
    assert look(settles_ps + 70, sample(1, 9, settles_ps + 55)).flows.tolist() == []  # the load has changed: given up
    assert look(settles_ps + 80, sample(1, 10, settles_ps + 75)).flows.tolist() == []
    assert look(settles_ps + 90, sample(1, 10, settles_ps + 75), is_alone=False).flows.tolist() == []
    assert look(settles_ps + 99).flows.tolist() == []  # it was alone no more
