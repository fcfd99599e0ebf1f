"""A PFC deadlock is found, with the queues on its circle, and nothing else is taken for one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.network.model import NetworkModel
from models.network.watch.deadlock import DeadlockWatch, QueueFacts, find_circles, find_stuck
from models.network.watch.observers import next_look_ps
from models.network.watch.results import port_columns
from models.topology.leaf_spine import leaf_spine
from pdes.engine.exchange import World
from pdes.engine.round import N_ROUND, make_loop, run_rounds
from pdes.engine.time_index import NEVER
from reference.network_case import NetworkCase, Outcome, make_flow_case
from reference.ring_case import GBPS, NS, pausing_parameters, ring_case

US, MS = 10**6, 10**9


def two_hops(n: int, size_bytes: int, n_flow: int = 3) -> list[tuple[int, int, int, int]]:
    return [(i, (i + 2) % n, size_bytes, 0) for i in range(n) for _ in range(n_flow)]


class Bystander(DeadlockWatch):
    """Looks and remembers, but lets the run go on."""

    def look(self, state, horizon_ps):
        found = super().look(state, horizon_ps)
        self.history = [*getattr(self, "history", []), (horizon_ps, self.circles, dict(self._last))]
        assert found == bool(self.circles)
        return False


def watch(case: NetworkCase, interval_ps: int | None, stop_ps: int = NEVER - 1, kind: type = DeadlockWatch):
    """Run a case under a watch; (watch, model, outcome)."""
    outcome = Outcome()
    model, ahead_ps = case.model(case.thresholds_ps()[0], outcome)
    watching = kind(case.topology, case.parameters, model.rank_of_node, World(), interval_ps)
    model.observers = [watching]
    loop = make_loop(ahead_ps, stop_ps, next_look_ps(model.observers))
    run_rounds(model, loop, model.exchange)
    model.flush()
    assert loop[N_ROUND] > 0
    return watching, model, outcome


def names_of(case: NetworkCase, watching: DeadlockWatch) -> list[list[tuple[str, str, int]]]:
    t = case.topology
    return [
        [(t.node_name[t.port_src[q.port]], t.node_name[t.port_dst[q.port]], q.queue) for q in circle]
        for circle in watching.circles
    ]


@pytest.mark.parametrize("n_switch", [3, 4, 5])
def test_a_ring_whose_buffers_fill_is_a_deadlock(n_switch: int) -> None:
    case = ring_case(n_switch, two_hops(n_switch, 2_000_000), 50_000)
    watching, model, outcome = watch(case, MS)
    last = n_switch - 1
    around = [(f"s{last}", "s0", 1), *((f"s{i}", f"s{i + 1}", 1) for i in range(last))]
    assert names_of(case, watching) == [around]
    assert all(q.queued_bytes > 0 for q in watching.circles[0])
    assert 2 * MS <= watching.found_ps < 8 * MS and outcome.flows == {}
    assert (model.state.buffers.drops == 0).all()


def test_with_more_buffer_the_ring_pauses_and_goes_on() -> None:
    case = ring_case(4, two_hops(4, 400_000), 1_500_000, alpha=0.5)
    watching, model, outcome = watch(case, 5 * US)
    assert watching.circles == () and len(outcome.flows) == 12
    assert model.state.buffers.egress["n_pause"].sum() > 0


def test_without_timeouts_the_end_of_events_shows_it() -> None:
    """Nothing is left to happen before there could be a second look; or looks are off."""
    case = ring_case(4, two_hops(4, 2_000_000), 50_000, timeout_ps=0)
    for interval_ps in (None, MS):
        watching, model, _ = watch(case, interval_ps)
        assert (watching.circles, watching.found_ps) == ((), -1)
        watching.look_at_end(model.state)
        assert len(watching.circles) == 1 and len(watching.circles[0]) == 4 and watching.found_ps == -1


def test_a_run_that_was_stopped_is_no_deadlock_by_itself() -> None:
    case = ring_case(4, two_hops(4, 2_000_000), 50_000)
    watching, model, _ = watch(case, None, stop_ps=MS)
    watching.look_at_end(model.state)
    assert watching.circles == ()


def test_a_pause_that_has_not_ended_lasts_up_to_the_end() -> None:
    case = ring_case(4, two_hops(4, 2_000_000), 50_000)
    watching, model, _ = watch(case, MS)
    end_ps = watching.found_ps
    at_end, later = (
        port_columns(model.state, case.topology, model.rank_of_node, 0, time_ps)["paused_ps"]
        for time_ps in (end_ps, end_ps + 1000)
    )
    src, dst = case.topology.port_src, case.topology.port_dst
    is_up = (src < 4) | ((src >= 4) & (dst == 4 + (src - 3) % 4))  # from a host, or to the next switch
    assert (later - at_end).tolist() == np.where(is_up, 1000, 0).tolist()
    assert (at_end[is_up] > end_ps - 100 * US).all() and (at_end[~is_up] == 0).all()
    plain = make_flow_case(case.topology, [(0, 1, 100_000, 0), (2, 1, 100_000, 0)])
    model = plain.run().model
    assert model is not None
    assert not port_columns(model.state, plain.topology, model.rank_of_node, 0, MS)["paused_ps"].any()


flow = st.tuples(st.integers(0, 4), st.integers(1, 3), st.integers(1, 400_000), st.integers(0, 50 * US))


@settings(max_examples=40)
@given(
    n_switch=st.integers(3, 5),
    drawn=st.lists(flow, min_size=4, max_size=12),
    pool_bytes=st.sampled_from([10_000, 60_000, 300_000]),
    alpha=st.sampled_from([0.125, 1.0]),
)
def test_what_is_said_to_be_stuck_never_moves_again(n_switch, drawn, pool_bytes, alpha) -> None:
    """Looks are as close as they can be; the run goes on for milliseconds, with timeouts, after each finding."""
    flows = [(a % n_switch, (a + hop) % n_switch, size, start) for a, hop, size, start in drawn if hop % n_switch]
    case = ring_case(n_switch, flows, pool_bytes, alpha=alpha)
    watching, model, outcome = watch(case, 1, 5 * MS, Bystander)
    stuck: dict[int, tuple] = {}
    for _, circles, first_packet in watching.history:
        for code, packet in stuck.items():
            assert first_packet.get(code) == packet
        codes = [q.port * case.parameters.n_queue + q.queue for circle in circles for q in circle]
        stuck |= {code: first_packet[code] for code in codes}
    assert bool(stuck) == (len(outcome.flows) < len(flows))


@settings(max_examples=25)
@given(
    drawn=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 5), st.integers(1, 200_000)), min_size=3, max_size=12),
    pool_bytes=st.sampled_from([10_000, 100_000]),
)
def test_without_a_circle_there_is_never_a_deadlock(drawn, pool_bytes) -> None:
    topology = leaf_spine(3, 2, 2, 100 * GBPS, 40 * GBPS, 1000 * NS, 1000 * NS)
    flows = [(a, (a + by) % 6, size, 0) for a, by, size in drawn]
    case = make_flow_case(topology, flows, pausing_parameters(topology, pool_bytes), 2**20)
    watching, _, outcome = watch(case, 1, kind=Bystander)
    assert all(circles == () for _, circles, _ in getattr(watching, "history", []))
    assert len(outcome.flows) == len(flows)


def facts(held: dict[int, dict[int, int]], pausing: dict[int, int]) -> list[QueueFacts]:
    """The facts of two ranks, as if each had every other queue."""
    parts = []
    for rank in (0, 1):
        mine = {code: sources for code, sources in held.items() if code % 2 == rank}
        parts.append(QueueFacts({c: sum(s.values()) for c, s in mine.items()}, mine,
                                {c: b for c, b in pausing.items() if c % 2 != rank}))  # fmt: skip
    return parts


def test_a_queue_whose_packets_may_still_leave_is_not_stuck() -> None:
    circle = {1: {3: 500}, 2: {1: 500}, 3: {2: 500}}
    assert find_stuck(facts(circle, {1: 500, 2: 500, 3: 500})) == {1: [2], 2: [3], 3: [1]}
    assert find_stuck(facts(circle, {1: 500, 2: 501, 3: 500})) == {}  # a packet of 2 waits elsewhere
    assert find_stuck(facts(circle, {1: 500, 2: 500})) == {}  # 3 is not paused, its resume is on the way


def test_circles_share_no_queue_and_do_not_depend_on_the_ranks() -> None:
    held = {
        1: {3: 500, 8: 100}, 2: {1: 500}, 3: {2: 500},  # 8 waits for a circle, and is on none
        4: {5: 100}, 5: {4: 200, 1: 50},  # another circle; 1 waits for it too
    }  # fmt: skip
    pausing = {1: 550, 2: 500, 3: 500, 4: 200, 5: 100, 8: 100}
    parts = facts(held, pausing)
    assert set(find_stuck(parts)) == {1, 2, 3, 4, 5}
    circles = find_circles(parts, 2)
    assert [[(q.port, q.queue, q.queued_bytes) for q in circle] for circle in circles] == [
        [(0, 1, 600), (1, 0, 500), (1, 1, 500)], [(2, 0, 100), (2, 1, 250)],
    ]  # fmt: skip
    whole = [QueueFacts(*({k: v for part in parts for k, v in part[i].items()} for i in range(3)))]
    assert find_circles(whole, 2) == circles


def test_looks_are_further_apart_than_a_link_is_long() -> None:
    case = ring_case(3, two_hops(3, 1000), 50_000)
    model: NetworkModel = case.model(1, Outcome())[0]
    watching = DeadlockWatch(case.topology, case.parameters, model.rank_of_node, World(), 1)
    assert watching.due_ps == 1000 * NS + 1048 * 80
    assert np.isin(watching._ports, np.flatnonzero(case.topology.is_switch[case.topology.port_src])).all()
