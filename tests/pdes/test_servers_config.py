"""Claims about [topology] keys of servers: one table for rails and trees, servers that differ, what is refused."""

from pathlib import Path

import numpy as np
import pytest

from models.topology.graph import Topology
from models.topology.routing import route_pairs
from pdes.config import Config, config_from_dict, load_config
from pdes.config.toml_file import read_toml
from pdes.errors import ConfigError
from pdes.scenario import build_scenario
from pdes.scenario.topology import build_topology
from pdes.scenario.training import checked_job

GBPS = 10**9
RING = '[workload]\nkind = "collectives"\n[[workload.collective]]\nname = "r"\noperation = "all-reduce"\nsize = "1MB"\n'
ROFT = (
    '[topology]\nkind = "roft"\ngpus = 64\ngpus_per_server = 8\nservers_per_rail_switch = 16\nnic_rate = "400Gbps"\n'
    'spine_rate = "400Gbps"\nnic_delay = "500ns"\nspine_delay = "1.5us"\noversubscription = 2.0\nnvlink = "packets"\n'
)
MIXED = """
[topology]
kind = "leaf-spine"
leaves = 4
spines = 4
hosts_per_leaf = 8
host_rate = "400Gbps"
nvlink = "packets"
[[topology.server]]
count = 2
gpu = "h100"
[[topology.server]]
count = 2
gpu = "a100-80g"
nics = 4
nic_rate = "200Gbps"
nvlink_rate = "2.4Tbps"
"""
TRAINING = """
[workload]
kind = "training"
[workload.model]
layers = 2
hidden = 64
heads = 8
vocabulary = 256
sequence = 64
[workload.parallel]
tp = 8
dp = 4
pp = 1
[workload.compute]
gpu = "h100"
"""


def config_of(folder: Path, text: str) -> Config:
    (folder / "config.toml").write_text(text)
    return load_config(folder / "config.toml")


def topology_of(folder: Path, text: str) -> Topology:
    return build_topology(config_of(folder, text))


def hops(topology: Topology, src: int, dst: int) -> int:
    ends = [np.array([x], np.int64) for x in (src, dst, 1, 2)]
    return len(route_pairs(topology, *ends).row(0))


def test_rails_and_trees_are_one_key(tmp_path: Path) -> None:
    """Switches of 16 NICs: 4 of them, whatever hangs on which. GPU 0 reaches its rail over one switch, or its leaf."""
    rails, tree, leaf = (
        topology_of(tmp_path, ROFT.replace("roft", kind) + RING) for kind in ("roft", "fat-tree", "leaf-spine")
    )
    assert rails.n_host == tree.n_host == leaf.n_host == 64
    assert np.array_equal(rails.server[rails.host], tree.server[tree.host])
    kinds = [name.rstrip("0123456789") for name in (*tree.node_name, *leaf.node_name)]
    assert [kinds.count(kind) for kind in ("edge", "agg", "core", "leaf", "spine")] == [4, 8, 0, 4, 8]
    for topology, rail, neighbour in ((rails, 2, 4), (tree, 2, 2), (leaf, 2, 2)):
        assert hops(topology, 0, 8) == rail and hops(topology, 0, 9) == neighbour and hops(topology, 0, 1) == 2
        assert topology.nic_rate_bps.tolist() == [400 * GBPS] * 64
    assert hops(rails, 0, 16) == 2 and hops(leaf, 0, 16) == 4


def test_a_cluster_of_two_kinds_of_servers_is_one_table(tmp_path: Path) -> None:
    config = config_of(tmp_path, MIXED + TRAINING)
    topology = build_topology(config)
    assert topology.n_host == config.topology.n_host == 32
    assert topology.nic_rate_bps.tolist() == [400 * GBPS] * 16 + [100 * GBPS] * 16
    inside = topology.port_rate_bps[topology.is_inside]
    assert sorted(set(inside.tolist())) == [2400 * GBPS, 3600 * GBPS]
    job = checked_job(config, topology)
    assert [device.name for device in job.devices] == ["h100"] * 16 + ["a100-80g"] * 16
    assert job.nic_goodput_bps == 100 * GBPS * 1000 // 1048  # of the slowest GPU's part


def test_servers_that_differ_go_on_rails_too(tmp_path: Path) -> None:
    rows = MIXED[MIXED.index("[[") :]
    text = '[topology]\nkind = "roft"\ngpus = 32\nservers_per_rail_switch = 4\nnic_rate = "400Gbps"\n'
    text += 'nvlink = "packets"\n' + rows
    topology = topology_of(tmp_path, text + TRAINING)
    assert [name for name in topology.node_name if name.startswith("rail")] == [f"rail{i}" for i in range(8)]
    assert hops(topology, 0, 16) == 3  # NIC 0 of both is on rail 0; GPU 16 shares its NIC


def test_servers_in_a_file_get_nvlink(tmp_path: Path) -> None:
    links = "".join(f"{gpu} 8 100Gbps 1us 0.001\n" for gpu in range(8))
    (tmp_path / "star.txt").write_text("9 1 8\n8\n" + links)
    text = '[topology]\nkind = "file"\nfile = "star.txt"\ngpus_per_server = 4\n'
    topology = topology_of(tmp_path, text + 'nvlink = "packets"\n' + RING)
    assert topology.node_name[8:] == ("switch8", "nvswitch9", "nvswitch10")
    assert topology.server.tolist() == [0] * 4 + [1] * 4 + [-1, 0, 1]
    ends = [np.array([x], np.int64) for x in (0, 3, 1, 2)]
    assert topology.port_dst[route_pairs(topology, *ends).row(0)].tolist() == [9, 3]
    assert topology.port_loss[topology.port_dst == 9].tolist() == [0.0] * 4
    (tmp_path / "star.txt").write_text("7 2 2 1 4 H100\n4 5 6\n0 4 9Gbps 1us 0\n1 4 9Gbps 1us 0\n" * 1 +
                                       "2 5 9Gbps 1us 0\n3 5 9Gbps 1us 0\n")  # fmt: skip
    with pytest.raises(ConfigError, match="2 NVSwitches of its own"):
        topology_of(tmp_path, text + 'nvlink = "packets"\n' + RING)


DRAGONFLY = (
    '[topology]\nkind = "dragonfly"\ngroups = 3\nrouters_per_group = 3\nhosts_per_router = 1\nglobal_links = 2\n'
)
FAT_TREE = '[topology]\nkind = "fat-tree"\nk = 4\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (FAT_TREE + "gpus_per_server = 3\n" + RING, "gpus_per_server: found 3, and the switches have 16 places"),
        (FAT_TREE + "gpus_per_server = 4\nnics_per_server = 3\n" + RING, "found 3 for 4 GPUs. Accepted: a divisor"),
        (FAT_TREE + "gpus_per_server = 8\n[[topology.server]]\ncount = 1\n" + RING, "and so are [[topology.server]]"),
        (FAT_TREE + "[[topology.server]]\ncount = 3\n" + RING, "have 24 NICs, and the switches have 16 places"),
        (FAT_TREE + "[[topology.server]]\ncount = 1\nnics = 5\n" + RING, "[[topology.server]] 1: nics: found 5 for 8"),
        (FAT_TREE + '[[topology.server]]\ncount = 1\nnvlink_rate = "1Tbps"\n' + RING, "is there, and nvlink is not"),
        (DRAGONFLY + RING + '[network.routing]\npolicy = "adaptive"\n', "routing: is \"minimal\", and switches choose"),
        (DRAGONFLY.replace("links = 2", "links = 1") + RING, "global_links: gives a group 3 links to 2 other groups"),
        (FAT_TREE + "gpus = 16\n" + RING, "[topology] k: is there, and so is gpus. Accepted: one of the two"),
        (ROFT.replace("gpus_per_server = 8\n", "") + "[[topology.server]]\ncount = 7\n" + RING,
         "gpus: found 64. Accepted: 56, as in [[topology.server]]"),
        (MIXED.replace('"h100"', '"h101"') + TRAINING, '[[topology.server]] 1: gpu: found "h101"'),
        (MIXED + TRAINING.replace('gpu = "h100"', ""), "[workload.compute] gpu is not"),
        (MIXED + RING.replace('"collectives"\n', '"collectives"\ngpu = "h100"\n'), "planned for [workload] gpu alone"),
    ],
)  # fmt: skip
def test_what_servers_cannot_be_is_said_once(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config_of(tmp_path, text)
    assert expected in str(caught.value) and caught.value.exit_status == 2


@pytest.mark.parametrize("kind", ["fat-tree", "three-tier", "leaf-spine", "dragonfly", "torus"])
def test_tensor_parallelism_is_timed_inside_servers_of_every_kind(tmp_path: Path, kind: str) -> None:
    """16 places in two servers of eight; without servers a group of eight would span them."""
    sizes = {
        "fat-tree": "k = 4", "leaf-spine": "leaves = 4\nspines = 1\nhosts_per_leaf = 4", "torus": "dims = [4, 4]",
        "three-tier": "pods = 2\nedges_per_pod = 2\naggregations_per_pod = 1\ncores = 1\nhosts_per_edge = 4",
        "dragonfly": "groups = 2\nrouters_per_group = 2\nhosts_per_router = 4\nglobal_links = 1",
    }[kind]  # fmt: skip
    text = f'[topology]\nkind = "{kind}"\n{sizes}\n'
    job = TRAINING.replace("dp = 4", "dp = 2")
    plan = build_scenario(config_of(tmp_path, text + "gpus_per_server = 8\n" + job)).plan
    assert plan.facts["layout"].startswith("TP8-DP2")
    assert set(zip((plan.pair_src // 8).tolist(), (plan.pair_dst // 8).tolist(), strict=True)) == {(0, 1), (1, 0)}
    alone = build_scenario(config_of(tmp_path, text + job)).plan
    assert (alone.pair_src // 8 == alone.pair_dst // 8).any()


def test_a_table_with_gpus_is_checked_by_its_kind(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(ROFT.replace("roft", "fat-tree") + RING)
    data, _ = read_toml(tmp_path / "config.toml")
    data["topology"]["spine_rate"] = "1bps"
    with pytest.raises(ConfigError, match=r"spine_rate: makes .* links between switches"):
        config_from_dict(data)
