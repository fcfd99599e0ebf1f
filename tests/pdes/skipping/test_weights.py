"""Claims about weights: shares by them are max-min fair, episodes tell them, and messages draw what is left over."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdes.skipping import history as h
from pdes.skipping.fluid.make_table import Links
from pdes.skipping.fluid.max_min import make_scratch, max_min
from pdes.skipping.fluid.shares import LEAST_FLOWS, UNEVEN, Shares
from pdes.skipping.fluid.weights import MOST_BURSTS, MOST_OF_BURST, MOST_WEIGHT, fit, make_episode, run_fluid, together
from reference import flow_level_driver as twin
from reference.flow_level_driver import N_PORT, Driven, Message, by_weight, know, level_of

TOLERANCE, RTT_PS = 0.02, 100
some_ways = st.lists(st.lists(st.integers(0, N_PORT - 1), min_size=1, max_size=3, unique=True), min_size=1, max_size=8)


def arrays_of(ways: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.cumsum([0, *map(len, ways)]), np.array([p for way in ways for p in way], np.int32)


@given(some_ways, st.data())
def test_weighted_shares_are_those_of_progressive_filling_with_exact_numbers(
    ways: list[list[int]], data: st.DataObject
) -> None:
    weight = data.draw(st.lists(st.sampled_from([0.5, 1.0, 2.0, 3.0]), min_size=len(ways), max_size=len(ways)))
    s, rate = make_scratch(len(ways), N_PORT), np.zeros(len(ways))
    s.weight[:] = weight
    line = [Fraction(1), Fraction(2)] * (N_PORT // 2)
    n_most = max_min(np.arange(len(ways)), *arrays_of(ways), np.array(line, np.float64), s, rate)
    wanted = twin.max_min(dict(enumerate(ways)), line, [Fraction(w) for w in weight])
    assert rate == pytest.approx([float(wanted[f]) for f in range(len(ways))])
    assert n_most == max(sum(p in way for way in ways) for p in range(N_PORT))
    assert (s.n_flow == 0).all()


@given(some_ways, st.data())
def test_the_fluid_of_an_episode_is_that_of_the_twin(ways: list[list[int]], data: st.DataObject) -> None:
    n = len(ways)
    weight = data.draw(st.lists(st.sampled_from([0.5, 1.0, 2.0, 3.0]), min_size=n, max_size=n))
    size = data.draw(st.lists(st.integers(10**4, 10**5), min_size=n, max_size=n))
    posted_ps = data.draw(st.lists(st.integers(0, 10**5), min_size=n, max_size=n))
    s, flows = make_scratch(n, N_PORT), np.arange(n)
    s.weight[:] = weight
    begin_ps = np.array(posted_ps)
    episode = make_episode(flows, np.array(size), begin_ps, begin_ps + 1)
    run_fluid(episode, *arrays_of(ways), np.ones(N_PORT), s, 0.8)
    messages = [Message(f, size[f], posted_ps[f]) for f in range(n)]
    line, weights = [Fraction(1)] * N_PORT, [Fraction(w) for w in weight]
    wanted = twin.fluid(ways, line, Fraction(4, 5), messages, weights)
    assert episode.end_ps + begin_ps.min() == pytest.approx([float(wanted[f][0]) for f in range(n)], rel=1e-5)


WAYS = [[k, 3 + j] for k in range(3) for j in range(3)]  # three sources, three receivers
FORM = np.array([0 if k % 3 == k // 3 else 1 for k in range(9)])  # one of three is near its source


def episode_of(weight: tuple[float, float], efficiency: float, ratio: np.ndarray) -> tuple:
    """An episode that goes by these weights, but each message takes so many times longer."""
    s, n = make_scratch(9, N_PORT), 9
    s.weight[:] = np.array(weight)[FORM]
    begin_ps = np.arange(n) * 500
    e = make_episode(np.arange(n), np.full(n, 10**6), begin_ps, begin_ps + 1)
    run_fluid(e, *arrays_of(WAYS), np.ones(N_PORT), s, efficiency)
    took_ps = ((e.end_ps - e.begin_ps) * ratio).astype(np.int64)
    return make_episode(np.arange(n), np.full(n, 10**6), begin_ps, begin_ps + took_ps), begin_ps, took_ps


@pytest.mark.parametrize("weight", [(1.0, 1.0), (0.5, 1.4), (2.0, 0.8)])
@pytest.mark.parametrize("efficiency", [0.7, 0.95])
def test_an_episode_tells_its_weights_and_its_use_of_ports(weight: tuple[float, float], efficiency: float) -> None:
    episode, *_ = episode_of(weight, efficiency, np.ones(9))
    source = np.arange(9) // 3
    part, found = fit(episode, FORM, source, arrays_of(WAYS), np.ones(N_PORT), make_scratch(9, N_PORT))
    assert part == pytest.approx(efficiency, rel=1e-3)
    assert found.weight[0] / found.weight[1] == pytest.approx(weight[0] / weight[1], rel=5e-3)
    assert found.ratio[found.ratio > 0] == pytest.approx(1.0, abs=5e-3)
    assert found.form.tolist() == [0, 1] and found.n_ratio.tolist() == [[1] * 3, [2] * 3]


def test_what_is_left_over_of_a_message_is_kept_with_its_source() -> None:
    """One source's messages took 10 % longer, another's as much less: no weight of a form can say so."""
    ratio = np.repeat([1.1, 1.0, 0.9], 3)
    episode, *_ = episode_of((1.0, 1.0), 0.9, ratio)
    _, found = fit(episode, FORM, np.arange(9) // 3, arrays_of(WAYS), np.ones(N_PORT), make_scratch(9, N_PORT))
    means = [found.ratio[:, b][found.ratio[:, b] > 0].mean() for b in range(3)]
    assert means == pytest.approx([1 / 1.1, 1.0, 1 / 0.9], rel=0.02)


@pytest.mark.parametrize("slow", [0.1, 2.0, 40.0])
def test_a_form_that_is_slow_where_nobody_else_is_does_not_come_to_weigh_nothing(slow: float) -> None:
    """Its weight makes no difference there, but does beside others, who share their ports as they did."""
    n = 12
    ways = arrays_of([*WAYS, [6, 7], [6, 8], [6, 9]])
    form, size, begin_ps = np.append(FORM, [2, 2, 2]), np.full(n, 10**6), np.arange(n) * 500
    took_ps = np.append(episode_of((1.0, 1.0), 0.9, np.ones(9))[2], np.full(3, int(slow * 3 * 10**6)))
    episode, scratch = make_episode(np.arange(n), size, begin_ps, begin_ps + took_ps), make_scratch(n, 10)
    _, found = fit(episode, form, np.arange(n) // 3, ways, np.ones(10), scratch)
    assert found.weight[0] / found.weight[1] == pytest.approx(1.0, rel=0.05)
    assert 1 / MOST_WEIGHT <= found.weight[2] <= MOST_WEIGHT
    assert (scratch.weight == 1.0).all()


def test_of_many_sources_so_many_are_kept_as_flow_level_has_room_for() -> None:
    n = MOST_BURSTS + 5
    size, begin_ps = np.full(n, 10**5), np.zeros(n, np.int64)
    episode = make_episode(np.arange(n), size, begin_ps, np.full(n, n * 10**5))
    ways = arrays_of([[0]] * n)
    part, found = fit(episode, np.zeros(n, np.int64), np.arange(n), ways, np.ones(N_PORT), make_scratch(n, N_PORT))
    assert part == pytest.approx(1.0, rel=1e-3) and found.n_burst == MOST_BURSTS
    level = level_of([[0]] * n)
    know(level, [0], part, n_most=n, uneven=found)
    assert level.table.known.n_burst[0] == MOST_BURSTS


def test_a_message_of_a_byte_ends_beside_one_that_takes_hundreds_of_seconds() -> None:
    """What an instant is rounded to takes longer than a millionth of the byte."""
    begin_ps = np.array([0, 10**14])
    episode = make_episode(np.arange(2), np.array([10**14, 1]), begin_ps, begin_ps + 1)
    run_fluid(episode, *arrays_of([[0], [0]]), np.ones(N_PORT), make_scratch(2, N_PORT), 0.3)
    assert episode.end_ps[1] > 10**14 and episode.end_ps[0] == pytest.approx(10**14 / 0.3, rel=1e-6)


def test_episodes_together_have_the_mean_weights_and_all_bursts_as_far_as_there_is_room() -> None:
    one, other = by_weight({0: 1.0, 1: 4.0}), by_weight({0: 4.0, 1: 1.0})
    assert together(one, other).weight == pytest.approx([2.0, 2.0])
    many = one
    for _ in range(MOST_BURSTS + 3):
        many = together(many, other)
    assert many.n_burst == MOST_BURSTS == many.n_ratio.shape[1]


@pytest.mark.parametrize("weight", [2.0, 0.25])
def test_flows_share_by_the_weights_of_their_forms_and_the_rest_goes_to_who_is_left(weight: float) -> None:
    """Two flows of each form at one port: the heavier end first, as those of a fluid with these weights."""
    ways, forms = [[0]] * 4, [0, 0, 1, 1]
    level = level_of(ways, forms)
    know(level, [0, 1], 0.8, uneven=by_weight({0: 1.0, 1: weight}))
    driven, messages = Driven(level), [Message(f, 50_000, 300) for f in range(4)]
    driven.run(messages)
    weights = [Fraction(1), Fraction(1), Fraction(weight), Fraction(weight)]
    wanted = twin.fluid(ways, [Fraction(1)], Fraction(4, 5), messages, weights)
    for f in range(4):
        assert abs(driven.sent_ps(f)[0] - float(wanted[f][0])) <= 2
    assert driven.broken == []


def ratios_drawn(level_ways: list[list[int]], bursts: list[list[float]], n_message: int) -> np.ndarray:
    """float64[n_flow, n_message]: by which rates differed from even ones, message by message."""
    level = level_of(level_ways)
    know(level, [0], 0.5, uneven=by_weight({0: 1.0}, bursts))
    driven, n, found = Driven(level), len(level_ways), []
    for k in range(n_message):
        now_ps = 10**7 * (k + 1)
        driven.tick(now_ps, [Message(f, 10_000, now_ps - 10) for f in range(n)])
        found.append(level.table.rate[:n] * 4 / 0.5)
        driven.run([])
    return np.array(found).T


def test_messages_draw_what_was_left_over_of_others_and_those_of_one_source_that_of_one_burst() -> None:
    """Two sources of four flows each, two bursts: one fast, one slow. Sources are fast or slow as a whole."""
    drawn = ratios_drawn([[0]] * 4 + [[1]] * 4, [[0.8, 0.85], [1.2, 1.3]], 40)
    assert set(np.unique(drawn.round(6)).tolist()) == {0.8, 0.85, 1.2, 1.3}
    fast = drawn > 1
    for source in (slice(0, 4), slice(4, 8)):
        assert (fast[source] == fast[source][0]).all()
    share = fast.mean()
    assert abs(share - 0.5) < 4 * 0.5 / np.sqrt(2 * 40)  # four standard errors of 80 draws
    assert (fast[0] != fast[4]).any() and (drawn[0] != drawn[1]).any()


def test_draws_are_the_same_in_every_run() -> None:
    ways, bursts = [[0]] * 4, [[0.8, 0.85], [1.2, 1.3]]
    assert (ratios_drawn(ways, bursts, 10) == ratios_drawn(ways, bursts, 10)).all()


def shares_of(ways: list[list[int]], form: np.ndarray) -> Shares:
    late_ps = np.zeros(len(ways), np.int64), np.zeros(len(ways), np.int64)
    way = arrays_of(ways)
    return Shares(Links(way, way, form, np.ones(N_PORT), *late_ps), TOLERANCE, RTT_PS)


def test_only_sets_whose_windows_were_uneven_are_learned_of_by_episodes() -> None:
    ways, form = [[0]] * LEAST_FLOWS, np.array([0, 0, 1, 1])
    shares, flows = shares_of(ways, form), np.arange(LEAST_FLOWS)
    rows = np.zeros((LEAST_FLOWS, h.N_COLUMN), np.int64)
    rows[:, h.FLOW], rows[:, h.MESSAGE_BEGIN], rows[:, h.MESSAGE_END] = flows, 500, 1500
    ends_ps = np.array([3000, 3000, 5000, 5000])
    shares.learn_episode(rows, ends_ps)
    assert shares.n_known == 0
    got = np.full(LEAST_FLOWS, 100) + np.array([1, -1, 1, -1]) * int(100 * 1.5 * UNEVEN * TOLERANCE)
    shares.learn(flows, np.column_stack([got, np.full(LEAST_FLOWS, 400)]), np.zeros(LEAST_FLOWS, np.int64))
    shares.learn_episode(rows, ends_ps)
    known = next(iter(shares.news.values()))
    assert shares.n_known == 1 and known.uneven.weight[0] > known.uneven.weight[1]
    assert known.uneven.ratio.shape[2] == MOST_OF_BURST


def test_a_message_that_is_left_alone_with_much_to_send_goes_on_packet_by_packet() -> None:
    """It keeps its part of the port for a tail, and no longer than it has gone on so far."""
    level = level_of([[0]] * 4 + [[1]] * 4, [0, 1] * 4)
    know(level, [0, 1])
    driven = Driven(level)
    driven.run([Message(f, 10_000, 0) for f in (0, 1, 2)] + [Message(3, 20_000, 0)])
    assert driven.broken == [] and driven.sent_ps(3) == [50_000]  # 40 000 in company, then alone
    sizes = {4: 10_000, 5: 10_000, 6: 10_000, 7: 10**6}
    driven.tick(10**6 + 1000, [Message(f, size, 10**6) for f, size in sizes.items()])
    while level.n_flow:
        driven.tick(level.next_ps)
    assert driven.broken == [7]
