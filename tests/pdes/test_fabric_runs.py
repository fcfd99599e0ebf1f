"""Claims about runs: what PFC does to a ring, what NVLink and shared NICs leave to a message."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import pdes
from pdes.errors import SimError

RING = """
[topology]
kind = "torus"
dims = [5]
[network]
congestion_control = "none"
window = "1MB"
{network}
[workload]
kind = "flows"
file = "flows.csv"
"""
PFC = '[network.buffer]\nsize = "400kB"\nalpha = 0.125\n[network.pfc]\nenabled = true\ndeadlock_check = "200us"'


def write(folder: Path, text: str, flows: list[tuple[int, int, int]]) -> Path:
    lines = ["src,dst,size_bytes,start_ps", *(f"{a},{b},{n},0" for a, b, n in flows)]
    (folder / "flows.csv").write_text("\n".join(lines) + "\n")
    (folder / "config.toml").write_text(text)
    return folder / "config.toml"


@pytest.mark.parametrize("network", ["", PFC])
def test_pfc_deadlocks_a_ring_and_the_run_says_so(network: str, tmp_path: Path) -> None:
    """Five routers, each host sends to the second next, the shorter way round: all the same way. As the docs say."""
    config = write(tmp_path, RING.format(network=network), [(i, (i + 2) % 5, 2_000_000) for i in range(5)])
    if network:
        with pytest.raises(SimError, match="the run cannot go on"):
            pdes.simulate(config, tmp_path / "out")
    else:
        pdes.simulate(config, tmp_path / "out")
        assert pq.read_table(tmp_path / "out/flows.parquet")["finish_ps"].null_count == 0


SERVERS = """
[topology]
kind = "leaf-spine"
leaves = 2
spines = 2
hosts_per_leaf = 4
gpus_per_server = 4
nvlink = "{nvlink}"
[workload]
kind = "flows"
file = "flows.csv"
"""


def fct_ps(folder: Path, text: str, *flows: tuple[int, int, int]) -> list[int]:
    folder.mkdir()
    pdes.simulate(write(folder, text, list(flows)), folder / "out")
    table = pq.read_table(folder / "out/flows.parquet")
    assert table["fct_ps"].to_pylist() >= table["ideal_fct_ps"].to_pylist()
    return table["fct_ps"].to_pylist()


def test_a_message_in_a_server_goes_at_nvlinks_rate_below_a_common_leaf(tmp_path: Path) -> None:
    """1,000 packets of 1,048 B over two links, and the last one's ACK of 60 B back: all at 3.6 Tbps and 25 ns."""
    full_ps, ack_ps = -(-1048 * 8000 // 3600), -(-60 * 8000 // 3600)
    (found,) = fct_ps(tmp_path / "packets", SERVERS.format(nvlink="packets"), (0, 3, 1_000_000))
    assert found == 1001 * full_ps + 2 * ack_ps + 4 * 25_000
    (found,) = fct_ps(tmp_path / "none", SERVERS.format(nvlink="none"), (0, 3, 1_000_000))
    assert found == 1001 * 83_840 + 2 * 4_800 + 4 * 10**6


def test_gpus_that_share_a_nic_share_its_line(tmp_path: Path) -> None:
    """Two messages of 1 MB through one NIC take twice as long as one; both servers are below one leaf."""
    shared = SERVERS.format(nvlink="none").replace("gpus_per_server = 4", "gpus_per_server = 4\nnics_per_server = 2")
    alone = fct_ps(tmp_path / "alone", shared, (0, 4, 1_000_000))
    both = fct_ps(tmp_path / "both", shared, (0, 4, 1_000_000), (1, 6, 1_000_000))
    apart = fct_ps(tmp_path / "apart", shared, (0, 4, 1_000_000), (2, 6, 1_000_000))
    sent_ps = 1000 * 83_840
    assert sent_ps < alone[0] < sent_ps * 1.2
    assert sent_ps * 1.95 < max(both) < sent_ps * 2.2
    assert max(apart) < sent_ps * 1.2
