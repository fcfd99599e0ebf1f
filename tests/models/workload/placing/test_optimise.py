"""Claims about placements by the closed form: the best there is where all can be tried, complete, and of a kind."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.compute.devices import DEVICES
from models.compute.layout import Layout
from models.compute.model_shape import ModelShape
from models.topology.even_ways import EvenWays
from models.topology.graph import LinkKind, Topology
from models.topology.leaf_spine import leaf_spine
from models.topology.rail_optimised import rail_optimised
from models.workload.compiler.job import Job
from models.workload.compiler.ranks import Ranks
from models.workload.placing.given import check_placement
from models.workload.placing.optimise import Placed, Price, place_ranks
from models.workload.placing.structured import structured

GPT = ModelShape(8, 512, 8, vocabulary=4096, sequence=512)
H100, A100 = DEVICES["h100"], DEVICES["a100-80g"]
GBPS, US = 10**9, 10**6
SHARE = 4096 / 4000  # of bytes on the wire


def servers(n_server: int, per_server: int) -> Topology:
    nic, nvlink = LinkKind(100 * GBPS, US), LinkKind(3600 * GBPS, 25_000)
    return rail_optimised(n_server * per_server, per_server, 32, nic, nic, 1.0, nvlink)


def job(kinds, per_server: int = 1, **sizes) -> Job:
    layout = Layout(n_microbatch=4, **sizes)
    return Job(GPT, layout, tuple(kind for kind in kinds for _ in range(per_server)), nic_goodput_bps=97 * GBPS)


def placed(one: Job, topology: Topology, seed: int = 1, most_steps: int = 200) -> Placed:
    return place_ranks(one, EvenWays(topology, 4096), SHARE, seed, most_steps)


def test_nothing_is_faster_where_all_placements_can_be_tried():
    """Six hosts on two leaves, slow and fast in turns: 720 placements."""
    topology = leaf_spine(2, 1, 3, 100 * GBPS, 50 * GBPS, US, US)
    one = job([H100, A100, A100, H100, A100, H100], tp=1, pp=3, dp=2)
    price = Price(one, EvenWays(topology, 4096), SHARE)
    best_ps = min(price(np.array(order)) for order in permutations(range(6)))
    found = placed(one, topology)
    assert found.time_ps == best_ps == price(np.array(found.gpu_of_rank)) <= found.in_order_ps
    assert found.in_order_ps == price(np.arange(6))


@settings(max_examples=20)
@given(
    st.sampled_from([(8, 2, 1), (4, 2, 2), (2, 2, 4), (2, 4, 2), (1, 4, 4), (16, 1, 1), (1, 1, 16)]),
    st.lists(st.sampled_from([H100, A100]), min_size=4, max_size=4),
    st.integers(0, 3),
)
def test_a_placement_is_complete_and_never_slower_by_its_own_measure(sizes, kinds, seed):
    tp, dp, pp = sizes
    one, topology = job(kinds, 4, tp=tp, dp=dp, pp=pp), servers(4, 4)
    found = placed(one, topology, seed, 5)
    check_placement(found.gpu_of_rank, 16)
    assert found.time_ps <= found.in_order_ps
    for candidate in structured(one, topology):
        check_placement(candidate.tolist(), 16)


@pytest.mark.parametrize(("tp", "pp", "dp"), [(4, 2, 2), (2, 2, 4), (2, 4, 2)])
def test_stages_are_of_one_type_and_tensor_groups_in_one_server_where_servers_alternate(tp: int, pp: int, dp: int):
    topology, one = servers(4, 4), job([H100, A100, H100, A100], 4, tp=tp, pp=pp, dp=dp)
    ranks = Ranks(one.layout, placed(one, topology).gpu_of_rank)
    for stage in range(pp):
        assert len({one.device(gpu).name for gpu in ranks.stage(stage)}) == 1
        assert all(len({gpu // 4 for gpu in group}) == 1 for group in ranks.tensor(stage))


def test_a_placement_follows_from_the_seed():
    one, topology = job([H100, A100], 4, tp=1, pp=4, dp=2), servers(2, 4)
    assert placed(one, topology, 2, 20) == placed(one, topology, 2, 20)


def test_ranks_stay_in_order_where_nothing_can_be_faster():
    """One server, one type, tensor parallelism alone."""
    assert placed(job([H100], 8, tp=8, pp=1, dp=1), servers(1, 8)).gpu_of_rank == list(range(8))


def test_all_blocks_in_turn_are_tried():
    """Each of two servers of four has two stages of two replicas, or four stages of one, or one of four."""
    one, topology = job([H100, A100], 4, tp=1, pp=4, dp=2), servers(2, 4)
    kept = {tuple(tuple(sorted({gpu // 4 for gpu in Ranks(one.layout, c.tolist()).stage(s)})) for s in range(4))
            for c in structured(one, topology)}  # fmt: skip
    assert {((0,), (0,), (1,), (1,)), ((1,), (1,), (0,), (0,)), ((0, 1),) * 4} <= kept
