"""Reasons for what is simulated: they add up to it, and watching changes nothing."""

import subprocess
import sys
from pathlib import Path

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
kind = "roft"
gpus = 16
[workload]
kind = "collectives"
[[workload.collective]]
name = "ring"
operation = "all-reduce"
size = "8MB"
gpus = [0, 8]
[wormhole]
mode = "{mode}"
[output]
dir = "{folder}"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "ring.toml"
    path.write_text(CONFIG.format(mode="exact", folder=tmp_path / "results"))
    return path


def test_reasons_and_the_rest_are_all_that_is_simulated(config: Path, tmp_path: Path) -> None:
    """8 MB among two: two steps of 4000 packets over two links each, with an ACK for every packet back, both ways."""
    figures = wormhole_refusals.measure(config, [], tmp_path / "watched")
    assert figures["packet_hops"] + figures["skipped_packet_hops"] == 2 * 2 * 4000 * 2 * 2
    run = Run(prepare(load_config(config), quiet=True), World())
    compile_kernels(run)
    run_to_end(run, quiet=True)
    assert figures["packet_hops"] == run.model.state.fabric.counters[PACKET_HOPS]
    run.rows.close()
    run.folder.abandon()
    hops = {reason: sum(row) for reason, row in figures["reasons"].items()}
    assert sum(hops.values()) + figures["all_else"] == figures["packet_hops"]
    assert min(*hops.values(), figures["all_else"]) >= 0
    begins, changed, ends, *_ = wormhole_refusals.REASONS
    assert hops[begins] + hops[changed] > 0 and hops[ends] > 0
    assert figures["bound"] == pytest.approx(2 * 2 * 4000 * 2 * 2 / (hops[begins] + hops[changed]))
    assert all(row[0] == row[2] == row[3] == 0 for row in figures["reasons"].values())  # two flows share ports, always


@pytest.mark.parametrize("mode", ["off", 'exact"\npaper.criterion = "paper'])
def test_what_is_not_judged_by_the_default_criterion_is_one_message(config: Path, mode: str) -> None:
    config.write_text(config.read_text().replace('mode = "exact"', f'mode = "{mode}"'))
    script = [sys.executable, wormhole_refusals.__file__, "--config", str(config)]
    done = subprocess.run(script, capture_output=True, text=True)
    assert done.returncode == 2 and "Accepted: the default criterion" in done.stderr and "Traceback" not in done.stderr
