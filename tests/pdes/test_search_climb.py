"""Claims about climbing from fidelity to fidelity: the best is found, budgets hold, the gap is what it says it is."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdes.searching.climb import FLOW, PACKETS, Climbed, Rule, climb, spearman, step

EXACT = Rule(eta=4, final=2, probes=2, flow_runs=1000, packet_runs=1000)


class World:
    """Costs at three fidelities, and who was asked for them."""

    def __init__(self, closed: Sequence[float], flow: Sequence[float], packets: Sequence[float]) -> None:
        self.closed = np.array(closed, float)
        self.costs = {FLOW: np.array(flow, float), PACKETS: np.array(packets, float)}
        self.asked: dict[str, list[int]] = {FLOW: [], PACKETS: []}

    def run_at(self, fidelity: str, asked: Sequence[int]) -> list[float]:
        self.asked[fidelity] += asked
        return [float(self.costs[fidelity][i]) for i in asked]

    def climb(self, rule: Rule) -> Climbed:
        found = climb(self.closed, self.run_at, rule)
        assert found is not None
        return found


ratios = st.floats(0.7, 1.5)
worlds = st.lists(st.tuples(st.floats(1, 100), ratios, ratios), min_size=1, max_size=40).map(
    lambda rows: World([c for c, _, _ in rows], [c * f for c, f, _ in rows], [c * f * p for c, f, p in rows])
)
rules = st.builds(
    Rule, eta=st.integers(2, 10), final=st.integers(1, 4), probes=st.integers(0, 4), flow_runs=st.integers(1, 40),
    packet_runs=st.integers(1, 10),
)  # fmt: skip


def test_where_lower_fidelities_are_right_the_best_is_found_with_the_least_runs() -> None:
    costs = np.random.default_rng(1).permutation(np.arange(1.0, 101.0))
    world = World(costs, 2 * costs, 3 * costs)
    found = world.climb(EXACT)
    assert costs[found.best] == 1 and found.gap == 0 and found.n_may == 0
    assert len(world.asked[FLOW]) == 27 and len(world.asked[PACKETS]) == 2
    assert found.to_flow.holds and found.to_packets.holds and found.to_flow.rank_correlation == pytest.approx(1)


def test_who_the_closed_form_puts_last_is_found_if_probes_show_that_it_may_be_so_far_off() -> None:
    closed = np.arange(100.0, 200.0)
    flow = closed.copy()
    flow[60:] *= 0.5  # all of the second half are better than it says
    assert World(closed, flow, flow).climb(EXACT).best == 60
    assert World(closed, flow, flow).climb(EXACT._replace(probes=0)).best == 0


def test_who_flow_mode_likes_less_is_run_if_its_favourites_lose_most_with_packets() -> None:
    flow = [1.0, 1.01, 1.05, 1.3]
    world = World(flow, flow, [1.2, 1.22, 1.06, 1.31])
    found = world.climb(EXACT)
    assert found.best == 2 and world.asked[PACKETS] == [0, 1, 2] and not found.to_packets.holds
    short = World(flow, flow, world.costs[PACKETS].tolist()).climb(EXACT._replace(packet_runs=2))
    assert short.best == 0 and short.gap == pytest.approx(1 - 1.05 / 1.2) and short.n_may == 1


@given(worlds, rules)
def test_budgets_hold_and_nobody_is_run_twice(world: World, rule: Rule) -> None:
    found = world.climb(rule)
    for fidelity, most in ((FLOW, rule.flow_runs), (PACKETS, rule.packet_runs)):
        assert len(set(world.asked[fidelity])) == len(world.asked[fidelity]) <= most
    assert set(world.asked[PACKETS]) <= set(world.asked[FLOW])
    assert found.packets[found.best] == min(world.costs[PACKETS][world.asked[PACKETS]])


@given(worlds, rules)
def test_the_gap_holds_if_ratios_of_the_others_are_no_less_than_those_seen(world: World, rule: Rule) -> None:
    found = world.climb(rule)
    truth = world.costs[PACKETS]
    flow = np.where(np.isfinite(found.flow), found.flow, np.inf)
    if (world.costs[FLOW] < world.closed * found.to_flow.reach * (1 - 1e-12))[~np.isfinite(flow)].any():
        return
    if (truth < world.costs[FLOW] * found.to_packets.reach * (1 - 1e-12)).any():
        return
    assert truth.min() >= found.packets[found.best] * (1 - found.gap) * (1 - 1e-9)


@given(worlds, rules)
def test_without_budgets_no_gap_is_left(world: World, rule: Rule) -> None:
    found = world.climb(rule._replace(flow_runs=1000, packet_runs=1000))
    assert found.gap == pytest.approx(0, abs=1e-9)


@given(worlds, rules, st.floats(1, 2))
def test_a_candidate_that_all_beat_at_every_fidelity_changes_nothing(world: World, rule: Rule, more: float) -> None:
    rule = rule._replace(probes=0, flow_runs=1000, packet_runs=1000)
    before = world.climb(rule)
    flow, packets = world.costs[FLOW], world.costs[PACKETS]
    worse = [more * own.max() + 1 for own in (world.closed, flow, packets)]
    other = World(*(np.append(own, w) for own, w in zip((world.closed, flow, packets), worse, strict=True)))
    after = other.climb(rule)
    assert other.costs[PACKETS][after.best] <= packets[before.best] and after.best < len(packets)


def test_who_is_refused_or_fails_is_left_out() -> None:
    nan = math.nan
    world = World([nan, 1, 2, 3], [0.1, nan, 2, 3], [0.1, 0.1, nan, 3])
    assert world.climb(EXACT).best == 3
    assert 0 not in world.asked[FLOW] and 1 not in world.asked[PACKETS]
    assert climb(np.array([1.0, 2.0]), lambda _, asked: [nan] * len(asked), EXACT) is None


def test_the_same_layout_by_another_name_is_not_run_twice_with_packets() -> None:
    world = World([1, 1, 1, 2], [1, 1, 1, 2], [1.1, 1.1, 1.1, 2.2])
    found = world.climb(EXACT)
    assert world.asked[PACKETS] == [0, 3] and found.gap == 0


def test_rank_correlation_is_spearmans() -> None:
    a, b = np.array([1.0, 2, 3, 4, 5]), np.array([2.0, 1, 4, 3, 5])
    assert spearman(a, b) == pytest.approx(1 - 6 * 4 / (5 * 24))
    assert spearman(a, -a) == pytest.approx(-1) and spearman(a, np.exp(a)) == pytest.approx(1)
    assert spearman(np.array([1.0, 1, 2]), np.array([5.0, 5, 9])) == pytest.approx(1)
    assert math.isnan(spearman(a, np.ones(5))) and step(np.full(3, math.nan), a[:3]).n == 0
