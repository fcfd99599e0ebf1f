"""Claims about what looks take to flow level and learn there, and what runs with flow level look like."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import pdes
from pdes.config import load_config
from pdes.engine.time_index import NEVER
from pdes.skipping import history as h
from pdes.skipping import prediction as m
from pdes.skipping.fluid.ack_load import Slowdown
from pdes.skipping.fluid.audit import FluidAudit
from pdes.skipping.fluid.flow_level import Comers
from pdes.skipping.fluid.flow_table import FAR_PS, NOBODY
from pdes.skipping.fluid.fluid import Fluid
from pdes.skipping.fluid.make_table import Links
from pdes.skipping.fluid.stretches import Stretches
from reference.flow_level_driver import Message, post

RTT_PS, TOLERANCE, ACK_SHARE = 10, 0.02, 0.1
NONE = np.zeros(0, np.int64)


class Looked:
    """Flows by the ports of their data, and of their acknowledgements, on lines of 1 byte per ps; ack_ps: latency of
    acknowledgements, data has none."""

    def __init__(self, ports: list[list[int]], acks: list[list[int]] | None = None, ack_ps: int = 0) -> None:
        n, everything = len(ports), [a + b for a, b in zip(ports, acks or [[] for _ in ports], strict=True)]
        self.n_port = 1 + max(max(way) for way in everything)
        data, ways = (
            (np.cumsum([0, *map(len, each)]), np.array([p for way in each for p in way], np.int32))
            for each in (ports, everything)
        )
        none = np.zeros(n, np.int64)
        links = Links(data, ways, none, np.ones(self.n_port), none, none + ack_ps)
        audit = FluidAudit(n, Stretches(none, 0.0, 0, RTT_PS))
        holder, slowdown = np.full(self.n_port, NOBODY, np.int32), Slowdown(ACK_SHARE, np.ones(n))
        self.fluid = Fluid(links, holder, TOLERANCE, RTT_PS, slowdown, False, audit)
        self._idle = none

    def look(self, now_ps: int, *rows: list[int]) -> np.ndarray:
        """What is taken at a look; nothing has ended."""
        table = np.array(rows, np.int64).reshape(-1, h.N_COLUMN)
        self.fluid.look(now_ps, table, NONE, self._idle)
        return self.fluid.take(now_ps, np.zeros(self.n_port, np.uint8))

    def run_out(self) -> None:
        """Ticks until nothing is at flow level."""
        level = self.fluid.level
        while level.n_flow:
            level.tick(level.next_ps, self.fluid.holder, np.zeros((0, m.N_POSTED), np.int64), NONE)


def row(flow: int, message: int, posted_ps: int, done: int, done_ps: int) -> list[int]:
    values = {h.FLOW: flow, h.ID: message, h.POSTED_PS: posted_ps, h.DONE: done, h.DONE_PS: done_ps}
    values |= {h.MESSAGE_END: 1000, h.IS_WHOLE: 1, h.IS_CLEAR: 1, h.SENT: done, h.SENT_PS: done_ps}
    return [values.get(k, 0) for k in range(h.N_COLUMN)]


def test_a_message_under_way_goes_on_at_its_rate_or_not_at_all() -> None:
    looked = Looked([[0]])
    looked.fluid.level.note_alone(0, 1000, 1000)
    assert len(looked.look(100, row(0, 7, 0, 100, 100))) == 0  # nothing to compare with
    assert len(looked.look(200, row(0, 7, 0, 150, 200))) == 0  # half as fast
    assert looked.fluid.next_look_ps == 200, "it is looked at again as soon as possible"
    found = looked.look(300, row(0, 7, 0, 250, 300))
    columns = [m.SIZE, m.END, m.BEGIN_PS, m.ENDED_PS]
    assert found[:, columns].tolist() == [[750, 1000, 300, 300 + FAR_PS]]
    assert looked.fluid.level.table.sent_ps[0] == 1050
    assert looked.fluid.level.left_bytes(np.array([0]), 500).tolist() == [550]


def test_a_message_that_has_just_begun_takes_its_time_from_its_posting_on() -> None:
    """If its flow was alone long before; else its control may not have settled."""
    looked = Looked([[0]])
    looked.fluid.level.note_alone(0, 1000, 1000)
    assert len(looked.look(100, row(0, 7, 95, 0, 60))) == 0
    assert len(looked.look(900, row(0, 8, 895, 0, 800))) == 1
    assert looked.fluid.level.table.sent_ps[0] == 1895


@pytest.mark.parametrize("has_company", [False, True])
def test_the_time_of_a_watched_message_is_learned_when_its_rate_is_known(has_company: bool) -> None:
    """Of the first its control has not settled before, and two have to agree. One that had company while it was under
    way says nothing, though it is alone, and even, in the end."""
    looked = Looked([[0], [0]], ack_ps=6)
    for first_ps in (1000, 3000, 5000):
        assert looked.fluid.counters.known == 0
        for k in (1, 2, 3, 4, 5, 7):
            now_ps, mine = first_ps + 100 * k, row(0, first_ps, first_ps, 100 * k, first_ps + 100 * k)
            if k == 3 and has_company:
                found = looked.look(now_ps, mine, row(1, 1, first_ps, 10, now_ps))
            else:
                found = looked.look(now_ps, mine)
            if len(found):
                break
        assert k == (7 if has_company else 3)
        looked.run_out()
    rates = looked.fluid.level.rates_alone(np.array([0]), np.array([1000]), np.array([0]))
    assert rates == pytest.approx([0.0] if has_company else [1000 / 994])


def test_a_message_that_meets_acknowledgements_takes_longer_by_their_share() -> None:
    """Its rate was that of an empty way; then the other flow, whose acknowledgements cross it, goes at flow level."""
    looked = Looked([[0], [1]], [[1], [0]])
    for now_ps in (200, 300):
        looked.look(now_ps, row(0, 7, 0, now_ps, now_ps))
    level = looked.fluid.level
    posts = np.array([post(Message(1, 10_000, 400), 0, 10_000)])
    rates = np.ones((1, 2))
    level.join(400, looked.fluid.holder, Comers(posts, np.array([10_000.0]), rates, np.zeros(1, np.int64)))
    assert len(looked.look(500, row(0, 7, 0, 500, 500))) == 1
    assert level.table.sent_ps[0] == 500 + 550


@pytest.mark.parametrize("flows", [[0], [0, 1]])
def test_who_goes_on_packet_by_packet_is_looked_at_and_was_alone_if_it_was(flows: list[int]) -> None:
    """Messages that are posted at flow level, where no rate is known of them: else such messages are never learned."""
    looked = Looked([[0], [0]])
    fluid = looked.fluid
    fluid._watch.alone_since_ps[:] = 7
    fluid.go_on(NONE, NONE, 300)
    assert fluid.next_look_ps == NEVER
    posts = np.array([post(Message(flow, 1000, 395), 0, 1000) for flow in flows])
    _, broken = fluid.level.tick(400, fluid.holder, posts, NONE)
    assert broken.tolist() == flows
    fluid.go_on(broken, np.full(len(broken), 5), 400)
    assert fluid.next_look_ps == 400
    assert fluid._watch.alone_since_ps[flows].tolist() == ([7] if len(flows) == 1 else [NEVER, NEVER])


CONFIG = """\
[topology]
kind = "roft"
gpus = 64
gpus_per_server = 4
servers_per_rail_switch = 8
[network]
congestion_control = "dctcp"
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
    (tmp_path / "config.toml").write_text(CONFIG)
    results, tables, sent = {}, {}, {}
    on = ["wormhole.mode=auto", "wormhole.tolerance=0.02", FOUR]
    for name, sets in (("off", ["wormhole.mode=off"]), ("auto", on)):
        pdes.simulate(load_config(tmp_path / "config.toml", [*sets, f'output.dir="{tmp_path / name}"']))
        results[name] = json.loads((tmp_path / name / "result.json").read_text())
        tables[name] = pq.read_table(tmp_path / name / "flows.parquet")
        sent[name] = pq.read_table(tmp_path / name / "ports.parquet")["tx_bytes"].to_numpy()
    facts = results["auto"]["fast_forward"]
    assert facts["fluid"]["posted"] > 20 and facts["skipped_packet_hops"]["fluid"] > 0
    assert results["auto"]["packet_hops"] < results["off"]["packet_hops"] / 3
    assert (sent["off"] == sent["auto"]).all()  # R8, to the byte
    counted = results["auto"]["packet_hops"] + results["auto"]["skipped_packet_hops"]
    assert counted == pytest.approx(results["off"]["packet_hops"], rel=1e-4)  # followers: of acknowledged packets alone
    fct_ps = {name: table["fct_ps"].to_numpy() for name, table in tables.items()}
    assert np.abs(fct_ps["auto"] / fct_ps["off"] - 1).mean() < 0.01
    one, other = (results[name]["iteration_time_ps"][0] for name in ("off", "auto"))
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
def test_messages_slow_each_other_down_by_acknowledgements_that_are_not_there(tmp_path: Path, control: str) -> None:
    (tmp_path / "flows.csv").write_text(FLOWS)
    (tmp_path / "config.toml").write_text(TWO_WAYS.format(control=control))
    fct_ps = {}
    for name, sets in (("off", ["wormhole.mode=off"]), ("auto", [])):
        pdes.simulate(load_config(tmp_path / "config.toml", [*sets, f'output.dir="{tmp_path / name}"']))
        result = json.loads((tmp_path / name / "result.json").read_text())
        fct_ps[name] = pq.read_table(tmp_path / name / "flows.parquet")["fct_ps"].to_numpy()
    assert result["fast_forward"]["fluid"]["measured"] == 3
    assert fct_ps["off"][1] > 1.03 * fct_ps["off"][2]  # acknowledgements count
    assert np.abs(fct_ps["auto"] / fct_ps["off"] - 1).max() < 0.01
