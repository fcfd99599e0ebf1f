"""Delays whose sum along a path passes 64 bits are refused before anything runs, with the links.

Such sums wrapped: `plan` had a round trip of 875 h for 6,000 h, and without a window a run crashed or stood still.
"""

from pathlib import Path

import pytest

from models.topology import leaf_spine
from models.topology.delays import MAX_ROUND_TRIP_PS, check_delays
from models.topology.routing import route_pairs
from pdes.cli import main
from pdes.errors import ConfigError


def test_the_bound_is_exact() -> None:
    """A path of four links, two of hosts and two of the spine."""
    for more, is_refused in ((0, False), (1, True)):
        topology = leaf_spine(2, 1, 1, 10**11, 10**11, MAX_ROUND_TRIP_PS // 8 + more, MAX_ROUND_TRIP_PS // 8)
        paths = route_pairs(topology, topology.host[:1], topology.host[1:], topology.host[:1], topology.host[1:], 1)
        if is_refused:
            with pytest.raises(ConfigError, match=r"x: on a path of 4 links .* the longest: host0 - leaf0 \(node 0 to"):
                check_delays(topology, paths, "x")
        else:
            check_delays(topology, paths, "x")


@pytest.mark.parametrize("delay", ["3600000s", "1000000s"])
@pytest.mark.parametrize("rules", ["none", "ns3-hpcc"])
def test_a_file_with_such_delays_is_refused_by_its_name(
    delay: str, rules: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.txt").write_text(f"4 2 3\n2 3\n0 2 100Gbps {delay} 0\n2 3 100Gbps {delay} 0\n3 1 100Gbps 1us 0\n")
    (tmp_path / "f.csv").write_text("src,dst,size_bytes,start_ps\n0,1,1000,0\n")
    (tmp_path / "c.toml").write_text(
        '[topology]\nkind = "file"\nfile = "t.txt"\n[workload]\nkind = "flows"\nfile = "f.csv"\n'
        f'[network]\ncompatibility = "{rules}"\n'
    )
    assert main(["plan", str(tmp_path / "c.toml")]) == 2
    said = capsys.readouterr().err
    assert str(tmp_path / "t.txt") in said and "switch2 - switch3 (node 2 to node 3)" in said, said


def test_a_switch_s_latency_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "c.toml").write_text(
        '[topology]\nkind = "leaf-spine"\nleaves = 2\nspines = 1\nhosts_per_leaf = 1\nhost_delay = "9000000s"\n'
        '[workload]\nkind = "collectives"\n[[workload.collective]]\nname = "r"\noperation = "all-reduce"\n'
        'size = "1kB"\n'
        '[network]\nswitch_latency = "9000000s"\n'
    )
    assert main(["plan", str(tmp_path / "c.toml")]) == 2
    assert "[topology]: on a path of 4 links delays may add up to" in capsys.readouterr().err
