"""Claims about compiled jobs: what they send, how long they take on a network that is fast, and that all of it ends."""

from dataclasses import replace

import numpy as np
import pytest

from models.compute.devices import DEVICES
from models.compute.layout import Layout
from models.compute.lower import parameters_of, segments
from models.compute.memory import fits
from models.compute.model_shape import ModelShape
from models.topology.graph import LinkKind
from models.topology.rail_optimised import rail_optimised
from models.workload.compiler.build import plan_job
from models.workload.compiler.choose import choose, estimate_ps
from models.workload.compiler.job import Job
from models.workload.program import OP_SEND, PARTS
from pdes.errors import ConfigError
from reference.network_case import Outcome, make_plan_case

GBPS, NS, US = 10**9, 10**3, 10**6
H100 = DEVICES["h100"]
GPT = ModelShape(8, 512, 8, vocabulary=1024, sequence=256)
MOE = replace(GPT, n_expert=8, top_k=2)
FABRIC = rail_optimised(16, 8, 2, LinkKind(1600 * GBPS, 100 * NS), LinkKind(1600 * GBPS, 200 * NS), 1.0)
SERVER = FABRIC.server[FABRIC.host]


def job(shape: ModelShape = GPT, **sizes) -> Job:
    of_job = ("schedule", "overlap_gradients", "overlap_parameters", "routing_skew")
    options = {key: sizes.pop(key) for key in of_job if key in sizes}
    return Job(shape, Layout(**sizes), (H100,), bucket_parameters=3_000_000, **options)


def run(one: Job, n_iteration: int = 1) -> tuple[Outcome, list[int]]:
    """The outcome and the ends of the iterations."""
    plan = plan_job(one, 16, SERVER, n_iteration)
    outcome = make_plan_case(FABRIC, plan).run(longest_round_ps=10**9)
    assert len(outcome.tasks) == plan.n_task and len(outcome.flows) == plan.n_flow
    assert len(outcome.spent) == 16 * n_iteration
    before = dict.fromkeys(range(16), 0)
    for row in sorted(outcome.spent):
        assert sum(row[4:]) == row[3] - before[row[1]], "what a stream spends its time on does not add up"
        before[row[1]] = row[3]
    return outcome, [max(row[3] for row in outcome.spent if row[2] == i) for i in range(n_iteration)]


LAYOUTS = [
    {"tp": 2, "dp": 4, "pp": 2, "n_microbatch": 4},
    {"tp": 8, "dp": 1, "pp": 2, "n_microbatch": 3, "sequence_parallel": True, "recompute": "full"},
    {"tp": 1, "dp": 8, "pp": 2, "vpp": 2, "n_microbatch": 4, "zero": 1},
    {"tp": 1, "dp": 2, "pp": 8, "n_microbatch": 9, "schedule": "zero-bubble-1p"},
    {"tp": 1, "dp": 2, "pp": 8, "n_microbatch": 16, "schedule": "zero-bubble-2p", "overlap_gradients": False},
    {"tp": 1, "dp": 16, "pp": 1, "n_microbatch": 2, "zero": 3},
    {"tp": 2, "dp": 4, "pp": 2, "n_microbatch": 2, "zero": 3},
    {"tp": 2, "dp": 2, "cp": 4, "pp": 1, "n_microbatch": 2, "zero": 1, "overlap_parameters": False},
    {"tp": 2, "dp": 8, "pp": 1, "n_microbatch": 2, "zero": 2, "schedule": "gpipe"},
]
MOE_LAYOUTS = [
    {"tp": 1, "dp": 8, "pp": 2, "ep": 8, "n_microbatch": 2},
    {"tp": 2, "dp": 8, "pp": 1, "ep": 4, "n_microbatch": 2, "zero": 1, "sequence_parallel": True},
    {"tp": 1, "dp": 16, "pp": 1, "ep": 4, "n_microbatch": 1, "zero": 3},
]


@pytest.mark.parametrize("sizes", LAYOUTS, ids=str)
def test_every_layout_of_a_dense_model_runs_to_its_end(sizes):
    _, ends = run(job(**dict(sizes)), 2)
    assert ends[1] > ends[0]


@pytest.mark.parametrize("sizes", MOE_LAYOUTS, ids=str)
def test_every_layout_of_a_model_with_experts_runs_to_its_end(sizes):
    run(job(MOE, **dict(sizes)), 2)


def test_skewed_routing_sends_as_many_bytes_and_holds_up_all_that_share_experts():
    """Loads have the mean 1, so messages have the same sum; the most popular experts' GPU computes for longest."""
    shape = replace(MOE, layers=1, hidden=1024, ffn=16384, sequence=2048)
    one = job(shape, tp=1, dp=16, pp=1, ep=8, n_microbatch=1)
    skewed = replace(one, routing_skew=0.5)
    loads = skewed.expert_loads()
    assert sum(loads) == pytest.approx(8) and loads[0] == max(loads) > 1.5
    (even, even_end), (odd, odd_end) = run(one), run(skewed)
    computing = [row[4 + PARTS.index("compute")] for row in sorted(odd.spent)]
    assert min(computing[0], computing[8]) > 1.05 * max(computing[1:8]) > 1.05 * max(computing[7], computing[15])
    assert odd_end[0] > even_end[0] and len(even.spent) == len(odd.spent)
    assert not (plan_job(skewed, 16, SERVER).operations["kind"] == OP_SEND).any(), "over NICs, from GPUs of one server"
    plan = plan_job(skewed, 16, np.arange(16))
    tags = np.array(plan.tags)[plan.operations["tag"]]
    sizes = plan.operations["size_bytes"][(tags == "ep") & (plan.operations["kind"] == OP_SEND)]
    share = 2048 * 2 * 1024 * 2 // 8  # tokens x top_k x hidden x bf16 over the group
    assert abs(int(sizes.sum()) / (len(sizes) * share) - 1) < 0.01


def part_ps(one: Job, part: str, which: str) -> int:
    return sum(s.time_ps for s in segments(one.shape, one.layout, H100, part, which))


def test_computing_is_what_the_segments_say():
    """On every GPU, for every microbatch and layer; nothing is lost in loops or buckets."""
    one = job(tp=2, dp=4, pp=2, n_microbatch=5)
    outcome, _ = run(one)
    layers = 4 * (part_ps(one, "dense", "forward") + part_ps(one, "dense", "backward"))
    ends = [sum(part_ps(one, part, w) for w in ("forward", "backward")) for part in ("embedding", "head")]
    for row in outcome.spent:
        assert row[4 + PARTS.index("compute")] == 5 * (layers + ends[row[1] >= 8])


@pytest.mark.parametrize(("vpp", "schedule"), [(1, "1f1b"), (2, "1f1b"), (1, "gpipe")])
def test_a_pipeline_takes_its_closed_form_within_two_per_cent(vpp, schedule):
    """(m v + p - 1) chunks' time, where communication is next to nothing; embedding and head are made small."""
    shape = ModelShape(16, 1024, 8, vocabulary=2, sequence=4096, learned_positions=False)
    one = job(shape, tp=1, dp=4, pp=4, vpp=vpp, n_microbatch=8, schedule=schedule)
    outcome, _ = run(one)
    chunk_ps = 16 // (4 * vpp) * sum(part_ps(one, "dense", w) for w in ("forward", "backward"))
    ends_ps = [part_ps(one, part, w) for part in ("embedding", "head") for w in ("forward", "backward")]
    expected_ps = (8 * vpp + 3) * chunk_ps
    backward = plan_job(one, 16, SERVER).kinds.index("backward")
    last_ps = max(row[6] for row in outcome.tasks if row[3] == backward)
    assert 0.98 * expected_ps < last_ps < 1.02 * expected_ps + 8 * sum(ends_ps)


@pytest.mark.parametrize("layers, vpp", [(16, 2), (14, 2), (8, 1)])
def test_measured_passes_are_shared_out_evenly_over_a_stages_chunks(layers, vpp):
    """14 layers on 16 chunks: embedding and head are one each, so that no chunk is free and none takes double."""
    pass_ps = (10 * 10**9, 9 * 10**9, 6 * 10**9)
    one = job(replace(GPT, layers=layers), tp=1, dp=2, pp=8, vpp=vpp, n_microbatch=16)
    _, ends = run(replace(one, pass_times_ps=pass_ps))
    assert ends[0] == pytest.approx(sum(pass_ps) * (16 + 7 / vpp), rel=0.01)


@pytest.mark.parametrize("zero", [0, 1, 3])
def test_data_parallelism_moves_what_its_algorithm_needs(zero):
    """16 servers of one GPU: a ring's reduce-scatter or all-gather of S bytes moves 15 S, an all-reduce twice that.

    Each part is gathered and reduced as often as ZeRO says: with FSDP, forward and backward of both microbatches.
    """
    shape = replace(GPT, hidden=2048, vocabulary=51200)
    one = replace(job(shape, tp=1, dp=16, pp=1, n_microbatch=2, zero=zero), bucket_parameters=10**12)
    one = replace(one, nic_goodput_bps=400 * GBPS)
    parts = ["embedding", *["dense"] * 8, "head"]
    n = sum(parameters_of(shape, one.layout, part).dense_parameters for part in parts)
    gradients, weights = n * one.layout.gradient_bytes, n * one.layout.weight_bytes
    expected = 15 * {0: 2 * gradients, 1: gradients + weights, 3: 2 * gradients + 4 * weights}[zero]
    sent = int(plan_job(one, 16, np.arange(16)).pair_bytes.sum())
    assert expected <= sent <= expected * 1.001


def test_pipeline_messages_are_the_boundary_of_every_microbatch():
    one = job(tp=2, dp=1, cp=2, pp=4, n_microbatch=6)
    boundary = 256 * 512 * 2 // 4

    def sent_bytes(job: Job) -> int:
        return int(plan_job(job, 16, SERVER).pair_bytes.sum())

    assert (
        sent_bytes(replace(one, shape=replace(GPT, tied_embeddings=False)))
        - sent_bytes(
            replace(one, shape=replace(GPT, tied_embeddings=False), layout=replace(one.layout, n_microbatch=3))
        )
        == 3 * 2 * 3 * 4 * boundary
    )


def test_gradients_beside_the_backward_pass_take_less_than_behind_it():
    beside, behind = (run(job(tp=1, dp=16, pp=1, n_microbatch=2, overlap_gradients=on))[1][0] for on in (True, False))
    assert beside < behind


def test_a_slow_gpu_holds_up_all_that_it_works_with():
    one = job(tp=2, dp=4, pp=2, n_microbatch=4)
    slow = replace(one, slowness={5: 2.0})
    usual_ps, slow_ps = run(one)[1][0], run(slow)[1][0]
    assert 1.5 * usual_ps < slow_ps < 2.1 * usual_ps


def test_gpus_of_two_types_run_programs_of_their_own():
    one = job(tp=8, dp=2, pp=1, n_microbatch=2)
    mixed = replace(one, devices=(H100,) * 8 + (DEVICES["a100-80g"],) * 8)
    outcome, _ = run(mixed)
    computing = {row[1]: row[4 + PARTS.index("compute")] for row in outcome.spent}
    assert len(set(computing.values())) == 2 and computing[0] < computing[8]


def test_placement_moves_ranks_to_other_gpus():
    one = job(tp=2, dp=4, pp=2, n_microbatch=2)
    order = list(np.random.default_rng(1).permutation(16))
    plan, moved = plan_job(one, 16, SERVER), plan_job(one, 16, SERVER, gpu_of_rank=[int(g) for g in order])
    assert moved.n_flow >= plan.n_flow  # tensor parallelism may now cross servers
    make_plan_case(FABRIC, moved).run(longest_round_ps=10**9)


def fits_memory(one: Job) -> bool:
    return fits(one.shape, one.layout, H100.hbm_bytes)


def test_what_is_left_open_is_the_fastest_that_fits():
    one = job(ModelShape(32, 4096, 32), tp=2, dp=4, pp=2, n_microbatch=1)
    found = choose(one, 32, None, None)
    assert fits_memory(found) and found.layout.microbatch * found.layout.n_microbatch == 32
    for b in (1, 2, 4, 8):
        other = replace(one, layout=replace(one.layout, microbatch=b, n_microbatch=32 // b))
        assert not fits_memory(other) or estimate_ps(found) <= estimate_ps(other)


@pytest.mark.parametrize(
    ("shape", "sizes", "text"),
    [
        (GPT, {"tp": 2, "dp": 4}, "= 8 GPUs, and the topology has 16"),
        (GPT, {"tp": 16}, "a divisor of 8"),
        (GPT, {"pp": 16}, "no more chunks than layers"),
        (GPT, {"dp": 16, "ep": 2}, "no experts"),
        (GPT, {"dp": 16, "routing_skew": 0.5}, "routing_skew: 0.5 with ep 1"),
        (MOE, {"dp": 16, "ep": 16}, "a divisor of 8"),
        (GPT, {"dp": 16, "vpp": 2}, "1 without pipeline stages"),
        (GPT, {"dp": 4, "pp": 4, "vpp": 2, "schedule": "gpipe"}, 'schedule "1f1b"'),
    ],
)
def test_a_layout_that_does_not_fit_is_refused(shape, sizes, text):
    with pytest.raises(ConfigError, match=text):
        plan_job(job(shape, **sizes), 16, SERVER)
