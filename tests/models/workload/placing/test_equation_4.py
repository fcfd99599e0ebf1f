"""Claims about equation 4: placements are complete, never worse by it than in order, of one type where that is even."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.compute.devices import DEVICES
from models.compute.layout import Layout
from models.compute.model_shape import ModelShape
from models.workload.compiler.job import Job
from models.workload.compiler.ranks import Ranks
from models.workload.placing.equation_4 import PlacementCost, place_by_equation_4
from models.workload.placing.given import check_placement
from pdes.errors import ConfigError

GPT = ModelShape(32, 1024, 32)
H100, A100 = DEVICES["h100"], DEVICES["a100-80g"]
SERVER, RAIL = np.arange(64) // 8, np.arange(64) % 8


def job(devices=(H100,), slowness=None, **sizes) -> Job:
    return replace(Job(GPT, Layout(**sizes), devices), slowness=slowness or {})


@settings(max_examples=20)
@given(
    st.sampled_from([(8, 8, 1), (8, 2, 4), (4, 4, 4), (2, 32, 1), (1, 8, 8), (16, 2, 2)]),
    st.lists(st.sampled_from([H100, A100]), min_size=8, max_size=8),
    st.integers(0, 3),
)
def test_a_placement_is_complete_and_never_worse_than_in_order(sizes, servers, seed):
    tp, dp, pp = sizes
    one = job(tuple(device for device in servers for _ in range(8)), tp=tp, dp=dp, pp=pp)
    placed, cost = place_by_equation_4(one, SERVER, RAIL, seed, 100), PlacementCost(one, SERVER, RAIL)
    check_placement(placed, 64)
    assert cost(np.array(placed)) <= cost(np.arange(64))
    assert placed == place_by_equation_4(one, SERVER, RAIL, seed, 100)


def test_a_homogeneous_cluster_keeps_its_order():
    one = job(tp=8, dp=8, pp=1)
    assert place_by_equation_4(one, SERVER, RAIL, 1) == list(range(64))


def test_stages_are_of_one_type_where_servers_alternate():
    """Eight servers, every other one slower: in order each data-parallel group has both types, placed none has."""
    one = job(tuple(device for _ in range(4) for device in (H100, A100) for _ in range(8)), tp=8, dp=4, pp=2)
    ranks = Ranks(one.layout, place_by_equation_4(one, SERVER, RAIL, 1))
    for stage in range(2):
        assert len({one.device(gpu).name for gpu in ranks.stage(stage)}) == 1
        for group in ranks.tensor(stage):
            assert len({int(SERVER[gpu]) for gpu in group}) == 1


def test_swaps_mend_a_cluster_whose_gpus_are_not_in_order():
    """Servers' GPUs are numbered in turn: annealing finds most of what sorting by server would."""
    server, rail = np.arange(16) % 2, np.arange(16) // 2
    one = job(tp=8, dp=2, pp=1)
    cost = PlacementCost(one, server, rail)
    assert cost(np.arange(16)) == 1 and cost(np.array(place_by_equation_4(one, server, rail, 1))) == 0


@pytest.mark.parametrize(("given_gpus", "text"), [([0, 1, 2], "3 GPUs for 4"), ([0, 1, 2, 2], "GPU 3 is missing")])
def test_a_given_placement_has_every_gpu_once(given_gpus, text):
    with pytest.raises(ConfigError, match=text):
        check_placement(given_gpus, 4)
