"""Claims about converted topologies: links, rates and delays are those of the other tool; faults name the line."""

import re
from pathlib import Path

import numpy as np
import pytest

from models.topology.ns3_file import read_ns3_topology
from pdes.cli import main
from pdes.config import load_config
from pdes.convert.astra_network import read_network
from pdes.errors import ConfigError
from reference import made_traces as made

SIMAI_TOPOLOGY = "5 2 1 2 5 H100\n2 3 4\n0 2 2880Gbps 0.000025ms 0\n1 2 2880Gbps 0.000025ms 0\n" + (
    "0 3 400Gbps 0.0005ms 0\n1 4 400Gbps 0.0005ms 0\n3 4 400Gbps 0.0005ms 0\n"
)


def network(kind: str, n: str, rate: str, delay: str) -> str:
    head = f"# a comment\ntopology: [ {kind} ]\nnpus_count: [ {n} ]  # NPUs\n"
    return head + f"bandwidth: [ {rate} ]\nlatency: [ {delay} ]\n"


def convert(tmp_path: Path, form: str, text: str, workload: str, *more: str) -> int:
    (tmp_path / "input").write_text(text)
    if workload:
        (tmp_path / "trace").write_text(workload)
    argv = ["convert", form, str(tmp_path / "input"), "-w", str(tmp_path / "trace"), "-o", str(tmp_path / "case.toml")]
    return main([*argv, *more])


@pytest.mark.parametrize(("kind", "n", "nodes", "links"), [
    ("Switch", 8, 9, 8), ("Ring", 8, 16, 16), ("Ring", 2, 4, 3), ("FullyConnected", 4, 8, 10),
])  # fmt: skip
def test_astra_s_dimensions(kind: str, n: int, nodes: int, links: int, tmp_path: Path) -> None:
    assert convert(tmp_path, "astra-sim", network(kind, str(n), "50.0", "936.25"), made.GOAL_RING, "--workload-format",
                   "goal") == 0  # fmt: skip
    topology = read_ns3_topology(tmp_path / "case.topology.txt")
    assert (topology.n_host, topology.n_node, topology.n_port) == (n, nodes, 2 * links)
    rates = np.unique(topology.port_rate_bps)
    assert 50 * 2**30 * 8 in rates  # "50 GB/s" are GiB/s
    assert set(topology.port_delay_ps.tolist()) <= {0, 936_250}


def test_two_dimensions_and_a_system_file_come_with_the_workload(tmp_path: Path) -> None:
    (tmp_path / "system.json").write_text('{"all-reduce-implementation": ["direct", "ring"]}')
    made.write_chakra(tmp_path, "trace", made.two_ranks())
    text = network("Switch, Ring", "8, 2", "400, 50", "936.25, 1000")
    assert convert(tmp_path, "astra-sim", text, "", "--system", str(tmp_path / "system.json")) == 0
    workload = load_config(tmp_path / "case.toml").workload
    assert (workload.dimensions, workload.system, workload.format) == ([8, 2], "system.json", "chakra")
    topology = read_ns3_topology(tmp_path / "case.topology.txt")
    assert (topology.n_host, topology.n_node, topology.n_port // 2) == (16, 34, 16 + 16 + 8)


@pytest.mark.parametrize(("old", "new", "found"), [
    ("[ Ring ]", "[ Torus ]", r"line 2: found 'Torus'"),
    ("npus_count", "npu_count", r"line 3: found 'npu_count"),
    ("[ 50 ]", "[ 50, 60 ]", r"lists of \[1, 2\] entries"),
    ("latency: [ 500 ]\n", "", r"no latency"),
    ("[ 500 ]", "[ soon ]", r"line 5: found 'soon'"),
    ("[ 8 ]", "[ 0 ]", r"line 3: 0 NPUs at 50 GB/s"),
])  # fmt: skip
def test_what_is_wrong_with_a_network_file_is_named(old: str, new: str, found: str, tmp_path: Path) -> None:
    text = network("Ring", "8", "50", "500")
    assert old in text
    (tmp_path / "n.yml").write_text(text.replace(old, new))
    with pytest.raises(ConfigError, match=found):
        read_network(tmp_path / "n.yml")


def test_htsim_s_tree_has_its_radices(tmp_path: Path) -> None:
    assert convert(tmp_path, "htsim", made.HTSIM_TREE, made.HTSIM_SERIAL) == 0
    topology = read_ns3_topology(tmp_path / "case.topology.txt")
    assert (topology.n_host, topology.n_node, topology.n_port // 2) == (8, 20, 8 + 8 + 16)
    degree = np.diff(topology.in_start)
    assert degree.tolist() == [1] * 8 + [4] * 4 + [2 + 4] * 4 + [4] * 4
    assert sorted(set(topology.port_rate_bps.tolist())) == [100 * 10**9, 200 * 10**9]
    assert set(topology.port_delay_ps.tolist()) == {10**6}


@pytest.mark.parametrize(("old", "new", "found"), [
    ("Radix_Down 2\nRadix_Up 4", "Radix_Down 3\nRadix_Up 4", r"tier 1: Radix_Down 3 for 2 switches x 1 links"),
    ("Radix_Down 4", "Radix_Down 3", r"tier 2: Radix_Down 3 for 2 pods x 2 links"),
    ("Tiers 3", "Tiers 4", r"3 tiers, and the head says"),
    ("Podsize 4", "Podsize 3", r"key Nodes: 8 in pods of 3\."),
    ("Radix_Down 2\nRadix_Up 2", "Radix_Down 3\nRadix_Up 2", r"tier 0: Radix_Down 3 in pods of 4\."),
    ("Bundle 1", "Bundle 65535", r"tier 1: Bundle 65535 for Radix_Up 2 of tier 0\."),
    ("Bundle 2", "Bundel 2", r"line 23: found 'Bundel 2'"),
    ("Downlink_speed_Gbps 100\n", "", r"tier 2: Downlink_speed_Gbps missing"),
])  # fmt: skip
def test_a_tree_that_does_not_fit_is_refused(
    old: str, new: str, found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert old in made.HTSIM_TREE
    assert convert(tmp_path, "htsim", made.HTSIM_TREE.replace(old, new, 1), made.HTSIM_SERIAL) == 2
    assert re.search(found, error := capsys.readouterr().err), error


def test_simai_s_topology_is_read_as_it_is(tmp_path: Path) -> None:
    assert convert(tmp_path, "simai", SIMAI_TOPOLOGY, made.SIMAI) == 0
    config = load_config(tmp_path / "case.toml")
    topology = read_ns3_topology(config.input_path(config.topology.file))
    assert (topology.n_host, topology.server.tolist()) == (2, [0, 0, 0, -1, -1])


@pytest.mark.parametrize("form", ["astra-sim", "simai", "htsim"])
def test_a_topology_needs_a_workload_and_a_file(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["convert", form, str(tmp_path / "none"), "-o", str(tmp_path / "case.toml")]
    assert main(argv) == 2 and "no --workload" in capsys.readouterr().err
    assert main([*argv, "-w", "trace"]) == 2 and str(tmp_path / "none") in capsys.readouterr().err


@pytest.mark.parametrize(("form", "text", "workload", "found"), [
    ("astra-sim", network("Switch", "2", "50", "500"), "x", r"trace, byte 0, message 1: the end inside a message"),
    ("simai", SIMAI_TOPOLOGY, "x", r"trace, line 1: found 'x'\. Accepted: one of HYBRID"),
    ("simai", "x\n", made.SIMAI, r"input, line 1: a header of 1 words"),
    ("simai", SIMAI_TOPOLOGY, made.SIMAI.replace("\n", " ep: " + "9" * 5000 + "\n", 1), r"trace, line 1: ep"),
    ("htsim", made.HTSIM_TREE, "x", r"trace, line 1: found 'x'\. Nodes, Connections"),
    ("htsim", made.HTSIM_TREE, "Connections 0\n", r"trace, line 1: the file ends with no Nodes"),
    ("htsim", made.HTSIM_TREE, f"Nodes {2**40}\nConnections 0\n", r"line 1: Nodes '1099511627776'"),
    ("htsim", made.HTSIM_TREE.replace("Podsize 4", "Podsize " + "9" * 5000), made.HTSIM_SERIAL, r"Podsize '999"),
    ("htsim", made.HTSIM_TREE.replace("Radix_Up 4", f"Radix_Up {10**9}"), made.HTSIM_SERIAL, r"tier 1: \d+ links up"),
    ("astra-sim", network("FullyConnected", "1000000", "50", "500"), made.GOAL_RING, r"\d+ links, \d+ bit/s of an NPU"),
])  # fmt: skip
def test_what_could_not_run_is_not_converted(
    form: str, text: str, workload: str, found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--workload-format", "goal"] if workload == made.GOAL_RING else []
    assert convert(tmp_path, form, text, workload, *more) == 2
    assert re.search(found, error := capsys.readouterr().err) and len(error) < 1000, error
    assert not (tmp_path / "case.toml").exists()
