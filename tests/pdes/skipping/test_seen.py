"""Claims about what a look sees: who is alone, who shares ports with whom, and when a company counts as even."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.network.model import NetworkModel
from models.network.state.records import PACKET_HOPS
from models.network.verify.network import verify_network
from pdes.engine.time_index import NEVER
from pdes.skipping import history as h
from pdes.skipping.fluid.flow_table import NOBODY, SHARED
from pdes.skipping.fluid.seen import FIRST_ROUND_TRIPS, FREE, SETTLED_ROUND_TRIPS, Seen
from pdes.skipping.fluid.trusted_rates import MOST_WINDOWS
from properties.network_runs import Outcome, run

RTT_PS, TOLERANCE, N_PORT = 100, 0.02, 8
MB, US = 10**6, 10**6
WINDOW_PS = FIRST_ROUND_TRIPS * RTT_PS


def row(
    flow: int, message: int, done: int, done_ps: int, is_whole: bool = True, has_timer: bool = False,
    end: int = 1_000_000, window: int = 0,
) -> list[int]:  # fmt: skip
    values = dict.fromkeys(range(h.N_COLUMN), 0) | {h.MESSAGE_END: end}
    values |= {h.FLOW: flow, h.ID: message, h.DONE: done, h.DONE_PS: done_ps, h.IS_WHOLE: int(is_whole)}
    values |= {h.WINDOW: window, h.HAS_TIMER: int(has_timer), h.SENT: done + 50, h.SENT_PS: done_ps}
    return [values[k] for k in range(h.N_COLUMN)]


class Ways:
    """Flows with ports, and what is looked at of them."""

    def __init__(self, ports: list[list[int]]) -> None:
        start, port_of = np.cumsum([0, *map(len, ports)]), np.array([p for way in ports for p in way], np.int32)
        self.holder = np.full(N_PORT, NOBODY, np.int32)
        self.seen = Seen((start, port_of), N_PORT, TOLERANCE, RTT_PS)

    def look(
        self, now_ps: int, rows: list[list[int]], frozen: tuple[int, ...] = (), is_loaded: bool = False
    ) -> list[list[int]]:
        """The flows of each company that goes on evenly."""
        table, others = np.array(rows, np.int64).reshape(-1, h.N_COLUMN), np.array(frozen, np.int64)
        self.seen.look(now_ps, table, np.full(len(table), is_loaded), others, self.holder)
        assert (self.seen._memory.first_row == FREE).all()
        return [table[mine, h.FLOW].tolist() for mine in self.seen.even()]


def evenly(ways: Ways, flows: list[int], n_window: int, **more: Any) -> list[list[int]]:
    """What is found when flows have gone on at one rate for so many windows."""
    found: list[list[int]] = []
    for k in range(n_window + 1):
        now_ps = 1000 + k * WINDOW_PS
        rows = [row(i, 7 + i, (1 + i) * now_ps, now_ps, end=(1 + i) * (now_ps + WINDOW_PS)) for i in flows]
        found = ways.look(now_ps, rows, **more)
    return found


@given(st.data())
def test_flows_that_share_ports_directly_or_through_others_are_one_company(data: st.DataObject) -> None:
    ports = data.draw(
        st.lists(st.lists(st.integers(0, N_PORT - 1), min_size=1, max_size=3, unique=True), min_size=1, max_size=7)
    )
    kind = [data.draw(st.sampled_from(["active", "active", "frozen", "fluid", "idle"])) for _ in ports]
    ways, flows = Ways(ports), [i for i, k in enumerate(kind) if k == "active"]
    held = {p for i, k in enumerate(kind) if k == "fluid" for p in ports[i]}
    ways.holder[list(held)] = SHARED
    frozen = tuple(i for i, k in enumerate(kind) if k == "frozen")
    found = evenly(ways, flows, 3, frozen=frozen)
    parts = {flow: {flow} for flow in flows}
    for _ in flows:
        for one in flows:
            for other in flows:
                if set(ports[one]) & set(ports[other]):
                    parts[one] |= parts[other]
    blocked = held | {p for i in frozen for p in ports[i]}
    free = [set(ports[i]).isdisjoint(blocked) for i in flows]
    wanted = {tuple(sorted(part)) for part in parts.values() if all(free[flows.index(i)] for i in part)}
    assert sorted(map(tuple, found)) == sorted(wanted)
    is_alone = [len(parts[i]) == 1 and free[k] for k, i in enumerate(flows)]
    assert ways.seen.is_alone.tolist() == is_alone
    whole = [rows for rows, _ in ways.seen.whole(1)]
    assert sorted(map(len, whole)) == sorted(len(each) for each in wanted if len(each) > 1)


def test_who_was_passed_over_is_not_seen_again_until_more_is_known_or_a_window_ends() -> None:
    ways = Ways([[0], [0], [1], [1]])
    flows = np.arange(2)

    def seen(k: int, ids: list[int], version: int) -> list[tuple[list[int], bool]]:
        now_ps = 1000 + k * WINDOW_PS // 2
        ways.look(now_ps, [row(i, ids[i], (1 + i) * now_ps, now_ps) for i in range(4)])
        return [(rows.tolist(), has_settled) for rows, has_settled in ways.seen.whole(version)]

    assert seen(0, [1, 1, 1, 1], 0) == [([0, 1], False), ([2, 3], False)]
    ways.seen.pass_over(flows, 0)
    assert seen(1, [1, 1, 1, 1], 0) == [([2, 3], False)]
    assert seen(1, [1, 1, 1, 1], 1) == [([0, 1], False), ([2, 3], False)]
    assert seen(2, [1, 2, 1, 1], 0) == [([0, 1], False), ([2, 3], False)]  # another message
    ways.seen.pass_over(flows, 0)
    found = [seen(k, [1, 2, 1, 1], 0) for k in range(3, 18)]
    mine = [k for k, each in zip(range(3, 18), found, strict=True) if ([0, 1], True) in each]
    assert mine == [2 + 2 * (1 + 2 + 4)]  # the third window began when the company had settled
    assert not any(([0, 1], False) in each for each in found)


def test_a_company_is_even_when_it_has_settled_and_two_windows_agree() -> None:
    needed = 3  # the second is twice as long
    assert needed * FIRST_ROUND_TRIPS >= SETTLED_ROUND_TRIPS
    assert evenly(Ways([[0, 1], [1, 2]]), [0, 1], needed - 1) == []
    assert evenly(Ways([[0, 1], [1, 2]]), [0, 1], needed) == [[0, 1]]
    assert evenly(Ways([[0, 1], [2]]), [0, 1], needed) == [[0], [1]]  # nothing in common


@pytest.mark.parametrize("left_ps", [0, 1600, 2 * MOST_WINDOWS * WINDOW_PS - 100])
@pytest.mark.parametrize("share, is_found", [(0, True), (0.95, True), (1.05, False)])
@pytest.mark.parametrize("n", [1, 2])
def test_a_change_that_goes_on_to_the_end_of_a_company_is_within_the_tolerance(
    left_ps: int, share: float, is_found: bool, n: int
) -> None:
    """The rate changes from the middle of the first window to that of the second, and on to that of the rest."""
    ways, found, last_ps = Ways([[0], [0]]), [], 10_000 + 3 * WINDOW_PS
    change = share * TOLERANCE * 3 * WINDOW_PS / (left_ps + 2 * WINDOW_PS)
    for k in (0, 1, 3):
        now_ps = 10_000 + k * WINDOW_PS
        done = [100 * now_ps, 100 * now_ps - (round(100 * 2 * WINDOW_PS * change / (1 + change)) if k == 3 else 0)]
        ends = [10**9, 100 * (last_ps + left_ps)]  # the second one ends the company; if it is alone, it is the only one
        flows = (0, 1) if n == 2 else (1,)
        found = ways.look(now_ps, [row(i, 1, done[i], now_ps, end=ends[i]) for i in flows])
    assert found == ([list(flows)] if is_found else [])


def test_two_windows_say_nothing_of_many_times_their_length_and_three_do() -> None:
    ways, found = Ways([[0], [0]]), []
    for k in (0, 1, 3, 7):
        now_ps = 10_000 + k * WINDOW_PS
        ends = [100 * (now_ps + 2 * MOST_WINDOWS * WINDOW_PS + 100), 10**9]
        rows = [row(i, 1, 100 * now_ps, now_ps, end=ends[i], window=1000 + 10 * k) for i in (0, 1)]
        found.append(ways.look(now_ps, rows))
    assert found == [[], [], [], [[0, 1]]]


def test_who_joins_begins_a_new_company_and_a_message_that_is_not_whole_holds_it_up() -> None:
    ways = Ways([[0], [0], [0]])
    assert evenly(ways, [0, 1], 3) == [[0, 1]]
    now_ps = 1000 + 4 * WINDOW_PS
    assert ways.look(now_ps, [row(i, 7 + i, (1 + i) * now_ps, now_ps) for i in range(3)]) == []
    now_ps += WINDOW_PS
    assert ways.look(now_ps, [row(i, 7 + i, (1 + i) * now_ps, now_ps) for i in range(3)]) == []
    assert ways.seen.next_look_ps == now_ps + 2 * WINDOW_PS
    now_ps += WINDOW_PS
    rows = [row(i, 7 + i, (1 + i) * now_ps, now_ps, is_whole=i > 0) for i in range(3)]
    assert ways.look(now_ps, rows) == [] and ways.seen.next_look_ps == NEVER


@pytest.mark.parametrize("what", ["message", "load", "company", "forgotten", "nothing"])
def test_windows_of_one_that_is_alone_begin_anew_where_something_changes(what: str) -> None:
    ways = Ways([[0], [0]])
    for k in (0, 1):
        now_ps = 1000 + k * WINDOW_PS
        assert ways.look(now_ps, [row(0, 7, now_ps, now_ps)]) == []
    if what == "company":
        ways.look(now_ps + 1, [row(0, 7, now_ps, now_ps), row(1, 7, now_ps, now_ps)])
    if what == "forgotten":
        ways.seen.forget(np.array([0]))
    now_ps = 1000 + 3 * WINDOW_PS
    rows = [row(0, 8 if what == "message" else 7, now_ps, now_ps, end=2 * now_ps)]
    assert ways.look(now_ps, rows, is_loaded=what == "load") == ([[0]] if what == "nothing" else [])


def test_a_control_with_a_timer_on_holds_its_company_up() -> None:
    ways = Ways([[0], [0]])
    for k in range(4):
        now_ps = 1000 + k * WINDOW_PS
        rows = [row(i, 7, now_ps, now_ps, has_timer=i > 0, end=now_ps + WINDOW_PS) for i in (0, 1)]
        assert ways.look(now_ps, rows) == []


@given(st.floats(0.3, 1.0), st.integers(20, 5000), st.integers(100, 20000))
def test_a_rate_that_grows_as_before_is_not_off_by_more_than_the_tolerance(begin: float, turns: int, long: int) -> None:
    """A control that regains its rate, linearly over so many round trips, and keeps it then; its window says so."""
    end = 100 * RTT_PS * long

    def done_at(ps: float) -> float:
        grown, full = min(ps, turns * RTT_PS), turns * RTT_PS
        return 100 * (begin * ps + (1 - begin) * (grown * grown / (2 * full) + (ps - grown)))

    low, high = 0.0, 10.0 * RTT_PS * (long + turns)
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if done_at(middle) < end else (low, middle)
    ways, now_ps = Ways([[0]]), RTT_PS
    while now_ps < low:
        window = 10**6 + (now_ps // (8 * RTT_PS)) % 2 * 10**4  # a control that has not settled
        rows = [row(0, 5, int(done_at(now_ps)), now_ps, end=end, window=window)]
        rows[0][h.SENT] += 5000
        if ways.look(now_ps, rows):
            size, span_ps = ways.seen.last_window(0)
            rest_ps = (end - done_at(now_ps)) * span_ps / size
            assert abs(rest_ps / max(low - now_ps, 1) - 1) < 1.5 * TOLERANCE or rest_ps < RTT_PS
            return
        assert ways.seen.next_look_ps >= now_ps
        now_ps = max(now_ps + RTT_PS, min(ways.seen.next_look_ps, now_ps + 100 * RTT_PS))


def shared_link(flows: list[tuple[int, int, int, int, int]], mode: str, check: Any = None) -> Outcome:
    topology = {
        "kind": "leaf-spine", "leaves": 2, "spines": 1, "hosts_per_leaf": 4, "host_rate": "100Gbps",
        "spine_rate": "100Gbps", "host_delay": "1us", "spine_delay": "1us",
    }  # fmt: skip
    forecasts = ["replay", "similar", "alone"]
    wormhole = {"mode": mode, **({"tolerance": 0.02, "paper": {"forecasts": forecasts}} if mode != "off" else {})}
    tables = {
        "topology": topology, "network": {"congestion_control": "dctcp"},
        "workload": {"queue_pairs": "per-pair"}, "wormhole": wormhole,
    }  # fmt: skip
    return run(tables, flows, check=check)


@pytest.mark.parametrize("newcomer", [False, True])
def test_what_shares_a_link_is_skipped_and_ends_as_in_the_full_run(newcomer: bool) -> None:
    """Three messages share the link between two leaves; a fourth comes in between."""
    flows = [(0, 4, 20 * MB, 0, 3), (1, 5, 30 * MB, 0, 3), (2, 6, 25 * MB, 200 * US, 3)]
    flows += [(3, 7, 10 * MB, 2500 * US, 3)] if newcomer else []
    most: list[int] = []

    def check(model: NetworkModel) -> None:
        fast = model.fast_forward
        assert fast is not None and fast.fluid is not None
        verify_network(model.state, model.topology, fast.link_head)
        most.append(fast.fluid.fluid.level.n_flow)

    fast, plain = shared_link(flows, "auto", check), shared_link(flows, "off")
    check(fast.model)
    assert max(most) >= 3 + newcomer - 1 and most[-1] == 0
    hops = [int(outcome.model.state.fabric.counters[PACKET_HOPS]) for outcome in (fast, plain)]
    assert hops[0] < hops[1] / (1.4 if newcomer else 2)  # of four less than of three goes on at even rates
    sent = [outcome.model.state.fabric.ports["tx_bytes"] for outcome in (fast, plain)]
    assert (sent[0] == sent[1]).all()
    took_ps = [outcome.rows[:, 4] - outcome.rows[:, 3] for outcome in (fast, plain)]
    last_ps = [outcome.rows[:, 4].max() for outcome in (fast, plain)]
    assert abs(last_ps[0] / last_ps[1] - 1) < 0.005  # the link is busy all the time, whoever has it
    assert np.abs(took_ps[0] / took_ps[1] - 1).mean() < 0.05
