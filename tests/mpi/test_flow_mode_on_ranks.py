"""Flow mode has the same bytes on any number of ranks: rates are found on every rank, each tells its own hosts."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mpi.test_same_bytes import different, experts

SLOW = pytest.mark.slow


def links_that_change(_: Path) -> str:
    """Random messages over two sprayed queue pairs each, while a link gets slow, one goes down and comes up again."""
    return """
        [topology]
        kind = "fat-tree"
        k = 4
        [network]
        congestion_control = "dctcp"
        [network.routing]
        policy = "spray"
        queue_pairs_per_flow = 2
        convergence = "20us"
        [network.transport]
        recovery = "selective-repeat"
        [[network.link_event]]
        time = "30us"
        link = ["edge0", "agg0"]
        state = "down"
        [[network.link_event]]
        time = "40us"
        link = ["edge2", "agg2"]
        rate = "10Gbps"
        [[network.link_event]]
        time = "90us"
        link = ["edge0", "agg0"]
        state = "up"
        [workload]
        kind = "poisson"
        sizes = "fb-hadoop"
        load = 0.6
        flows = 300
        [wormhole]
        mode = "flow"
    """


def contended(_: Path) -> str:
    """Ports that are offered more than they have, of which DCQCN uses more and less as time goes by."""
    return """
        [topology]
        kind = "leaf-spine"
        leaves = 2
        spines = 1
        hosts_per_leaf = 4
        [network]
        congestion_control = "dcqcn"
        [workload]
        kind = "poisson"
        sizes = "web-search"
        load = 0.2
        flows = 200
        [wormhole]
        mode = "flow"
    """


def job(folder: Path) -> str:
    """A training job, some of whose messages share ports."""
    return experts(folder) + '[wormhole]\nmode = "flow"\n'


def many_at_once(folder: Path) -> str:
    """Both hosts post more messages at once than there is room for at first, on a queue pair each."""
    rows = ["num_ranks 2"]
    for rank in (0, 1):
        ends = [f"s{i}: send 1000b to {1 - rank} tag 5\nr{i}: recv 1000b from {1 - rank} tag 5" for i in range(1500)]
        rows += [f"rank {rank} {{", *ends, "}"]
    (folder / "line.goal").write_text("\n".join([*rows, ""]))
    return """
        [topology]
        kind = "leaf-spine"
        leaves = 2
        spines = 1
        hosts_per_leaf = 1
        [workload]
        kind = "trace"
        format = "goal"
        file = "line.goal"
        [wormhole]
        mode = "flow"
    """


def job_with_samples(folder: Path) -> str:
    """The same, looked at every so often, while its GPUs compute too."""
    return job(folder) + '[output]\nsample_interval = "3us"\n'


def changes_with_samples(folder: Path) -> str:
    """Links that change, looked at every so often."""
    return links_that_change(folder) + '[output]\nsample_interval = "7us"\n'


@pytest.mark.parametrize(
    "make", [links_that_change, contended, job, many_at_once, job_with_samples, changes_with_samples]
)
@pytest.mark.parametrize("n_rank", [2, pytest.param(3, marks=SLOW)])
def test_ranks_change_no_byte(make: Callable[[Path], str], n_rank: int, tmp_path: Path, simulate: Callable) -> None:
    config = tmp_path / "config.toml"
    config.write_text("\n".join(line.strip() for line in make(tmp_path).splitlines()))
    simulate(1, config, tmp_path / "alone")
    simulate(n_rank, config, tmp_path / "ranks", "partition.placement=round-robin")
    assert different(tmp_path / "alone", tmp_path / "ranks") == []
    result = json.loads((tmp_path / "alone" / "result.json").read_text())
    assert result["packet_hops"] == 0 and result["flows_finished"] == result["flows"] > 100
    if "samples" in result:
        assert result["samples"]["instants"] > 10 and min(result["samples"]["rows"].values()) > 100
    if make is not many_at_once:  # whose rates hardly change
        assert result["fast_forward"]["flow_mode"]["rates_solved"] > result["flows"]
