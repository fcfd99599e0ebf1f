"""Reasons for what is simulated although messages may go at flow level: they add up, and watching is free."""

import subprocess
import sys
from pathlib import Path

import fluid_left
import pytest
import wormhole_refusals

from models.network.state.records import PACKET_HOPS
from pdes.config import load_config
from pdes.engine.exchange import World
from pdes.simulation.compile import compile_kernels
from pdes.simulation.job import Run
from pdes.simulation.loop import run_to_end
from pdes.simulation.preparation.prepare import prepare

CONFIG = """\
[topology]
kind = "leaf-spine"
leaves = 1
spines = 1
hosts_per_leaf = 3
host_rate = "100Gbps"
spine_rate = "100Gbps"
host_delay = "1us"
spine_delay = "1us"
[network]
congestion_control = "dctcp"
[workload]
kind = "flows"
file = "flows.csv"
queue_pairs = "per-pair"
[wormhole]
mode = "auto"
tolerance = 0.02
paper.forecasts = {forecasts}
[output]
dir = "{folder}"
"""
WAVES = '["periodic", "replay", "similar"]'
LONE = '["periodic", "replay", "similar", "alone"]'
N, SIZE = 6, 5_000_000  # messages one after the other, and one that meets the last of them
GAP_PS = 600 * 10**6


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "turns.toml"
    path.write_text(CONFIG.format(forecasts=LONE, folder=tmp_path / "results"))
    flows = [(0, 1, SIZE, k * GAP_PS) for k in range(N)] + [(2, 1, SIZE, (N - 1) * GAP_PS + GAP_PS // 8)]
    lines = ["src,dst,size_bytes,start_ps", *(",".join(map(str, flow)) for flow in flows)]
    (tmp_path / "flows.csv").write_text("\n".join(lines) + "\n")
    return path


def test_reasons_and_the_rest_are_all_that_is_simulated(config: Path, tmp_path: Path) -> None:
    """Two hops for each packet and two for its acknowledgement. Of the first messages some is simulated, as nobody
    knows how long they take; the last until it meets the other, then both until it is known how fast each goes on."""
    figures = fluid_left.measure(config, [], tmp_path / "watched")
    assert figures["packet_hops"] < (N + 1) * SIZE // 1000 * 4 / 2
    run = Run(prepare(load_config(config), quiet=True), World())
    compile_kernels(run)
    run_to_end(run, quiet=True)
    assert figures["packet_hops"] == run.model.state.fabric.counters[PACKET_HOPS]
    run.rows.close()
    run.folder.abandon()
    hops = {reason: sum(row) for reason, row in figures["reasons"].items()}
    assert min(hops.values()) >= 0
    # In flight at a takeover, here one for each message: a window's packets (100 Gbps, 1000 B of payload).
    in_flight = run.scenario.base_rtt_ps * 100 // 8 // 10**6 + 1
    assert -in_flight * 4 * (N + 1) < figures["all_else"] < figures["packet_hops"] / 4
    columns = dict(zip(fluid_left.REASONS, figures["reasons"].values(), strict=True))
    alone = columns[fluid_left.REASONS[fluid_left.UNKNOWN]]
    assert alone[0] > figures["packet_hops"] / 2 and alone[1] == alone[2] == alone[3] == 0
    for reason in (fluid_left.CHANGED, fluid_left.UNEVEN):
        shared = columns[fluid_left.REASONS[reason]]
        assert shared[1] > 0 and shared[0] == shared[2] == shared[3] == 0


def test_what_has_no_flow_level_is_one_message_and_who_asks_for_partitions_is_sent_here(config: Path) -> None:
    for script, forecasts, said in (
        (fluid_left, WAVES, 'found no "alone". Accepted: mode = "auto" with the forecast "alone"'),
        (wormhole_refusals, LONE, 'found the forecast "alone". Accepted: mode = "exact"'),
    ):
        sets = ["--set", f"wormhole.paper.forecasts={forecasts}"]
        command = [sys.executable, str(script.__file__), "--config", str(config)]
        done = subprocess.run([*command, *sets], capture_output=True, text=True)
        assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr
