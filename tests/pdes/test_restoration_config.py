"""Claims about `[wormhole.paper] restoration`: what it changes and needs, and that what is missing is said at once."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import pdes
from pdes.cli import main
from pdes.config import load_config
from pdes.errors import ConfigError
from pdes.skipping.papers.queue_model import QueueModelError, load_model, windows

# Two flows to one host: a queue stands at its leaf while both last.
CONFIG = """\
[topology]
kind = "fat-tree"
k = 4
[network]
congestion_control = "fixed-window"
[workload]
kind = "flows"
file = "flows.csv"
[wormhole]
mode = "exact"
paper.forecasts = ["periodic"]
"""
FLOWS = "src,dst,size_bytes,start_ps\n0,5,20000000,0\n9,5,20000000,0\n2,14,25000000,0\n12,3,3000000,300000000\n"
LEARNED = "wormhole.paper.restoration=learned"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "flows.csv").write_text(FLOWS)
    (tmp_path / "config.toml").write_text(CONFIG)
    return tmp_path / "config.toml"


def run(config: Path, name: str, *sets: str) -> tuple[dict[str, Any], np.ndarray]:
    out = config.parent / name
    pdes.simulate(load_config(config, [*sets, f'output.dir="{out}"']))
    flows = pq.read_table(out / "flows.parquet")
    assert flows["retransmitted_bytes"].to_pylist() == [0] * 4
    return json.loads((out / "result.json").read_text()), flows["fct_ps"].to_numpy()


def test_without_restoration_flows_take_longer_by_what_was_in_flight(config: Path) -> None:
    """Each thaw costs a flow what it had in flight, its window: no more, and some of it at least.

    A flow has `thaws` thaws at most, and a window is what it sends in a round trip, its own queue included.
    """
    _, full_ps = run(config, "full", "wormhole.mode=off")
    snapshot, snapshot_ps = run(config, "snapshot")
    none, none_ps = run(config, "none", "wormhole.paper.restoration=none")
    assert snapshot["config"]["wormhole"]["paper"]["restoration"] == "snapshot"
    assert none["config"]["wormhole"]["paper"]["restoration"] == "none"
    facts = none["fast_forward"]
    n_thaw = facts["thaws_planned"] + facts["thaws_interrupted"]
    assert n_thaw > 1 and facts["freezes"] > 1
    each_ps = 4 * none["base_rtt_ps"]  # two windows of a round trip each, and both round trips
    late_ps = none_ps - full_ps
    assert (late_ps >= 0).all() and late_ps.max() > none["base_rtt_ps"] / 2 and late_ps.max() <= n_thaw * each_ps
    assert np.abs(snapshot_ps - full_ps).max() < late_ps.max() / 10


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["restoration=never"], r'restoration: found "never". Accepted: "snapshot", "none" or "learned"'),
        (["restoration=learned"], r'restoration_model: is missing, and restoration is "learned"'),
        (["restoration_model=a.pt"], r'restoration_model: is there, but restoration is "snapshot"'),
    ],
)
def test_faults_name_the_key(keys: list[str], expected: str, config: Path) -> None:
    with pytest.raises(ConfigError, match=expected):
        load_config(config, [f"wormhole.paper.{key}" for key in keys])


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        (['network.buffer.size="16MB"', "network.pfc.enabled=false"], "share their buffers"),
        (["network.transport.recovery=selective-repeat"], "packets out of order"),
    ],
)
def test_a_network_that_cannot_be_emptied_stops_the_run(
    sets: list[str], expected: str, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    overrides = [f"--set={text}" for text in [*sets, "wormhole.paper.restoration=none"]]
    assert main([str(config), *overrides, f"--out={config.parent / 'out'}"]) == 2
    said = capsys.readouterr().err
    assert f"{config}:" in said and ': [wormhole.paper] restoration: found "none", but ' in said and expected in said
    assert said.rstrip().endswith('Accepted: "snapshot"')


def test_without_pytorch_one_message_says_how_to_get_it(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it was not installed
    sets = [f"--set={LEARNED}", "--set=wormhole.paper.restoration_model=a.pt", f"--out={config.parent / 'out'}"]
    assert main([str(config), *sets]) == 2
    said = capsys.readouterr().err
    assert "[wormhole.paper] restoration_model: " in said and "pip install pdes-sim[learned]" in said
    assert not (config.parent / "out").exists()
    with pytest.raises(QueueModelError, match="PyTorch is needed"):
        load_model(config)


def test_windows_are_followed_by_what_comes_within_as_many_steps() -> None:
    """A trace that counts: a target says how far ahead it lies."""
    inputs, targets = windows([np.arange(100), np.zeros(100, np.int64), np.arange(7)], 4, 1, 10**6)
    assert (np.diff(inputs, axis=1) == 1).all() and len(inputs) == 100 - 2 * 4 + 1
    ahead = targets - inputs[:, -1]
    assert ahead.min() == 1 and ahead.max() == 4
    assert len(windows([np.arange(100)], 4, 1, 10)[0]) == 10
