"""Training: sizes that the literature states, the 1F1B order, and iteration times with a closed form."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from models.workload.program import OP_COMPUTE, OP_GROUP, OP_RECEIVE, OP_RING, OP_SEND
from models.workload.training.iteration import PRESETS, GptModel, TrainingJob, plan_training, stage_program
from pdes.errors import ConfigError
from reference.training_case import delivery_ps, expanded, run_job

US, PS_PER_S = 10**6, 10**12
TX_PS, ACK_PS = 83_840, 4_800
SMALL = GptModel(n_layer=8, hidden=256, vocabulary=1, sequence=128)


@pytest.mark.parametrize("name, billions", [("gpt-7b", 7), ("gpt-13b", 13), ("gpt-22b", 22), ("gpt-175b", 175)])
def test_presets_have_their_nominal_size(name, billions):
    assert PRESETS[name].parameters() == pytest.approx(billions * 1e9, rel=0.05)


@pytest.mark.parametrize("pp", [1, 2, 4, 8])
def test_stages_hold_all_parameters_and_a_second_embedding(pp):
    """The last stage has a copy of the word embeddings for the logits, unless it is the first as well."""
    job = TrainingJob(SMALL, 1, 1, pp)
    copies = SMALL.embedding_parameters() if pp > 1 else 0
    assert sum(job.stage_parameters(s) for s in range(pp)) == SMALL.parameters() + copies


@pytest.mark.parametrize("name", [name for name, model in PRESETS.items() if model.is_dense])
@pytest.mark.parametrize("tp, pp", [(1, 1), (8, 2), (8, 8)])
def test_forward_time_is_the_flops_of_the_literature(name, tp, pp):
    """Narayanan et al. SC'21, eq. 2, a third of the 72 b s l h^2 (1 + s / 6h + V / 12lh) without recomputation."""
    model = PRESETS[name]
    job = TrainingJob(model, tp, 1, pp, microbatch=2, flops_per_s=156 * 10**12)
    b, s, layers, h, v = 2, model.sequence, model.n_layer, model.hidden, model.vocabulary
    flops = 24 * b * s * layers * h**2 * (1 + Fraction(s, 6 * h) + Fraction(v, 12 * layers * h))
    exact_ps = flops * PS_PER_S / (tp * 156 * 10**12)
    total_ps = sum(job.forward_ps(stage) for stage in range(pp))
    assert exact_ps <= total_ps < exact_ps + pp


def test_an_all_reduce_inside_a_server_is_alpha_plus_ring_bytes_over_bandwidth():
    job = TrainingJob(SMALL, 4, 1, 1, tp_alpha_ps=7, tp_bandwidth_bps=8 * 10**9)
    assert job.activation_bytes() == 2 * 128 * 256
    assert job.tp_all_reduce_ps() == 7 + 65_536 * 3 // 2 * 1000  # 2 (n-1) / n of the bytes at a byte per ns


def passes(job: TrainingJob, stage: int) -> str:
    """A stage's compute operations, F and B."""
    kinds = {"forward": "F", "backward": "B"}
    return "".join(kinds[op.task] for op in expanded(stage_program(job, stage)) if op.kind == OP_COMPUTE)


def test_1f1b_order_as_in_the_paper():
    """Narayanan et al. SC'21, figure 4 (top), four stages and eight microbatches."""
    job = TrainingJob(SMALL, 1, 1, 4, n_microbatch=8)
    assert [passes(job, stage) for stage in range(4)] == [
        "FFF" + "FB" * 5 + "BBB", "FF" + "FB" * 6 + "BB", "F" + "FB" * 7 + "B", "FB" * 8,
    ]  # fmt: skip


@pytest.mark.parametrize("pp", [1, 2, 4, 8])
@pytest.mark.parametrize("m", [1, 2, 3, 8, 20])
def test_1f1b_does_all_microbatches_and_keeps_few_in_flight(pp, m):
    job = TrainingJob(SMALL, 1, 1, pp, n_microbatch=m)
    for stage in range(pp):
        order = passes(job, stage)
        depth = np.cumsum([1 if x == "F" else -1 for x in order])
        assert len(order) == 2 * m and depth[-1] == 0 and depth.min() >= 0
        assert depth.max() == min(m, pp - stage)


def test_every_stage_receives_computes_reduces_and_sends_in_this_order():
    job = TrainingJob(SMALL, 2, 2, 2, n_microbatch=1)
    first, last = ([op.kind for op in expanded(stage_program(job, s))] for s in range(2))
    assert first == [OP_COMPUTE, OP_GROUP, OP_SEND, OP_RECEIVE, OP_COMPUTE, OP_GROUP, OP_RING]
    assert last == [OP_RECEIVE, OP_COMPUTE, OP_GROUP, OP_COMPUTE, OP_GROUP, OP_SEND, OP_RING]


@pytest.mark.parametrize("pp, m", [(2, 1), (2, 4), (4, 4), (4, 9), (8, 3)])
def test_a_pipeline_takes_m_plus_p_minus_1_passes(pp, m):
    """(m + p - 1) (f + b) without communication; no path of dependencies has more operations than 2 (m + p - 1), and
    each waits for one message at most, so communication adds at most as many deliveries (4 % more for ACKs on the way).
    The last stage's logits (V = 1: a share of 1 / 12 h) are in the upper bound.
    """
    job = TrainingJob(SMALL, 1, 1, pp, n_microbatch=m, flops_per_s=10**11)
    outcome, tasks, _ = run_job(job)
    end_ps, n = max(t["end_ps"] for t in tasks), m + pp - 1
    message_ps = delivery_ps(job.activation_bytes())
    longest_ps = 3 * n * job.forward_ps(pp - 1) + 2 * n * message_ps * 1.04
    assert 3 * n * job.forward_ps(0) <= end_ps <= longest_ps
    assert longest_ps < 1.05 * 3 * n * job.forward_ps(0)  # else the bound would say little
    assert len(outcome.flows) == 2 * m * (pp - 1)


@pytest.mark.parametrize("dp", [2, 4])
def test_data_parallelism_adds_a_ring_all_reduce_of_the_gradients(dp):
    job = TrainingJob(replace(SMALL, n_layer=1), 1, dp, 1, n_microbatch=3, flops_per_s=10**12)
    outcome, tasks, _ = run_job(job)
    passes_ps = 3 * 3 * job.forward_ps(0)
    rings = [t for t in tasks if t["kind"] == "dp"]
    assert {t["start_ps"] for t in rings} == {passes_ps}
    assert {t["bytes"] for t in rings} == {job.gradient_bytes(0)} == {2 * job.model.parameters()}
    chunk, n_step = -(-job.gradient_bytes(0) // dp), 2 * (dp - 1)
    n_packet = -(-chunk // 1000)
    longest_ps = 2 * US + ((n_packet + 1) * TX_PS + 2 * ACK_PS) / (1 - ACK_PS / TX_PS)  # see test_oracles
    for ring in rings:
        assert n_step * delivery_ps(chunk) <= ring["end_ps"] - passes_ps <= n_step * longest_ps
    assert len(outcome.flows) == n_step * dp


@pytest.mark.parametrize("tp", [2, 8])
def test_tensor_parallelism_alone_takes_exactly_its_compute_and_all_reduces(tp):
    """No message crosses the network: a run without queue pairs."""
    job = TrainingJob(SMALL, tp, 1, 1, n_microbatch=2)
    outcome, tasks, _ = run_job(job, n_iteration=2, gpus_per_server=tp)
    reduce_ps = 2 * SMALL.n_layer * job.tp_all_reduce_ps()
    iteration_ps = 2 * (3 * job.forward_ps(0) + 2 * reduce_ps)
    assert max(t["end_ps"] for t in tasks) == 2 * iteration_ps
    assert {t["end_ps"] - t["start_ps"] for t in tasks if t["kind"] == "tp"} == {reduce_ps}
    assert outcome.model.state.work.iteration_end_ps.tolist() == [iteration_ps, 2 * iteration_ps]
    assert outcome.flows == {}


def test_a_tensor_parallel_group_goes_on_when_its_last_member_is_there():
    """GPUs of a group in stage 1 get their activations at different times; their all-reduces end together."""
    job = TrainingJob(SMALL, 2, 2, 2, n_microbatch=3, flops_per_s=10**12)
    _, tasks, _ = run_job(job, gpus_per_server=2)
    reduces = [t for t in tasks if t["kind"] == "tp"]
    by_group: dict[int, list[list[int]]] = {}
    for gpu in range(8):
        mine = [t for t in reduces if t["gpu"] == gpu]
        by_group.setdefault(gpu // 2, []).append([(t["start_ps"], t["end_ps"]) for t in mine])
    duration_ps = 2 * job.layers_per_stage * job.tp_all_reduce_ps()
    for a, b in by_group.values():
        assert [end for _, end in a] == [end for _, end in b]
        assert all(end == max(x, y) + duration_ps for (x, end), (y, _) in zip(a, b, strict=True))


def test_tensor_parallelism_as_packets_moves_its_bytes():
    job = TrainingJob(replace(SMALL, n_layer=1), 2, 1, 1, n_microbatch=1, tp_packets=True)
    outcome, tasks, _ = run_job(job)
    # 2 all-reduces in each direction, each 2 (tp - 1) chunks of half the activations by each of 2 GPUs.
    assert len(outcome.flows) == 2 * 2 * 2 * 2
    assert [t["bytes"] for t in tasks if t["kind"] == "tp"] == [job.activation_bytes()] * 8


def test_there_is_no_barrier_between_iterations():
    """R12: a GPU begins its next iteration at once; the last stage is done before the first one."""
    job = TrainingJob(SMALL, 1, 1, 4, n_microbatch=4, flops_per_s=10**11)
    outcome, tasks, _ = run_job(job, n_iteration=3)
    ends = outcome.model.state.work.iteration_end_ps.tolist()
    for i in range(3):
        assert ends[i] == max(t["end_ps"] for t in tasks if t["iteration"] == i)
    assert min(t["start_ps"] for t in tasks if t["iteration"] == 1) < ends[0]
    for gpu in range(4):
        mine = [t for t in tasks if t["gpu"] == gpu]
        at_ps = 0
        for task in sorted(mine, key=lambda t: (t["iteration"], t["task_id"])):
            assert task["start_ps"] >= at_ps  # one stream: nothing overlaps, and only sends lie between
            at_ps = task["end_ps"]


def test_times_of_a_stream_have_no_gaps_but_messages():
    job = TrainingJob(SMALL, 1, 2, 2, n_microbatch=2, flops_per_s=10**12)
    _, tasks, _ = run_job(job, n_iteration=2)
    for gpu in range(4):
        mine = sorted((t for t in tasks if t["gpu"] == gpu), key=lambda t: (t["iteration"], t["task_id"]))
        assert mine[0]["start_ps"] == 0
        assert [t["start_ps"] for t in mine[1:]] == [t["end_ps"] for t in mine[:-1]]


@pytest.mark.parametrize("name, gpus, layout", [("gpt-7b", 64, (8, 4, 2)), ("gpt-13b", 128, (8, 4, 4))])
def test_presets_plan_with_the_layouts_of_the_paper(name, gpus, layout):
    job = TrainingJob(PRESETS[name], *layout)
    plan = plan_training(job, gpus, np.arange(gpus) // 8)
    tp, dp, pp = layout
    n_pp = 2 * job.microbatches * (pp - 1) * tp * dp
    n_dp = 2 * (dp - 1) * gpus
    assert plan.n_flow == n_pp + n_dp
    assert plan.facts["parameters"] == PRESETS[name].parameters()


@pytest.mark.parametrize(
    "job, n_gpu, servers, text",
    [
        (TrainingJob(SMALL, 2, 2, 2), 16, 8, r"tp 2 x dp 2 x pp 2 = 8 GPUs, and the topology has 16"),
        (TrainingJob(SMALL, 1, 1, 3), 3, 8, r"pp: 3 stages for 8 layers\. Accepted: a divisor of the layers"),
        (TrainingJob(SMALL, 4, 1, 1), 4, 2, r"tp: 4, and a tensor-parallel group spans servers"),
    ],
)
def test_a_layout_that_does_not_fit_is_refused(job, n_gpu, servers, text):
    with pytest.raises(ConfigError, match=text):
        plan_training(job, n_gpu, np.arange(n_gpu) // servers)


def test_a_group_over_servers_may_use_packets():
    plan_training(TrainingJob(SMALL, 4, 1, 1, tp_packets=True), 4, np.arange(4) // 2)
