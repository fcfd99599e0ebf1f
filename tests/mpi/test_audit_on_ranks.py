"""What an audit draws and finds, with flows that come and go meanwhile, is the same on any number of ranks."""

import json
from collections.abc import Callable
from pathlib import Path

FILES = ("result.json", "flows.parquet", "ports.parquet")
CONFIG = """\
[topology]
kind = "fat-tree"
k = 4
[network]
congestion_control = "fixed-window"
[workload]
kind = "flows"
file = "flows.csv"
[partition]
delay_threshold = "1us"
[wormhole]
mode = "exact"
paper.forecasts = ["periodic"]
audit = 0.5
"""
ALONE = [(src, src + 1, 14_000_000 + 500_000 * src, 0) for src in range(0, 16, 2)]
COMING = [(dst + 7, dst, 200_000, 600_000_000) for dst in (1, 3, 5, 7)]


def test_every_rank_audits_the_same(tmp_path: Path, simulate: Callable, rank_counts: Callable) -> None:
    lines = ["src,dst,size_bytes,start_ps", *(",".join(map(str, row)) for row in ALONE + COMING)]
    (tmp_path / "flows.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "config.toml").write_text(CONFIG)
    simulate(1, tmp_path / "config.toml", tmp_path / "1")
    facts = json.loads((tmp_path / "1" / "result.json").read_text())["fast_forward"]
    assert 0 < facts["audit"]["skips_cut_short"] < facts["audit"]["skips_audited"] and facts["freezes"] > 0
    for n_rank, placement in rank_counts((2, "metis"), (3, "round-robin")):
        out = tmp_path / str(n_rank)
        simulate(n_rank, tmp_path / "config.toml", out, f"partition.placement={placement}")
        run = json.loads((out / "run.json").read_text())
        assert run["ranks"] == n_rank and set(run["rank_of_lp"]) == set(range(n_rank))
        assert [name for name in FILES if (out / name).read_bytes() != (tmp_path / "1" / name).read_bytes()] == []
