"""Claims about kind = "three-tier" and kind = "poisson": what a file means, and every fault named and placed."""

from pathlib import Path

import numpy as np
import pytest

from models.workload.traffic.flows import NO_PRIORITY
from pdes.config import load_config
from pdes.errors import ConfigError
from pdes.scenario import Scenario, build_scenario

COUNTS = "pods = 2\nedges_per_pod = 2\naggregations_per_pod = 2\ncores = 4\nhosts_per_edge = 4\n"
FABRIC = f'[topology]\nkind = "three-tier"\n{COUNTS}'
POISSON = '[workload]\nkind = "poisson"\nsizes = "fb-hadoop"\nload = 0.5\n'
DURATION = 'duration = "100us"\n'
INCAST = '[workload.incast]\nfan_in = 5\nsize = "10kB"\nload = 0.1\n'
BIG = COUNTS.replace("pods = 2", "pods = 1000000", 1)


@pytest.fixture
def scenario(tmp_path: Path):
    """Build the scenario of a text."""

    def build(text: str) -> Scenario:
        (tmp_path / "config.toml").write_text(text)
        return build_scenario(load_config(tmp_path / "config.toml"))

    return build


def test_links_of_hosts_are_like_the_others_unless_given(scenario) -> None:
    rates = 'link_rate = "400Gbps"\nhost_rate = "100Gbps"\nlink_delay = "2us"\n'
    topology = scenario(FABRIC + rates + POISSON + DURATION).topology
    to_host = ~topology.is_switch[topology.port_dst] | ~topology.is_switch[topology.port_src]
    assert (topology.port_rate_bps == np.where(to_host, 10**11, 4 * 10**11)).all()
    assert (topology.port_delay_ps == 2_000_000).all()
    assert (topology.n_host, topology.name) == (16, "three-tier, 16 hosts, 12 switches")


def test_the_load_counts_the_rate_of_the_hosts_links(scenario) -> None:
    plans = [
        scenario(FABRIC + f'host_rate = "{rate}Gbps"\n' + POISSON + 'duration = "10ms"\n').plan for rate in (100, 25)
    ]
    counts = [plan.n_flow for plan in plans]
    expected = 0.01 * 0.5 * 16 * 1e11 / 8 / 120_420.75
    assert abs(counts[0] - expected) < 4 * expected**0.5 and abs(counts[1] - expected / 4) < 2 * expected**0.5
    assert plans[0].name == "fb-hadoop at 0.5 of the hosts' links"


def test_the_seed_of_the_simulation_draws(scenario) -> None:
    one, same, other = (
        scenario(f"[simulation]\nseed = {seed}\n" + FABRIC + POISSON + "flows = 50\n").plan.operations
        for seed in (1, 1, 2)
    )
    assert len(one) == 50 and (one == same).all() and (one["size_bytes"] != other["size_bytes"]).any()


def test_messages_have_the_priority_of_the_config_and_incasts_a_tag(scenario) -> None:
    plan = scenario(FABRIC + "[network]\npriority = 5\n" + POISSON + DURATION + INCAST).plan
    assert set(plan.pair_priority.tolist()) == {5} != {NO_PRIORITY}
    assert plan.tags == ("fb-hadoop", "incast")


def test_pairs_of_hosts_may_share_a_queue_pair(scenario) -> None:
    plan = scenario(FABRIC + POISSON + 'flows = 2000\nqueue_pairs = "per-pair"\n').plan
    assert len(plan.pair_src) == 16 * 15 and plan.n_flow == 2000


def test_a_distribution_of_one_s_own_lies_beside_the_config(scenario, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("# all alike\n1000 0\n1000 100\n")
    plan = scenario(FABRIC + POISSON.replace("fb-hadoop", "mine.txt") + "flows = 10\n").plan
    assert plan.operations["size_bytes"].tolist() == [1000] * 10
    (tmp_path / "mine.txt").write_text("1000 0\n")
    with pytest.raises(ConfigError, match=r"mine\.txt, line 1: the distribution ends"):
        scenario(FABRIC + POISSON.replace("fb-hadoop", "mine.txt") + "flows = 10\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (FABRIC.replace("cores = 4", "cores = 3"), "[topology] cores: found 3. Accepted: a multiple of aggreg"),
        (FABRIC.replace("pods = 2\n", "", 1), "[topology] pods: missing, and it has no default"),
        (FABRIC.replace("edges_per_pod", "edge_per_pod"), 'edge_per_pod: unknown key. Did you mean "edges_per_pod"?'),
        (FABRIC.replace(COUNTS, BIG), "[topology] pods: makes 8,000,000 hosts. Accepted: at most 1,048,576 hosts"),
        (FABRIC.replace("cores = 4", "cores = 9000000"), "[topology] pods: makes 18,000,008 links between switches"),
    ],
)
def test_a_fault_of_the_fabric_is_placed_and_explained(scenario, text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        scenario(text + POISSON + DURATION)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (POISSON, "[workload] duration: is missing, and so is flows. Accepted: one of the two"),
        (POISSON + DURATION + "flows = 3\n", "[workload] duration: is there, and so is flows. Accepted: one of the"),
        (POISSON + "flows = 0\n", "[workload] flows: found 0. Accepted: at least 1"),
        (POISSON + 'duration = "0s"\n', '[workload] duration: found "0s". Accepted: a value above zero'),
        (POISSON + 'duration = "1ps"\n', "[workload] duration: no message arrives in it"),
        (POISSON + 'duration = "1000s"\n', "[workload] duration: makes about 830,"),
        (POISSON.replace("0.5", "0.0") + DURATION, "[workload] load: found 0.0. Accepted: more than 0"),
        (POISSON.replace("0.5", "1.5") + DURATION, "[workload] load: found 1.5. Accepted: at most 1"),
        (POISSON.replace("fb-hadoop", "hadoop") + DURATION, "[workload] sizes: there is no file "),
        (POISSON.replace("fb-hadoop", "hadoop") + DURATION, 'Accepted: "web-search", "fb-hadoop", or a file'),
        (POISSON.replace("\nload", "\nlaod") + DURATION, '[workload] laod: unknown key. Did you mean "load"?'),
        (POISSON + DURATION + INCAST.replace("5", "16"), "[workload.incast] fan_in: found 16. Accepted: 1 to 15"),
        (POISSON + DURATION + INCAST.replace("size", "sizes"), 'sizes: unknown key. Did you mean "size"?'),
    ],
)
def test_a_fault_of_the_traffic_is_placed_and_explained(scenario, text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        scenario(FABRIC + text)
    assert expected in str(caught.value)


def test_traffic_needs_two_hosts(scenario) -> None:
    one = FABRIC.replace("pods = 2", "pods = 1", 1).replace("edges_per_pod = 2", "edges_per_pod = 1")
    with pytest.raises(ConfigError, match="at least two hosts"):
        scenario(one.replace("hosts_per_edge = 4", "hosts_per_edge = 1") + POISSON + DURATION)
