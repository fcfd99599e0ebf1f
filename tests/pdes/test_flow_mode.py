"""Claims about runs in flow mode: times are those of closed forms and of packets, no byte is lost, ways are obeyed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdes
from pdes.config.values import make_config
from pdes.errors import ConfigError
from reference.flow_runs import LEAF_SPINE, MS, Ran, config, run

PS_PER_BYTE = 80  # at 100 Gbps
FAT_TREE = {"kind": "fat-tree", "k": 4}


def up_bytes(ran: Ran, spine: int) -> int:
    """What leaf0 has sent to a spine."""
    return int(ran.ports["tx_bytes"][(ran.ports["node"] == "leaf0") & (ran.ports["peer"] == f"spine{spine}")][0])


def wire_ps(size: int) -> int:
    """Bytes of a message, with headers of 48 for each 1,000 of them, at 100 Gbps."""
    return PS_PER_BYTE * (size + 48 * -(-size // 1000))


def test_messages_alone_take_what_their_packets_take_to_the_picosecond(tmp_path: Path) -> None:
    sizes = [1, 999, 1000, 1001, 1960, 10**6, 12345678]
    flows = [(0, dst, size, 0) for dst in (1, 2, 8) for size in sizes]
    flows = [(src, dst, size, 2 * MS * i) for i, (src, dst, size, _) in enumerate(flows)]
    flow, packets = run(tmp_path, flows, FAT_TREE), run(tmp_path, flows, FAT_TREE, "off")
    for column in ("delivered_ps", "finish_ps", "fct_ps", "ideal_fct_ps", "hops"):
        assert np.array_equal(flow.flows[column], packets.flows[column]), column
    assert flow.result["packet_hops"] == 0
    assert flow.result["skipped_packet_hops"] == packets.result["packet_hops"]
    for column in ("tx_bytes", "busy_ps"):  # R8, to the byte
        assert np.array_equal(flow.ports[column], packets.ports[column]), column


def test_rates_of_two_speeds_forward_at_their_own(tmp_path: Path) -> None:
    topology = LEAF_SPINE | {"host_rate": "100Gbps", "spine_rate": "400Gbps"}
    flows = [(0, 4, size, MS * i) for i, size in enumerate((1, 1000, 54321))]
    flow, packets = run(tmp_path, flows, topology), run(tmp_path, flows, topology, "off")
    assert np.array_equal(flow.flows["fct_ps"], packets.flows["fct_ps"])


def test_messages_that_share_a_port_end_as_max_min_shares_say(tmp_path: Path) -> None:
    """Of 1, 2 and 3 MB into one host the first ends when 3 MB have come, the next 2 MB later, then 1 MB."""
    sizes = [10**6, 2 * 10**6, 3 * 10**6]
    topology = {"kind": "leaf-spine", "leaves": 1, "spines": 1, "hosts_per_leaf": 4}
    alone = run(tmp_path, [(1, 0, 1, 0)], topology).flows["delivered_ps"][0] - wire_ps(1)
    found = run(tmp_path, [(1 + i, 0, size, 0) for i, size in enumerate(sizes)], topology).flows
    base_ps = alone + PS_PER_BYTE * (1048 - 49)  # another packet's forwarding
    ends = np.cumsum([3 * wire_ps(10**6), 2 * wire_ps(10**6), wire_ps(10**6)])
    assert np.abs(found["delivered_ps"] - base_ps - ends).max() <= 3


def test_acknowledgements_take_their_part_of_the_ports_that_they_come_back_by(tmp_path: Path) -> None:
    """Two hosts that send to each other: of each port data have what acknowledgements of the same rate leave."""
    size = 10**7
    found = run(tmp_path, [(0, 1, size, 0), (1, 0, size, 0)], LEAF_SPINE).flows
    alone = run(tmp_path, [(0, 1, size, 0)], LEAF_SPINE).flows
    more_ps = found["delivered_ps"] - alone["delivered_ps"][0]
    assert np.allclose(more_ps, wire_ps(size) * 60 / 1048, rtol=0.02)  # within what is reserved in steps


def test_bytes_that_share_ports_are_the_packets_bytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    flows = [(int(s), int(d), int(n), int(t)) for s, d, n, t in zip(
        rng.integers(0, 16, 60), rng.integers(0, 16, 60), rng.integers(1, 200_000, 60), rng.integers(0, 10**7, 60),
        strict=True) if s != d]  # fmt: skip
    flow, packets = run(tmp_path, flows, FAT_TREE), run(tmp_path, flows, FAT_TREE, "off")
    assert np.array_equal(flow.ports["tx_bytes"], packets.ports["tx_bytes"])
    assert flow.result["skipped_packet_hops"] == packets.result["packet_hops"]
    assert (flow.flows["fct_ps"] >= flow.flows["ideal_fct_ps"]).all()


def test_steps_of_a_ring_take_what_they_take_as_packets(tmp_path: Path) -> None:
    """Of 1 MB chunks, all of which have their ways but for acknowledgements to themselves."""
    ring = {"name": "ring", "operation": "all-gather", "size": "4MB", "gpus": [0, 1, 2, 3]}
    workload = {"kind": "collectives", "collective": [ring]}
    topology = {"kind": "leaf-spine", "leaves": 1, "spines": 1, "hosts_per_leaf": 4}
    ends = {}
    for mode in ("flow", "off"):
        made = config(tmp_path, [], topology, mode) | {"workload": workload}
        pdes.simulate(made)
        ends[mode] = Ran(tmp_path / mode).flows["delivered_ps"]
    assert np.abs(ends["flow"] / ends["off"] - 1).max() < 0.002


def lined_up(folder: Path, n: int, size: int, mode: str = "flow") -> dict[str, Any]:
    """A config whose host 0 posts n messages to host 1 at once, all on one queue pair."""
    made = config(folder, [], {"kind": "leaf-spine", "leaves": 1, "spines": 1, "hosts_per_leaf": 2}, mode)
    rows = (
        ["num_ranks 2"]
        + ["rank 0 {", *(f"l{i}: send {size}b to 1 tag 5" for i in range(n)), "}"]
        + ["rank 1 {", *(f"l{i}: recv {size}b from 0 tag 5" for i in range(n)), "}"]
    )
    (folder / "line.goal").write_text("\n".join([*rows, ""]))
    return made | {"workload": {"kind": "trace", "format": "goal", "file": str(folder / "line.goal")}}


def test_messages_of_a_queue_pair_that_are_posted_at_once_come_one_after_the_other(tmp_path: Path) -> None:
    ends = {}
    for mode in ("flow", "off"):
        pdes.simulate(lined_up(tmp_path, 3, 123_456, mode))
        ends[mode] = np.sort(Ran(tmp_path / mode).flows["delivered_ps"])
    assert np.array_equal(ends["flow"], ends["off"])
    assert np.diff(ends["flow"]).tolist() == [wire_ps(123_456)] * 2


def test_more_messages_than_there_is_room_for_at_first_are_all_delivered(tmp_path: Path) -> None:
    """Posted in one round, and all but one of them waiting: both kinds of room grow (1,024 at first)."""
    n = 2500
    pdes.simulate(lined_up(tmp_path, n, 1000))
    ends = np.sort(Ran(tmp_path / "flow").flows["delivered_ps"])
    assert len(ends) == n and np.diff(ends).tolist() == [wire_ps(1000)] * (n - 1)


EVENT = {"time": "300us"}


@pytest.mark.parametrize("mode", ["flow", "off"])
def test_a_link_that_gets_slower_slows_what_is_under_way(mode: str, tmp_path: Path) -> None:
    flows, size = [(0, 4, 10**7, 0)], 10**7
    before = run(tmp_path / "before", flows, LEAF_SPINE, mode)
    event = EVENT | {"link": ["leaf0", f"spine{int(up_bytes(before, 1) > size)}"], "rate": "50Gbps"}
    found = run(tmp_path / "after", flows, LEAF_SPINE, mode, network={"link_event": [event]})
    more_ps = found.flows["delivered_ps"][0] - before.flows["delivered_ps"][0]
    assert more_ps == pytest.approx(wire_ps(size) - 300 * 10**6, rel=0.02)  # half the rate: what was left, once more


def test_a_message_whose_link_goes_down_waits_for_routing_and_takes_another_way(tmp_path: Path) -> None:
    flows = [(0, 4, 10**7, 0)]
    before = run(tmp_path / "before", flows, LEAF_SPINE)
    event = EVENT | {"link": ["leaf0", f"spine{int(up_bytes(before, 1) > 10**7)}"], "state": "down"}
    network = {"link_event": [event]}
    network["routing"] = {"convergence": "100us"}
    found, packets = (run(tmp_path / mode, flows, LEAF_SPINE, mode, network=network) for mode in ("flow", "off"))
    more_ps = found.flows["delivered_ps"][0] - before.flows["delivered_ps"][0]
    assert more_ps == 100 * 10**6
    assert packets.flows["delivered_ps"][0] >= found.flows["delivered_ps"][0]
    up = [up_bytes(found, k) for k in (0, 1)]
    assert sum(up) == 10**7 + 48 * 10**4 and min(up) > 3 * 10**6  # data; what was sent of it before stays counted


def test_a_network_that_is_cut_ends_with_who_is_unfinished(tmp_path: Path) -> None:
    link = [{"time": "10us", "link": ["leaf0", f"spine{k}"], "state": "down"} for k in (0, 1)]
    with pytest.raises(pdes.SimError, match="1 flows are unfinished"):
        run(tmp_path, [(0, 4, 10**7, 0), (0, 1, 10**6, 0)], LEAF_SPINE, network={"link_event": link})


def test_a_sprayed_message_uses_all_ways_evenly(tmp_path: Path) -> None:
    flows = [(i, 4 + i, 10**7, 0) for i in range(4)]  # four hosts at 100 Gbps, two spines: each has half
    spray = {"routing": {"policy": "spray"}, "transport": {"recovery": "selective-repeat"}}
    found = run(tmp_path, flows, LEAF_SPINE, network=spray)
    assert [up_bytes(found, k) for k in (0, 1)] == [2 * (10**7 + 48 * 10**4)] * 2
    fct = found.flows["delivered_ps"]
    assert fct.max() - fct.min() <= 2 and 0 < fct[0] - 2 * wire_ps(10**7) < 5 * 10**6  # and the links' delays


def test_a_weighted_class_gives_its_flows_so_many_times_as_much(tmp_path: Path) -> None:
    made = config(tmp_path, [], LEAF_SPINE, network={"scheduler": {"kind": "weighted", "weights": {"3": 3, "1": 1}}})
    rows = ["src,dst,size_bytes,start_ps,priority", "1,0,3000000,0,3", "2,0,1000000,0,1"]
    (tmp_path / "flows.csv").write_text("\n".join([*rows, ""]))
    pdes.simulate(made)
    ends = Ran(tmp_path / "flow").flows["delivered_ps"]
    assert abs(ends[0] - ends[1]) <= 3 * PS_PER_BYTE * 48  # both end together


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"network": {"routing": {"policy": "flowlet"}}}, r'policy: is "flowlet", which \[wormhole\] mode = "flow"'),
        ({"network": {"loss": {"probability": 0.01}}}, "makes links lose packets"),
        ({"output": {"rtt_of_flow": 0}}, r"rtt_of_flow: is there, which"),
    ],
)
def test_what_flow_mode_cannot_do_is_refused(more: dict, message: str, tmp_path: Path) -> None:
    made = config(tmp_path, [(0, 1, 1, 0)], LEAF_SPINE) | more
    with pytest.raises(ConfigError, match=message):
        pdes.simulate(make_config(made))
