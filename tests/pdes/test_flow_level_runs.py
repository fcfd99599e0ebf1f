"""Claims about runs with messages at flow level: no byte is lost or counted twice, and times are what they were."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import pdes
from models.network.build.arrays import NetworkState
from models.network.skip.fluid_states import FluidStates
from models.network.skip.fluid_ticks import IS_AUDITED, N_UNPLACED, Ticks, tick_in_rounds
from models.network.skip.progress import Samples
from models.network.state.records import N_FREE_PACKET, N_UNSEEN, Fabric, Nic
from models.network.state.switch_state import Buffers
from mpi.test_fluid_on_ranks import (
    PFC,
    all_to_all,
    all_to_alls,
    at_flow_level,
    behind_buffers,
    over_stages,
    pairs,
    rings,
)
from pdes.config import load_config
from pdes.engine.jit import loop_kernel

TOLERANCE = 0.02  # of the configuration: parts of shares are taken for known that differ by so much
ROUND_PS, COMER_BYTES, ROUND_TRIP_PS = 2600000000, 50000, 8270720


@loop_kernel
def tick_once(fabric: Fabric, buffers: Buffers, nic: Nic, samples: Samples, ticks: Ticks, now_ps: int) -> int:
    """The step, from Python."""
    return tick_in_rounds(fabric, buffers, nic, samples, ticks, now_ps)


def run(folder: Path, text: str) -> dict[str, Any]:
    """`result.json` and tables, by mode."""
    (folder / "config.toml").write_text(text)
    found: dict[str, Any] = {}
    for mode, sets in {"off": ["wormhole.mode=off"], "auto": []}.items():
        pdes.simulate(load_config(folder / "config.toml", [*sets, f'output.dir="{folder / mode}"']))
        tables = {name: pq.read_table(folder / mode / f"{name}.parquet") for name in ("flows", "ports")}
        found[mode] = {"result": json.loads((folder / mode / "result.json").read_text()), **tables}
    return found


def many(folder: Path) -> str:
    """Two exchanges of one message from each host to each other one, and two of twelve, most of which wait."""
    rows = [row for k in (2, 3) for row in all_to_all(k * ROUND_PS, 12)]
    return all_to_alls(folder, 2, 0.0, *rows)


def behind(folder: Path) -> str:
    """Three exchanges, and into the third another one of six messages at once, of which the last three wait."""
    rows = all_to_all(2 * ROUND_PS + 100000000, 6)
    return all_to_alls(folder, 3, 0.0, *rows)


def check_bytes(full: dict[str, Any], fast: dict[str, Any], starts_are_given: bool = True) -> None:
    """Nothing is lost, and nothing counted twice."""
    for column in ("tx_bytes", "busy_ps", "drops"):  # R8, to the byte
        assert fast["ports"][column] == full["ports"][column], column
    names = ("size_bytes", "retransmitted_bytes", "ideal_fct_ps", *(("start_ps",) if starts_are_given else ()))
    for column in names:
        assert fast["flows"][column] == full["flows"][column], column


@pytest.mark.parametrize("make, n_at_shares", [(at_flow_level, 20 + 20 + 120), (many, 2 * 240), (behind, 20 + 120)])
def test_no_byte_is_lost_and_times_are_right_within_what_shares_are_known_to(
    make: Any, n_at_shares: int, tmp_path: Path
) -> None:
    found = run(tmp_path, make(tmp_path))
    full, fast = found["off"], found["auto"]
    facts = fast["result"]["fast_forward"]
    assert facts["fluid"]["posted"] == n_at_shares  # each message once
    assert fast["result"]["packet_hops"] < full["result"]["packet_hops"] / 4
    assert fast["result"]["packet_hops"] + fast["result"]["skipped_packet_hops"] == full["result"]["packet_hops"]
    check_bytes(full, fast)
    start_ps, delivered_ps, finish_ps = (
        fast["flows"][column].to_numpy() for column in ("start_ps", "delivered_ps", "finish_ps")
    )
    assert (start_ps < delivered_ps).all() and (delivered_ps < finish_ps).all()
    took = [each["flows"]["fct_ps"].to_numpy() for each in (fast, full)]
    is_long = full["flows"]["size_bytes"].to_numpy() > COMER_BYTES
    error = np.abs(took[0] / took[1] - 1)[is_long]
    assert error.mean() < TOLERANCE
    assert abs(finish_ps[is_long].max() / full["flows"]["finish_ps"].to_numpy()[is_long].max() - 1) < TOLERANCE


def test_behind_a_buffer_whose_senders_pause_times_are_what_they_are_in_full(tmp_path: Path) -> None:
    """Packets that are taken out give back what they hold, else whoever shares the pool would be held up for ever."""
    found = run(tmp_path, behind_buffers(at_flow_level(tmp_path), PFC))
    full, fast = found["off"], found["auto"]
    assert min(int(pc.sum(each["ports"]["pause_frames"]).as_py()) for each in (full, fast)) > 0
    assert fast["result"]["packet_hops"] < full["result"]["packet_hops"] / 4
    assert fast["result"]["fast_forward"]["fluid"]["posted"] > 0
    for column in ("size_bytes", "retransmitted_bytes", "ideal_fct_ps", "start_ps"):
        assert fast["flows"][column] == full["flows"][column], column
    took = [each["flows"]["fct_ps"].to_numpy() for each in (fast, full)]
    is_long = full["flows"]["size_bytes"].to_numpy() > COMER_BYTES
    assert np.abs(took[0] / took[1] - 1)[is_long].mean() < TOLERANCE


def test_ticks_in_rounds_come_to_what_ticks_in_python_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where some messages are audited all ticks are Python's: told so of none, they have to come to the same. So do
    those that rounds leave to Python where packets are short."""
    (tmp_path / "config.toml").write_text(many(tmp_path))
    ticks, tables, unplaced, make_ticks, tick = [], [], [], FluidStates._make_ticks, FluidStates.tick

    def counted(self: FluidStates, state: NetworkState, now_ps: int, *others: Any) -> Any:
        ticks[-1] += now_ps >= self.next_ps or state.fabric.counters[N_UNSEEN] > 0
        return tick(self, state, now_ps, *others)

    def in_python(self: FluidStates) -> None:
        make_ticks(self)
        self.ticks.words[IS_AUDITED] = 1

    def short_of_packets(self: FluidStates, state: NetworkState, now_ps: int, samples: Samples, grow: Any) -> Any:
        counters = state.fabric.counters
        if self.fluid.level.is_used and (now_ps >= self.next_ps or counters[N_UNSEEN] > 0):
            n_free, counters[N_FREE_PACKET] = int(counters[N_FREE_PACKET]), 0
            next_ps = tick_once(state.fabric, state.buffers, state.nic, samples, self.ticks, now_ps)
            counters[N_FREE_PACKET] += n_free
            if next_ps >= 0:
                return state, {}
            unplaced.append(int(self.ticks.words[N_UNPLACED]))
        return tick(self, state, now_ps, samples, grow)

    monkeypatch.setattr(FluidStates, "tick", counted)
    for name in ("rounds", "python", "short"):
        if name == "short":
            monkeypatch.setattr(FluidStates, "tick", short_of_packets)
        ticks.append(0)
        pdes.simulate(load_config(tmp_path / "config.toml", [f'output.dir="{tmp_path / name}"']))
        tables.append({path.name: path.read_bytes() for path in sorted((tmp_path / name).glob("*.parquet"))})
        tables[-1]["result.json"] = (tmp_path / name / "result.json").read_bytes()
        monkeypatch.setattr(FluidStates, "_make_ticks", in_python)
    assert tables[0] == tables[1] == tables[2] and len(tables[0]) > 3
    assert ticks[0] < ticks[1] / 4 and sum(n > 0 for n in unplaced) > 3


def test_two_that_meet_again_and_again_take_what_they_take_in_full(tmp_path: Path) -> None:
    """From the ninth time on they go at flow level as soon as they meet, and what was posted between two ticks counts
    from its posting: 8 us later each message of 6 MB would be 0.8 % too long."""
    found = run(tmp_path, pairs(tmp_path))
    full, fast = found["off"], found["auto"]
    assert fast["result"]["fast_forward"]["fluid"]["posted"] > 8
    assert fast["result"]["packet_hops"] + fast["result"]["skipped_packet_hops"] == full["result"]["packet_hops"]
    check_bytes(full, fast)
    took = [each["flows"]["fct_ps"].to_numpy() for each in (fast, full)]
    error = np.abs(took[0] / took[1] - 1)
    size = full["flows"]["size_bytes"].to_numpy()
    assert error[size == 6_000_000].max() < 0.002 and error[size == 20_000_000].max() < 0.005
    tiny_ps = (took[0] - took[1])[size == 50_000]  # they meet one that has nothing in flight when it goes on
    assert (np.abs(tiny_ps) < ROUND_TRIP_PS / 4).all() and len(tiny_ps) == 2


@pytest.mark.parametrize("law, most_hops_frac", [("dctcp", 0.027), ("hpcc", 0.5)])
def test_short_messages_of_rings_go_at_flow_level_once_they_are_known_to_fill_their_ways(
    law: str, most_hops_frac: float, tmp_path: Path
) -> None:
    """With DCTCP all but 2.5 % of packet-hops are skipped; if messages waited for what is in flight before them, 3.0 %
    were left. HPCC leaves a twentieth of a port free, so that a short message is up to what was before it."""
    found = run(tmp_path, rings(law))
    full, fast = found["off"], found["auto"]
    check_bytes(full, fast, starts_are_given=False)
    result, rtt_ps = fast["result"], full["result"]["base_rtt_ps"]
    assert result["packet_hops"] <= most_hops_frac * full["result"]["packet_hops"]
    assert result["fast_forward"]["fluid"]["broken"] == 0
    took = [each["flows"]["fct_ps"].to_numpy() for each in (full, fast)]
    assert 2 * rtt_ps < np.median(took[0]) < 8 * rtt_ps
    assert np.abs(took[1] / took[0] - 1).mean() < 0.01  # the tolerance
    iteration_ps = [each["result"]["iteration_time_ps"][0] for each in (full, fast)]
    assert iteration_ps[1] == pytest.approx(iteration_ps[0], rel=0.001)


@pytest.mark.parametrize(("n_gpu", "pp", "hidden"), [(128, 2, 1024), (64, 1, 512)])
def test_hpccs_first_messages_are_not_the_time_of_later_ones(n_gpu: int, pp: int, hidden: int, tmp_path: Path) -> None:
    """Flows in lockstep send these at line rate: if they vouched for each other, messages were 5.5 and 6.3 % off. The
    smaller job has messages of nine round trips, whose latency no acknowledgement makes longer: 5.2 %."""
    found = run(tmp_path, f"""
[topology]
kind = "roft"
gpus = {n_gpu}
nic_rate = "200Gbps"
spine_rate = "200Gbps"
nic_delay = "500ns"
spine_delay = "1.5us"
[network]
congestion_control = "hpcc"
[workload]
kind = "training"
parallel = {{tp = 8, dp = 8, pp = {pp}}}
[workload.model]
layers = 4
hidden = {hidden}
vocabulary = 2048
sequence = 1024
[wormhole]
mode = "auto"
""")  # fmt: skip
    full, fast = found["off"], found["auto"]
    check_bytes(full, fast, starts_are_given=False)
    assert fast["result"]["packet_hops"] < 0.1 * full["result"]["packet_hops"]
    took = [each["flows"]["fct_ps"].to_numpy() for each in (full, fast)]
    assert np.abs(took[1] / took[0] - 1).mean() < 0.002
    times_ps = [each["result"]["simulated_time_ps"] for each in (full, fast)]
    assert times_ps[1] == pytest.approx(times_ps[0], rel=0.001)


@pytest.mark.parametrize("policy", ["spray", "adaptive"])
def test_sprayed_messages_take_as_long_at_flow_level_and_ports_send_as_much(policy: str, tmp_path: Path) -> None:
    found = run(tmp_path, over_stages(tmp_path, policy))
    off, auto = found["off"], found["auto"]
    assert auto["result"]["fast_forward"]["fluid"]["posted"] > 50
    assert 1.5 * auto["result"]["packet_hops"] < off["result"]["packet_hops"]
    took_ps = [np.array(each["flows"]["fct_ps"]) for each in (off, auto)]
    assert np.abs(took_ps[1] / took_ps[0] - 1).mean() < TOLERANCE
    sent = [np.array(each["ports"]["tx_bytes"]) for each in (off, auto)]
    assert sent[0].sum() == sent[1].sum() and (sent[1] > 0).all()
    assert np.abs(sent[1] / sent[0] - 1).max() < 0.05  # of a stage each port sends as much, where draws differ a little


def test_where_ways_make_no_stages_the_result_says_that_nothing_was_skipped(tmp_path: Path) -> None:
    config = over_stages(tmp_path).replace('kind = "leaf-spine"', 'kind = "torus"\ndims = [3, 3]')
    lines = [line for line in config.splitlines() if not line.startswith(("leaves", "spines", "hosts_", "spine_"))]
    found = run(tmp_path, "\n".join(lines))
    assert "some ports in common" in found["auto"]["result"]["fast_forward"]["why_not"]
    assert found["auto"]["flows"].equals(found["off"]["flows"])
