"""Claims about `[wormhole]` on whole runs: what repeats is skipped, and nothing that follows is changed."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import pdes
from models.network.skip.skipped import CAUSES
from pdes.config import load_config

# Two equal rings on two rails, and a message that comes to one of them in its middle.
CONFIG = """\
[topology]
kind = "roft"
gpus = 32
[network]
congestion_control = "{control}"
[workload]
kind = "collectives"
[[workload.collective]]
name = "first"
operation = "all-reduce"
size = "12MB"
gpus = [0, 8, 16, 24]
[[workload.collective]]
name = "second"
operation = "all-reduce"
size = "12MB"
gpus = [1, 9, 17, 25]
{comer}
"""
COMER = """\
[[workload.collective]]
name = "comer"
operation = "point-to-point"
size = "100KB"
gpus = [8, 0]
start = "300.123us"
"""
TABLES = ("flows", "tasks")
MY_CC = Path(__file__).resolve().parents[2] / "examples" / "my_cc.py"
CONTROLS = ("dctcp", "dcqcn", "timely", "swift", "nscc", f"{MY_CC}:Aimd")


def run(tmp_path: Path, name: str, control: str, comer: str, *sets: str) -> dict:
    (tmp_path / "config.toml").write_text(CONFIG.format(control=control, comer=comer))
    pdes.simulate(load_config(tmp_path / "config.toml", [*sets, f'output.dir="{tmp_path / name}"']))
    return json.loads((tmp_path / name / "result.json").read_text())


@pytest.mark.parametrize("control", CONTROLS)
def test_rings_that_repeat_are_skipped_without_a_trace(tmp_path: Path, control: str) -> None:
    full = run(tmp_path, "full", control, "", "wormhole.mode=off")
    fast = run(tmp_path, "fast", control, "", "wormhole.mode=exact", 'wormhole.paper.forecasts=["periodic"]')
    assert fast["packet_hops"] + fast["skipped_packet_hops"] == full["packet_hops"]
    assert fast["packet_hops"] < full["packet_hops"] / 4
    causes = dict.fromkeys(CAUSES, 0) | {"steady": fast["skipped_packet_hops"]}
    assert fast["fast_forward"]["skipped_packet_hops"] == causes and "memo" not in fast["fast_forward"]
    for name in TABLES:
        one, other = ((tmp_path / run_name / f"{name}.parquet").read_bytes() for run_name in ("full", "fast"))
        assert one == other, name
    ports = [pq.read_table(tmp_path / run_name / "ports.parquet") for run_name in ("full", "fast")]
    for column in ("tx_bytes", "busy_ps", "drops"):
        assert ports[0][column] == ports[1][column], column


@pytest.mark.parametrize("control", CONTROLS)
def test_a_message_that_comes_finds_what_it_would_have_found(tmp_path: Path, control: str) -> None:
    full = run(tmp_path, "full", control, COMER, "wormhole.mode=off")
    fast = run(tmp_path, "fast", control, COMER, "wormhole.mode=exact", 'wormhole.paper.forecasts=["periodic"]')
    assert fast["fast_forward"]["thaws_interrupted"] > 0 and fast["packet_hops"] < full["packet_hops"]
    for name in TABLES:
        one, other = ((tmp_path / run_name / f"{name}.parquet").read_bytes() for run_name in ("full", "fast"))
        assert one == other, name


@pytest.mark.parametrize("control", ["hpcc", "dctcp"])
def test_a_ring_follows_its_like(tmp_path: Path, control: str) -> None:
    alone = run(tmp_path, "alone", control, "", "wormhole.mode=exact", 'wormhole.paper.forecasts=["periodic"]')
    together = run(tmp_path, "together", control, "", "wormhole.mode=exact")
    assert together["packet_hops"] < 0.8 * alone["packet_hops"]
    facts, causes = together["fast_forward"], together["fast_forward"]["skipped_packet_hops"]
    assert causes["follower"] > 0 and causes["steady"] > 0 and causes["memo_file"] == 0
    assert sum(causes.values()) == together["skipped_packet_hops"]
    assert facts["memo"]["followed"] > 0 and facts["memo"]["entries"] > 0 and facts["memo"]["entries_bytes"] > 0
    assert 0 < facts["steady_share_of_flow_time"] < facts["skipped_share_of_flow_time"] < 1
    flows = [pq.read_table(tmp_path / name / "flows.parquet") for name in ("alone", "together")]
    assert flows[0] == flows[1]


TRAINING = """\
[simulation]
iterations = 2
[topology]
kind = "roft"
gpus = 32
gpus_per_server = 4
[network]
congestion_control = "{control}"
[workload]
kind = "training"
microbatch = 1
[workload.model]
layers = 4
hidden = 1024
vocabulary = 8192
sequence = 512
[workload.parallel]
tp = 4
dp = 4
pp = 2
"""


@pytest.mark.parametrize("control", ["hpcc", "dctcp", "timely", "swift"])
def test_the_memo_leaves_no_trace(tmp_path: Path, control: str) -> None:
    """Pipeline and data parallelism take turns on the same ports: HPCC finds what these have sent meanwhile."""
    config, results = tmp_path / "config.toml", {}
    config.write_text(TRAINING.format(control=control))
    replay = ["wormhole.mode=exact", 'wormhole.paper.forecasts=["replay"]']
    for mode, sets in {"off": ["wormhole.mode=off"], "replay": replay}.items():
        pdes.simulate(load_config(config, [*sets, f'output.dir="{tmp_path / mode}"']))
        results[mode] = json.loads((tmp_path / mode / "result.json").read_text())
    assert results["replay"]["packet_hops"] < results["off"]["packet_hops"] / 2
    for name in ("flows", "tasks", "ports"):
        full, fast = (pq.read_table(tmp_path / mode / f"{name}.parquet") for mode in ("off", "replay"))
        differ = [column for column in full.column_names if not full[column].equals(fast[column])]
        assert set(differ) <= {"max_queue_bytes", "ecn_marks"} if name == "ports" else not differ, differ


def test_partitions_over_time_are_written_if_asked_for(tmp_path: Path) -> None:
    fast = run(tmp_path, "fast", "dctcp", "", "wormhole.mode=exact", "output.partitions=true")
    read = pq.read_table(tmp_path / "fast" / "partitions.parquet")
    table = {name: read[name].to_numpy() for name in read.column_names}
    assert len(table["time_ps"]) == fast["fast_forward"]["looks"] and (np.diff(table["time_ps"]) > 0).all()
    known = ~np.isnan(table["partitions"])
    assert np.nanmax(table["partitions"]) == 2 == fast["fast_forward"]["partitions"]  # the two rings
    assert (table["steady"] + table["replayed"])[known].max() == 2 and table["replayed"].max() == 1
    assert table["flows"].max() == 8 and (table["flows_frozen"] <= table["flows"]).all()
    assert ((table["flows_frozen"] > 0) == (table["steady"] + table["replayed"] > 0)).all()
    without = run(tmp_path, "without", "dctcp", "", "wormhole.mode=exact")
    assert without == fast and not (tmp_path / "without" / "partitions.parquet").exists()
    run(tmp_path, "fast", "dctcp", "", "wormhole.mode=off", "output.partitions=true")
    assert not (tmp_path / "fast" / "partitions.parquet").exists()


def test_what_loses_packets_at_random_is_simulated(tmp_path: Path) -> None:
    """A skip would have lost none, and so would all that follows it."""
    full, fast = (
        run(tmp_path, name, "dctcp", "", "network.loss.probability=2e-4", f"wormhole.mode={mode}")
        for name, mode in (("full", "off"), ("fast", "exact"))
    )
    assert full["network"]["drops"]["loss"] > 10
    assert fast["network"]["drops"] == full["network"]["drops"] and fast["skipped_packet_hops"] == 0
    assert fast["fast_forward"]["refused"] > 0
    for table in TABLES:
        assert pq.read_table(tmp_path / "fast" / f"{table}.parquet") == pq.read_table(
            tmp_path / "full" / f"{table}.parquet"
        )
