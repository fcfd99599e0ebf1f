"""Claims about layers by stage: all are there, once each; the slowest stage takes the least; no more than fit."""

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.compute.checks import check_layout, check_memory
from models.compute.devices import DEVICES
from models.compute.layout import Layout
from models.compute.memory import memory_of, stage_parameters
from models.compute.model_shape import ModelShape
from models.compute.stages import stage_layers
from models.topology.even_ways import EvenWays
from models.topology.leaf_spine import leaf_spine
from models.workload.closed_form.exchanges import Exchanges
from models.workload.closed_form.iteration import iteration_ps
from models.workload.compiler.job import Job
from models.workload.placing.layers import Layers, with_layers
from pdes.errors import ConfigError

GBPS, US, GB = 10**9, 10**6, 10**9
GPT = ModelShape(12, 512, 8, vocabulary=4096, sequence=512)
KINDS = [DEVICES[name] for name in ("a100-40g", "a100-80g", "h100", "h200", "b200")]


def compositions(n: int, k: int) -> list[tuple[int, ...]]:
    """All ways to have k numbers from 1 whose sum is n."""
    cuts = [(0, *cut, n) for cut in combinations(range(1, n), k - 1)]
    return [tuple(b - a for a, b in zip(cut, cut[1:], strict=False)) for cut in cuts]


def exchanges_of(job: Job) -> Exchanges:
    topology = leaf_spine(1, 1, job.layout.n_gpu, 400 * GBPS, 400 * GBPS, US, US)
    return Exchanges(job, EvenWays(topology, 4096), topology.server[topology.host], 1.02, None)


def job_on(kinds, **sizes) -> Job:
    layout = Layout(pp=len(kinds), n_microbatch=sizes.pop("n_microbatch", 8), **sizes)
    return Job(GPT, layout, tuple(kinds), nic_goodput_bps=390 * GBPS, shares_layers=True)


@given(st.data())
def test_every_layer_is_on_one_stage_in_the_order_of_the_model(data: st.DataObject):
    pp, vpp = data.draw(st.sampled_from([(1, 1), (2, 1), (3, 1), (2, 2), (3, 3)]))
    n = [data.draw(st.integers(1, 9)) for _ in range(pp * vpp)]
    shape, layout = replace(GPT, layers=sum(n)), Layout(pp=pp, vpp=vpp, n_microbatch=pp, stage_layers=tuple(n))
    check_layout(shape, layout)
    places = {chunk * pp + stage: layers for stage in range(pp) for chunk, layers in
              enumerate(stage_layers(shape, layout, stage))}  # fmt: skip
    assert [len(places[i]) for i in range(pp * vpp)] == n
    assert [layer for i in range(pp * vpp) for layer in places[i]] == list(range(sum(n)))
    held = [stage_parameters(replace(shape, tied_embeddings=False), layout, stage) for stage in range(pp)]
    even = stage_parameters(replace(shape, tied_embeddings=False), Layout(), 0)
    assert sum(one.dense_parameters for one in held) == even.dense_parameters


@given(st.lists(st.sampled_from(KINDS), min_size=2, max_size=4))
def test_the_slowest_stage_takes_as_little_as_it_can(kinds: list):
    """Of all ways to share twelve layers out."""
    job = job_on(kinds)
    layers, exchanges = Layers(replace(job, memory_bytes=10**15)), exchanges_of(job)
    layer_ps, ends_ps = layers._times_ps(exchanges, {})

    def slowest_ps(dealt: tuple[int, ...]) -> int:
        return max(n * layer + end for n, layer, end in zip(dealt, layer_ps, ends_ps, strict=True))

    dealt = layers.dealt(exchanges, {})
    assert sum(dealt) == 12
    assert slowest_ps(dealt) == min(map(slowest_ps, compositions(12, len(kinds))))


@given(st.lists(st.sampled_from(KINDS), min_size=2, max_size=3), st.sampled_from([1, 4, 16]))
def test_no_split_that_was_tried_is_faster_and_the_even_one_was(kinds: list, m: int):
    job = job_on(kinds, n_microbatch=m)
    exchanges = exchanges_of(job)
    best = Layers(job).best(exchanges)
    best_ps = iteration_ps(with_layers(job, best), exchanges, {})
    assert sum(best) == 12 and best_ps <= iteration_ps(job, exchanges, {})
    least_ps = min(iteration_ps(with_layers(job, one), exchanges, {}) for one in compositions(12, len(kinds)))
    assert best_ps <= 1.05 * least_ps


def test_a_stage_has_no_more_layers_than_fit_its_gpus():
    """The fast GPU could do most layers in time, but has room for three."""
    shape = ModelShape(12, 4096, 32, vocabulary=4096, sequence=2048)
    layout = Layout(pp=2, n_microbatch=8)
    small = memory_of(shape, replace(layout, stage_layers=(3, 9)), 0).total_bytes
    kinds = replace(DEVICES["b200"], hbm_bytes=small), replace(DEVICES["a100-80g"], hbm_bytes=200 * GB)
    job = Job(shape, layout, kinds, nic_goodput_bps=390 * GBPS, shares_layers=True)
    best = Layers(job).best(exchanges_of(job))
    assert best == (3, 9)
    fitting, limits = with_layers(job, best), job.memory_of_stages(exchanges_of(job).ranks)
    check_memory(shape, fitting.layout, limits)
    with pytest.raises(ConfigError, match="GPUs of stage 0 need"):
        check_memory(shape, with_layers(job, (4, 8)).layout, limits)


@pytest.mark.parametrize(
    ("given_layers", "text"),
    [((6, 5), "11 layers in all. Accepted: 12"), ((12,), "1 numbers for 2 stages. Accepted: a list of 2"),
     ((12, 0), "0 layers in one of them. Accepted: 1 or more")],
)  # fmt: skip
def test_lists_that_are_wrong_are_refused(given_layers, text):
    with pytest.raises(ConfigError, match=text):
        check_layout(GPT, Layout(pp=2, n_microbatch=2, stage_layers=given_layers))
