"""Claims about rates that are solved anew only as far as a change reaches: they are max-min fair, whatever has been."""

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pdes.engine.time_index import NEVER
from pdes.skipping.max_min.contention import SLACK, enter_phases
from pdes.skipping.max_min.solve import MOST_RESERVED, RESERVE_FRAC, begin_change, join, leave, reroute, set_rate, solve
from pdes.skipping.max_min.table import ENDLESS, N_END, WHOLE, Use, Ways, make_max_min, places_of
from reference.max_min_twin import fair_rates

TOLERANCE = 1e-7
LONG_BYTES = 10**9
STEP_PS = 1000
N_SET = 2  # ways that each flow may have
Way = dict[int, float]  # port -> part of the flow


class Batch(NamedTuple):
    """What happens at one instant. flows: those that begin, or end if they are there; moved: that have their other
    way from now on; rates: of ports."""

    flows: set[int]
    moved: set[int]
    rates: dict[int, float]


class Case(NamedTuple):
    """ways: by set and flow. rates: of ports at the begin."""

    ways: list[list[Way]]
    rates: list[float]
    weights: list[float]
    fracs: tuple[float, float]
    batches: list[Batch]


@st.composite
def cases(draw: st.DrawFn, moves: bool = False) -> Case:
    """Few rates and weights are alike in one half of all, so that flows tie at ports; in the other none are.

    moves: ways part, flows are moved and ports change; some flows then have no way, and some ports no rate.
    """
    n_port, n_flow = draw(st.integers(1, 10)), draw(st.integers(1, 14))
    part, flows = st.sampled_from([1.0, 1.0, 0.5, 0.25]) if moves else st.just(1.0), st.integers(0, n_flow - 1)
    way = st.dictionaries(st.integers(0, n_port - 1), part, min_size=1 - moves, max_size=min(n_port, 6))
    has_ties = draw(st.booleans())
    rate = st.sampled_from([1.0, 2.0, 4.0, 10.0]) if has_ties else st.floats(0.5, 20.0)
    weight = st.sampled_from([1.0, 1.0, 2.0]) if has_ties else st.floats(0.05, 8.0)
    batch = st.builds(
        Batch,
        st.sets(flows, min_size=1, max_size=5),
        st.sets(flows, max_size=3 * moves),
        st.dictionaries(st.integers(0, n_port - 1), st.just(0.0) | rate, max_size=2 * moves),
    )
    return Case(
        [draw(st.lists(way, min_size=n_flow, max_size=n_flow)) for _ in range(N_SET if moves else 1)],
        draw(st.lists(rate, min_size=n_port, max_size=n_port)),
        draw(st.lists(weight, min_size=n_flow, max_size=n_flow)),
        draw(st.sampled_from([(1.0, 1.0), (1.0, 0.75), (0.9, 0.95)])),
        draw(st.lists(batch, min_size=1, max_size=25)),
    )


def arrays(ways: list[Way]) -> Ways:
    start = np.cumsum([0, *map(len, ways)]).astype(np.int64)
    port = np.array([port for way in ways for port in way], np.int32)
    return start, port, np.array([part for way in ways for part in way.values()], np.float32)


class Driven:
    """A table of a case's flows, what the case says of them by now, and who is under way."""

    def __init__(
        self, case: Case, back: list[Way] | None = None, back_share: float = 0.0, use: Use = WHOLE
    ) -> None:  # fmt: skip
        self.case, self.now_ps = case, -STEP_PS
        self._sets, self._back = [arrays(ways) for ways in case.ways], [arrays(back)] * len(case.ways) if back else []
        self.m = make_max_min(self._sets, np.array(case.rates), self._back, back_share, case.fracs, use=use)
        self.m.flows["weight"] = case.weights
        self.active: set[int] = set()
        self.way, self.rate = [*case.ways[0]], dict(enumerate(case.rates))
        self._set_of = [0] * len(self.way)

    def do(self, batch: Batch) -> None:
        """In the order that flow mode has."""
        self.now_ps += STEP_PS
        begin_change(self.m)
        begun, ended = batch.flows - self.active, batch.flows & self.active
        for flow in sorted(ended):
            leave(self.m, flow)
        self.active -= ended
        for port, rate in sorted(batch.rates.items()):
            self.rate[port] = rate
            set_rate(self.m, port, rate)
        for flow in sorted(batch.moved):
            self._set_of[flow] = (self._set_of[flow] + 1) % len(self.case.ways)
            self.way[flow] = self.case.ways[self._set_of[flow]][flow]
            places = places_of(self._sets, self._back, self._set_of[flow])[flow]
            reroute(self.m, flow, places, flow in self.active, self.now_ps)
        for flow in sorted(begun):
            join(self.m, flow, LONG_BYTES, self.now_ps)
        self.active |= begun
        enter_phases(self.m, self.now_ps)
        solve(self.m, self.now_ps)

    def rate_of(self, flow: int) -> float:
        """As the table has it, bytes per ps."""
        return float(self.m.flows["level"][flow] * self.m.flows["weight"][flow])

    def expected(self, reserved: np.ndarray | None = None) -> dict[int, float]:
        """Exactly. A port gives another part of its rate to one flow than to several, less what is reserved there."""
        rate = {}
        for port, whole in self.rate.items():
            is_shared = sum(port in self.way[flow] for flow in self.active) > 1
            rate[port] = Fraction(whole) * Fraction(self.case.fracs[is_shared])
            rate[port] *= Fraction(float(self.m.contention["use"][port])) if self.m.use.size else 1
            rate[port] -= 0 if reserved is None else Fraction(float(reserved[port]))
        ways = {flow: {port: Fraction(part) for port, part in self.way[flow].items()} for flow in self.active}
        found = fair_rates(ways, rate, {flow: Fraction(self.case.weights[flow]) for flow in ways})
        return {flow: float(value) for flow, value in found.items()}

    def offered(self) -> list[float]:
        """What senders would send over each port, if each gave each of its flows the same part of its own."""
        found = [0.0] * len(self.rate)
        first = {flow: next(iter(self.way[flow]), None) for flow in self.active}
        for flow, sender in first.items():
            n_flow = list(first.values()).count(sender)
            for port, part in [*self.way[flow].items()][1:]:
                assert sender is not None
                found[port] += part * self.rate[sender] / n_flow
        return found

    def check(self, reserved: np.ndarray | None = None) -> dict[int, float]:
        """Rates are what they should be; these."""
        expected = self.expected(reserved)
        for flow, rate in expected.items():
            assert abs(self.rate_of(flow) - rate) <= TOLERANCE * rate, (self.now_ps // STEP_PS, flow, rate)
        return expected

    def check_table(self) -> None:
        """Flows under way, and they alone, are on their ports' lists, and in the heap of ends if they have a rate."""
        m, n_end = self.m, int(self.m.words[N_END])
        heap, ends_ps = m.ends[:n_end].tolist(), m.flows["end_ps"][m.ends[:n_end]]
        assert len(set(heap)) == n_end and set(heap) <= self.active
        assert {flow for flow in self.active if self.rate_of(flow) > 0} <= set(heap)
        assert all((end_ps < NEVER) == (self.rate_of(flow) > 0) for flow, end_ps in zip(heap, ends_ps, strict=True))
        assert all(ends_ps[(i - 1) // 2] <= ends_ps[i] for i in range(1, n_end))
        for port in range(len(m.ports)):
            listed, at = [], int(m.ports["first"][port])
            while at >= 0:
                listed.append(int(m.places["flow"][at]))
                at = int(m.places["after"][at])
            assert sorted(listed) == [flow for flow in sorted(self.active) if port in self.way[flow]]
            assert m.ports["n_flow"][port] == len(listed)


@given(cases())
@settings(max_examples=250)
def test_rates_are_those_of_progressive_filling_after_every_batch(case: Case) -> None:
    driven = Driven(case)
    for batch in case.batches:
        driven.do(batch)
        driven.check()
        driven.check_table()


@given(cases(moves=True))
@settings(max_examples=250)
def test_rates_are_fair_where_ways_part_and_move_and_ports_change(case: Case) -> None:
    driven = Driven(case)
    for batch in case.batches:
        driven.do(batch)
        driven.check()
        driven.check_table()


@given(cases() | cases(moves=True), st.lists(st.tuples(st.floats(0.3, 1), st.floats(0.05, 1)), min_size=1, max_size=3))
@settings(max_examples=250)
def test_rates_are_fair_whatever_share_of_contended_ports_is_used(
    case: Case, shares: list[tuple[float, float]]
) -> None:  # fmt: skip
    """Ports are contended and are so no more, for longer or shorter: rates are those of what is used by then."""
    use, reach = zip(*shares, strict=True)
    driven = Driven(case, use=Use(use, reach, tuple(5 * STEP_PS * k // 2 for k in range(len(use)))))
    for batch in case.batches:
        driven.do(batch)
        driven.check()
        driven.check_table()
        offered = driven.offered()
        for port, rate in driven.rate.items():
            found = driven.m.contention[port]
            assert abs(found["offered"] - offered[port]) <= TOLERANCE * (1 + offered[port])
            assert found["is_on"] == (0 < rate * (1 + SLACK) < offered[port]) and (found["is_on"] or found["use"] == 1)


@given(cases() | cases(moves=True), st.data())
@settings(max_examples=150)
def test_what_comes_back_is_reserved_and_the_rest_is_shared_fairly(case: Case, data: st.DataObject) -> None:
    """Whatever has been reserved, rates are fair beside it; it is near what comes back of these rates."""
    n_port, share = len(case.rates), data.draw(st.sampled_from([0.02, 0.06]))
    ports = st.dictionaries(st.integers(0, n_port - 1), st.just(1.0), max_size=3)
    back = [data.draw(ports) for _ in case.weights]
    fixed = case._replace(batches=[batch._replace(rates={}) for batch in case.batches])
    driven = Driven(fixed, back, share)
    for batch in fixed.batches:
        driven.do(batch)
        comes = np.zeros(n_port)
        for flow, rate in driven.check(driven.m.ports["reserved"]).items():
            comes[[*back[flow]]] += share * rate
        rate = driven.m.ports["byte_per_ps"]
        off = np.abs(driven.m.ports["reserved"] - np.minimum(comes, MOST_RESERVED * rate))
        assert (off <= (RESERVE_FRAC + TOLERANCE) * rate).all()


@given(cases(moves=True))
def test_bytes_that_are_left_are_those_that_have_not_gone(case: Case) -> None:
    """Whatever rates have been, a flow's end is when its bytes have gone at them."""
    driven, gone = Driven(case), dict.fromkeys(range(len(case.weights)), 0.0)
    for batch in case.batches:
        for flow in driven.active:
            gone[flow] += STEP_PS * driven.rate_of(flow)
        for flow in batch.flows - driven.active:
            gone[flow] = 0.0
        driven.do(batch)
        for flow in driven.active:
            rate = driven.rate_of(flow)
            if rate > 0:
                end_ps = driven.now_ps + (LONG_BYTES - gone[flow]) / rate
                assert abs(driven.m.flows["end_ps"][flow] - end_ps) <= 1 + TOLERANCE * end_ps


def test_an_endless_flow_has_its_share_and_no_end_and_is_told_apart_in_what_comes_back() -> None:
    """Two flows over one port, one of them endless; what comes back of them goes over another."""
    ways = (np.array([0, 1, 2]), np.array([0, 0], np.int32), np.ones(2, np.float32))
    back = (np.array([0, 1, 2]), np.array([1, 1], np.int32), np.ones(2, np.float32))
    m = make_max_min([ways], np.array([8.0, 8.0]), [back], 0.05, has_endless=True)
    begin_change(m)
    join(m, 0, ENDLESS, 0)
    join(m, 1, 1000.0, 0)
    solve(m, 0)
    assert m.flows["level"].tolist() == [4.0, 4.0]
    assert m.flows["end_ps"].tolist() == [NEVER, 250]
    assert m.ended_back.tolist() == [0.0, 0.05 * 4]
    assert m.ports["back_rate"][1] == 2 * 0.05 * 4
    begin_change(m)
    leave(m, 1)
    solve(m, 250)
    assert m.flows["level"].tolist() == [8.0, 0.0] and m.flows["end_ps"][0] == NEVER
    assert abs(m.ended_back[1]) < 1e-15
