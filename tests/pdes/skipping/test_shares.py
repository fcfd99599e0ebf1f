"""Claims about shares: they are max-min fair, what makes them known, and what a run that goes by them comes to."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.network.model import NetworkModel
from models.network.state.records import PACKET_HOPS
from models.network.verify.network import verify_network
from pdes.skipping import history as h
from pdes.skipping.flow_ports import ports_of
from pdes.skipping.fluid.make_table import Links
from pdes.skipping.fluid.shares import FEW_SEEN, LEAST_FLOWS, MORE_FLOWS, UNEVEN, Shares
from properties.network_runs import Outcome, run

TOLERANCE, N_PORT, RTT_PS = 0.02, 6, 100
KB, US = 10**3, 10**6


def shares_of(
    ports: list[list[int]], form: list[int] | None = None, byte_ps: list[float] | None = None, idle_ps: int = 0
) -> Shares:
    start = np.cumsum([0, *map(len, ports)])
    port_of = np.array([p for way in ports for p in way], np.int32)
    forms = np.array(form or [0] * len(ports), np.int64)
    late_ps = np.full(len(ports), idle_ps // 2), np.full(len(ports), idle_ps - idle_ps // 2)
    way, rates = (start, port_of), 1 / np.array(byte_ps or [1.0] * N_PORT)
    return Shares(Links(way, way, forms, rates, *late_ps), TOLERANCE, RTT_PS)


ways = st.lists(st.lists(st.integers(0, N_PORT - 1), min_size=1, max_size=3, unique=True), min_size=1, max_size=8)


@given(ways, st.lists(st.sampled_from([1.0, 2.0, 4.0]), min_size=N_PORT, max_size=N_PORT))
def test_fair_shares_are_those_of_progressive_filling_with_exact_numbers(
    ports: list[list[int]], byte_ps: list[float]
) -> None:
    """The twin raises all rates together until a port is full, and stops those that use it."""
    rates: dict[int, Fraction] = {}
    left = [1 / Fraction(x) for x in byte_ps]
    while len(rates) < len(ports):
        active = [i for i in range(len(ports)) if i not in rates]
        n_at = [sum(p in ports[i] for i in active) for p in range(N_PORT)]
        used = [sum((rates[i] for i in rates if p in ports[i]), Fraction(0)) for p in range(N_PORT)]
        level = min((left[p] - used[p]) / n_at[p] for p in range(N_PORT) if n_at[p])
        full = {p for p in range(N_PORT) if n_at[p] and (left[p] - used[p]) / n_at[p] == level}
        rates |= {i: level for i in active if full & set(ports[i])}
    got, n_most = shares_of(ports, byte_ps=byte_ps)._fair(np.arange(len(ports)))[:2]
    assert got == pytest.approx([float(rates[i]) for i in range(len(ports))])
    assert n_most == max(sum(p in way for way in ports) for p in range(N_PORT))


@given(ways)
def test_no_port_carries_more_than_it_can_and_each_flow_has_a_full_one(ports: list[list[int]]) -> None:
    rates, _ = shares_of(ports)._fair(np.arange(len(ports)))[:2]
    load = [sum(rate for rate, way in zip(rates, ports, strict=True) if p in way) for p in range(N_PORT)]
    assert max(load) <= 1 + 1e-6
    assert all(max(load[p] for p in way) > 1 - 1e-6 for way in ports)


def learn(shares: Shares, got: list[int], in_flight: int = 0) -> None:
    """A group of the first flows got so many bytes in 100 ps."""
    n = len(got)
    windows = np.array([[each, 100 if each else 0] for each in got])
    shares.learn(np.arange(n), windows, np.full(n, in_flight))


def rates_of(shares: Shares, flows: list[int]) -> list[float] | None:
    found = shares.rates(np.array(flows))
    return None if found is None else found.rates.tolist()


def test_two_groups_in_a_row_that_got_the_same_part_make_it_known() -> None:
    n_most = MORE_FLOWS * LEAST_FLOWS
    shares, four = shares_of([[0]] * n_most + [[0, 1]]), [0, 1, 2, 3]
    learn(shares, [23] * 4)
    assert rates_of(shares, four) is None
    learn(shares, [20] * 4)  # another part
    assert rates_of(shares, four) is None
    learn(shares, [20] * 4)
    assert rates_of(shares, four) == pytest.approx([0.2] * 4)
    assert rates_of(shares, [*range(n_most)]) == pytest.approx([0.8 / n_most] * n_most)
    assert rates_of(shares, [*range(n_most + 1)]) is None  # too many at a port for what those groups say
    assert rates_of(shares, [0, 1, 2]) is None  # and so few that what one leaves changes much


def test_what_is_in_flight_says_how_long_packets_wait() -> None:
    """Little's law: 20 bytes at 0.2 per ps have been under way for 100 ps, 70 of them on idle ways."""
    shares = shares_of([[0]] * 4, idle_ps=70)
    for _ in range(2):
        learn(shares, [20] * 4, in_flight=20)
    found = shares.rates(np.arange(4))
    assert found is not None and found.queued_ps == 30


@pytest.mark.parametrize("n", [2, 4])
def test_a_group_of_which_nobody_gets_anything_says_nothing(n: int) -> None:
    shares = shares_of([[0]] * n)
    for _ in range(FEW_SEEN):
        learn(shares, [0] * n)
        learn(shares, [80 - 80 // n, *[0] * (n - 1)])  # one gets all: that is uneven
    assert shares.n_known == 0
    other = shares_of([[0]] * n)
    for _ in range(FEW_SEEN):
        learn(other, [0] * n)
        learn(other, [80 // n] * n)
    assert rates_of(other, [*range(n)]) == pytest.approx([0.8 / n] * n)


def test_rests_go_on_from_postings_from_what_is_acknowledged_and_from_where_they_were() -> None:
    """0.2 bytes per ps each; packets take 35 ps on idle ways, 30 in queues, and as long for acknowledgements."""
    shares, at = shares_of([[0]] * 4, idle_ps=70), (h.FLOW, h.ID, h.MESSAGE_END, h.DONE, h.DONE_PS, h.POSTED_PS)
    for _ in range(2):
        learn(shares, [20] * 4, in_flight=20)
    rows = np.zeros((4, h.N_COLUMN), np.int64)
    for row, values in zip(rows, [(900, 9900), (0, 9990), (400, 9000), (0, 2000)], strict=True):
        flow = int((rows[:, h.MESSAGE_END] > 0).sum())
        row[list(at)] = flow, 70 + flow, 2000, values[0], values[1], 0
    rows[1, (h.POSTED_PS, h.IS_CLEAR)] = 9990, 1
    given = shares.rates(np.arange(4))
    assert given is not None
    assert len(shares.rests(10_000, rows, given)) == 0  # nobody knows where the last one is
    shares.go_on(np.array([2, 3]), np.array([400, 0]), 9995)
    left_ps = [9900 - 100 + 5500, 9990 + 10_000, 9995 - 30 + 8000, 9995 - 30 + 10_000]
    assert shares.rests(10_000, rows, given).tolist() == left_ps  # when the last bytes leave


def test_shares_of_other_forms_and_uneven_ones_are_not_known() -> None:
    shares = shares_of([[0]] * 5, [0, 0, 0, 0, 1])
    for _ in range(2):
        learn(shares, [20] * 4)
    assert shares.n_known == 1 and rates_of(shares, [1, 2, 3, 4]) is None
    uneven, off = shares_of([[0]] * 4), 3
    assert off > 20 * UNEVEN * TOLERANCE
    for _ in range(3):
        learn(uneven, [20 + off, 20 - off, 20 + off, 20 - off])
    assert uneven.n_known == 0


def test_shares_of_few_are_known_once_several_groups_were_off_by_no_more_than_the_tolerance_on_average() -> None:
    few, pair, mixed = shares_of([[0]] * 8, idle_ps=70), [0, 1], shares_of([[0]] * 8)
    for k in range(FEW_SEEN):
        assert rates_of(few, pair) is None
        learn(few, [40, 40], in_flight=40)
        learn(mixed, [40, 40] if k < FEW_SEEN - 1 else [60, 20])  # one in eight is off by half
    assert rates_of(few, pair) == pytest.approx([0.4, 0.4])
    found = few.rates(np.arange(2))
    assert found is not None and found.queued_ps == 30
    assert rates_of(few, [0, 1, 2]) is None and rates_of(few, [0, 1, 2, 3]) is None  # of more, this says nothing
    assert few.n_known == 1 and mixed.n_known == 0 and 0.5 / FEW_SEEN > TOLERANCE
    for _ in range(16 * FEW_SEEN):
        learn(mixed, [40, 40])
    assert rates_of(mixed, pair) == pytest.approx([0.4, 0.4])


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=6), st.data())
def test_ports_of_flows_are_theirs_one_after_the_other(ports: list[list[int]], data: st.DataObject) -> None:
    start = np.cumsum([0, *map(len, ports)])
    port_of = np.array([p for way in ports for p in way], np.int32)
    flows = data.draw(st.lists(st.integers(0, len(ports) - 1), max_size=6))
    wanted = [p for flow in flows for p in ports[flow]]
    assert ports_of(np.array(flows, np.int64), start, port_of).tolist() == wanted


def exchanges(n_round: int, size: int, gap_ps: int) -> list[tuple[int, int, int, int, int]]:
    """Each of five hosts sends to the four others, again and again, one a little after the other."""
    pairs = [(i, j) for i in range(5) for j in range(5) if i != j]
    return [(i, j, size, k * gap_ps + i * 3 * US, 3) for k in range(n_round) for i, j in pairs]


def all_to_alls(mode: str, check: Any = None) -> Outcome:
    topology = {
        "kind": "leaf-spine", "leaves": 1, "spines": 1, "hosts_per_leaf": 5, "host_rate": "100Gbps",
        "spine_rate": "100Gbps", "host_delay": "1us", "spine_delay": "1us",
    }  # fmt: skip
    forecasts = ["replay", "similar", "alone", "shares"]
    wormhole = {"mode": mode, **({"tolerance": 0.02, "paper": {"forecasts": forecasts}} if mode != "off" else {})}
    tables = {
        "topology": topology, "network": {"congestion_control": "dctcp"},
        "workload": {"queue_pairs": "per-pair"}, "wormhole": wormhole,
    }  # fmt: skip
    return run(tables, exchanges(6, 6000 * KB, 2600 * US), check=check)


def test_all_to_alls_go_by_their_shares_once_these_are_known() -> None:
    known: list[int] = []

    def check(model: NetworkModel) -> None:
        fast = model.fast_forward
        assert fast is not None and fast.fluid is not None
        verify_network(model.state, model.topology, fast.link_head)
        shares = fast.fluid.fluid.shares
        assert shares is not None
        known.append(shares.n_known)

    fast, plain = all_to_alls("auto", check), all_to_alls("off")
    assert max(known) >= 1
    hops = [int(outcome.model.state.fabric.counters[PACKET_HOPS]) for outcome in (fast, plain)]
    assert hops[0] < hops[1] / 2
    sent = [outcome.model.state.fabric.ports["tx_bytes"] for outcome in (fast, plain)]
    assert (sent[0] == sent[1]).all()
    took_ps = [outcome.rows[:, 4] - outcome.rows[:, 3] for outcome in (fast, plain)]
    assert abs(took_ps[0].mean() / took_ps[1].mean() - 1) < 0.01
    assert np.abs(took_ps[0] / took_ps[1] - 1).mean() < 0.03
