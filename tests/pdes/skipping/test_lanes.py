"""Claims about lanes: who is alone, what is known of messages, and what a run with lanes looks like."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pdes
from pdes.config import load_config
from pdes.engine.time_index import NEVER
from pdes.skipping import history as h
from pdes.skipping.fluid.ack_load import Slowdown
from pdes.skipping.fluid.alone import find_alone
from pdes.skipping.fluid.lanes import Ended, Lanes, Watched
from pdes.skipping.prediction import PREDICTED_ENDED_PS

N_PORT = 8
NOBODY = np.zeros(0, np.int64)


@st.composite
def ways(draw: st.DrawFn) -> list[list[int]]:
    """The ports of each flow."""
    way = st.lists(st.integers(0, N_PORT - 1), min_size=1, max_size=4, unique=True)
    return draw(st.lists(way, min_size=1, max_size=7))


@given(ways(), st.data())
def test_who_is_alone(flow_ports: list[list[int]], data: st.DataObject) -> None:
    n = len(flow_ports)
    kind = data.draw(st.lists(st.sampled_from(["active", "frozen", "lane", "idle"]), min_size=n, max_size=n))
    start = np.cumsum([0, *map(len, flow_ports)])
    port_of = np.array([p for way in flow_ports for p in way], np.int32)
    holder = np.full(N_PORT, -1, np.int32)
    for i in range(n):
        if kind[i] == "lane" and (holder[flow_ports[i]] < 0).all():
            holder[flow_ports[i]] = i
    flows = np.array([i for i in range(n) if kind[i] in ("active", "lane")], np.int64)
    others = np.array([i for i in range(n) if kind[i] == "frozen"], np.int64)
    found, n_data = np.zeros(len(flows), np.bool_), np.zeros(N_PORT, np.int32)
    find_alone(flows, others, start, port_of, n_data, holder, found)
    busy = {i: set(flow_ports[i]) for i in [*flows.tolist(), *others.tolist()]}
    held = {p: int(holder[p]) for p in range(N_PORT) if holder[p] >= 0}
    wanted = [
        all(not busy[i] & busy[j] for j in busy if j != i) and all(held.get(p, i) == i for p in busy[i])
        for i in flows.tolist()
    ]
    assert found.tolist() == wanted and not n_data.any()


def lanes_of(n_flow: int, tolerance: float = 0.02, ack_ps: int = 0) -> Lanes:
    """Flows with a port each, all of one form."""
    way = np.arange(n_flow + 1), np.arange(n_flow, dtype=np.int32)
    none = np.zeros(n_flow, np.int64)
    return Lanes(
        way,
        way,
        none,
        np.full(n_flow, -1, np.int32),
        tolerance,
        10,
        none,
        none + ack_ps,
        Slowdown(0.05, np.full(n_flow, 0.9)),
    )


def ended(took_ps: int, posted_ps: int) -> Ended:
    at = np.array([posted_ps + took_ps])
    return Ended(np.array([1000]), at, np.array([0]), at - 1)


def over(posted_ps: int, key: int = 1000) -> Watched:
    return Watched(np.array([0]), np.array([1000]), np.array([key]), np.array([posted_ps]), np.zeros(1, np.bool_))


def test_a_time_is_known_once_two_in_a_row_agree() -> None:
    lanes = lanes_of(1)
    assert not lanes.learn(over(0), ended(1000, 0))
    assert not lanes.learn(over(2000), ended(1100, 2000))  # 10 % longer
    assert lanes.learn(over(4000), ended(1110, 4000))
    assert lanes.times.table().tolist() == [[0, 1000, 1104, 1105, 0]]
    assert not lanes.learn(over(6000), ended(5000, 6000))  # what is known stays
    assert not lanes.learn(over(0, 2000), ended(79, 0))  # less than eight round trips
    assert not lanes.learn(over(100, 2000), ended(79, 100))


def row(flow: int, message: int, posted_ps: int, done: int, done_ps: int) -> list[int]:
    values = dict.fromkeys(range(h.N_COLUMN), 0) | {
        h.FLOW: flow, h.ID: message, h.POSTED_PS: posted_ps, h.DONE: done, h.DONE_PS: done_ps, h.MESSAGE_END: 1000,
        h.IS_WHOLE: 1, h.IS_CLEAR: 1, h.SENT: done, h.SENT_PS: done_ps,
    }  # fmt: skip
    return [values[k] for k in range(h.N_COLUMN)]


def test_a_message_under_way_goes_on_at_its_pace_or_not_at_all() -> None:
    lanes, nothing = lanes_of(1), np.zeros(1, np.uint8)
    lanes.learn(over(0), ended(1000, 0))
    lanes.learn(over(0), ended(1000, 0))

    def look(now_ps: int, done: int, done_ps: int) -> np.ndarray:
        rows = np.array([row(0, 7, 0, done, done_ps)])
        _, may = lanes.look(now_ps, rows, NOBODY, np.zeros(1, np.int64), NOBODY)
        lanes.open(rows[may, h.FLOW])
        return lanes.withdraw(now_ps, rows, may, nothing)

    assert len(look(100, 100, 100)) == 0  # nothing to compare with
    assert len(look(200, 150, 200)) == 0  # half as fast
    found = look(300, 250, 300)  # 100 bytes in 100 ps, as 1000 in 999 to the receiver
    assert found.tolist() == [[0, 7, 750, 1000, 300, 1048, 1049, 0, 1048]]


@pytest.mark.parametrize("last_ps, flies", [(500, True), (501, True), (520, False)])
def test_a_message_of_which_nothing_is_known_goes_on_at_an_even_pace(last_ps: int, flies: bool) -> None:
    lanes, nothing = lanes_of(1, ack_ps=6), np.zeros(1, np.uint8)
    found = np.zeros((0, 9))
    for now_ps, done, done_ps, next_ps in ((200, 200, 200, 280), (300, 300, 300, 500), (last_ps, 500, last_ps, NEVER)):
        rows = np.array([row(0, 7, 0, done, done_ps)])
        assert len(found) == 0
        _, may = lanes.look(now_ps, rows, NOBODY, np.zeros(1, np.int64), NOBODY)
        lanes.open(rows[may, h.FLOW])
        found = lanes.withdraw(now_ps, rows, may, nothing)
        assert lanes.next_look_ps == (next_ps if flies or len(found) == 0 and done < 500 else 520 + 2 * 220)
    ended_ps = last_ps + 500 * (last_ps - 300) // 200
    wanted = [[0, 7, 500, 1000, last_ps, ended_ps - 6, ended_ps, 0, ended_ps - 6]] if flies else []
    assert found.tolist() == wanted


def test_how_a_watched_message_will_end_is_learned_when_its_pace_is_known() -> None:
    lanes, nothing = lanes_of(1, ack_ps=6), np.zeros(1, np.uint8)
    for first_ps in (1000, 3000, 5000):  # before the first the control has not settled, and two have to agree
        assert len(lanes.times.table()) == 0
        for k in (1, 2, 4):
            now_ps = first_ps + 100 * k
            rows = np.array([row(0, first_ps, first_ps, 100 * k, now_ps)])
            _, may = lanes.look(now_ps, rows, NOBODY, np.zeros(1, np.int64), NOBODY)
            lanes.open(rows[may, h.FLOW])
            predicted = lanes.withdraw(now_ps, rows, may, nothing)
            assert len(predicted) == (k == 4)
            lanes.learn(*lanes.watched_of(rows, predicted))
    assert lanes.times.table().tolist() == [[0, 1000, 994, 1000, 0]]


def test_who_goes_on_packet_by_packet_is_looked_at_though_nothing_is_posted() -> None:
    lanes = lanes_of(1)
    assert lanes.next_look_ps == NEVER
    lanes.go_on(np.zeros(0, np.int64), np.zeros(0, np.int64), 300)
    assert lanes.next_look_ps == NEVER
    lanes.go_on(np.array([0]), np.array([500]), 400)
    assert lanes.next_look_ps == 400


def both_ways() -> Lanes:
    """Two flows, each with its data where the acknowledgements of the other are; on a line of 1 byte/ps."""
    start, none = np.array([0, 1, 2]), np.zeros(2, np.int64)
    data = start, np.array([0, 1], np.int32)
    everything = start * 2, np.array([0, 1, 1, 0], np.int32)
    return Lanes(data, everything, none, np.full(2, -1, np.int32), 0.02, 10, none, none, Slowdown(0.1, np.ones(2)))


def test_a_message_that_meets_acknowledgements_takes_longer_by_their_share() -> None:
    lanes, nothing = both_ways(), np.zeros(2, np.uint8)
    for now_ps, predicted in ((200, NOBODY), (300, NOBODY), (500, np.array([1]))):
        rows = np.array([row(0, 7, 0, now_ps, now_ps)])
        _, may = lanes.look(now_ps, rows, NOBODY, np.zeros(2, np.int64), predicted)
        lanes.open(rows[may, h.FLOW])
        found = lanes.withdraw(now_ps, rows, may, nothing)
    assert found[:, PREDICTED_ENDED_PS].tolist() == [500 + 550]  # its pace was that of an empty way
    flows, is_loaded = lanes.loads()
    assert flows.tolist() == [0] and is_loaded.tolist() == [True]


def test_what_is_learned_is_the_time_on_an_empty_way() -> None:
    lanes = both_ways()
    for posted_ps, took_ps, is_loaded in ((0, 1000, False), (2000, 1100, True)):
        watched = over(posted_ps)._replace(is_loaded=np.array([is_loaded]))
        lanes.learn(watched, ended(took_ps, posted_ps))
    assert lanes.times.table()[:, :2].tolist() == [[0, 1000]] and abs(lanes.times.table()[0, 3] - 1000) <= 1
    assert lanes.longer_ps(0, 1000, 1000) == 100
    assert lanes.longer_ps(0, 1000, 2000) == 0  # it leaves them room
    other = both_ways()
    for posted_ps in (0, 2000):  # 1000 bytes cannot have taken 955 ps without them: so few have crossed its way
        other.learn(over(posted_ps)._replace(is_loaded=np.array([True])), ended(1050, posted_ps))
    assert len(other.times.table()) == 0


CONFIG = """\
[topology]
kind = "roft"
gpus = 64
gpus_per_server = 4
servers_per_rail_switch = 8
[network]
congestion_control = "{control}"
[workload]
kind = "training"
microbatch = 1
start_jitter = "30us"
[workload.model]
layers = 4
hidden = 1024
vocabulary = 8192
sequence = 1024
[workload.parallel]
tp = 4
dp = 8
pp = 2
"""


FOUR = 'wormhole.paper.forecasts=["periodic", "replay", "similar", "alone"]'


def test_rings_out_of_step_are_hardly_simulated(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG.format(control="dctcp"))
    results, tables, sent = {}, {}, {}
    on = ["wormhole.mode=auto", "wormhole.tolerance=0.02", FOUR]
    for name, sets in (("off", ["wormhole.mode=off"]), ("lanes", on)):
        pdes.simulate(load_config(tmp_path / "config.toml", [*sets, f'output.dir="{tmp_path / name}"']))
        results[name] = json.loads((tmp_path / name / "result.json").read_text())
        tables[name] = pq.read_table(tmp_path / name / "flows.parquet")
        sent[name] = pq.read_table(tmp_path / name / "ports.parquet")["tx_bytes"].to_numpy()
    facts = results["lanes"]["fast_forward"]
    assert facts["lanes"]["opened"] > 20 and facts["skipped_packet_hops"]["lane"] > 0
    assert results["lanes"]["packet_hops"] < results["off"]["packet_hops"] / 3
    assert (sent["off"] == sent["lanes"]).all()  # R8, to the byte
    counted = results["lanes"]["packet_hops"] + results["lanes"]["skipped_packet_hops"]
    assert counted == pytest.approx(results["off"]["packet_hops"], rel=1e-4)  # followers: of acknowledged packets alone
    fct_ps = {name: table["fct_ps"].to_numpy() for name, table in tables.items()}
    assert np.abs(fct_ps["lanes"] / fct_ps["off"] - 1).mean() < 0.01
    one, other = (results[name]["iteration_time_ps"][0] for name in ("off", "lanes"))
    assert abs(other / one - 1) < 0.005


TWO_WAYS = """\
[topology]
kind = "roft"
gpus = 4
gpus_per_server = 1
servers_per_rail_switch = 4
[network]
congestion_control = "{control}"
[workload]
kind = "flows"
file = "flows.csv"
[wormhole]
mode = "auto"
tolerance = 0.02
paper.forecasts = ["replay", "similar", "alone"]
"""
FLOWS = """\
src,dst,size_bytes,start_ps
0,1,20000000,0
1,0,20000000,30000000
2,3,20000000,0
"""


@pytest.mark.parametrize("control", ["dctcp", "hpcc"])
def test_lanes_slow_each_other_down_by_their_acknowledgements(tmp_path: Path, control: str) -> None:
    (tmp_path / "flows.csv").write_text(FLOWS)
    (tmp_path / "config.toml").write_text(TWO_WAYS.format(control=control))
    fct_ps = {}
    for name, sets in (("off", ["wormhole.mode=off"]), ("lanes", [])):
        pdes.simulate(load_config(tmp_path / "config.toml", [*sets, f'output.dir="{tmp_path / name}"']))
        result = json.loads((tmp_path / name / "result.json").read_text())
        fct_ps[name] = pq.read_table(tmp_path / name / "flows.parquet")["fct_ps"].to_numpy()
    assert result["fast_forward"]["lanes"]["converted"] == 3
    assert fct_ps["off"][1] > 1.03 * fct_ps["off"][2]  # acknowledgements count
    assert np.abs(fct_ps["lanes"] / fct_ps["off"] - 1).max() < 0.01
