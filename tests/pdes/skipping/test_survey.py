"""What a look finds in one compiled pass, against the same said plainly; and what is sampled how often."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.congestion.law import BUILT_IN, find_law
from models.network.skip.make_fast_forward import turns_ps
from models.network.state.parameters import NetworkParameters
from pdes.skipping import history as h
from pdes.skipping.criterion import Choice, look_intervals
from pdes.skipping.look.survey import (
    IS_CALM,
    N_FRESH,
    N_JUDGED,
    SOON_PS,
    ask,
    make_survey,
    steady_labels,
    survey,
    thawed,
)
from pdes.skipping.partitions import make_partitions
from pdes.skipping.verify_partitions import verify_partitions
from pdes.skipping.windows import add_samples, make_memory
from reference.survey_twin import Sample, SurveyTwin

BYTE_PER_PS_BPS = 8 * 10**12  # what is left in bytes is how long it lasts
LOOK_PS = 1000


@dataclass(frozen=True)
class Look:
    """after_ps: since the last one. states: of each flow, None: frozen if it can be, else absent."""

    after_ps: int
    states: list[Sample | str]
    must_follow: bool
    asks: bool
    thaws: bool


@st.composite
def courses(draw: st.DrawFn) -> tuple[list[set[int]], list[int], list[Look]]:
    """(ports of each flow, least time between its samples, looks)."""
    n_flow = draw(st.integers(1, 7))
    ways = draw(st.lists(st.sets(st.integers(0, 9), min_size=1, max_size=3), min_size=n_flow, max_size=n_flow))
    look_ps = draw(st.lists(st.sampled_from([LOOK_PS, 3 * LOOK_PS]), min_size=n_flow, max_size=n_flow))
    sample = st.builds(Sample, st.sampled_from([1, 2_500, 12_000, 10**6]), st.integers(1, 2), st.booleans())
    state = st.sampled_from(["absent", "frozen"]) | sample | st.just(Sample(10**6, 1, True))
    after_ps = st.sampled_from([500, 7 * LOOK_PS, 60 * LOOK_PS, 500 * LOOK_PS])
    each = st.builds(Look, after_ps, st.lists(state, min_size=n_flow, max_size=n_flow), *[st.booleans()] * 3)
    looks = draw(st.lists(each, min_size=1, max_size=8))
    repeated = [look for look in looks for _ in range(draw(st.integers(1, 3)))]
    return ways, look_ps, repeated


def rows_of(samples: dict[int, Sample]) -> np.ndarray:
    rows = np.zeros((len(samples), h.N_COLUMN), np.int64)
    for row, (flow, sample) in zip(rows, sorted(samples.items()), strict=True):
        row[h.FLOW], row[h.RATE], row[h.MESSAGE_END] = flow, BYTE_PER_PS_BPS, sample.end * 10**7
        row[h.SENT], row[h.IS_PLAIN] = row[h.MESSAGE_END] - sample.left_ps, sample.is_plain
    return rows


@given(courses(), st.sampled_from([(10.0, 1.0), (10.0, -1.0), (2.0, 0.0)]), st.booleans())
def test_a_look_finds_what_it_should(course, needs: tuple[float, float], judges_all: bool) -> None:
    ways, look_ps, looks = course
    start = np.cumsum([0, *map(len, ways)])
    partitions = make_partitions(start, np.array([port for way in ways for port in sorted(way)], np.int32), 10)
    s, twin, now_ps = make_survey(np.array(look_ps)), SurveyTwin(ways, look_ps), 0
    for look in looks:
        now_ps += look.after_ps
        states = dict(enumerate(look.states))
        samples = {flow: state for flow, state in states.items() if isinstance(state, Sample)}
        frozen = {flow for flow, state in states.items() if state == "frozen" and flow in twin.active}
        is_frozen = np.isin(np.arange(len(ways)), list(frozen))
        rows = rows_of(samples)
        survey(partitions, s, rows, is_frozen, now_ps, needs, judges_all, look.must_follow)
        scaled = {flow: Sample(a.left_ps, a.end * 10**7, a.is_plain) for flow, a in samples.items()}
        expected = twin.look(now_ps, scaled, frozen, needs, judges_all, look.must_follow)
        judged, fresh = s.judged[: s.found[N_JUDGED]], s.fresh[: s.found[N_FRESH]]
        found = (set(rows[judged, h.FLOW].tolist()), set(rows[fresh, h.FLOW].tolist()))
        assert (*found, bool(s.found[IS_CALM]), int(s.found[SOON_PS])) == expected
        assert (np.diff(judged) > 0).all() and (np.diff(fresh) > 0).all()
        verify_partitions(partitions)
        assert {frozenset(np.flatnonzero(partitions.label_of_flow == label).tolist())
                for label in set(partitions.label_of_flow.tolist()) - {-1}} == set(twin.parts)  # fmt: skip
        for part, state in twin.parts.items():
            label = int(partitions.label_of_flow[min(part)])
            mine = rows[np.isin(rows[:, h.FLOW], list(part))]
            if look.asks and part <= found[1]:
                ask(s, np.array([label]), partitions.version[[label]], mine)
                state.asked = dict(zip(mine[:, h.FLOW].tolist(), mine[:, h.MESSAGE_END].tolist(), strict=True))
            elif look.thaws:
                thawed(s, np.array([label]))
                state.since_ps, state.asked = -1, None


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-1, 9)), max_size=20), st.integers(0, 9))
def test_a_network_partition_may_be_skipped_as_long_as_each_of_its_flows(rows, least_ps: int) -> None:
    s, out = make_survey(np.ones(20, np.int64)), np.zeros(20, np.int64)
    for k, (label, _) in enumerate(rows):
        s.group[k, 0] = label
    may_ps = np.array([may for _, may in rows], np.float64)
    shortest = {label: min(may for other, may in rows if other == label) for label, _ in rows}
    for _ in range(2):  # nothing of the first is left
        n = steady_labels(s, len(rows), may_ps, float(least_ps), out)
        assert out[:n].tolist() == sorted(label for label, may in shortest.items() if may >= least_ps)


def test_flows_are_sampled_as_often_as_the_slowest_of_their_network_partition() -> None:
    memory = make_memory((0, 0), (1, 4), np.array([10, 10, 30]))
    rows = np.zeros((3, h.N_COLUMN), np.int64)
    rows[:, h.FLOW], rows[:, h.IS_PLAIN] = range(3), 1
    groups = np.array([[1, 1], [2, 1], [2, 1]])  # the second is with the third
    for now_ps in range(5, 95, 5):
        add_samples(memory, rows, groups, now_ps)
    instants = {10: 10, 30: 4}  # an interval -> its multiples that were passed, the begin among them
    assert memory.count[0].tolist() == [min(instants[10], 9), instants[30], instants[30]]
    assert memory.count[1].tolist() == [1 + 90 // 40, 1, 1]


KNOW_IT = {"hpcc", "hpcc-pint", "swift", "nscc"}


@pytest.mark.parametrize("name", BUILT_IN)
def test_who_is_told_a_longer_round_trip_and_heeds_it_is_sampled_as_seldom(name: str) -> None:
    own_ps, told_ps = np.array([4000, 9000]), np.array([20_000, 20_000])
    law = find_law(name)
    assert law.knows_base_rtt == (name in KNOW_IT)
    parameters = NetworkParameters(header_bytes=48 + law.header_bytes, law=law, base_rtt_ps=told_ps)
    turns = turns_ps(parameters, own_ps)
    assert turns.tolist() == ([9000, 9000] if name in KNOW_IT else [4000, 9000])  # at most the longest there is
    assert look_intervals(Choice(), turns).tolist() == (2 * turns).tolist()


@pytest.mark.parametrize("name", ["paper", "hygra"])
def test_the_papers_have_one_interval_for_all(name: str) -> None:
    assert look_intervals(Choice(name), np.array([4000, 9000])).tolist() == [9000, 9000]
    assert look_intervals(Choice(name, sample_interval_ps=77), np.array([4000, 9000])).tolist() == [77, 77]
