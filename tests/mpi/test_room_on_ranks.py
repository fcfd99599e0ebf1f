"""PFC and shared buffers beside what is skipped: the same bytes on any number of ranks."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

FILES = ("result.json", "flows.parquet", "ports.parquet")
CONFIG = """\
[topology]
kind = "leaf-spine"
leaves = 2
spines = 1
hosts_per_leaf = 7
host_delay = "{host_delay}"
spine_delay = "1us"
spine_rate = "400Gbps"
[network]
congestion_control = "fixed-window"
[network.buffer]
size = "850kB"
alpha = 1.0
[workload]
kind = "flows"
file = "flows.csv"
queue_pairs = "per-pair"
[partition]
delay_threshold = "1us"
[wormhole]
mode = "exact"
paper.forecasts = ["periodic"]
"""
# Two flows over the spine into one host, and one on its own; a burst into another host of that leaf, from both leaves.
FLOWS = [(0, 7, 8_000_000, 0), (1, 7, 8_000_000, 0), (2, 8, 8_000_000, 0)]
FLOWS += [(src, 13, 300_000, 600_000_000 + src) for src in (3, 4, 5, 6, 9, 10, 11, 12)]


@pytest.mark.parametrize("host_delay", ["1us", "800ns"], ids=["switches apart", "switches with their hosts"])
def test_every_rank_decides_the_same(
    host_delay: str, tmp_path: Path, simulate: Callable, rank_counts: Callable
) -> None:
    lines = ["src,dst,size_bytes,start_ps", *(",".join(map(str, row)) for row in FLOWS)]
    (tmp_path / "flows.csv").write_text("\n".join(lines) + "\n")
    config = tmp_path / "config.toml"
    config.write_text(CONFIG.format(host_delay=host_delay))
    simulate(1, config, tmp_path / "1")
    result = json.loads((tmp_path / "1" / "result.json").read_text())
    facts = result["fast_forward"]
    assert facts["thaws_interrupted"] > 0 and facts["skipped_share"] > 0.2
    assert result["network"]["pause_frames"] > 0 == result["network"]["drops"]["buffer"]
    for n_rank, placement in rank_counts((2, "metis"), (2, "round-robin"), (3, "round-robin")):
        out = tmp_path / f"{n_rank}-{placement}"
        simulate(n_rank, config, out, f"partition.placement={placement}")
        run = json.loads((out / "run.json").read_text())
        assert run["ranks"] == n_rank and set(run["rank_of_lp"]) == set(range(n_rank))
        assert [name for name in FILES if (tmp_path / "1" / name).read_bytes() != (out / name).read_bytes()] == []
