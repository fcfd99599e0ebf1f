"""A run whose packets are all lost ends with who sends what to whom, and no run that could go on does."""

import json
import re
from pathlib import Path

import pytest

from models.network.watch.stall import LEAST_INTERVAL_PS
from pdes import simulation
from pdes.config import load_config
from pdes.errors import SimError

CONFIG = """\
[topology]
kind = "leaf-spine"
leaves = 2
spines = 1
hosts_per_leaf = 2
[workload]
kind = "flows"
file = "flows.csv"
"""
DOWN = '[[network.link_event]]\ntime = "{time}"\nlink = ["leaf0", "spine0"]\nstate = "{state}"\n'
FLOWS = "src,dst,size_bytes,start_ps\n0,2,100000,0\n1,0,5000,0\n2,1,40000,1000000\n"


def simulate(folder: Path, text: str, *sets: str, flows: str = FLOWS) -> dict:
    (folder / "flows.csv").write_text(flows)
    (folder / "config.toml").write_text(CONFIG + text)
    simulation.simulate(load_config(folder / "config.toml", [f'output.dir="{folder}/out"', *sets]))
    return json.loads((folder / "out" / "result.json").read_text())


def test_a_link_that_stays_down_is_said_with_who_cannot_get_through(tmp_path: Path) -> None:
    with pytest.raises(SimError, match="every packet is lost") as error:
        simulate(tmp_path, DOWN.format(time="5us", state="down"))
    text = str(error.value)
    assert "2 flows are unfinished" in text  # host 1's stays below its leaf
    assert re.search(r"host0 sends [\d,]+ bytes to host2 again and again: \d+ timeouts in a row", text)
    assert "host2 sends 40,000 bytes to host1" in text and "host1 sends" not in text
    assert not (tmp_path / "out" / "result.json").exists()


def test_a_link_that_comes_back_late_is_waited_for(tmp_path: Path) -> None:
    """Ten times as long down as what would count as stalled."""
    up_s = 10 * LEAST_INTERVAL_PS // 10**12
    events = DOWN.format(time="5us", state="down") + DOWN.format(time=f"{up_s}s", state="up")
    found = simulate(tmp_path, events)
    assert found["flows_finished"] == 3 and found["simulated_time_ps"] > up_s * 10**12


def test_a_flow_that_starts_late_is_waited_for(tmp_path: Path) -> None:
    """Until it starts others are stuck, and afterwards the run is said to be."""
    late = FLOWS + f"3,2,1000,{20 * 10**12}\n"
    with pytest.raises(SimError, match="every packet is lost") as error:
        simulate(tmp_path, DOWN.format(time="5us", state="down"), flows=late)
    since_s = float(re.search(r"since ([\d.]+) s", str(error.value)).group(1))  # pyright: ignore
    assert since_s >= 20 and "2 flows are unfinished" in str(error.value)


def test_a_run_with_a_stop_time_ends_there(tmp_path: Path) -> None:
    found = simulate(tmp_path, DOWN.format(time="5us", state="down"), 'simulation.stop_time="4s"')
    assert found["flows_finished"] == 1 and found["simulated_time_ps"] > 3 * 10**12


def test_a_link_that_loses_nearly_all_gets_through(tmp_path: Path) -> None:
    found = simulate(tmp_path, "[network.loss]\nprobability = 0.6\n", 'network.transport.max_timeout="2ms"')
    assert found["flows_finished"] == 3 and found["network"]["drops"]["loss"] > 100
