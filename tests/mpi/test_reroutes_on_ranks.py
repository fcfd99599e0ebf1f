"""A link that fails while something is skipped: ways are found anew alike on every rank."""

from collections.abc import Callable
from pathlib import Path

FLOWS = [(host, host + 4, 60_000_000, 0) for host in range(4)]
FILES = ("result.json", "flows.parquet", "ports.parquet")
CONFIG = """\
[topology]
kind = "leaf-spine"
leaves = 2
spines = 4
hosts_per_leaf = 4
host_rate = "100Gbps"
spine_rate = "100Gbps"
host_delay = "1us"
spine_delay = "1us"
[network]
congestion_control = "dctcp"
[[network.link_event]]
time = "2ms"
link = ["leaf0", "spine0"]
state = "down"
[workload]
kind = "flows"
file = "flows.csv"
[wormhole]
mode = "exact"
paper.forecasts = ["periodic"]
"""


def test_two_ranks_skip_what_one_skips(tmp_path: Path, simulate: Callable) -> None:
    lines = ["src,dst,size_bytes,start_ps", *(",".join(map(str, row)) for row in FLOWS)]
    (tmp_path / "flows.csv").write_text("\n".join(lines) + "\n")
    config = tmp_path / "reroute.toml"
    config.write_text(CONFIG)
    for n_rank in (1, 2):
        simulate(n_rank, config, tmp_path / str(n_rank))
    for name in FILES:
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()
    assert b'"freezes": 0' not in (tmp_path / "1" / "result.json").read_bytes()
