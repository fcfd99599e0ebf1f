"""Claims about rates that are solved anew only as far as a change reaches: they are max-min fair, whatever has been."""

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pdes.engine.time_index import NEVER
from pdes.skipping.max_min.solve import RESERVE_FRAC, begin_change, join, leave, solve
from pdes.skipping.max_min.table import N_END, MaxMin, Ways, make_max_min
from reference.max_min_twin import fair_rates

TOLERANCE = 1e-7
ENDLESS_BYTES = 10**9
STEP_PS = 1000


class Changes(NamedTuple):
    """ways: ports of each flow. rates: of ports. batches: of flows that change at one instant: who is there leaves."""

    ways: list[list[int]]
    rates: list[float]
    weights: list[float]
    fracs: tuple[float, float]
    batches: list[set[int]]


@st.composite
def changes(draw: st.DrawFn) -> Changes:
    """Few rates and weights are alike in one half of all, so that flows tie at ports; in the other none are."""
    n_port, n_flow = draw(st.integers(1, 10)), draw(st.integers(1, 14))
    way = st.lists(st.integers(0, n_port - 1), min_size=1, max_size=min(n_port, 6), unique=True)
    has_ties = draw(st.booleans())
    rate = st.sampled_from([1.0, 2.0, 4.0, 10.0]) if has_ties else st.floats(0.5, 20.0)
    weight = st.sampled_from([1.0, 1.0, 2.0]) if has_ties else st.floats(0.05, 8.0)
    return Changes(
        draw(st.lists(way, min_size=n_flow, max_size=n_flow)),
        draw(st.lists(rate, min_size=n_port, max_size=n_port)),
        draw(st.lists(weight, min_size=n_flow, max_size=n_flow)),
        draw(st.sampled_from([(1.0, 1.0), (1.0, 0.75), (0.9, 0.95)])),
        draw(st.lists(st.sets(st.integers(0, n_flow - 1), min_size=1, max_size=5), min_size=1, max_size=25)),
    )


def table_of(case: Changes, back_ways: Ways | None = None, back_share: float = 0.0) -> MaxMin:
    start = np.cumsum([0, *map(len, case.ways)]).astype(np.int64)
    port = np.array([port for way in case.ways for port in way], np.int32)
    made = make_max_min((start, port), np.array(case.rates), back_ways, back_share, case.fracs)
    made.flows["weight"] = case.weights
    return made


def exact_rates(case: Changes, active: set[int], reserved: np.ndarray | None = None) -> dict[int, float]:
    """What each port gives to one flow or to several is another part of its rate, less what is reserved there."""
    n_at = [sum(port in case.ways[flow] for flow in active) for port in range(len(case.rates))]
    rate = {p: Fraction(r) * Fraction(case.fracs[n_at[p] > 1]) for p, r in enumerate(case.rates)}
    if reserved is not None:
        rate = {port: whole - Fraction(float(reserved[port])) for port, whole in rate.items()}
    weight = {flow: Fraction(case.weights[flow]) for flow in active}
    found = fair_rates({flow: case.ways[flow] for flow in active}, rate, weight)
    return {flow: float(value) for flow, value in found.items()}


@given(changes())
@settings(max_examples=400)
def test_rates_are_those_of_progressive_filling_after_every_batch(case: Changes) -> None:
    m, active = table_of(case), set()
    for i_batch, batch in enumerate(case.batches):
        now_ps = STEP_PS * i_batch
        begin_change(m)
        for flow in sorted(batch & active):
            leave(m, flow)
        for flow in sorted(batch - active):
            join(m, flow, ENDLESS_BYTES, now_ps)
        active ^= batch
        solve(m, now_ps)
        expected = exact_rates(case, active)
        for flow, rate in expected.items():
            assert abs(m.flows["level"][flow] * case.weights[flow] - rate) <= TOLERANCE * rate, (i_batch, flow, rate)
        check_table(m, active)


@given(changes(), st.data())
@settings(max_examples=200)
def test_what_comes_back_is_reserved_and_the_rest_is_shared_fairly(case: Changes, data: st.DataObject) -> None:
    """Whatever has been reserved, rates are fair beside it; it is near what comes back of these rates."""
    n_port, share = len(case.rates), data.draw(st.sampled_from([0.02, 0.06]))
    back = [data.draw(st.lists(st.integers(0, n_port - 1), max_size=3, unique=True)) for _ in case.ways]
    back_start = np.cumsum([0, *map(len, back)]).astype(np.int64)
    back_ways = back_start, np.array([port for ports in back for port in ports], np.int32)
    m, active = table_of(case, back_ways, share), set()
    for i_batch, batch in enumerate(case.batches):
        begin_change(m)
        for flow in sorted(batch & active):
            leave(m, flow)
        for flow in sorted(batch - active):
            join(m, flow, ENDLESS_BYTES, STEP_PS * i_batch)
        active ^= batch
        solve(m, STEP_PS * i_batch)
        rates = exact_rates(case, active, m.ports["reserved"])
        comes = np.zeros(n_port)
        for flow, rate in rates.items():
            assert abs(m.flows["level"][flow] * case.weights[flow] - rate) <= TOLERANCE * rate, (i_batch, flow, rate)
            comes[back[flow]] += share * rate
        assert (np.abs(m.ports["reserved"] - comes) <= (RESERVE_FRAC + TOLERANCE) * m.ports["byte_per_ps"]).all()


def check_table(m: MaxMin, active: set[int]) -> None:
    """Flows under way, and they alone, are in the heap of ends and on their ports' lists, whose counts are right."""
    n_end = int(m.words[N_END])
    assert set(m.ends[:n_end].tolist()) == active and n_end == len(active)
    ends_ps = m.flows["end_ps"][m.ends[:n_end]]
    assert (ends_ps < NEVER).all()
    assert all(ends_ps[(i - 1) // 2] <= ends_ps[i] for i in range(1, n_end))
    for port in range(len(m.ports)):
        listed, at = [], int(m.ports["first"][port])
        while at >= 0:
            listed.append(int(m.places["flow"][at]))
            at = int(m.places["after"][at])
        using = [f for f in active if port in m.places["port"][m.first_place[f] : m.first_place[f + 1]]]
        assert sorted(listed) == sorted(using) and m.ports["n_flow"][port] == len(using)


@given(changes())
def test_bytes_that_are_left_are_those_that_have_not_gone(case: Changes) -> None:
    """Whatever rates have been, a flow's end is when its bytes have gone at them."""
    m, active, gone = table_of(case), set(), dict.fromkeys(range(len(case.ways)), 0.0)
    for i_batch, batch in enumerate(case.batches):
        now_ps = STEP_PS * i_batch
        for flow in active:
            gone[flow] += STEP_PS * float(m.flows["level"][flow]) * case.weights[flow]
        begin_change(m)
        for flow in sorted(batch & active):
            leave(m, flow)
        for flow in sorted(batch - active):
            join(m, flow, ENDLESS_BYTES, now_ps)
            gone[flow] = 0.0
        active ^= batch
        solve(m, now_ps)
        for flow in active:
            end_ps = now_ps + (ENDLESS_BYTES - gone[flow]) / (float(m.flows["level"][flow]) * case.weights[flow])
            assert abs(m.flows["end_ps"][flow] - end_ps) <= 1 + TOLERANCE * end_ps
