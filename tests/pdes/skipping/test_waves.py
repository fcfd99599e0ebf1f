"""Claims about waves: who is in one, what they come to, and what a run looks like in which most are not simulated."""

import json
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pdes
from pdes.config import load_config
from pdes.skipping import history as h
from pdes.skipping.controller import Controller
from pdes.skipping.holders import Holders
from pdes.skipping.similar.busy_ports import BUSY, Scratch, find_waves
from pdes.skipping.similar.wave_entries import Candidate, Past, Wave, WaveEntry, WaveReplay
from pdes.skipping.similar.waves import BIT_PS, Wants, WaveLinks, Waves

N_PORT = 12


@st.composite
def ways(draw: st.DrawFn) -> list[list[int]]:
    """The ports of each flow."""
    way = st.lists(st.integers(0, N_PORT - 1), min_size=2, max_size=5, unique=True)
    return draw(st.lists(way, min_size=0, max_size=9))


@given(ways(), st.data())
def test_flows_that_share_busy_ports_are_together(flow_ports, data):
    """Against connected components of a graph, and busy ports by their definition."""
    n = len(flow_ports)
    sizes = data.draw(st.lists(st.sampled_from([1, 2, 5, 40]), min_size=n, max_size=n))
    rate_bps = data.draw(st.lists(st.sampled_from([10, 20, 25]), min_size=N_PORT, max_size=N_PORT))
    load = [sum(s for s, way in zip(sizes, flow_ports, strict=True) if p in way) / rate_bps[p] for p in range(N_PORT)]
    most = [max(load[p] for p in way) for way in flow_ports]
    busy = {p for p in range(N_PORT) if any(p in way and load[p] > BUSY * m + 1e-9 for way, m in
                                            zip(flow_ports, most, strict=True))}  # fmt: skip
    busy |= {p for way in flow_ports for p in (way[0], way[-1])}  # at hosts
    graph = nx.Graph()
    graph.add_nodes_from(range(n))
    for i in range(n):
        graph.add_edges_from((i, j) for j in range(i) if set(flow_ports[i]) & set(flow_ports[j]) & busy)
    wanted = sorted(sorted(part) for part in nx.connected_components(graph))
    start = np.cumsum([0, *(len(way) for way in flow_ports)])
    port_of = np.array([p for way in flow_ports for p in way], np.int32)
    ends = np.array([[way[0], way[-1]] for way in flow_ports], np.int64).reshape(-1, 2)
    s = Scratch(
        np.full(N_PORT, -1), np.zeros(N_PORT), np.full(N_PORT, np.inf), np.zeros(N_PORT, np.uint8), np.zeros(n),
        np.zeros(n, np.int64),
    )  # fmt: skip
    for _ in range(2):  # nothing is left of a call
        found = find_waves(
            np.arange(n), np.array(sizes, np.int64), start, port_of, ends, BIT_PS / np.array(rate_bps, float), s
        )
        parts = [np.flatnonzero(s.part[:n] == i).tolist() for i in range(found)]
        assert parts == wanted


def samples(flows: list[int], ids: list[int], done: list[int]) -> np.ndarray:
    rows = np.zeros((len(flows), h.N_COLUMN), np.int64)
    rows[:, h.FLOW], rows[:, h.ID], rows[:, h.DONE], rows[:, h.MESSAGE_END] = flows, ids, done, 100
    return rows


@given(ways(), st.data())
def test_waves_that_run_are_seen_as_each_is_by_itself(flow_ports, data):
    """Broken if somebody else shares ports with it, is frozen or has gone on; over if none of it is under way."""
    n = len(flow_ports)
    wave_of = data.draw(st.lists(st.integers(-1, 2), min_size=n, max_size=n))  # -1: of none
    state = data.draw(st.lists(st.sampled_from(["same", "same", "next", "gone"]), min_size=n, max_size=n))
    is_frozen = np.array(data.draw(st.lists(st.sampled_from([0, 0, 0, 0, 1]), min_size=n, max_size=n)), np.uint8)
    start = np.cumsum([0, *(len(way) for way in flow_ports)])
    port_of = np.array([p for way in flow_ports for p in way], np.int32)
    ends = np.array([[way[0], way[-1]] for way in flow_ports], np.int64).reshape(-1, 2)
    links = WaveLinks(start, port_of, np.full(N_PORT, 8 * 10**9), ends)
    waves = Waves(links, Holders(N_PORT), 0.1, 1000, np.zeros(0, np.int64), 1000)
    none = np.zeros(0, np.int64)
    for k in range(3):
        mine = [f for f in range(n) if wave_of[f] == k]
        if mine:
            members = Candidate(np.array(mine), none, none, none, samples(mine, mine, [0] * len(mine)))
            waves.running.append(Wave(b"", members))
    began = list(waves.running)
    active = [f for f in range(n) if state[f] != "gone"]
    rows = samples(active, [f if state[f] == "same" else n + f for f in active], [7 * f % 100 for f in active])
    over, _ = waves.look(5000, rows, is_frozen)
    part = dict(zip(active, waves._scratch.part[: len(active)].tolist(), strict=True))
    for wave in began:
        members = wave.of.pairs.tolist()
        same = [f for f in members if state[f] == "same"]
        beside = [f for f in active if part[f] in {part[g] for g in same}]
        is_broken = set(beside) != set(same) or any(is_frozen[f] or state[f] == "next" for f in members)
        assert any(one is wave for one in over) == (not is_broken and not same)
        runs = any(one is wave for one in waves.running)
        assert runs == (not is_broken and bool(same))
        done = [[7 * f % 100 if state[f] == "same" else 100 for f in members]] if runs else []
        assert [row.tolist() for row in wave.curve] == done
    assert waves.counters.broken == len(began) - len(over) - len(waves.running)


def test_what_is_done_lies_between_what_is_known():
    none = np.zeros(2, np.int64)
    entry = WaveEntry(
        np.array([0, 100]), np.array([900, 900]), np.array([1000, 1100]), none, np.array([500, 1050]),
        np.array([[400, 200], [1000, 900]]), none,
    )  # fmt: skip
    sizes = np.array([1000, 1000])
    assert entry.done_bytes(0, sizes).tolist() == [0, 0]
    assert entry.done_bytes(300, sizes).tolist() == [240, 100]  # straight to what was acknowledged at 500
    assert entry.done_bytes(750, sizes).tolist() == [700, 518]  # the first straight to its end at 1000
    assert entry.done_bytes(1075, sizes).tolist() == [1000, 950]
    assert entry.done_bytes(5000, sizes).tolist() == [1000, 1000]


def course(
    waves: Waves, begin: int, posted_ps: list[int], took_ps: list[int], wait_ps: int = 600
) -> np.ndarray | None:  # fmt: skip
    """When two flows over one port are taken to end. None: they are simulated, and take took_ps.

    wait_ps: from the second posting to the look.
    """
    none, posted = np.zeros(0, np.int64), np.array(posted_ps)
    rows = np.zeros((2, h.N_COLUMN), np.int64)
    rows[:, h.FLOW] = 0, 1
    rows[:, h.MESSAGE_BEGIN] = rows[:, h.DONE] = rows[:, h.SENT] = begin
    rows[:, h.MESSAGE_END], rows[:, h.POSTED_PS] = begin + 10**6, posted
    wave = Candidate(np.arange(2), np.zeros(1, np.int64), np.zeros(1, np.int64), none, rows)
    new = waves.begin(posted.max() + wait_ps, [wave], [b"form"])
    if new:
        waves.due(new[0].end_ps)
        return new[0].ended_ps
    ended = posted + took_ps
    waves.finish(waves.running.pop(), Past(rows[:, h.MESSAGE_END], ended - 10, ended, np.zeros(2), none))
    return None


def waves_of_two(tolerance: float) -> Waves:
    """Of two flows over one port, no round trip of which matters."""
    links = WaveLinks(np.array([0, 1, 2]), np.zeros(2, np.int32), np.array([10**11]), np.zeros((2, 4), np.int64))
    return Waves(links, Holders(1), tolerance, 1000, np.zeros(0, np.int64), 1000)


@pytest.mark.parametrize("least, wanted", [(2, [[0, 1], [2, 3, 4]]), (2, [[2, 3, 4]]), (3, [[0, 1], [2, 3, 4]])])
def test_only_those_begin_that_somebody_learns_from(least: int, wanted: list[list[int]]) -> None:
    """And they are followed to their ends without being noted."""
    start, port_of = np.arange(6), np.array([0, 0, 1, 1, 1], np.int32)
    links = WaveLinks(start, port_of, np.full(2, 10**11), np.stack([port_of] * 2, axis=1).astype(np.int64))
    waves = Waves(links, Holders(2), 0.1, 1000, np.zeros(0, np.int64), 1000)
    rows = samples([0, 1, 2, 3, 4], [7] * 5, [0] * 5)
    rows[:, h.IS_WHOLE] = 1
    wants = Wants(least, lambda flows: flows.tolist() in wanted)
    frozen = np.zeros(5, np.uint8)
    assert waves.look(400, rows, frozen, wants=wants) == ([], []) and waves.next_look_ps == 400  # too new
    over, found = waves.look(5000, rows, frozen, wants=wants)
    assert over == [] and [each.pairs.tolist() for each in found] == [w for w in wanted if len(w) >= least]
    waves.follow(5000, found)
    over, found = waves.look(10**6, rows[:0], frozen, wants=wants)
    assert [wave.of.pairs.tolist() for wave in over] == [w for w in wanted if len(w) >= least] and found == []
    for wave in over:
        n = len(wave.of.pairs)
        past = Past(np.full(n, 100), *(np.zeros(n, np.int64) for _ in range(4)))
        assert waves.finish(wave, past, is_noted=False)
        assert not waves.finish(wave, past._replace(end_byte=np.full(n, 200)), is_noted=False)  # it went on
    assert waves.entries == {} and waves.running == [] and waves.counters.waves == len(over)


def test_first_messages_of_queue_pairs_are_no_pattern_for_later_ones():
    """The first ones begin at line rate."""
    waves = waves_of_two(0.1)
    ends = [course(waves, k * 10**6, [k * 10**9] * 2, [10**8] * 2) for k in range(4)]
    assert [each is not None for each in ends] == [False, False, False, True]  # two that are no first ones


def test_a_wave_goes_as_the_three_most_like_it_do_on_average():
    waves, us = waves_of_two(0.0), 10**6  # none of the first ones is like another
    takes = {0: [90, 110], 1: [91, 113], 5: [99, 121], 3: [95, 104], 20: [97, 105]}  # by how far apart they are posted
    for k, (apart, took) in enumerate(takes.items(), 1):
        assert course(waves, 10**6, [k * 10**9, k * 10**9 + apart * us], [t * us for t in took]) is None
    waves._tolerance = 0.1
    for apart, mean_us in ((0, [92, 109]), (4, [95, 112])):  # as those of 0, 1 and 3; 5, 3 and 1
        begin = (10 + apart) * 10**9
        found = course(waves, 10**6, [begin, begin + apart * us], [])
        assert found is not None and ((found - begin) // us).tolist() == [mean_us[0], mean_us[1] + apart]
    waves._tolerance = 0.001
    begin = 100 * 10**9
    assert course(waves, 10**6, [begin, begin + 5 * us], [200 * us] * 2) is None  # like one alone


def test_no_message_is_taken_to_have_come_across_already():
    """The second flow's counterparts came across 12 us after the first posting; it would have at 10.5 us."""
    us = 10**6
    for wait_ps, is_replayed in ((9 * us, True), (11 * us, False)):
        waves = waves_of_two(0.6)
        for k in (1, 2):
            assert course(waves, 10**6, [k * 10**10, k * 10**10 + 2 * us], [1000 * us, 10 * us]) is None
        found = course(waves, 10**6, [10**11, 10**11 + us // 2], [1000 * us, 10 * us], wait_ps)
        assert (found is not None) == is_replayed


def test_a_wave_that_goes_on_comes_to_those_that_hold_the_ports_that_it_left_open():
    """Flow 0 has its wave's port and one that is another wave's, as that port is not busy with it; and so on."""
    ways = [[0, 1], [1, 2], [2], [3], [0], [2], [3]]
    start, port_of = np.cumsum([0, *map(len, ways)]), np.concatenate(ways).astype(np.int32)
    links = WaveLinks(start, port_of, np.full(4, 10**11), np.zeros((len(ways), 4), np.int64))
    for interrupts, expected in (
        ({4: 70}, {0: 70, 1: 70, 2: 70}),
        ({5: 50}, {2: 50}),
        ({4: 70, 5: 50}, {0: 70, 1: 70, 2: 50}),
        ({6: 20, 5: 90}, {3: 20, 2: 90}),
        ({}, {}),
    ):
        waves, none = Waves(links, Holders(4), 0.1, 1000, np.zeros(0, np.int64), 1000), np.zeros(0, np.int64)
        entry = WaveEntry(none, none, none, none, none, np.zeros((0, 0), np.int64), none)
        for flow in range(4):
            ports = np.array(ways[flow])
            of = Candidate(np.array([flow]), ports, ports[:1], ports[1:], np.zeros((1, h.N_COLUMN), np.int64))
            waves.replayed.append(WaveReplay(of, entry, 0))
            waves._holders.hold(of.held)
        found = waves.disturbed(interrupts)
        assert {int(replay.pairs[0]): at_ps for replay, at_ps in found} == expected
        assert [int(replay.pairs[0]) for replay in waves.replayed] == sorted({0, 1, 2, 3} - expected.keys())


CONFIG = """\
[topology]
kind = "roft"
gpus = 16
gpus_per_server = 4
[network]
congestion_control = "{control}"
[workload]
kind = "training"
microbatch = 1
[workload.model]
layers = {layers}
hidden = 1024
vocabulary = 8192
sequence = 1024
experts = 8
top_k = 2
[workload.parallel]
tp = 4
dp = 4
pp = 1
ep = 8
"""


def run(folder: Path, control: str, *sets: str, layers: int = 8) -> tuple[dict, dict[str, np.ndarray]]:
    """(result.json, columns of the flows)."""
    (folder / "config.toml").write_text(CONFIG.format(control=control, layers=layers))
    out = folder / f"{control}-{len(sets)}"
    pdes.simulate(load_config(folder / "config.toml", [*sets, f'output.dir="{out}"']))
    table = pq.read_table(out / "flows.parquet")
    return json.loads((out / "result.json").read_text()), {n: table[n].to_numpy() for n in table.column_names}


WAVES = 'wormhole.paper.forecasts=["periodic", "replay", "similar"]'
REPLAYED = 'wormhole.paper.forecasts=["replay", "similar"]'


@pytest.mark.parametrize(("control", "most"), [("fixed-window", 0.002), ("dctcp", 0.002), ("hpcc", 0.01)])
def test_all_to_alls_that_are_alike_are_simulated_once(tmp_path: Path, control: str, most: float) -> None:
    """Everything is sent and comes across; flows take as long as in the full run, up to what waves differ by."""
    full, plain = run(tmp_path, control, "wormhole.mode=off")
    sets = ("wormhole.mode=auto", "wormhole.tolerance=0.1", WAVES)
    fast, forwarded = run(tmp_path, control, *sets)
    facts = fast["fast_forward"]["waves"]
    assert facts["replayed"] > 50 and facts["waves"] < 12 and fast["packet_hops"] < full["packet_hops"] / 6
    assert fast["fast_forward"]["skipped_packet_hops"]["wave"] > full["packet_hops"] / 3
    assert fast["fast_forward"]["skipped_share_of_flow_time"] < 1
    counted = fast["packet_hops"] + fast["skipped_packet_hops"]
    assert counted == pytest.approx(full["packet_hops"], rel=1e-4)  # followers: of acknowledged packets alone
    for name in ("flow_id", "src", "dst", "size_bytes"):
        assert (plain[name] == forwarded[name]).all()
    assert (forwarded["fct_ps"] >= forwarded["ideal_fct_ps"]).all()
    assert np.abs(forwarded["fct_ps"] / plain["fct_ps"] - 1).mean() < most
    assert abs(fast["iteration_time_ps"][0] / full["iteration_time_ps"][0] - 1) < most
    parts = facts.pop("p99_fct_error"), facts.pop("mean_fct_error")
    assert parts == (None, None)


def test_ports_have_sent_what_flows_have(tmp_path: Path) -> None:
    """R8 for what is not simulated, to the byte: packets that were under way when a wave was found count once."""
    sets = ("wormhole.mode=auto", "wormhole.tolerance=0.1", WAVES)
    run(tmp_path, "fixed-window", "wormhole.mode=off")
    run(tmp_path, "fixed-window", *sets)
    sent = [pq.read_table(tmp_path / f"fixed-window-{n}" / "ports.parquet")["tx_bytes"].to_numpy() for n in (1, 3)]
    assert (sent[0] == sent[1]).all()


def test_audited_waves_are_simulated_and_compared(tmp_path: Path) -> None:
    sets = ("wormhole.mode=auto", "wormhole.tolerance=0.1", REPLAYED, "wormhole.audit=0.5")
    fast, _ = run(tmp_path, "hpcc", *sets)
    facts = fast["fast_forward"]["waves"]
    assert 10 < facts["audited"] < facts["replayed"] + facts["audited"]
    assert 0 < facts["mean_fct_error"] < 0.03 and facts["p99_fct_error"] >= facts["mean_fct_error"]


def test_a_wave_that_somebody_comes_to_goes_on_by_itself(tmp_path: Path) -> None:
    """Pipeline stages send into all-to-alls: every flow ends, no sooner than on an idle network."""
    text = CONFIG.format(control="hpcc", layers=8).replace("gpus = 16", "gpus = 32").replace("pp = 1", "pp = 2")
    (tmp_path / "config.toml").write_text(text)
    results = {}
    on = ["wormhole.mode=auto", "wormhole.tolerance=0.3", WAVES]
    for mode, keys in {"off": ["wormhole.mode=off"], "auto": on}.items():
        sets = [*keys, "workload.start_jitter=20us"]
        pdes.simulate(load_config(tmp_path / "config.toml", [*sets, f'output.dir="{tmp_path / mode}"']))
        table = pq.read_table(tmp_path / mode / "flows.parquet")
        results[mode] = json.loads((tmp_path / mode / "result.json").read_text()), table
    facts = results["auto"][0]["fast_forward"]["waves"]
    assert facts["interrupted"] > 0 and facts["replayed"] > 20
    full, fast = results["off"][1], results["auto"][1]
    assert full["flow_id"] == fast["flow_id"] and full["size_bytes"] == fast["size_bytes"]
    assert (fast["fct_ps"].to_numpy() >= fast["ideal_fct_ps"].to_numpy()).all()
    ratio = fast["fct_ps"].to_numpy().mean() / full["fct_ps"].to_numpy().mean()
    assert abs(ratio - 1) < 0.03


def test_what_stands_on_the_ways_of_a_disturbed_wave_thaws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its flows go on packet by packet, also through ports that it shared with others, which may have been frozen."""
    disturb, end = Waves.disturbed, Controller.ends
    disturbed: list[tuple[WaveReplay, int]] = []
    n_flow = 0

    def note_disturbed(self: Waves, interrupts: dict[int, int]) -> list[tuple[WaveReplay, int]]:
        found = disturb(self, interrupts)
        disturbed.extend(found)
        return found

    def check_ends(self: Controller, now_ps: int, interrupts: dict[int, int]) -> Any:
        nonlocal n_flow
        for replay, at_ps in disturbed:
            assert all(interrupts[pair] <= at_ps for pair in replay.pairs.tolist())
            n_flow += len(replay.pairs)
        disturbed.clear()
        return end(self, now_ps, interrupts)

    monkeypatch.setattr(Waves, "disturbed", note_disturbed)
    monkeypatch.setattr(Controller, "ends", check_ends)
    text = CONFIG.format(control="hpcc", layers=8).replace("gpus = 16", "gpus = 32").replace("pp = 1", "pp = 2")
    (tmp_path / "config.toml").write_text(text)
    sets = ["wormhole.mode=auto", "wormhole.tolerance=0.3", WAVES, "workload.start_jitter=20us"]
    pdes.simulate(load_config(tmp_path / "config.toml", [*sets, f'output.dir="{tmp_path / "out"}"']))
    assert n_flow > 0 and not disturbed
