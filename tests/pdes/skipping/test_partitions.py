"""Network partitions against connected components found from nothing, after every flow that comes or goes."""

from dataclasses import dataclass, field
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from pdes.skipping.leaving import leave, leave_together
from pdes.skipping.partitions import Partitions, canonical, enter, make_partitions
from pdes.skipping.verify_partitions import verify_partitions

Groups = set[frozenset[int]]


def partitions_of(paths: list[list[int]], n_port: int) -> Partitions:
    """No active flows; flow f uses the ports paths[f]."""
    start = np.cumsum([0, *map(len, paths)])
    return make_partitions(start, np.array([port for path in paths for port in path], np.int32), n_port)


def members(partitions: Partitions, label: int) -> list[int]:
    """Flows of a partition, ascending."""
    out = np.full(len(partitions.label_of_flow), -9, np.int64)
    n_member = canonical(partitions, label, out)
    assert n_member == partitions.n_flow_of[label]
    assert (out[n_member:] == -9).all()
    return out[:n_member].tolist()


def groups(partitions: Partitions) -> Groups:
    """The partitions now, as sets of flows."""
    labels = set(partitions.label_of_flow.tolist()) - {-1}
    assert len(labels) == partitions.n_partition[0]
    return {frozenset(members(partitions, label)) for label in labels}


def expected_groups(paths: list[list[int]], active: set[int]) -> Groups:
    """Definition 1 by networkx: the flows of each connected component of the graph of flows and ports."""
    graph = nx.Graph()
    graph.add_nodes_from(("flow", flow) for flow in active)
    graph.add_edges_from((("flow", flow), ("port", port)) for flow in active for port in paths[flow])
    parts = nx.connected_components(graph)
    return {frozenset(number for kind, number in part if kind == "flow") for part in parts}


@dataclass
class Case:
    """Paths and a sequence of flows that each change from inactive to active or back."""

    n_port: int
    paths: list[list[int]]
    toggled: list[int]


@st.composite
def cases(draw, max_flow=9, max_port=10, max_path=4, max_event=30):
    n_port = draw(st.integers(1, max_port))
    path = st.lists(st.integers(0, n_port - 1), max_size=max_path)
    paths = draw(st.lists(path, min_size=1, max_size=max_flow))
    flow = st.integers(0, len(paths) - 1)
    return Case(n_port, paths, draw(st.lists(flow, max_size=max_event)))


@dataclass
class Run:
    """Partitions, and the flows that are active, as events are applied."""

    case: Case
    partitions: Partitions = field(init=False)
    active: set[int] = field(default_factory=set)

    def __post_init__(self):
        self.partitions = partitions_of(self.case.paths, self.case.n_port)

    def toggle(self, flow: int) -> int:
        """Let a flow enter or leave; the number that the call returned."""
        is_active = flow in self.active
        self.active ^= {flow}
        return int((leave if is_active else enter)(self.partitions, flow))

    def groups_by_label(self) -> dict[int, frozenset[int]]:
        labels = {int(self.partitions.label_of_flow[flow]) for flow in self.active}
        return {label: frozenset(members(self.partitions, label)) for label in labels}


@given(cases())
def test_partitions_are_the_connected_components(case):
    run = Run(case)
    for flow in case.toggled:
        before = groups(run.partitions)
        returned = run.toggle(flow)
        after = groups(run.partitions)
        assert after == expected_groups(case.paths, run.active)
        assert returned == (run.partitions.label_of_flow[flow] if flow in run.active else len(after - before))
        verify_partitions(run.partitions)


@given(cases(max_flow=60, max_port=40, max_path=5, max_event=150))
def test_large_partitions_fall_apart_rightly(case):
    run = Run(case)
    for flow in range(len(case.paths)):
        run.toggle(flow)
    for flow in case.toggled:
        run.toggle(flow)
        assert groups(run.partitions) == expected_groups(case.paths, run.active)
    verify_partitions(run.partitions)


@given(cases(max_flow=30, max_port=20, max_event=10), st.data())
def test_flows_that_leave_together_leave_what_each_leaves_by_itself(case, data):
    run, one_by_one = Run(case), Run(case)
    for flow in [*range(len(case.paths)), *case.toggled]:
        run.toggle(flow)
        one_by_one.toggle(flow)
    some = data.draw(st.sets(st.sampled_from(sorted(run.active))) if run.active else st.just(set()))
    leaving = data.draw(st.permutations(sorted(data.draw(st.sampled_from([some, run.active - some])))))
    labelled = run.groups_by_label()
    leave_together(run.partitions, np.array(leaving, np.int64))
    for flow in leaving:
        one_by_one.toggle(flow)
    run.active = one_by_one.active
    verify_partitions(run.partitions)
    assert groups(run.partitions) == groups(one_by_one.partitions)
    now = run.groups_by_label()
    assert all(now[label] == group for label, group in labelled.items() if group.isdisjoint(leaving))
    is_anew = any(1 < len(group.intersection(leaving)) >= len(group) / 2 for group in labelled.values())
    event(f"somebody enters anew: {is_anew}")


@given(cases())
def test_an_event_changes_only_the_partitions_that_it_affects(case):
    run = Run(case)
    for flow in case.toggled:
        labelled = run.groups_by_label()
        state = {label: (int(run.partitions.version[label]), group) for label, group in labelled.items()}
        affected = {int(run.partitions.label_of_port[port]) for port in case.paths[flow]}
        affected.add(int(run.partitions.label_of_flow[flow]))
        run.toggle(flow)
        now = run.groups_by_label()
        for label, (version, group) in state.items():
            if label in affected:
                assert run.partitions.version[label] > version
            else:
                assert (run.partitions.version[label], now[label]) == (version, group)


@given(cases())
def test_a_label_with_its_version_means_one_set_of_flows_for_ever(case):
    run, meaning = Run(case), {}
    lasting = {}
    for i_event, flow in enumerate(case.toggled):
        run.toggle(flow)
        for label, group in run.groups_by_label().items():
            key = (label, int(run.partitions.version[label]))
            assert meaning.setdefault(key, group) == group
            assert lasting.get(key, i_event - 1) == i_event - 1  # once gone, it does not come back
            lasting[key] = i_event


@given(cases())
def test_the_same_calls_give_the_same_arrays(case):
    first, second = Run(case), Run(case)
    for flow in case.toggled:
        assert first.toggle(flow) == second.toggle(flow)
    assert all((a == b).all() for a, b in zip(first.partitions, second.partitions, strict=True))


@given(cases())
def test_the_ports_of_a_flow_tell_what_merges_and_what_falls_apart(case):
    run = Run(case)
    for flow in case.toggled:
        touched = {int(label) for label in run.partitions.label_of_port[case.paths[flow]]} - {-1}
        n_before = int(run.partitions.n_partition[0])
        returned = run.toggle(flow)
        if flow in run.active:
            assert run.partitions.n_partition[0] == n_before + 1 - len(touched)
            assert not touched or returned in touched
        else:
            parts = {int(label) for label in run.partitions.label_of_port[case.paths[flow]]} - {-1}
            assert len(parts) == returned
            assert run.partitions.n_partition[0] == n_before - 1 + returned


# Definition 1: flows that share a port are of one partition, and so are those joined by other flows.


def test_flows_that_share_no_port_are_apart():
    partitions = partitions_of([[0, 1], [2, 3]], 4)
    assert enter(partitions, 0) != enter(partitions, 1)
    assert groups(partitions) == {frozenset({0}), frozenset({1})}


def test_flows_that_share_any_port_are_together():
    partitions = partitions_of([[0, 1], [1, 2]], 3)
    assert enter(partitions, 0) == enter(partitions, 1)
    assert set(partitions.label_of_port.tolist()) == {partitions.label_of_flow[0]}


def test_a_flow_joins_partitions_and_its_end_parts_them():
    partitions = partitions_of([[0, 1], [2, 3], [1, 9, 3]], 10)
    for flow in range(3):
        enter(partitions, flow)
    assert groups(partitions) == {frozenset({0, 1, 2})}
    assert leave(partitions, 2) == 2
    assert groups(partitions) == {frozenset({0}), frozenset({1})}
    assert partitions.label_of_port[9] == -1
    assert leave(partitions, 0) == 0
    assert partitions.label_of_port[[0, 1]].tolist() == [-1, -1]


def test_the_end_of_a_flow_beside_others_parts_nothing():
    partitions = partitions_of([[0, 1]] * 3, 2)
    for flow in range(3):
        enter(partitions, flow)
    assert [leave(partitions, flow) for flow in (1, 0, 2)] == [1, 1, 0]


@pytest.mark.parametrize("broken", range(1, 9))
def test_a_chain_of_flows_breaks_where_one_leaves(broken):
    partitions = partitions_of([list(pair) for pair in pairwise(range(11))], 11)
    for flow in range(10):
        enter(partitions, flow)
    assert leave(partitions, broken) == 2
    assert groups(partitions) == {frozenset(range(broken)), frozenset(range(broken + 1, 10))}
    verify_partitions(partitions)


def test_a_ring_of_flows_needs_two_ends_to_break():
    partitions = partitions_of([[i, (i + 1) % 8] for i in range(8)], 8)
    for flow in range(8):
        enter(partitions, flow)
    assert leave(partitions, 0) == 1
    assert leave(partitions, 4) == 2
    assert groups(partitions) == {frozenset({1, 2, 3}), frozenset({5, 6, 7})}


def test_a_hub_falls_into_as_many_parts_as_it_had_spokes():
    n_spoke = 50
    partitions = partitions_of([*([port, port] for port in range(n_spoke)), list(range(n_spoke))], n_spoke)
    for flow in range(n_spoke + 1):
        enter(partitions, flow)
    assert partitions.n_partition[0] == 1
    assert leave(partitions, n_spoke) == n_spoke
    verify_partitions(partitions)


def test_the_largest_partition_keeps_its_label_in_a_merger():
    partitions = partitions_of([[0], [1], [1], [2], [0, 1, 2]], 3)
    labels = [enter(partitions, flow) for flow in range(4)]
    assert enter(partitions, 4) == labels[1]


def test_of_equal_partitions_the_first_on_the_path_keeps_its_label():
    partitions = partitions_of([[0], [1], [2], [1, 0, 2]], 3)
    labels = [enter(partitions, flow) for flow in range(3)]
    assert enter(partitions, 3) == labels[1]


def test_the_search_stops_where_the_parts_meet():
    partitions = partitions_of([[0, 1]] * 500, 2)
    for flow in range(500):
        enter(partitions, flow)
    assert leave(partitions, 250) == 1
    assert (partitions.found >= 0).sum() == 1


def test_a_large_part_is_not_searched_when_a_small_one_breaks_off():
    paths = [*([port, port + 1] for port in range(1000)), [500, 2000], [2000]]
    partitions = partitions_of(paths, 2001)
    for flow in range(len(paths)):
        enter(partitions, flow)
    label = partitions.label_of_flow[0]
    partitions.found[:] = -1
    assert leave(partitions, 1000) == 2
    assert partitions.label_of_flow[:1000].tolist() == [label] * 1000
    assert (partitions.found >= 0).sum() < 10


def test_a_flow_without_ports_is_a_partition_of_its_own():
    partitions = partitions_of([[], [], [0]], 1)
    assert len({int(enter(partitions, flow)) for flow in range(3)}) == 3
    assert leave(partitions, 1) == 0
    verify_partitions(partitions)


def test_a_second_enter_or_leave_changes_nothing():
    partitions = partitions_of([[0]], 1)
    assert leave(partitions, 0) == -1
    enter(partitions, 0)
    before = [column.copy() for column in partitions]
    assert enter(partitions, 0) == -1
    assert all((a == b).all() for a, b in zip(before, partitions, strict=True))


def test_an_inactive_flow_may_change_its_path():
    partitions = partitions_of([[0, 1], [2]], 3)
    enter(partitions, 1)
    partitions.port_of[:2] = [1, 2]
    assert enter(partitions, 0) == partitions.label_of_flow[1]
    assert partitions.label_of_port[0] == -1
    verify_partitions(partitions)


def test_no_flows_and_no_ports_are_partitions_too():
    partitions = partitions_of([], 0)
    assert partitions.n_partition[0] == 0
    verify_partitions(partitions)


@pytest.mark.parametrize(
    "column", ["label_of_flow", "label_of_port", "next_member", "n_flow_of", "n_partition", "first_use", "free_label"]
)
def test_the_check_sees_a_wrong_number(column):
    partitions = partitions_of([[0, 1], [1, 2], [3]], 5)
    for flow in range(3):
        enter(partitions, flow)
    verify_partitions(partitions)
    getattr(partitions, column)[0] += 1
    with pytest.raises(AssertionError):
        verify_partitions(partitions)
