"""The plain twin of ns-3's RoCE model: equal to ns-3 where ns-3 has answered, and itself sound where it has not."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.ns3_strategies import MAX_PACKETS, cases
from reference.ns3_twin import Ns3Case, Ns3Config, Ns3Flow, Ns3Link, read_case, simulate, write_case
from reference.ns3_twin.case import DCQCN, DCTCP, HPCC, TIMELY
from reference.ns3_twin.event_queue import EventQueue
from reference.ns3_twin.quantities import parse_quantity, seconds_text, seconds_to_ns, wire_ns
from reference.ns3_twin.random_stream import NS3_SEED, jump, step, stream_state
from reference.ns3_twin.routes import route_flows, shortest_next_hops
from reference.ns3_twin.simulation import Simulation
from reference.ns3_twin.switch import Switch

CASES = Path(__file__).parent / "ns3_cases"
CASE_NAMES = sorted(str(path.parent.relative_to(CASES)) for path in CASES.glob("*/*/fct.txt"))
TIES = ("ns3", "engine", "reverse", "random:1")
GBPS = 10**9


def answers(folder: Path) -> list[int]:
    """ns-3's fct of every flow, -1: unfinished."""
    rows = [line.split() for line in (folder / "fct.txt").read_text().splitlines() if not line.startswith("#")]
    return [-1 if row[7] == "UNFINISHED" else int(row[7]) for row in rows]


def star(n_host: int, flows: list[tuple[int, int, int]], **config) -> Ns3Case:
    """Hosts on one switch by 100 Gbps and 1 us; flows: (src, dst, bytes), all at 2 s."""
    links = tuple(Ns3Link(host, n_host, 100 * GBPS, 1000) for host in range(n_host))
    table = shortest_next_hops(n_host + 1, (n_host,), links)
    listed = tuple(Ns3Flow(src, dst, 3, 100, size_bytes, 2 * 10**9) for src, dst, size_bytes in flows)
    return Ns3Case(n_host + 1, (n_host,), links, listed, table, route_flows(links, listed, table), Ns3Config(**config))


# What ns-3 has answered.


SLOW = ("e_ft4_perm/dctcp",)  # a fat-tree, 3 s; its routes are compared below, the engine with it in test_ns3_mode


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in CASE_NAMES])
def test_every_flow_takes_as_long_as_in_ns3(name: str) -> None:
    assert simulate(read_case(CASES / name)).fct_ns == answers(CASES / name)


def test_other_seeds_move_the_marks_as_in_ns3() -> None:
    folder = CASES / "i2_pfc_incast8_1mb" / "dcqcn"
    rows = [line.split() for line in (folder / "spread.txt").read_text().splitlines() if not line.startswith("#")]
    assert len(rows) == 20
    for row in rows[1:4]:
        assert simulate(read_case(folder), seed=int(row[0])).fct_ns == [int(fct_ns) for fct_ns in row[3:]]


@pytest.mark.parametrize(("control", "pauses"), [("dcqcn", 220), ("dctcp", 8), ("hpcc", 8), ("timely", 212)])
def test_pauses_are_those_of_ns3(control: str, pauses: int) -> None:
    result = simulate(read_case(CASES / "i2_pfc_incast8_1mb" / control))
    assert result.pauses_received == pauses == sum(is_pause for *_, is_pause in result.pfc_log)


def test_drops_are_those_of_ns3() -> None:
    assert simulate(read_case(CASES / "j_lossy_nopfc" / "timely")).dropped == 11142


@pytest.mark.parametrize("name", ["e_ft4_perm/dctcp", "i_pfc_smallbuf/hpcc"])
def test_routes_are_those_of_ns3(name: str) -> None:
    case = read_case(CASES / name)
    assert route_flows(case.links, case.flows, case.next_hops) == case.paths


# Numbers.


@pytest.mark.parametrize(
    ("size_bytes", "times_ns"),
    [
        (43, (13, 8, 6, 3, 1, 0)),
        (60, (19, 11, 9, 4, 2, 1)),
        (88, (28, 17, 14, 7, 3, 1)),
        (1000, (319, 199, 159, 79, 39, 19)),
        (1048, (335, 209, 167, 83, 41, 20)),
        (1056, (337, 211, 168, 84, 42, 21)),
        (1090, (348, 217, 174, 87, 43, 21)),
    ],
)
def test_serialisation_is_cut_as_measured_in_ns3(size_bytes: int, times_ns: tuple[int, ...]) -> None:
    assert tuple(wire_ns(size_bytes, rate * GBPS) for rate in (25, 40, 50, 100, 200, 400)) == times_ns


@given(size_bytes=st.integers(1, 65535), rate_bps=st.integers(10**6, 2 * 10**12))
def test_serialisation_is_the_floor_or_one_below(size_bytes: int, rate_bps: int) -> None:
    floor_ns = size_bytes * 8 * 10**9 // rate_bps
    assert wire_ns(size_bytes, rate_bps) in (floor_ns, max(floor_ns - 1, 0))


def test_delays_in_text_are_cut_too() -> None:
    texts = {"0.0007ms": 699, "0.001ms": 1000, "0.0005ms": 500, "1us": 1000, "699ns": 699}
    assert {text: parse_quantity(text) for text in texts} == texts
    assert parse_quantity("100Gbps") == parse_quantity("100000Mb/s") == 100 * GBPS


@given(st.integers(0, 10**10))
def test_seconds_are_written_so_that_they_come_back(time_ns: int) -> None:
    assert seconds_to_ns(float(seconds_text(time_ns))) == time_ns


def test_packets_are_as_long_as_in_ns3() -> None:
    sizes = {c: (1000 + x.data_header_bytes, x.ack_bytes) for c in (1, 3, 7, 8) for x in [Ns3Config(c)]}
    assert sizes == {DCQCN: (1048, 60), HPCC: (1090, 88), TIMELY: (1056, 60), DCTCP: (1048, 60)}


def test_the_generator_is_mrg32k3a() -> None:
    number, _ = step(((12345,) * 3, (12345,) * 3))  # L'Ecuyer's default seed; the value is published with RngStreams
    assert number == pytest.approx(0.127011122046577, abs=1e-15)


@given(st.integers(0, 200))
def test_a_jump_is_that_many_steps(n_step: int) -> None:
    state = NS3_SEED
    for _ in range(n_step):
        _, state = step(state)
    assert jump(NS3_SEED, n_step) == state


@given(st.integers(0, 2**200), st.integers(0, 2**200))
def test_jumps_add_up(n: int, m: int) -> None:
    assert jump(jump(NS3_SEED, n), m) == jump(NS3_SEED, n + m)


def test_streams_are_apart_by_powers_of_two() -> None:
    assert stream_state(0, 0) == NS3_SEED
    assert stream_state(3, 2) == jump(NS3_SEED, 3 * 2**127 + 2 * 2**76)


# The model.


@given(st.integers(1, 52), st.sampled_from(TIES))
def test_a_flow_alone_takes_the_time_of_the_formula(n_packet: int, tie: str) -> None:
    """MODEL section 9: both hops store and forward; 52 packets are within the window of 52,000 bytes."""
    data_ns, ack_ns = wire_ns(1048, 100 * GBPS), wire_ns(60, 100 * GBPS)
    fct_ns = (n_packet - 1) * data_ns + 2 * (data_ns + 1000 + ack_ns + 1000)
    assert simulate(star(2, [(0, 1, 1000 * n_packet)]), tie).fct_ns == [fct_ns]


def test_base_rtt_and_window_are_those_that_ns3_prints() -> None:
    pair = Simulation(star(3, [(0, 1, 1)]), "ns3", 1).pairs[0]
    assert (pair.base_rtt_ns, pair.window_bytes) == (4160, 52000)


@settings(max_examples=200)
@given(cases(), st.sampled_from(TIES), st.integers(0, 2**31))
def test_runs_end_and_keep_their_books(case: Ns3Case, tie: str, seed: int) -> None:
    run = Simulation(case, tie, seed)
    result = run.run()
    assert result.end_ns < case.config.stop_ns
    assert sum(flow.sent_bytes for flow in result.flows) <= (MAX_PACKETS + 100) * case.config.payload_bytes
    for port, back in ((port, port.peer) for port in run.ports):
        assert port.n_arrived <= port.n_sent and port.n_lost + port.n_dropped <= port.n_arrived
        assert port.queued_bytes == sum(packet.size_bytes for queue in port.queues for packet in queue)
        assert 0 <= port.pauses_sent - port.resumes_sent <= 7
        assert back.pauses_received <= port.pauses_sent and back.resumes_received <= port.resumes_sent
    for flow in result.flows:
        done = flow.fct_ns >= 0
        assert not done or flow.start_ns < flow.delivered_ns < flow.start_ns + flow.fct_ns
        assert not done or flow.sent_bytes >= flow.size_bytes


@settings(max_examples=200)
@given(cases())
def test_the_shared_buffer_is_what_its_queues_hold(case: Ns3Case) -> None:
    run = Simulation(case, "engine", 1)
    run.run()
    for switch in {port.node for port in run.ports if isinstance(port.node, Switch)}:
        ports = [port for port in run.ports if port.node is switch]
        held = [sum(p.egress_bytes) for p in ports]
        accounted = [sum(p.ingress_bytes) + sum(p.headroom_used_bytes) for p in ports]
        assert sum(held) == sum(accounted) and min(accounted) >= 0
        assert 0 <= switch.shared_used_bytes <= sum(accounted)
        assert sum(held) > 0 or switch.shared_used_bytes == 0


@given(cases())
def test_a_case_survives_its_files(tmp_path_factory: pytest.TempPathFactory, case: Ns3Case) -> None:
    folder = tmp_path_factory.mktemp("case")
    write_case(case, folder)
    assert read_case(folder) == case
    (folder / "paths.txt").unlink()
    (folder / "nexthops.txt").unlink()
    assert read_case(folder) == case


@given(cases(), st.sampled_from(TIES))
def test_a_run_can_be_repeated(case: Ns3Case, tie: str) -> None:
    assert simulate(case, tie) == simulate(case, tie)


# Rules for one instant.


@pytest.mark.parametrize(("tie", "ran"), [("ns3", [0, 1, 2, 3]), ("reverse", [3, 2, 1, 0]), ("engine", [1, 3, 0, 2])])
def test_events_of_one_instant_run_by_the_rule(tie: str, ran: list[int]) -> None:
    events, seen = EventQueue(tie), []
    for i, order in enumerate([(1, 5, 0), (0, 7, 1), (1, 5, 1), (1, 4, 9)]):
        events.push(10, order, seen.append, i)
    events.run(11)
    assert seen == ran


def test_an_event_that_is_cancelled_does_not_run() -> None:
    events, seen = EventQueue("ns3"), []
    numbers = [events.push(10, (0, 0, 0), seen.append, i) for i in range(3)]
    events.cancel(numbers[1])
    events.cancel(None)
    events.run(11)
    assert (seen, events.n_run) == ([0, 2], 2)


def test_the_engines_order_starts_flows_last_and_by_their_index() -> None:
    case = star(3, [(0, 2, 1000), (0, 2, 1000), (1, 2, 1000)])
    first, second, third = simulate(case, "engine").fct_ns
    assert first < third < second  # of one NIC the first flow goes first; of two NICs the lower port


def test_the_order_within_an_instant_shows_in_the_results() -> None:
    case = read_case(CASES / "c_incast8" / "hpcc")
    assert len({tuple(simulate(case, tie).fct_ns) for tie in TIES}) == len(TIES)


def test_lossy_links_lose_the_same_packets_in_ns3_but_not_in_the_engine() -> None:
    """In ns-3 every lossy link has a generator of its own, but all have the same stream."""
    case = star(4, [(0, 1, 200_000), (2, 3, 200_000)])
    case = replace(case, links=tuple(replace(link, error_rate=0.01) for link in case.links))
    for tie, n_kind in (("ns3", 1), ("engine", 2)):
        result = simulate(case, tie, 3)
        assert result.lost > 0 and len(set(result.fct_ns)) == n_kind


# What it refuses.


@pytest.mark.parametrize(
    ("change", "message"),
    [({"congestion_control": 10}, "CC_MODE 10"), ({"congestion_control": HPCC, "has_window": False}, "HAS_WIN 0")],
)
def test_what_the_model_lacks_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Ns3Config(**change)


def test_an_unknown_tie_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="no tie rule 'first'. Accepted: ns3, engine"):
        simulate(star(2, [(0, 1, 1)]), "first")
