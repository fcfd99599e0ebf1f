"""The fabric of three tiers: HPCC's evaluation fabric link by link, and what it shares with the fat-tree."""

import numpy as np
import pytest

from models.topology.fat_tree import fat_tree
from models.topology.graph import LinkKind
from models.topology.three_tier import three_tier
from pdes.errors import ConfigError

GBPS, US = 10**9, 10**6
SIZES = {"n_pod": 5, "edges_per_pod": 4, "aggregations_per_pod": 4, "n_core": 16, "hosts_per_edge": 16}


def build(**sizes):
    return three_tier(
        **{**SIZES, **sizes}, host_link=LinkKind(100 * GBPS, US), fabric_link=LinkKind(400 * GBPS, 2 * US)
    )


def links(topology) -> set[tuple[int, int, int, int]]:
    columns = (topology.port_src, topology.port_dst, topology.port_rate_bps, topology.port_delay_ps)
    return {row for row in zip(*(c.tolist() for c in columns), strict=True) if row[0] < row[1]}


def hpcc_fabric() -> set[tuple[int, int, int, int]]:
    """The 480 links of the HPCC repository's fat.txt, as its lines count them, with our delays of the fabric.

    "0 320" .. "319 339": 16 hosts per edge switch; "320 340", "320 341", ..: pods of 4 and 4; "340 360", "340 361", ..,
    "341 364", ..: each pod's aggregation switches take the cores from 360 on in fours.
    """
    found = {(host, 320 + host // 16, 100 * GBPS, US) for host in range(320)}
    for pod in range(5):
        for i in range(4):
            found |= {(320 + 4 * pod + i, 340 + 4 * pod + j, 400 * GBPS, 2 * US) for j in range(4)}
            found |= {(340 + 4 * pod + i, 360 + 4 * i + j, 400 * GBPS, 2 * US) for j in range(4)}
    return found


def test_hpccs_fabric_is_that_of_its_repository_link_by_link():
    topology = build()
    assert (topology.n_host, topology.n_node, topology.n_port) == (320, 376, 2 * 480)
    assert links(topology) == hpcc_fabric()
    assert topology.name == "three-tier, 320 hosts, 56 switches"


def test_hpccs_fabric_is_the_excerpt_of_its_file():
    """The first and last lines of each group of fat.txt, as far as they are quoted here."""
    ends = {(a, b) for a, b, _, _ in links(build())}
    quoted = "0 320, 315 339, 319 339, 320 340, 320 343, 323 343, 324 344, 339 359, 340 360, 340 363, 341 364, 359 375"
    assert {tuple(map(int, pair.split())) for pair in quoted.split(", ")} < ends
    assert not {(320, 344), (340, 364), (341, 360)} & ends


def test_the_fat_tree_is_a_special_case():
    ours = three_tier(4, 2, 2, 4, 2, LinkKind(100 * GBPS, US), LinkKind(400 * GBPS, 2 * US))
    al_fares = fat_tree(4, 100 * GBPS, 400 * GBPS, US, 2 * US)
    assert links(ours) == links(al_fares) and ours.node_name == al_fares.node_name


def test_counts_may_differ_between_the_tiers():
    topology = build(n_pod=2, edges_per_pod=3, aggregations_per_pod=2, n_core=6, hosts_per_edge=1)
    degree = {name[:3]: len(topology.in_ports(i)) for i, name in enumerate(topology.node_name)}
    assert degree == {"hos": 1, "edg": 3, "agg": 6, "cor": 2}
    assert np.unique(topology.port_src).tolist() == list(range(topology.n_node))


@pytest.mark.parametrize(
    ("sizes", "key"),
    [({"n_pod": 0}, "pods"), ({"edges_per_pod": 0}, "edges_per_pod"), ({"aggregations_per_pod": 0}, "aggregations"),
     ({"hosts_per_edge": 0}, "hosts_per_edge"), ({"n_core": 10}, "cores"), ({"n_core": 0}, "cores")],
)  # fmt: skip
def test_counts_that_do_not_fit_name_the_key(sizes, key):
    with pytest.raises(ConfigError, match=rf"topology\.{key}"):
        build(**sizes)
