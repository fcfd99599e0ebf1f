"""Claims about `convert flows`: a list of flows with their ways runs at max-min rates; what is wrong in it is named."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import pdes
from pdes.cli import main
from pdes.config import FatTreeConfig, load_config
from pdes.convert.flows import Links, convert
from pdes.errors import ConfigError
from pdes.scenario import build_scenario
from reference.flow_cases import HEADER, Flow, expected_ps, poisson_case, way_of, write_case

K, N_FLOW = 4, 150
ONE_NS = 1000
LINES = ("0.000000075,0,15,501884,1,1", "0.000000624,1,4,2676603,0,1", "1.5e-6,2,3,2357940,1,0", "0.000002,4,8,1,0,0")


@pytest.fixture(scope="module")
def flows() -> list[Flow]:
    return poisson_case(K, N_FLOW, 0.8, 500_000, 3)


def simulated(folder: Path, *sets: str) -> dict[str, Any]:
    """Columns of flows.parquet, by flow."""
    config = load_config(folder / "case.toml", [*sets, f'output.dir="{folder / "out"}"'])
    pdes.simulate(config)
    table = pq.read_table(folder / "out" / "flows.parquet").sort_by("flow_id")
    return {name: table[name].to_numpy() for name in ("fct_ps", "ideal_fct_ps", "delivered_ps", "finish_ps", "src")}


def text_of(*lines: str) -> str:
    return "\n".join([HEADER, *(lines or LINES)]) + "\n"


def case_of(folder: Path, text: str) -> Path:
    (folder / "flows.csv").write_text(text)
    return folder / "flows.csv"


def test_flows_take_what_progressive_filling_gives_them(flows: list[Flow], tmp_path: Path) -> None:
    convert(write_case(tmp_path / "flows.csv", flows), tmp_path / "case.toml", Links(K))
    found, expected = simulated(tmp_path), np.array(expected_ps(flows, K))
    off_ps = np.abs(found["fct_ps"] - expected)
    assert ((off_ps <= 1e-6 * expected) | (off_ps <= ONE_NS)).all()
    assert (found["delivered_ps"] == found["finish_ps"]).all()
    slowdown = found["fct_ps"] / found["ideal_fct_ps"]
    assert 1 <= slowdown.min() < 1.001 and slowdown.max() > 2
    assert found["src"].tolist() == [flow[1] for flow in flows]


@pytest.mark.parametrize("sets", [[], ['network.header="48B"', "topology.host_rate=25Gbps"]])
def test_no_flow_is_faster_than_alone_with_packets_forwarded_and_acknowledged(
    flows: list[Flow], sets: list[str], tmp_path: Path
) -> None:
    convert(write_case(tmp_path / "flows.csv", flows), tmp_path / "case.toml", Links(K))
    found = simulated(tmp_path, "wormhole.flow.compensation=forwarding", *sets)
    slowdown = found["fct_ps"] / found["ideal_fct_ps"]
    assert 1 <= slowdown.min() < 1.05
    assert (found["delivered_ps"] < found["finish_ps"]).all()


def test_a_flow_alone_has_a_slowdown_of_one(tmp_path: Path) -> None:
    for compensation in ("none", "forwarding"):
        convert(case_of(tmp_path, text_of("0,0,15,1234567,1,1")), tmp_path / "case.toml", Links(K))
        found = simulated(tmp_path, f"wormhole.flow.compensation={compensation}", "topology.host_rate=30Gbps")
        assert 0 <= found["fct_ps"][0] - found["ideal_fct_ps"][0] <= 1


def test_a_case_is_a_config_with_its_flows_and_ways(tmp_path: Path) -> None:
    warnings = convert(case_of(tmp_path, text_of()), tmp_path / "case.toml")
    assert len(warnings) == 1 and "k = 4, the least fat-tree with host 15, agg 1 and core 1" in warnings[0]
    config = load_config(tmp_path / "case.toml")
    assert isinstance(config.topology, FatTreeConfig) and config.topology.k == 4
    assert (config.topology.link_rate_bps, config.topology.host_delay_ps) == (100 * 10**9, 10**6)
    assert (config.wormhole.mode, config.wormhole.flow.compensation, config.network.header_bytes) == ("flow", "none", 0)
    assert (tmp_path / "case.flows.csv").read_text().splitlines() == [
        "src,dst,size_bytes,start_ps", "0,15,501884,75000", "1,4,2676603,624000", "2,3,2357940,1500000",
        "4,8,1,2000000",
    ]  # fmt: skip
    scenario = build_scenario(config)
    names = scenario.topology.node_name
    for i, line in enumerate(LINES):
        ports = scenario.paths.row(2 * i)
        passed = [int(scenario.topology.port_src[port]) for port in ports] + [
            int(scenario.topology.port_dst[ports[-1]])
        ]
        start_s, *numbers = line.split(",")
        named = [node[0] for node in way_of((start_s, *map(int, numbers)), 4)]  # type: ignore[arg-type]
        assert ["".join(c for c in names[node] if c.isalpha()) for node in passed] == named
    assert [names[node] for node in passed] == ["host4", "edge2", "agg2", "core0", "agg4", "edge4", "host8"]


def test_rates_and_delays_are_options_and_a_folder_s_other_files_are_passed_over(tmp_path: Path) -> None:
    case_of(tmp_path, text_of())
    (tmp_path / "answer.csv").write_text("flow,start_s,end_s,fct_us\n0,0.1,0.2,3\n")
    argv = ["convert", "flows", str(tmp_path), "-o", str(tmp_path / "case.toml"), "--k", "8"]
    assert main([*argv, "--rate", "400Gbps", "--delay", "500ns"]) == 0
    topology = load_config(tmp_path / "case.toml").topology
    assert isinstance(topology, FatTreeConfig)
    assert (topology.k, topology.link_rate_bps, topology.link_delay_ps) == (8, 400 * 10**9, 500_000)
    assert main([*argv, "--rate", "400Gbps"]) == 0  # what it has made is no such file


def test_without_agg_and_core_hashes_choose_the_ways(tmp_path: Path) -> None:
    text = "bytes, dst,src,start_s,name\n1000,15,0,0.5,a\n\n2000,1,0,1,b\n"
    warnings = convert(case_of(tmp_path, text), tmp_path / "case.toml")
    assert "the least fat-tree with host 15; --k" in warnings[0]
    assert load_config(tmp_path / "case.toml").network.paths_file is None
    assert not (tmp_path / "case.paths.txt").exists()
    found = simulated(tmp_path)
    assert found["fct_ps"].tolist() == [6 * 10**6 + 80_000, 2 * 10**6 + 160_000]


def test_flows_between_two_hosts_go_the_first_one_s_way_and_do_not_wait_for_each_other(tmp_path: Path) -> None:
    lines = ["0,0,15,1000000,0,0", "0,0,15,1000000,1,1", "0,0,15,1000000,0,1", "0,15,0,1000000,1,1", "1,0,1,1,0,0"]
    lines += ["2,0,1,1,1,1", "3,0,2,1,1,0", "4,0,2,1,1,1"]  # below one edge, and in one pod: not another way
    warnings = convert(case_of(tmp_path, text_of(*lines)), tmp_path / "case.toml", Links(4))
    assert len(warnings) == 1 and "flows.csv: 2 flows that have another agg or core" in warnings[0]
    found = simulated(tmp_path)
    assert found["fct_ps"][:4].tolist() == [6_000_000 + 240_000_000] * 3 + [6_000_000 + 80_000_000]


@pytest.mark.parametrize(("old", "new", "found"), [
    ("start_s,src", "start_s,from", r"line 1: no column src in \"start_s,from,dst,bytes,agg,core\""),
    (",core", ",cores", r"line 1: no column core in"),
    ("dst,bytes", "src,bytes", r"line 1: no column dst in"),
    ("bytes,agg", "bytes,src,agg", r"line 1: 2 columns src in"),
    ("2676603", "-2676603", r"line 3: bytes \"-2676603\"\. Accepted: a whole number from 1 to"),
    ("2676603", "0", r"line 3: bytes \"0\""),
    ("2676603", "2.5e6", r"line 3: bytes \"2.5e6\""),
    ("2676603", "9" * 50, r"line 3: bytes \"9{50}\""),
    ("1,4,", "1,1,", r"line 3: a flow from 1 to itself\. Accepted: two different hosts"),
    ("1,4,", "one,4,", r"line 3: src \"one\"\. Accepted: a whole number from 0 to"),
    ("1,4,", "1,,", r"line 3: dst \"\""),
    ("0,15,", "0,16,", r"line 2: dst 16\. Accepted: 0 to 15, with --k 4"),
    ("1,1\n", "2,1\n", r"line 2: agg 2\. Accepted: 0 to 1, with --k 4"),
    ("0,1\n", "0,7\n", r"line 3: core 7\. Accepted: 0 to 1, with --k 4"),
    ("0,1\n", "0,-1\n", r"line 3: core \"-1\""),
    ("0,1\n", "0\n", r"line 3: 5 columns\. Accepted: 6, as in the header"),
    ("1.5e-6", "-1.5e-6", r"line 4: start_s \"-1.5e-6\"\. Accepted: 0 to 2305843 s"),
    ("1.5e-6", "soon", r"line 4: start_s \"soon\"\. Accepted: seconds, a decimal number"),
    ("1.5e-6", "nan", r"line 4: start_s \"nan\""),
    ("1.5e-6", "1.5e-13", r"line 4: start_s \"1.5e-13\"\. Accepted: whole picoseconds"),
    ("1.5e-6", "9999999", r"line 4: start_s \"9999999\"\. Accepted: 0 to 2305843 s"),
])  # fmt: skip
def test_what_is_wrong_is_named_with_its_line(old: str, new: str, found: str, tmp_path: Path) -> None:
    assert old in text_of()
    case_of(tmp_path, text_of().replace(old, new, 1))
    with pytest.raises(ConfigError, match=r"flows\.csv, " + found):
        convert(tmp_path / "flows.csv", tmp_path / "case.toml", Links(4))
    assert [path.name for path in tmp_path.iterdir()] == ["flows.csv"]


@pytest.mark.parametrize(("links", "found"), [
    (Links(5), r"--k: found 5\. Accepted: an even number from 2 to 160"),
    (Links(0), r"--k: found 0"),
    (Links(None, "100G"), r"--rate: found \"100G\""),
    (Links(None, "0bps"), r"--rate: found 0bps\. Accepted: more than zero"),
    (Links(4, "1Gbps", "0s"), r"--delay: found 0s\. Accepted: more than zero"),
])  # fmt: skip
def test_an_option_that_is_none_is_named(links: Links, found: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=found):
        convert(case_of(tmp_path, text_of()), tmp_path / "case.toml", links)


def test_what_is_no_case_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no file .*none\.csv"):
        convert(tmp_path / "none.csv", tmp_path / "case.toml")
    with pytest.raises(ConfigError, match="no file has the columns"):
        convert(tmp_path, tmp_path / "case.toml")
    with pytest.raises(ConfigError, match=r"flows\.csv, end of file: no flow\. Accepted: at least one flow"):
        convert(case_of(tmp_path, HEADER + "\n"), tmp_path / "case.toml")
    with pytest.raises(ConfigError, match=r"flows\.csv, line 1: no column start_s"):
        convert(case_of(tmp_path, ""), tmp_path / "case.toml")
    case_of(tmp_path, text_of()).rename(tmp_path / "case.flows.csv")
    with pytest.raises(ConfigError, match=r"case\.flows\.csv: is the input, and would be written over"):
        convert(tmp_path, tmp_path / "case.toml")
    case_of(tmp_path, text_of())
    with pytest.raises(ConfigError, match=r"2 files have the columns: case\.flows\.csv, flows\.csv"):
        convert(tmp_path, tmp_path / "case.toml")


def test_a_file_with_any_fault_is_converted_or_refused_with_its_place(tmp_path: Path, share: Any) -> None:
    rng = random.Random(1)
    for _ in range(share(1000)):
        text = text_of()
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice(["", *"0123456789,.-e \n\0é"]) + text[at + rng.randrange(2) :]
        try:
            convert(case_of(tmp_path, text), tmp_path / "case.toml")
        except ConfigError as error:
            assert "flows.csv, " in error.where, text
        else:
            load_config(tmp_path / "case.toml")
