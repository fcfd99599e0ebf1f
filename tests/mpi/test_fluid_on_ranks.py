"""Messages at flow level end alike on any number of ranks, also those that somebody comes to."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

Counts = tuple[int, ...]  # of ranks
FILES = ("result.json", "flows.parquet", "ports.parquet", "tasks.parquet", "partitions.parquet")
CONFIG = """\
[topology]
kind = "roft"
gpus = 32
gpus_per_server = 4
servers_per_rail_switch = 4
oversubscription = 2
[network]
congestion_control = "hpcc"
[workload]
kind = "training"
microbatch = 1
microbatches = 8
start_jitter = "20us"
[workload.model]
layers = 4
hidden = 2048
vocabulary = 8192
sequence = 1024
[workload.parallel]
tp = 4
dp = 4
pp = 2
[wormhole]
mode = "auto"
tolerance = 0.05
paper.forecasts = ["periodic", "replay", "similar", "alone"]
[output]
partitions = true
"""
AUDITED = "[simulation]\nseed = 3\n" + CONFIG.replace("[wormhole]\n", "[wormhole]\naudit = 0.3\n")
SHARED = """\
[simulation]
seed = {seed}
[topology]
kind = "leaf-spine"
leaves = 2
spines = 1
hosts_per_leaf = 4
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
paper.forecasts = ["replay", "similar", "alone"]
audit = {audit}
"""
FLOWS = """\
src,dst,size_bytes,start_ps
0,4,20000000,0
1,5,30000000,0
2,6,25000000,200000000
3,7,10000000,2500000000
0,4,15000000,2600000000
6,1,20000000,2700000000
7,2,20000000,2700000000
"""

PFC = {"size": "700kB", "reserve": "4096B", "alpha": 0.03, "pfc": "true"}
LOSSY = {"size": "80kB", "reserve": "0B", "alpha": 0.5, "pfc": "false"}


def behind_buffers(config: str, values: dict[str, Any]) -> str:
    """The same job where switches have limited buffers, so that senders pause or packets are dropped."""
    tables = """[network.buffer]
size = "{size}"
reserve = "{reserve}"
alpha = {alpha}
[network.pfc]
enabled = {pfc}
[network.transport]
timeout = "200us"
""".format(**values)
    return config.replace("[workload]", tables + "[workload]")


def all_to_all(start_ps: int, n_part: int) -> list[str]:
    """Each of five hosts sends 6 MB to all others, one a little after the other, in so many messages."""
    pairs = [(i, j) for i in range(5) for j in range(5) if i != j for _ in range(n_part)]
    return [f"{i},{j},{6000000 // n_part},{start_ps + i * 3000000}" for i, j in pairs]


JOB = """\
[topology]
kind = "leaf-spine"
leaves = 2
spines = 2
hosts_per_leaf = 8
host_rate = "400Gbps"
spine_rate = "400Gbps"
host_delay = "500ns"
spine_delay = "1us"
[network]
congestion_control = "dctcp"
[workload]
kind = "training"
global_batch = 4
microbatch = 1
zero = 1
[workload.model]
layers = 1
hidden = 256
heads = 16
ffn = 1024
vocabulary = 32000
sequence = 512
[workload.parallel]
tp = 8
dp = 2
pp = 1
[workload.compute]
gpu = "h100"
[wormhole]
mode = "auto"
tolerance = 0.01
"""


def all_to_alls(folder: Path, n_round: int, audit: float, *others: str) -> str:
    """Five hosts, over two leaves, again and again, and some messages more."""
    rows = [row for k in range(n_round) for row in all_to_all(k * 2600000000, 1)]
    (folder / "flows.csv").write_text("\n".join(["src,dst,size_bytes,start_ps", *rows, *others, ""]))
    text = SHARED.format(seed=4, audit=audit).replace('spine_rate = "100Gbps"', 'spine_rate = "400Gbps"')
    return text.replace('"alone"]', '"alone", "shares"]')


def at_flow_level(folder: Path) -> str:
    """The third exchange finds its shares known. Somebody packet by packet comes to the fourth. In the fifth each host
    posts so much at once that some of it waits until it is seen to."""
    return all_to_alls(folder, 4, 0.0, "6,0,50000,8800000000", *all_to_all(4 * 2600000000, 6))


def pairs(folder: Path) -> str:
    """Two messages meet at a host, again and again, and the first of them is alone before and after: from the ninth
    time on it is known what two get. In the last one two come that are over soon: of three at a port nothing is known,
    so all go packet by packet, the first alone in the end."""
    rows = []
    for k in range(12):
        at_ps = k * 3_600_000_000
        rows += [f"0,4,20000000,{at_ps}", f"1,4,6000000,{at_ps + 300_000_000 + k * 1_000_000}"]
    at_ps = 12 * 3_600_000_000
    rows += [f"0,4,20000000,{at_ps}", *(f"{i},4,50000,{at_ps + 300_000_000 + i * 1_000_000}" for i in (1, 2))]
    (folder / "flows.csv").write_text("\n".join(["src,dst,size_bytes,start_ps", *rows, ""]))
    return SHARED.format(seed=5, audit=0.0).replace('"alone"]', '"alone", "shares"]')


def over_stages(folder: Path, policy: str = "spray") -> str:
    """Each host of a leaf sends to one of the other, again and again, in packets that go different ways; short messages
    come to some."""
    size, every_ps = 4_000_000, 500_000_000
    rows = [f"{i},{(i + 4) % 8},{size},{k * every_ps}" for k in range(14) for i in range(8)]
    rows += [f"{k % 8},{(k + 3) % 8},30000,{k * every_ps + 200_000_000}" for k in range(11, 13)]
    (folder / "flows.csv").write_text("\n".join(["src,dst,size_bytes,start_ps", *rows, ""]))
    config = SHARED.format(seed=6, audit=0.0).replace("spines = 1", "spines = 4")
    routing = f'[network.transport]\nrecovery = "selective-repeat"\n[network.routing]\npolicy = "{policy}"\n'
    return config.replace("[workload]", routing + "[workload]")


def rings(law: str) -> str:
    """An iteration whose gradients and parameters go in rings of 64, in messages of two to six round trips."""
    return f"""
[topology]
kind = "roft"
gpus = 64
gpus_per_server = 8
servers_per_rail_switch = 4
nic_rate = "400Gbps"
spine_rate = "400Gbps"
[network]
congestion_control = "{law}"
payload = "4096B"
[workload]
kind = "training"
global_batch = 128
microbatch = 1
zero = 1
overlap_gradients = true
overlap_parameters = true
cross_rail_rings = false
[workload.model]
layers = 8
hidden = 1536
heads = 16
ffn = 6144
vocabulary = 32000
sequence = 2048
[workload.parallel]
tp = 1
pp = 1
dp = 64
[workload.compute]
gpu = "h100"
[wormhole]
mode = "auto"
"""


def same_bytes(folder: Path, config: str, simulate: Callable, counts: Counts) -> dict[str, Any]:
    """Run on so many ranks, first on one, and compare; what `result.json` says of fast-forwarding."""
    (folder / "config.toml").write_text(config)
    for n in counts:
        simulate(n, folder / "config.toml", folder / str(n))
    files = [name for name in FILES if (folder / "1" / name).exists()]
    for n in counts[1:]:
        differ = [f for f in files if (folder / "1" / f).read_bytes() != (folder / str(n) / f).read_bytes()]
        assert not differ and len(files) > 2, (n, differ)
    return json.loads((folder / "1" / "result.json").read_text())["fast_forward"]


@pytest.fixture
def counts(rank_counts: Callable) -> Counts:
    return rank_counts(1, 2, 3)


# Some runs have stretches of time that are drawn to be simulated, with what is compared, and others that are not.


def test_flows_that_share_ports_are_the_same_bytes(tmp_path: Path, simulate: Callable, counts: Counts) -> None:
    (tmp_path / "flows.csv").write_text(FLOWS)
    facts = same_bytes(tmp_path, SHARED.format(seed=1, audit=0.5), simulate, counts)
    assert facts["fluid"]["measured"] > 1 and facts["audit"]["fluid"]["flows"] > 1


def test_all_to_alls_at_known_shares_are_the_same_bytes(tmp_path: Path, simulate: Callable, counts: Counts) -> None:
    facts = same_bytes(tmp_path, all_to_alls(tmp_path, 4, 0.5), simulate, counts)
    assert facts["fluid"]["posted"] > 20 and facts["audit"]["fluid"]["audited"] > 1


def test_all_to_alls_at_flow_level_are_the_same_bytes(tmp_path: Path, simulate: Callable, counts: Counts) -> None:
    facts = same_bytes(tmp_path, at_flow_level(tmp_path), simulate, counts)
    assert facts["fluid"]["posted"] >= 20 + 20 + 120 and facts["skipped_packet_hops"]["fluid"] > 0


def test_pairs_at_flow_level_are_the_same_bytes(tmp_path: Path, simulate: Callable, counts: Counts) -> None:
    facts = same_bytes(tmp_path, pairs(tmp_path), simulate, counts)
    assert facts["fluid"]["posted"] >= 8 and facts["fluid"]["measured"] > 0


def test_rings_and_pipelines_are_the_same_bytes(tmp_path: Path, simulate: Callable, counts: Counts) -> None:
    facts = same_bytes(tmp_path, AUDITED, simulate, counts)
    fluid, audit = facts["fluid"], facts["audit"]["fluid"]
    assert fluid["posted"] > 10 and fluid["measured"] > 5 and fluid["broken"] > 0
    assert facts["skipped_packet_hops"]["fluid"] > facts["skipped_packet_hops"]["steady"]
    assert 10 < audit["flows"] <= audit["audited"] - audit["void"] and audit["mean_fct_error"] < 0.05


def test_short_messages_of_rings_are_the_same_bytes(tmp_path: Path, simulate: Callable, counts: Counts) -> None:
    """While their times are looked for, rounds are looked at one by one."""
    facts = same_bytes(tmp_path, rings("dctcp"), simulate, counts)
    assert facts["fluid"]["posted"] > 4000 and facts["fluid"]["broken"] == 0


def test_a_job_that_shares_ports_is_the_same_bytes(tmp_path: Path, simulate: Callable, counts: Counts) -> None:
    """Compiled rounds on one rank judged what flow level was about to take; several ranks look from Python alone."""
    facts = same_bytes(tmp_path, "[simulation]\niterations = 2\n" + JOB, simulate, counts)
    assert facts["fluid"]["posted"] > 0


def test_all_to_alls_that_share_unevenly_are_the_same_bytes(
    tmp_path: Path, simulate: Callable, counts: Counts
) -> None:  # fmt: skip
    """HPCC: what messages draw is up to seed, queue pair and end, so it is the same wherever they are simulated."""
    config = all_to_alls(tmp_path, 0, 0.0).replace('"dctcp"', '"hpcc"')
    pairs = [(i, j) for i in range(8) for j in range(8) if i != j]
    rows = [f"{i},{j},524288,{k * 1_500_000_000}" for k in range(7) for i, j in pairs]
    (tmp_path / "flows.csv").write_text("\n".join(["src,dst,size_bytes,start_ps", *rows, ""]))
    facts = same_bytes(tmp_path, config, simulate, counts)
    assert facts["waves"]["waves"] == 1, "the first exchange begins at line rates, one of the others is learned from"
    assert facts["fluid"]["posted"] > 2 * len(pairs)


@pytest.mark.parametrize("is_lossless", [True, False])
def test_flow_level_behind_shared_buffers_is_the_same_bytes(
    is_lossless: bool, tmp_path: Path, simulate: Callable, rank_counts: Callable
) -> None:  # fmt: skip
    """Who is taken to flow level gives back what it holds of buffers, and lets senders go on whom another rank has;
    what switches have dropped stays sent."""
    config = behind_buffers(at_flow_level(tmp_path), PFC if is_lossless else LOSSY)
    facts = same_bytes(tmp_path, config, simulate, rank_counts(1, 2, 3))
    ports = pq.read_table(tmp_path / "1" / "ports.parquet").to_pandas()
    assert (ports.pause_frames.sum() > 0) == is_lossless and (ports.drops_buffer.sum() > 0) != is_lossless
    assert facts["fluid"]["measured"] > 0 and facts["fluid"]["posted"] > 0


@pytest.mark.parametrize("policy", ["spray", "adaptive", "weighted"])
def test_flow_level_over_stages_is_the_same_bytes(
    policy: str, tmp_path: Path, simulate: Callable, rank_counts: Callable
) -> None:  # fmt: skip
    facts = same_bytes(tmp_path, over_stages(tmp_path, policy), simulate, rank_counts(1, 2, 3))
    assert facts["fluid"]["posted"] > 8 and facts["fluid"]["broken"] > 0 and facts["fluid"]["joined"] == 0
