"""Claims about flow level: rates are parts of max-min fair shares, what is predicted of ends, and what breaks."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdes.engine.time_index import NEVER
from pdes.skipping import prediction as m
from pdes.skipping.fluid.at_flow_level import FlowLevel
from pdes.skipping.fluid.flow_level import Comers
from pdes.skipping.fluid.flow_table import (
    MOST_MESSAGES,
    NOBODY,
    PAUSE_TICKS,
    SHARED,
    TICKS_AHEAD,
)
from pdes.skipping.fluid.shares import LEAST_FLOWS, MORE_FLOWS, Known, share_key
from reference.flow_level_driver import (
    ACK_PS,
    ACK_SHARE,
    BEHIND_PS,
    N_PORT,
    QUEUED_PS,
    TICK_PS,
    Driven,
    Message,
    Ways,
    by_weight,
    fluid,
    know,
    level_of,
    max_min,
    post,
)


def ends_of(driven: Driven, flow: int, end: int) -> list[int]:
    """Flow and end, and when it leaves, comes across and is acknowledged."""
    return driven.predicted[flow, end][[m.FLOW, m.END, m.FREE_PS, m.DELIVERED_PS, m.ENDED_PS]].tolist()


@pytest.mark.parametrize("n", [LEAST_FLOWS, LEAST_FLOWS + 1, MORE_FLOWS * LEAST_FLOWS])
@pytest.mark.parametrize("part", [1.0, 0.5, 0.9])
def test_flows_at_one_port_get_equal_parts_of_its_known_part(n: int, part: float) -> None:
    """To the ps: nothing changes before all of them are over."""
    level = level_of([[0]] * n)
    know(level, [0], part)
    driven = Driven(level)
    driven.run([Message(f, 30_000, 123) for f in range(n)])
    sent_ps = 123 + int(30_000 * n / part)
    row = [sent_ps, sent_ps + BEHIND_PS, sent_ps + BEHIND_PS + ACK_PS]
    assert [ends_of(driven, f, 30_000) for f in range(n)] == [[f, 30_000, *row] for f in range(n)]
    assert driven.broken == [] and (driven.holder == NOBODY).all()


def test_who_comes_to_others_waits_for_what_is_in_their_queues() -> None:
    """Those who begin together fill these queues themselves; of who comes to one that is alone nothing waits there."""
    level = level_of([[0]] * 5)
    know(level, [0])
    driven = Driven(level)
    driven.run([*(Message(f, 40_000, 0) for f in range(4)), Message(4, 40_000, 50_500)])
    late_ps = [int(driven.predicted[f, 40_000][m.DELIVERED_PS] - driven.sent_ps(f)[0]) for f in range(5)]
    assert late_ps == [BEHIND_PS] * 4 + [BEHIND_PS + QUEUED_PS]
    level = level_of([[0]] * 2)
    level.note_alone(0, 40_000, 40_000)
    level.note(share_key(np.array([0]), 2), Known(1.0, 2, QUEUED_PS))
    driven = Driven(level)
    driven.run([Message(0, 40_000, 0), Message(1, 40_000, 10_500)])
    late_ps = [int(driven.predicted[f, 40_000][m.DELIVERED_PS] - driven.sent_ps(f)[0]) for f in range(2)]
    assert late_ps == [BEHIND_PS] * 2


def test_ends_at_one_port_come_in_the_order_of_sizes() -> None:
    """Flow k has the bytes of k + 1 phases, of which phase k is shared by those from k on.

    Nobody knows before a tick what comes after an end, but it counts from the end's own ps on; so each is exact.
    """
    n, step = 6, 12_000
    level = level_of([[0]] * n)
    know(level, [0], 0.5)
    driven = Driven(level)
    driven.run([Message(f, step * (f + 1), 0) for f in range(n)])
    ends = np.cumsum([2 * step * (n - k) for k in range(n)])
    assert [driven.sent_ps(f)[0] for f in range(n)] == ends.tolist()


@pytest.mark.parametrize("posted_ps", [1, 40_000, 123_456, 190_999])
def test_who_comes_later_slows_the_others_as_a_fluid(posted_ps: int) -> None:
    """At 4/5 of a port of 1 byte/ps: four flows, then five. What comes alone counts from its posting on, to the ps."""
    level = level_of([[0]] * 5)
    know(level, [0], 0.8)
    driven = Driven(level)
    messages = [*(Message(f, 40_000, 0) for f in range(4)), Message(4, 60_000, posted_ps)]
    driven.run(messages)
    wanted = fluid([[0]] * 5, [Fraction(1)], Fraction(4, 5), messages)
    assert wanted[0][0] == posted_ps + (40_000 - Fraction(posted_ps, 5)) / Fraction(4, 25)
    for f in range(5):
        assert abs(driven.sent_ps(f)[0] - wanted[f][0]) <= 2  # ps that are cut off: here, and of the end before


def test_what_changes_in_one_tick_counts_from_the_last_change_on() -> None:
    """Four flows go on at a quarter until the second of two comers, which have a sixth from their postings on."""
    level = level_of([[0]] * 6)
    know(level, [0])
    driven = Driven(level)
    driven.tick(TICK_PS, [Message(f, 30_000, 0) for f in range(4)])
    driven.tick(11 * TICK_PS, [Message(4, 30_000, 10_300), Message(5, 30_000, 10_700)])
    sent_ps = level.table.sent_ps.tolist()
    assert sent_ps == [10_700 + int((30_000 - 10_700 / 4) * 6)] * 4 + [10_300 + 180_000, 10_700 + 180_000]


def test_what_is_over_before_the_tick_that_sees_it_is_delivered_then() -> None:
    level = level_of([[0]] * 4)
    know(level, [0])
    driven = Driven(level)
    driven.run([Message(0, 100, 300), *(Message(f, 30_000, 300) for f in (1, 2, 3))])
    assert ends_of(driven, 0, 100) == [0, 100, 300 + 400, TICK_PS, TICK_PS + ACK_PS]
    assert all(driven.sent_ps(f) == [300 + 400 + (30_000 - 100) * 3] for f in (1, 2, 3))


def test_who_comes_once_an_end_is_predicted_does_not_move_that_end() -> None:
    """But for the two ticks before it, all is as a fluid: the end is early by what the comer takes in that time."""
    level = level_of([[0]] * 5)
    know(level, [0])
    driven, posted_ps, sent_ps = Driven(level), 118_500, 120_000
    messages = [*(Message(f, 30_000, 0) for f in range(4)), Message(4, 30_000, posted_ps)]
    driven.run(messages)
    assert [driven.sent_ps(f)[0] for f in range(4)] == [sent_ps] * 4
    wanted = fluid([[0]] * 5, [Fraction(1)], Fraction(1), messages)
    assert 0 < wanted[0][0] - sent_ps < TICKS_AHEAD * TICK_PS / 4  # a quarter more flows for two ticks at most
    assert abs(driven.sent_ps(4)[0] - wanted[4][0]) <= TICKS_AHEAD * TICK_PS


def test_who_share_no_port_have_nothing_to_do_with_each_other() -> None:
    level = level_of([[0]] * 4 + [[1]] * 4)
    know(level, [0])
    driven = Driven(level)
    alone = Driven(level_of([[0]] * 4 + [[1]] * 4))
    know(alone.level, [0])
    first = [Message(f, 30_000, 0) for f in range(4)]
    driven.run([*first, *(Message(f, 7_000 * f, 10_500) for f in range(4, 8))])
    alone.run(first)
    assert [driven.sent_ps(f) for f in range(4)] == [alone.sent_ps(f) for f in range(4)] == [[120_000]] * 4


def test_what_a_full_port_leaves_others_take() -> None:
    """Port 0 has four flows, one of which meets three others on port 1: 1/4, and a third of what that leaves."""
    ways = [[0], [0], [0], [0, 1], [1], [1], [1]]
    level = level_of(ways, byte_ps=[2, 1, 1, 1, 1, 1])
    know(level, [0])
    driven = Driven(level)
    driven.tick(TICK_PS, [Message(f, 10**6, 0) for f in range(7)])
    assert level.table.rate == pytest.approx([1 / 8] * 4 + [7 / 24] * 3)


def test_messages_of_one_flow_leave_one_after_the_other() -> None:
    level = level_of([[0]] * 4)
    know(level, [0])
    driven = Driven(level)
    own = [Message(0, size, 0) for size in (5_000, 10_000, 15_000)]
    driven.run([*own, *(Message(f, 30_000, 0) for f in (1, 2, 3))])
    assert driven.sent_ps(0) == [20_000, 60_000, 120_000]  # a quarter each, without a break
    assert [driven.sent_ps(f) for f in (1, 2, 3)] == [[120_000]] * 3
    assert [end for f, end in sorted(driven.predicted) if f == 0] == [5_000, 15_000, 30_000]


def test_what_waits_behind_follows() -> None:
    """A model takes what is more than MOST_MESSAGES there once some are over."""
    level = level_of([[0]] * 4)
    know(level, [0])
    driven = Driven(level)
    driven.tick(TICK_PS, [Message(f, 40_000, 0) for f in range(4)])
    level.follow(np.array([post(Message(0, 8_000, 500), 9, 48_000)], np.int64))
    driven.run([])
    assert driven.sent_ps(0) == [160_000, 168_000]  # the second alone, as flows of one form know their part


def test_what_is_posted_later_begins_at_its_posting() -> None:
    level = level_of([[0]] * 4)
    know(level, [0])
    driven = Driven(level)
    driven.run([*(Message(f, 10_000, 0) for f in range(4)), *(Message(f, 10_000, 300_700) for f in range(4))])
    assert all(driven.sent_ps(f) == [40_000, 340_700] for f in range(4))


def test_what_is_not_known_breaks_and_nobody_else() -> None:
    """Flows of ports 0 and 1 are of forms that are known, alone; those of port 2 meet somebody of another form."""
    ways, forms = [[0]] * 4 + [[1]] * 4 + [[2]] * 4, [0] * 4 + [0] * 4 + [0] * 3 + [1]
    level = level_of(ways, forms)
    know(level, [0])
    driven = Driven(level)
    assert driven.tick(TICK_PS, [Message(f, 30_000, 0) for f in range(12)]) == [8, 9, 10, 11]
    assert level.n_flow == 8 and driven.holder[2] == NOBODY
    driven.run([])
    assert sorted(f for f, _ in driven.predicted) == [*range(8)]
    know(level, [0, 1])  # that is another set
    driven.tick(10**6, [Message(f, 30_000, 999_500) for f in range(8, 12)])
    assert level.n_flow == 4 and sorted(driven.broken) == [8, 9, 10, 11]


def test_more_at_a_port_than_were_measured_break() -> None:
    n = MORE_FLOWS * LEAST_FLOWS
    level = level_of([[0]] * (n + 1) + [[1]] * 4)
    know(level, [0])
    driven = Driven(level)
    driven.tick(TICK_PS, [Message(f, 30_000, 0) for f in [*range(n), *range(n + 1, n + 5)]])
    assert driven.broken == []
    assert driven.tick(2 * TICK_PS, [Message(n, 30_000, 1500)]) == [*range(n + 1)]
    assert driven.holder.tolist()[:2] == [NOBODY, SHARED]
    end, size, left = level.left(np.arange(n + 1), 1500)
    assert end.tolist() == size.tolist() == [30_000] * (n + 1)
    assert left == pytest.approx([30_000 - 1500 / n] * n + [30_000])


def test_few_of_several_forms_go_on_if_they_are_what_is_left_of_more() -> None:
    level, n = level_of([[0]] * 4 + [[1]] * 2, [0, 0, 1, 1, 0, 1]), LEAST_FLOWS
    know(level, [0, 1], 0.5)
    driven = Driven(level)
    sizes = [10_000, 20_000, 30_000, 40_000, 1000, 1000]
    assert driven.tick(TICK_PS, [Message(f, size, 0) for f, size in enumerate(sizes)]) == [4, 5]
    driven.run([])
    ends = np.cumsum([2 * 10_000 * (n - k) for k in range(n)])
    assert [driven.sent_ps(f)[0] for f in range(4)] == ends.tolist()


def test_few_of_several_forms_go_on_if_it_is_known_what_so_many_get() -> None:
    """Two forms, two at a port: that says nothing of three at a port, nor of two of one form."""
    level = level_of([[0], [0], [0], [1], [1]], [0, 1, 1, 1, 1])
    level.note(share_key(np.array([0, 1]), 2), Known(0.5, 2, QUEUED_PS))
    driven = Driven(level)
    assert driven.tick(TICK_PS, [Message(f, 10_000, 0) for f in (0, 1, 3, 4)]) == [3, 4]
    driven.run([])
    assert [driven.sent_ps(f) for f in (0, 1)] == [[40_000]] * 2
    driven.tick(10**6, [Message(f, 10_000, 10**6) for f in (0, 1)])
    assert driven.tick(10**6 + TICK_PS, [Message(2, 10_000, 10**6)]) == [0, 1, 2]


def test_who_is_alone_goes_at_the_rate_that_is_known_of_its_size() -> None:
    """30 000 bytes at a half per ps, from 700 on; of half the size nothing is known, nor of another form."""
    level = level_of([[0], [1], [2]], [0, 0, 1])
    level.note_alone(0, 30_000, 60_000)
    assert level.is_used and level.most_bytes[0] >= 30_000 and level.most_bytes[1] == 0
    driven = Driven(level)
    posts = [Message(0, 30_000, 700), Message(1, 15_000, 700), Message(2, 30_000, 700)]
    assert driven.tick(TICK_PS, posts) == [1, 2]
    driven.run([])
    assert driven.sent_ps(0) == [60_700]


def test_where_acknowledgements_cross_its_way_who_fills_it_takes_longer() -> None:
    """From the tick on that is told of them; before, and of one that leaves them room, as ever."""
    level = level_of([[0], [1]], [0, 1])
    level.note_alone(0, 100_000, 100_000)
    level.note_alone(1, 100_000, 200_000)
    driven = Driven(level)
    driven.tick(TICK_PS, [Message(0, 100_000, 0), Message(1, 100_000, 0)])
    level.note_load(10 * TICK_PS, np.array([0, 1]), np.array([1, 1], np.int32))
    driven.run([])
    assert driven.sent_ps(0)[0] == pytest.approx(11_000 + 89_000 * (1 + ACK_SHARE), abs=2)
    assert driven.sent_ps(1) == [200_000]


def joined(
    level: FlowLevel,
    driven: Driven,
    now_ps: int,
    flows: Sequence[int],
    rates: Sequence[float],
    key: bytes | None = None,
) -> None:
    """30 000 bytes of each of these flows, at so many per ps, are taken over; of 40 000 that the messages have."""
    n, rows = len(flows), [post(Message(flow, 30_000, 0), 0, 50_000) for flow in flows]
    posts = np.array(rows, np.int64)
    posts[:, m.WHOLE] = 40_000
    each = np.column_stack([rates, np.array(rates) / 2])
    level.join(now_ps, driven.holder, Comers(posts, np.full(n, 30_000.0), each, np.zeros(n, np.int64)), key)
    driven.check()


def test_who_was_measured_goes_on_at_the_rate_that_it_had() -> None:
    """One without, one with acknowledgements of others on its way: at another rate, as soon as they are there."""
    level = level_of([[0], [1]])
    driven = Driven(level)
    assert not level.is_used
    level.note_load(0, np.array([1]), np.array([1], np.int32))
    joined(level, driven, 7_777, [0, 1], [0.5, 0.5])
    _, size, left = level.left(np.array([0, 1]), 17_777)
    assert level.is_used and size.tolist() == [30_000] * 2 and left == pytest.approx([25_000, 27_500])
    level.note_load(17_777, np.array([1]), np.array([0], np.int32))
    driven.run([])
    assert driven.sent_ps(0) == [67_777]
    assert driven.sent_ps(1)[0] == pytest.approx(18_000 + (30_000 - (18_000 - 7_777) / 4) * 2, abs=2)


def test_who_was_taken_over_at_a_measured_rate_draws_a_part_when_others_come_though_its_message_had_one() -> None:
    """It was broken up in the meantime: no part is left of what it drew, and a rate of 0 would never end."""
    level = level_of([[0]] * 6)
    know(level, [0], 0.5, n_most=6, uneven=by_weight({0: 1.0}, [[0.8]]))
    driven, four = Driven(level), range(4)
    driven.tick(TICK_PS, [Message(f, 50_000, 0) for f in four])
    assert driven.tick(2 * TICK_PS, others=[5]) == list(four)
    joined(level, driven, 10 * TICK_PS, four, [0.25] * 4)
    driven.tick(11 * TICK_PS, [Message(4, 50_000, 11 * TICK_PS)])
    assert level.table.rate[:5] == pytest.approx(0.5 * 0.8 / 5)
    driven.run([])
    assert all(level.table.n_message[:5] == 0)


def test_a_company_that_was_measured_goes_on_until_the_first_of_it_is_over() -> None:
    """Its rates are nobody's fair shares, and say nothing of the two that are left: these go on packet by packet, from
    what they have got done until then."""
    level = level_of([[0], [0], [0]])
    driven = Driven(level)
    joined(level, driven, 0, [0, 1, 2], [0.6, 0.2, 0.1])
    driven.run([])
    assert driven.sent_ps(0) == [50_000] and driven.broken == [1, 2]
    _, _, left = level.left(np.array([1, 2]), 50_000)
    assert left == pytest.approx([20_000, 25_000])
    other = level_of([[0], [0]])
    other.note_alone(0, 40_000, 50_000)
    driven = Driven(other)
    joined(other, driven, 0, [0, 1], [0.6, 0.2])
    driven.run([])
    assert driven.sent_ps(1) == [50_000 + 25_000], "alone it goes at the rate that is known"


def test_who_comes_to_a_company_that_was_measured_breaks_it() -> None:
    level = level_of([[0], [0], [0]])
    driven = Driven(level)
    joined(level, driven, 0, [0, 1], [0.6, 0.2])
    assert driven.tick(10 * TICK_PS, [Message(2, 30_000, 9_500)]) == [0, 1, 2]
    assert level.table.n_beside[:3].tolist() == [2, 2, 2]


def test_what_is_given_up_goes_on_packet_by_packet_with_those_beside_it() -> None:
    level = level_of([[0]] * 4 + [[1]] * 4)
    know(level, [0])
    driven = Driven(level)
    driven.tick(TICK_PS, [Message(f, 30_000, 0) for f in range(8)])
    assert level.give_up(np.array([1, 2]), driven.holder, 5 * TICK_PS).tolist() == [0, 1, 2, 3]
    driven.check()
    assert level.there.tolist() == [4, 5, 6, 7]


def test_what_was_posted_since_the_last_tick_and_breaks_has_had_its_share_of_what_others_leave() -> None:
    """Two on a port with a third that is simulated, and one on its own of which nothing is known."""
    level = level_of([[0], [0], [0], [1]], [0, 0, 0, 1])
    know(level, [0])
    driven = Driven(level)
    posted_ps = 9 * TICK_PS + 400
    posts = [Message(0, 9_000, posted_ps), Message(1, 9_000, posted_ps), Message(3, 9_000, posted_ps)]
    assert driven.tick(10 * TICK_PS, posts, others=[2]) == [0, 1, 3]
    _, _, left = level.left(np.array([0, 1, 3]), 10 * TICK_PS)
    assert left == pytest.approx([9_000 - 200, 9_000 - 200, 9_000 - 600])


@pytest.mark.parametrize("by", ["tick", "interrupt"])
def test_who_comes_packet_by_packet_breaks_those_whom_he_shares_ports_with_directly_or_not(by: str) -> None:
    """The comer's way (flow 12) crosses port 1 alone; flow 3 is on it and on port 0 as well."""
    ways = [[0], [0], [0], [0, 1], [1], [1], [1], [2], [2], [2], [2], [3], [1, 4]]
    level = level_of(ways)
    know(level, [0])
    driven = Driven(level)
    driven.tick(TICK_PS, [Message(f, 10**6 if f < 7 else 2 * 10**6, 0) for f in range(11)])
    if by == "tick":
        broken = driven.tick(20 * TICK_PS, others=[11, 12])
    else:
        broken = level.interrupt(np.array([11, 12]), driven.holder, 20 * TICK_PS).tolist()
        driven.check()
    assert broken == [*range(7)] and level.n_flow == 4
    _, _, left = level.left(np.array(broken), 20 * TICK_PS)
    assert left == pytest.approx([10**6 - 20 * TICK_PS / 4] * 7)
    driven.run([])
    assert sorted(f for f, _ in driven.predicted) == [7, 8, 9, 10]


def test_who_comes_once_the_end_is_predicted_finds_the_rest_of_the_messages() -> None:
    """What was predicted holds; what waits behind it goes packet by packet, and nothing of it is predicted."""
    level = level_of([[0]] * 5)
    know(level, [0])
    driven = Driven(level)
    driven.tick(TICK_PS, [m for f in range(4) for m in (Message(f, 1_000, 0), Message(f, 9_000, 0))])
    driven.tick(3 * TICK_PS)
    assert all(driven.sent_ps(f) == [4_000] for f in range(4)) and level.table.is_predicted[:4].all()
    assert level.interrupt(np.array([4]), driven.holder, 3 * TICK_PS + 1).tolist() == [0, 1, 2, 3]
    assert level.next_ps == NEVER and level.n_flow == 0
    driven.check()
    assert driven.tick(9 * TICK_PS) == [] and len(driven.predicted) == 4


def test_what_comes_at_known_shares_ends_when_its_rest_has_left() -> None:
    level, key = level_of([[0]] * 5), share_key(np.array([0]), 4)
    driven = Driven(level)
    assert not level.knows(key)
    know(level, [0])
    assert level.knows(key)
    joined(level, driven, 7_777, range(4), [0.25] * 4, key)
    driven.run([])
    assert [driven.sent_ps(f) for f in range(4)] == [[127_777]] * 4


def test_what_broke_is_not_taken_back_at_once() -> None:
    level, flows = level_of([[0]] * 5), np.arange(4)
    know(level, [0])
    driven = Driven(level)
    joined(level, driven, TICK_PS, range(4), [0.25] * 4, share_key(np.array([0]), 4))
    assert level.takes(flows, TICK_PS).all()
    assert level.interrupt(np.array([4]), driven.holder, 2 * TICK_PS).tolist() == [0, 1, 2, 3]
    assert not level.takes(flows, (2 + PAUSE_TICKS) * TICK_PS - 1).any()
    assert level.takes(flows, (2 + PAUSE_TICKS) * TICK_PS).all()


@st.composite
def cases(draw: st.DrawFn) -> tuple[Ways, list[int], list[Message]]:
    """Ways, time that a byte takes by port, and messages; those of a flow are not posted out of their order."""
    way = st.lists(st.integers(0, N_PORT - 1), min_size=1, max_size=3, unique=True)
    ways = draw(st.lists(way, min_size=1, max_size=6))
    byte_ps = draw(st.lists(st.sampled_from([20, 40, 80]), min_size=N_PORT, max_size=N_PORT))
    messages = []
    for flow in range(len(ways)):
        posts = draw(st.lists(st.integers(0, 4 * 10**7), min_size=1, max_size=MOST_MESSAGES))
        messages += [Message(flow, draw(st.integers(10**5, 10**6)), at_ps) for at_ps in sorted(posts)]
    return ways, byte_ps, messages


@given(cases())
def test_ends_are_those_of_a_fluid_as_ticks_get_short(case: tuple[Ways, list[int], list[Message]]) -> None:
    """With ticks of 1 ps, each begin and each end of a message counts 3 ps too late at most, and messages take 10**6 ps
    and more: ends are off by no more than all of these together."""
    ways, byte_ps, messages = case
    level = level_of(ways, byte_ps=byte_ps, tick_ps=1)
    know(level, [0], 0.75, n_most=len(ways))
    driven = Driven(level)
    driven.run(messages)
    wanted = fluid(ways, [1 / Fraction(x) for x in byte_ps], Fraction(3, 4), messages)
    for f in range(len(ways)):
        assert driven.sent_ps(f) == pytest.approx([float(at) for at in wanted[f]], rel=0, abs=3 * 2 * len(messages))
    assert driven.broken == [] and len(driven.predicted) == len(messages)


@given(cases(), st.sampled_from([10**5, 10**6]))
def test_rates_are_fair_at_every_tick_and_add_up_to_what_was_posted(
    case: tuple[Ways, list[int], list[Message]], tick_ps: int
) -> None:
    """Bytes by rate and time, as they stand after ticks, are those of messages; what is predicted stays as it was."""
    ways, byte_ps, messages = case
    level = level_of(ways, byte_ps=byte_ps, tick_ps=tick_ps)
    know(level, [0], 0.75, n_most=len(ways))
    driven, t, line = Driven(level), level.table, [1 / Fraction(x) for x in byte_ps]
    pieces: dict[int, dict[int, float]] = {f: {} for f in range(len(ways))}  # rates by flow and instant
    unpredicted = {f: -1 for f in pieces}

    def every(now_ps: int) -> None:
        active = {f: ways[f] for f in pieces if t.n_message[f]}
        fair = max_min(active, line)
        for f in active:
            if t.is_predicted[f] == 0 or unpredicted[f] != t.is_predicted[f]:
                pieces[f][int(t.since_ps[f])] = float(t.rate[f])
            if t.is_predicted[f] == 0:
                assert t.rate[f] == pytest.approx(0.75 * float(fair[f]))
                assert t.sent_ps[f] > now_ps + TICKS_AHEAD * tick_ps
            unpredicted[f] = int(t.is_predicted[f])

    driven.run(messages, every)
    begins = {f: [int(m.posted_ps) for m in messages if m.flow == f] for f in pieces}
    for f, begin_of in begins.items():
        before_ps = 0
        for k, sent_ps in enumerate(driven.sent_ps(f)):
            begin_ps = max(before_ps, begin_of[k])
            inside = sorted(at for at in pieces[f] if begin_ps <= at < sent_ps)
            assert inside[0] == begin_ps
            done = sum(pieces[f][a] * (b - a) for a, b in zip(inside, [*inside[1:], sent_ps], strict=True))
            size = [m.size for m in messages if m.flow == f][k]
            assert done == pytest.approx(size, abs=1.0)  # a byte takes 20 ps and more, of which one is cut off
            before_ps = sent_ps
