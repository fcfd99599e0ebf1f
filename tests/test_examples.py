"""Every example loads, is what its name says, and can be planned; the small ones run."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pdes.cli import main
from pdes.config import TrainingConfig, load_config
from pdes.scenario import training_job

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SMALL = ("allreduce", "fat-tree-flows", "incast", "nccl", "quickstart")
LARGE = ("hpcc-fabric", "llama3-70b-64")  # up to half a minute: planned here, and run by hand or in bench/
HUGE = ("deepseek-v3-2048", "llama3-405b-16384", "llama3-405b-65536")  # up to hours: bench/large_jobs.py, flow_scale.py
WORMHOLE_TABLE_1 = [  # layers, hidden size, experts, GPUs, (TP, EP, DP, PP)
    ("gpt-7b-64", 32, 4096, 1, 64, (8, 1, 4, 2)),
    ("gpt-13b-128", 40, 5120, 1, 128, (8, 1, 4, 4)),
    ("gpt-22b-256", 48, 6144, 1, 256, (8, 1, 8, 4)),
    ("gpt-175b-1024", 96, 12288, 1, 1024, (8, 1, 16, 8)),
    ("moe-8x7b-64", 32, 4096, 8, 64, (8, 8, 4, 2)),
    ("moe-8x13b-128", 40, 5120, 8, 128, (8, 8, 4, 4)),
    ("moe-8x22b-256", 48, 6144, 8, 256, (8, 8, 8, 4)),
    ("moe-32x22b-1024", 48, 6144, 32, 1024, (8, 8, 16, 8)),
]
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.toml"))


def test_every_example_is_known_here() -> None:
    assert sorted([*SMALL, *LARGE, *HUGE, *(row[0] for row in WORMHOLE_TABLE_1)]) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_an_example_says_how_to_run_it_and_writes_where_its_name_says(name: str) -> None:
    text = (EXAMPLES / f"{name}.toml").read_text()
    assert f"pdes-sim examples/{name}.toml" in text
    assert load_config(EXAMPLES / f"{name}.toml").output.dir == f"results/{name}"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "llama3-405b-65536")) for name in NAMES]
)
def test_an_example_can_be_planned(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["plan", str(EXAMPLES / f"{name}.toml")]) == 0
    captured = capsys.readouterr()
    words = ("topology", "workload", "logical processes", "lookahead", "expected packet-hops", "memory per rank")
    assert [word for word in (*words, "heaviest / mean") if word not in captured.out] == [] and captured.err == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "layers", "hidden", "experts", "gpus", "sizes"), WORMHOLE_TABLE_1)
def test_the_large_examples_are_the_rows_of_wormholes_table_1(
    name: str, layers: int, hidden: int, experts: int, gpus: int, sizes: tuple[int, int, int, int]
) -> None:
    config = load_config(EXAMPLES / f"{name}.toml")
    topology, workload = config.topology, config.workload
    assert isinstance(workload, TrainingConfig)
    job = training_job(workload)
    assert (job.model.n_layer, job.model.hidden, job.model.vocabulary, job.model.sequence) == (
        *(layers, hidden, 51200, 2048),
    )
    assert (job.model.n_expert, job.model.top_k) == (experts, 2)
    assert (job.tp, job.ep, job.dp, job.pp) == sizes and gpus == job.tp * job.dp * job.pp
    assert (job.microbatch, job.microbatches, job.tp_packets) == (1, job.pp, False)
    assert topology.model_dump() == {
        **{"kind": "roft", "gpus": gpus, "gpus_per_server": 8, "servers_per_rail_switch": 32},
        **{"nic_rate_bps": 10**11, "spine_rate_bps": 10**11, "nic_delay_ps": 500_000, "spine_delay_ps": 1_500_000},
        **{"oversubscription": 1.0, "nvlink": "none", "nics_per_server": 8, "server": []},
        **{
            f"{name}_{unit}": topology.model_dump()[f"{name}_{unit}"]  # unused
            for name in ("nvlink", "pcie")
            for unit in ("rate_bps", "delay_ps")
        },
    }


@pytest.mark.parametrize("name", SMALL)
def test_a_small_example_runs(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "results"
    assert main([str(EXAMPLES / f"{name}.toml"), "--out", str(out)]) == 0
    result = json.loads((out / "result.json").read_text())
    assert result["flows"] == result["flows_finished"] == pq.read_table(out / "flows.parquet").num_rows
    assert result["packet_hops"] > 100_000
    assert len(result["iteration_time_ps"]) == (2 if name == "quickstart" else 0)
    printed = capsys.readouterr().out
    assert "Busiest ports" in printed and f"{out}" in printed


def test_the_incast_example_shows_an_incast(tmp_path: Path) -> None:
    """31 MB through one 100 Gbps port take 2.6 ms with their headers, and the queue before it is the longest."""
    assert main([str(EXAMPLES / "incast.toml"), "--out", str(tmp_path), "--quiet"]) == 0
    ports = pq.read_table(tmp_path / "ports.parquet").to_pylist()
    longest = max(ports, key=lambda port: port["max_queue_bytes"])
    assert longest["peer"] == "host0" and longest["ecn_marks"] > 0
    assert longest["busy_ps"] == longest["tx_bytes"] * 80
    assert longest["tx_bytes"] == 31 * 1000 * (1000 + 48)
