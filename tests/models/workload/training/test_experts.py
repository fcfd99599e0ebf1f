"""Mixture-of-experts training: who exchanges with whom, bytes and times in closed form, what a run makes of them."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from models.workload.program import OP_COMPUTE, OP_EXCHANGE, OP_GROUP, OP_RECEIVE, OP_RING, OP_SEND
from models.workload.training.experts import copies_in_server, expert_copies, expert_groups
from models.workload.training.iteration import PRESETS, GptModel, TrainingJob, plan_training, stage_program
from pdes.errors import ConfigError
from reference.training_case import delivery_ps, expanded, run_job, servers

PS_PER_S = 10**12
MOE = GptModel(n_layer=4, hidden=64, vocabulary=1, sequence=64, n_expert=8)
TINY = GptModel(n_layer=2, hidden=8, vocabulary=1, sequence=16, n_expert=12)  # its messages are one packet
TABLE_1 = [  # preset, dense preset of the same layers, experts, GPUs, (TP, DP, PP, EP)
    ("moe-8x7b", "gpt-7b", 8, 64, (8, 4, 2, 8)),
    ("moe-8x13b", "gpt-13b", 8, 128, (8, 4, 4, 8)),
    ("moe-8x22b", "gpt-22b", 8, 256, (8, 8, 4, 8)),
    ("moe-32x22b", "gpt-22b", 32, 1024, (8, 16, 8, 8)),
]
LAYOUTS = [  # TP, DP, PP, EP
    (8, 4, 2, 8), (8, 4, 4, 8), (8, 8, 4, 8), (8, 16, 8, 8), (1, 8, 1, 8), (1, 8, 2, 4), (8, 1, 1, 8), (8, 1, 1, 2),
    (2, 6, 1, 4), (4, 2, 2, 1), (4, 2, 1, 4), (2, 4, 1, 8),
]  # fmt: skip


@pytest.mark.parametrize("name, dense, n_expert, gpus, layout", TABLE_1)
def test_presets_are_the_dense_ones_with_experts(name, dense, n_expert, gpus, layout):
    """A dense layer has 12 h^2 + 13 h parameters, 8 h^2 + 5 h of them in two matrices h x 4h with their biases."""
    model, h = PRESETS[name], PRESETS[dense].hidden
    more = PRESETS[dense].n_layer * (n_expert - 1) * (8 * h**2 + 5 * h)
    assert model == replace(PRESETS[dense], n_expert=n_expert, top_k=2)
    assert model.parameters() == PRESETS[dense].parameters() + more


@pytest.mark.parametrize("name, dense, n_expert, gpus, layout", TABLE_1)
def test_a_token_costs_attention_and_two_experts(name, dense, n_expert, gpus, layout):
    """Narayanan et al. SC'21: 8 b s h^2 + 4 b s^2 h in attention, 16 b s h^2 in a feed-forward network."""
    model, (tp, dp, pp, ep) = PRESETS[name], layout
    job = TrainingJob(model, tp, dp, pp, ep)
    s, h = 2048, model.hidden
    layer = 8 * s * h**2 + 4 * s**2 * h + 2 * 16 * s * h**2
    exact_ps = Fraction(PS_PER_S * (model.n_layer * layer + 2 * s * h * 51200), tp * job.flops_per_s)
    times = [op.time_ps for stage in range(pp) for op in expanded(stage_program(job, stage)) if op.task == "forward"]
    total_ps = Fraction(sum(times), job.microbatches)
    assert exact_ps <= total_ps < exact_ps + 2 * model.n_layer + 1
    assert abs(sum(job.forward_ps(stage) for stage in range(pp)) - exact_ps) < pp


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_gpu_is_in_one_group_and_a_group_has_every_expert_once(layout):
    tp, dp, pp, ep = layout
    job = TrainingJob(MOE, tp, dp, pp, ep)
    for stage in range(pp):
        of_stage = set(range(stage * tp * dp, (stage + 1) * tp * dp))
        groups, copies = expert_groups(job, stage), expert_copies(job, stage)
        for parts, size in ((groups, ep), (copies, tp * dp // ep)):
            assert {len(set(part)) for part in parts} == {size}
            assert {gpu for part in parts for gpu in part} == of_stage
        for group in groups:
            assert [len(set(group) & set(copy)) for copy in copies] == [1] * ep


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout[1] % layout[3] == 0])
def test_a_group_keeps_to_one_rail_where_there_are_replicas_enough(layout):
    """The same tensor rank of `ep` replicas: with a server per replica, GPUs of one rail in as many servers."""
    tp, dp, pp, ep = layout
    for group in expert_groups(TrainingJob(MOE, tp, dp, pp, ep), pp - 1):
        assert {gpu % tp for gpu in group} == {group[0] % tp}
        assert len({gpu // tp for gpu in group}) == ep


@pytest.mark.parametrize("layout", [(8, 4, 2, 8), (8, 4, 4, 8), (4, 2, 1, 4), (2, 4, 1, 8)])
def test_a_group_takes_all_replicas_and_then_more_tensor_ranks(layout):
    tp, dp, pp, ep = layout
    for group in expert_groups(TrainingJob(MOE, tp, dp, pp, ep), 0):
        ranks = sorted({gpu % tp for gpu in group})
        assert ranks == list(range(ranks[0], ranks[0] + ep // dp))
        assert len({gpu // tp for gpu in group}) == dp


@pytest.mark.parametrize("name, dense, n_expert, gpus, layout", TABLE_1)
def test_copies_of_an_expert_share_servers_in_the_papers_layouts(name, dense, n_expert, gpus, layout):
    """64 and 128 GPUs: 4 in one server; 256: the server's 8; 1024: two servers with 8 each."""
    tp, dp, pp, ep = layout
    job = TrainingJob(PRESETS[name], tp, dp, pp, ep)
    assert job.n_copy == tp * dp // ep
    expected = {64: 4, 128: 4, 256: 8, 1024: 8}[gpus]
    assert copies_in_server(job, servers(gpus, 8)) == expected
    assert copies_in_server(replace(job, tp_packets=True), servers(gpus, 8)) == 1
    assert copies_in_server(job, servers(gpus, 1)) == 1


def test_copies_that_no_server_shares_evenly_form_one_ring():
    """Servers of 3 for replicas of 2 tensor ranks hold one or two copies of an expert."""
    job = TrainingJob(MOE, 2, 6, 1, 2, tp_packets=False)
    assert copies_in_server(job, np.arange(12) // 3) == 1


def network_bytes(job: TrainingJob, in_server: int) -> dict[str, int]:
    """Payload of an iteration by purpose, in closed form; all sizes here divide evenly."""
    model, n_gpu = job.model, job.tp * job.dp * job.pp
    b, s, h, m = job.microbatch, model.sequence, model.hidden, job.microbatches
    layers = model.n_layer // job.pp
    tokens_bytes = 2 * b * s * h // job.tp
    shared = 2 * layers * (4 * h**2 + 8 * h) // job.tp
    n_ring = job.tp * job.dp // job.ep // in_server
    experts = 2 * layers * model.n_expert // job.ep * (8 * h**2 + 5 * h) // in_server
    n_vocabulary = 2 if job.pp > 1 else 1  # the last stage has its own word embeddings
    ends = 2 * h * (n_vocabulary * model.vocabulary + s + 2) // job.tp
    return {
        "pp": 2 * m * tokens_bytes * (job.pp - 1) * job.tp * job.dp,
        "ep": n_gpu * m * layers * 4 * 2 * tokens_bytes * (job.ep - 1) // job.ep,
        "dp": 2 * (job.dp - 1) * (job.tp * job.pp * shared + job.tp * ends),
        "expert-dp": n_gpu * 2 * (n_ring - 1) * experts // n_ring,
    }


@pytest.mark.parametrize("name, dense, n_expert, gpus, layout", TABLE_1)
def test_bytes_flows_and_tasks_of_the_papers_jobs_in_closed_form(name, dense, n_expert, gpus, layout):
    tp, dp, pp, ep = layout
    job = TrainingJob(PRESETS[name], tp, dp, pp, ep)
    plan = plan_training(job, gpus, servers(gpus, 8))
    in_server = copies_in_server(job, servers(gpus, 8))
    by_purpose = network_bytes(job, in_server)
    n_ring, layers, m = job.n_copy // in_server, job.model.n_layer // pp, pp
    assert int(plan.pair_bytes.sum()) == sum(by_purpose.values())
    n_flow = {
        "pp": 2 * m * (pp - 1) * tp * dp,
        "ep": gpus * m * layers * 4 * (ep - 1),
        "dp": gpus * 2 * (dp - 1),
        "expert-dp": gpus * 2 * (n_ring - 1),
    }
    assert plan.n_flow == sum(n_flow.values())
    # Per layer, microbatch and direction: attention, its all-reduce, two exchanges, the experts. Besides, each
    # microbatch has a wait between stages and a logits pass there and back, and the gradients are summed.
    sums = 1 + (3 if n_ring > 1 else 1)
    assert plan.n_task == gpus * (m * layers * 2 * 5 + sums) + 2 * m * tp * dp * ((pp - 1) + 1)
    assert plan.facts["parameters"] == job.model.parameters()
    assert plan.facts["layout"] == f"TP{tp}-EP{ep}-DP{dp}-PP{pp}"


@pytest.mark.parametrize("layout", [(2, 4, 1, 8), (2, 2, 2, 4), (1, 8, 1, 4), (2, 2, 2, 1), (4, 2, 1, 8)])
@pytest.mark.parametrize("gpus_per_server", [1, 2, 4])
@pytest.mark.parametrize("model", [MOE, replace(MOE, n_expert=16, top_k=1)])
def test_bytes_of_small_jobs_in_closed_form(layout, gpus_per_server, model):
    tp, dp, pp, ep = layout
    job = TrainingJob(model, tp, dp, pp, ep, tp_packets=tp > gpus_per_server)
    n_gpu = tp * dp * pp
    where = servers(n_gpu, gpus_per_server)
    plan = plan_training(job, n_gpu, where, n_iteration=3)
    expected = network_bytes(job, copies_in_server(job, where))
    expected["ep"] = expected["ep"] * model.top_k // 2
    if job.tp_packets:  # one ring all-reduce per layer, microbatch and direction, with 2 (tp - 1) / tp of the bytes
        n_reduce = 2 * job.microbatches * model.n_layer * dp
        expected["tp"] = n_reduce * 2 * (tp - 1) * 2 * model.sequence * model.hidden
    assert int(plan.pair_bytes.sum()) == 3 * sum(expected.values())


def test_a_layer_dispatches_computes_and_combines_and_goes_back_the_same_way():
    job = TrainingJob(replace(MOE, n_layer=2), 2, 2, 2, 4, n_microbatch=1)
    layer = [OP_COMPUTE, OP_GROUP, OP_EXCHANGE, OP_COMPUTE, OP_EXCHANGE]
    back = [OP_EXCHANGE, OP_COMPUTE, OP_EXCHANGE, OP_COMPUTE, OP_GROUP]
    first, last = ([op.kind for op in expanded(stage_program(job, s, 1))] for s in range(2))
    assert first == [*layer, OP_SEND, OP_RECEIVE, *back, OP_RING]
    assert last == [OP_RECEIVE, *layer, OP_COMPUTE, OP_COMPUTE, *back, OP_SEND, OP_RING]


def test_gradients_of_experts_are_summed_over_their_copies():
    """Over one GPU: not at all. In one server: timed. Over servers: a ring of shares between two timed halves."""
    alone = TrainingJob(MOE, 2, 4, 1, 8)
    inside = TrainingJob(MOE, 4, 2, 1, 2)
    across = TrainingJob(MOE, 1, 8, 1, 2)
    both = TrainingJob(MOE, 2, 8, 1, 4)

    def sums(job: TrainingJob, in_server: int) -> list[tuple]:
        last = list(expanded(stage_program(job, 0, in_server)))[-4:]
        return [(op.kind, op.task_bytes, op.tag, op.n_step) for op in last if op.task == "dp"]

    whole = 2 * 4 * (8 * 64**2 + 5 * 64)  # of one expert of every layer, bf16
    assert [x[2] for x in sums(alone, 1)] == ["dp"]
    assert sums(inside, 4)[1:] == [(OP_GROUP, 4 * whole, "", 1)]
    assert sums(across, 1)[1:] == [(OP_RING, 4 * whole, "expert-dp", 2 * 3)]
    expected = [(OP_GROUP, 2 * whole, "", 1), (OP_RING, whole, "expert-dp", 2), (OP_GROUP, 2 * whole, "", 1)]
    assert sums(both, 2)[1:] == expected


def layer_ps(job: TrainingJob) -> tuple[int, int]:
    """Forward time of a layer's attention, and of its experts."""
    s, h = job.model.sequence, job.model.hidden
    rate = job.tp * job.flops_per_s
    attention, experts = 8 * s * h**2 + 4 * s**2 * h, job.model.top_k * 16 * s * h**2
    return tuple(-(-flops * PS_PER_S // rate) for flops in (attention, experts))  # pyright: ignore


@pytest.mark.parametrize("ep", [2, 3, 4])
def test_an_iteration_takes_its_compute_and_its_exchanges(ep):
    """Messages of one packet to every peer on a star. The last GPU to begin an exchange sends for ep - 1 packets, and
    the last one goes through the switch: `least_ps`. At worst all of a GPU's packets meet before its port by then:
    `most_ps`. For two GPUs both are the same, so the iteration is exact.
    """
    job = TrainingJob(TINY, 1, ep, 1, ep, n_microbatch=3, flops_per_s=10**9)
    _, tasks, _ = run_job(job)
    buffer, n_exchange = 2 * 2 * 16 * 8, 3 * 2 * 4  # two copies of 16 tokens of 8 values
    message = -(-buffer // ep)
    least_ps, most_ps = delivery_ps(message, ep - 1), delivery_ps(message, 2 * (ep - 1) - 1)
    exchanges = [t["bytes"] for t in tasks if t["kind"] == "ep"]
    assert exchanges == [buffer] * (ep * n_exchange)
    logits_ps = 2 * 16 * 8 * PS_PER_S // 10**9
    compute_ps = 3 * 3 * (2 * sum(layer_ps(job)) + logits_ps)
    exchange_ps = max(t["start_ps"] for t in tasks if t["kind"] == "dp") - compute_ps
    assert n_exchange * least_ps <= exchange_ps <= n_exchange * most_ps


@pytest.mark.parametrize("tp", [2, 4])
def test_experts_inside_a_server_send_nothing(tp):
    """EP 1: every GPU has all experts, and their gradients' all-reduce is timed as a tensor-parallel one."""
    job = TrainingJob(MOE, tp, 1, 1, 1, n_microbatch=2)
    outcome, tasks, _ = run_job(job, n_iteration=2, gpus_per_server=tp)
    reduce_ps = job.tp_all_reduce_ps()
    bytes_ = 2 * 4 * 8 * (8 * 64**2 + 5 * 64)
    moved_ps = -(-2 * (tp - 1) * bytes_ * 8 * PS_PER_S // (tp * job.tp_bandwidth_bps))
    logits_ps = -(-2 * 64 * 64 * PS_PER_S // (tp * job.flops_per_s))
    iteration_ps = 2 * (3 * (4 * sum(layer_ps(job)) + logits_ps) + 2 * 4 * reduce_ps) + job.tp_alpha_ps + moved_ps
    assert outcome.model.state.work.iteration_end_ps.tolist() == [iteration_ps, 2 * iteration_ps]
    assert outcome.flows == {} and [t["bytes"] for t in tasks if t["kind"] == "dp"] == [bytes_] * 2 * tp


@pytest.mark.parametrize("layout", [(2, 4, 1, 8), (2, 2, 2, 2), (2, 4, 2, 4), (1, 8, 1, 2), (4, 2, 1, 1)])
@pytest.mark.parametrize("tp_packets", [False, True])
def test_a_run_ends_every_flow_and_task_of_its_plan_and_moves_its_bytes(layout, tp_packets):
    tp, dp, pp, ep = layout
    job = TrainingJob(replace(MOE, n_layer=2), tp, dp, pp, ep, tp_packets=tp_packets, flops_per_s=10**12)
    outcome, tasks, plan = run_job(job, n_iteration=2, gpus_per_server=4)
    assert outcome.sent_bytes == int(plan.pair_bytes.sum())
    exchanges = [t["bytes"] for t in tasks if t["kind"] == "ep"]
    per_gpu = 2 * job.microbatches * job.layers_per_stage * 4 if ep > 1 else 0
    assert exchanges == [2 * 2 * 64 * 64 // tp] * (tp * dp * pp * per_gpu)


def test_both_halves_of_a_sum_over_servers_take_half_an_all_reduce():
    """Two servers with two copies each: reduce-scatter, a ring of two GPUs, all-gather."""
    job = TrainingJob(replace(MOE, n_layer=1), 2, 2, 1, 1, n_microbatch=1)
    _, tasks, _ = run_job(job, gpus_per_server=2)
    whole = 2 * 8 * (8 * 64**2 + 5 * 64)
    half_ps = job.tp_alpha_ps + -(-whole // 2 * 8 * PS_PER_S // job.tp_bandwidth_bps)
    for gpu in range(4):
        _, scatter, ring, gather = (t for t in tasks if t["gpu"] == gpu and t["kind"] == "dp")
        assert [t["bytes"] for t in (scatter, ring, gather)] == [whole, whole // 2, whole]
        assert gather["end_ps"] - gather["start_ps"] >= half_ps <= scatter["end_ps"] - scatter["start_ps"]
    last = max(tasks, key=lambda t: t["start_ps"])
    assert last["end_ps"] - last["start_ps"] == half_ps  # the last member waits for nobody


@pytest.mark.parametrize(
    "model, layout, text",
    [
        (GptModel(8, 64), (2, 2, 2, 2), r"ep: 2, and the model has no experts\. Accepted: 1 for a dense model"),
        (MOE, (1, 3, 1, 3), r"ep: 3 GPUs for 8 experts\. Accepted: a divisor of the experts"),
        (MOE, (1, 2, 4, 4), r"ep: 4, and a stage has tp 1 x dp 2 = 2 GPUs\. Accepted: a divisor of a stage's GPUs"),
        (replace(MOE, top_k=9), (1, 8, 1, 8), r"top_k: 9 experts per token of 8\. Accepted: 1 to 8"),
    ],
)
def test_experts_that_do_not_fit_are_refused(model, layout, text):
    tp, dp, pp, ep = layout
    with pytest.raises(ConfigError, match=text):
        plan_training(TrainingJob(model, tp, dp, pp, ep), tp * dp * pp, servers(tp * dp * pp, 8))
