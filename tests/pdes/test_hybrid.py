"""Claims about runs in which some messages go as packets and others at rates: each goes as it should, no byte is lost,
and both take capacity from each other."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pdes
from models.network import flow_mode
from pdes.config.values import make_config
from pdes.errors import ConfigError
from reference.flow_runs import LEAF_SPINE, MS, Flow, Ran, config

STAR = {"kind": "leaf-spine", "leaves": 1, "spines": 1, "hosts_per_leaf": 8}
ROUND_PS = 2 * 10**6  # longer than one lasts
MB = 10**6


def run(folder: Path, flows: list[Flow], topology: dict, mode: str, control: str = "dctcp", **more: Any) -> Ran:
    """mode: "off", or "hybrid" with all else that "auto" would use left out. more: queue_pairs, of the workload."""
    network, pairs = {"congestion_control": control} | more.pop("network", {}), more.pop("queue_pairs", "per-flow")
    wormhole = {"mode": "auto", "paper": {"forecasts": ["fair"]}} | more.pop("wormhole", {})
    made = config(folder, flows, topology, mode, network=network, **more)
    made["workload"]["queue_pairs"] = pairs
    if mode == "hybrid":
        made["wormhole"] = wormhole
    pdes.simulate(made)
    return Ran(Path(made["output"]["dir"]))


def both(
    folder: Path, flows: list[Flow], topology: dict, control: str = "dctcp", queue_pairs: str = "per-flow"
) -> tuple[Ran, Ran, int]:
    """(the hybrid, all packets, messages that went as packets in the hybrid); no byte differs."""
    hybrid, packets = (
        run(folder, flows, topology, mode, control, queue_pairs=queue_pairs) for mode in ("hybrid", "off")
    )
    assert np.array_equal(hybrid.ports["tx_bytes"], packets.ports["tx_bytes"])
    hops = hybrid.result["packet_hops"] + hybrid.result["skipped_packet_hops"]
    assert hops == packets.result["packet_hops"]
    return hybrid, packets, hybrid.result["fast_forward"]["flow_mode"]["as_packets"]


def test_who_has_the_way_alone_goes_at_a_rate_and_ends_where_packets_do(tmp_path: Path) -> None:
    flows = [(i, 4 + i, size, i * MS) for i, size in enumerate((1, 54_321, MB, 3 * MB))]
    hybrid, packets, n_packet = both(tmp_path, flows, LEAF_SPINE)
    assert n_packet == 0 and hybrid.result["packet_hops"] == 0
    assert np.array_equal(hybrid.flows["fct_ps"], packets.flows["fct_ps"])


def test_who_shares_the_nic_goes_at_a_rate(tmp_path: Path) -> None:
    flows = [(0, dst, MB, 0) for dst in (1, 2, 3, 4)]
    hybrid, packets, n_packet = both(tmp_path, flows, STAR)
    assert n_packet == 0
    assert np.abs(hybrid.flows["fct_ps"] / packets.flows["fct_ps"] - 1).max() < 0.005


@pytest.mark.parametrize("control", ["dctcp", "dcqcn", "hpcc", "timely"])
def test_an_incast_goes_as_packets_a_round_later(control: str, tmp_path: Path) -> None:
    flows = [(src, 0, 200_000, 0) for src in range(1, 8)]
    hybrid, packets, n_packet = both(tmp_path, flows, STAR, control)
    assert n_packet == 7 and hybrid.result["skipped_packet_hops"] == 0
    later_ps = hybrid.flows["fct_ps"] - packets.flows["fct_ps"]
    assert later_ps.min() == later_ps.max() and 0 < later_ps[0] < ROUND_PS


def test_contended_ports_go_as_flow_mode_has_them_where_that_is_near_enough(tmp_path: Path) -> None:
    """With a tolerance above the error into one port an incast with DCQCN takes in the hybrid what it takes there."""
    flows = [(src, 0, 4 * MB, 0) for src in (1, 2)]
    flow = run(tmp_path, flows, STAR, "flow", "dcqcn", flow={"efficiency": "calibrated"})
    hybrid = run(tmp_path, flows, STAR, "hybrid", "dcqcn", wormhole={"tolerance": 0.15})
    assert hybrid.result["fast_forward"]["flow_mode"]["as_packets"] == 0
    assert np.array_equal(hybrid.flows["fct_ps"], flow.flows["fct_ps"])
    whole = run(tmp_path, flows, STAR, "flow", "dcqcn")
    assert (flow.flows["fct_ps"] > 1.2 * whole.flows["fct_ps"]).all()


def test_who_meets_another_under_way_goes_on_as_packets_with_it(tmp_path: Path) -> None:
    """The first has its way to itself until it is half over. Then both have half."""
    flows = [(1, 0, 2 * MB, 0), (2, 0, MB, 84 * 10**6)]
    hybrid, packets, n_packet = both(tmp_path, flows, STAR)
    assert n_packet == 2
    assert 0 < hybrid.result["packet_hops"] < 0.85 * packets.result["packet_hops"]
    assert np.abs(hybrid.flows["fct_ps"] / packets.flows["fct_ps"] - 1).max() < 0.03


def test_packets_and_rates_take_capacity_from_each_other(tmp_path: Path) -> None:
    """Host 0 sends to 3 at a rate and to 1 as packets, as 2 sends there, too: they share its NIC."""
    flows = [(0, 1, MB, 0), (2, 1, MB, 0), (0, 3, MB, 0)]
    hybrid, packets, n_packet = both(tmp_path, flows, STAR)
    assert 0 < n_packet < 3
    assert np.abs(hybrid.flows["fct_ps"] / packets.flows["fct_ps"] - 1).max() < 0.04
    alone_ps = run(tmp_path, flows[2:], STAR, "off").flows["fct_ps"][0]
    assert hybrid.flows["fct_ps"][2] > 1.7 * alone_ps


def test_a_queue_pair_goes_at_rates_again_when_nobody_is_in_its_way(tmp_path: Path) -> None:
    """One message of it meets another's, those behind it do not."""
    flows = [(1, 0, 400_000, 0), (2, 0, 400_000, 0), *((1, 0, 400_000, k * MS) for k in (1, 2, 3))]
    hybrid, packets, n_packet = both(tmp_path, flows, STAR, queue_pairs="per-pair")
    assert 2 <= n_packet < 5
    assert np.array_equal(hybrid.flows["fct_ps"][-1:], packets.flows["fct_ps"][-1:])


PAIRS = st.sampled_from(["per-flow", "per-pair"])
MESSAGES = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 7), st.integers(1, 300_000), st.integers(0, 10**8))
    .filter(lambda flow: flow[0] != flow[1]),
    min_size=1, max_size=40,
)  # fmt: skip


@settings(max_examples=20)
@given(flows=MESSAGES, control=st.sampled_from(["dctcp", "dcqcn", "hpcc", "swift"]), queue_pairs=PAIRS)
def test_every_message_ends_and_no_byte_is_lost(
    flows: list[Flow], control: str, queue_pairs: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Also of messages that wait for others of their queue pairs, which go as packets and at rates in turn."""
    folder = tmp_path_factory.mktemp("hybrid")
    hybrid, _, _ = both(folder, flows, LEAF_SPINE, control, queue_pairs)
    assert hybrid.result["flows_finished"] == len(flows)
    assert (hybrid.flows["fct_ps"] >= hybrid.flows["ideal_fct_ps"]).all()


def test_no_message_at_a_rate_overtakes_packets_of_its_queue_pair(tmp_path: Path) -> None:
    """All-to-alls that meet rings on the spines: without the arrival of what is overtaken a stream waits for ever."""
    sizes = {"layers": 4, "hidden": 256, "vocabulary": 2048, "sequence": 256, "experts": 8}
    topology = {"nic_rate": "200Gbps", "spine_rate": "100Gbps", "nic_delay": "500ns", "spine_delay": "1.5us"}
    made = {
        "topology": {"kind": "roft", "gpus": 64} | topology, "network": {"congestion_control": "dctcp"},
        "workload": {"kind": "training", "model": sizes, "parallel": {"tp": 2, "dp": 16, "pp": 2, "ep": 8}},
        "wormhole": {"mode": "auto", "paper": {"forecasts": ["fair"]}}, "output": {"dir": str(tmp_path / "out")},
    }  # fmt: skip
    pdes.simulate(made)
    result = Ran(tmp_path / "out").result
    assert result["flows_finished"] == result["flows"]
    assert 0 < result["fast_forward"]["flow_mode"]["as_packets"] < result["flows"]


def test_where_rates_cannot_be_beside_packets_all_goes_as_packets(tmp_path: Path) -> None:
    spray = {"routing": {"policy": "spray"}, "transport": {"recovery": "selective-repeat"}}
    result = run(tmp_path, [(0, 1, MB, 0)], LEAF_SPINE, "hybrid", network=spray).result
    assert "flow_mode" not in result["fast_forward"] and result["skipped_packet_hops"] == 0


def test_a_calibration_of_ones_own_decides_what_goes_as_packets(tmp_path: Path) -> None:
    """In an incast whose errors are said to be small nothing does."""
    shipped = Path(flow_mode.__file__).with_name("calibrated.toml").read_text()
    (tmp_path / "own.toml").write_text(re.sub(r"port_error = \S+", "port_error = 0.001", shipped))
    flows = [(src, 0, 200_000, 0) for src in range(1, 8)]
    n_packet = {}
    for flow in ({}, {"calibration": str(tmp_path / "own.toml")}):
        made = config(tmp_path, flows, STAR, "hybrid", network={"congestion_control": "dctcp"})
        made["wormhole"] = {"mode": "auto", "paper": {"forecasts": ["fair"]}} | ({"flow": flow} if flow else {})
        pdes.simulate(made)
        result = Ran(Path(made["output"]["dir"])).result
        n_packet[bool(flow)] = result["fast_forward"]["flow_mode"]["as_packets"]
    assert n_packet == {False: 7, True: 0}


@pytest.mark.parametrize(("forecasts", "key"), [(["fair"], "efficiency"), (["periodic"], "flow")])
def test_keys_that_nobody_would_read_are_refused(forecasts: list[str], key: str, tmp_path: Path) -> None:
    made = config(tmp_path, [(0, 1, MB, 0)], STAR, "hybrid")
    made["wormhole"] = {"mode": "auto", "paper": {"forecasts": forecasts}, "flow": {"efficiency": 0.9}}
    with pytest.raises(ConfigError, match=rf"{key}: is there, but"):
        make_config(made)
