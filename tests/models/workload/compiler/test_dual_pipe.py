"""DualPipe: its order on an ideal pipeline, its memory, and jobs that run by it."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from models.compute.devices import DEVICES
from models.compute.layout import Layout
from models.compute.lower import segments
from models.compute.memory import chunks_in_flight, memory_of
from models.compute.model_shape import ModelShape
from models.topology.graph import LinkKind
from models.topology.rail_optimised import rail_optimised
from models.workload.compiler.build import plan_job
from models.workload.compiler.choose import choose
from models.workload.compiler.job import Job
from models.workload.compiler.schedules.dual_pipe import BOTH, dual_pipe
from models.workload.compiler.schedules.passes import Pass
from models.workload.compiler.tuning import Tuning
from models.workload.program import PARTS
from pdes.errors import ConfigError
from reference.network_case import Outcome, make_plan_case

GBPS, NS = 10**9, 10**3
H100 = DEVICES["h100"]
FABRIC = rail_optimised(16, 8, 2, LinkKind(1600 * GBPS, 100 * NS), LinkKind(1600 * GBPS, 200 * NS), 1.0)
SERVER = FABRIC.server[FABRIC.host]
GPT = ModelShape(8, 512, 8, vocabulary=1024, sequence=256)
MOE = replace(GPT, n_expert=8, top_k=2)
SIZES = [(2, 4), (4, 8), (4, 14), (8, 16), (16, 40)]


def halves(one: Pass) -> list[tuple[str, int]]:
    """(forward or backward, chunk) of a pass."""
    if one.which == BOTH:
        return [("forward", one.chunk), ("backward", 1 - one.chunk)]
    return [] if one.which == "backward-weight" else [(one.which.removesuffix("-input"), one.chunk)]


def ideal_time(pp: int, n: int, forward: int, inputs: int, weights: int) -> int:
    """Of an iteration where messages take no time: every rank takes its passes in order, as soon as they can be."""
    orders = [dual_pipe(pp, min(rank, pp - 1 - rank), n) for rank in range(pp)]
    backward = inputs + weights
    takes = {
        "forward": forward, "backward": backward, "backward-input": inputs, "backward-weight": weights,
        BOTH: forward + backward,
    }  # fmt: skip
    ends: dict[tuple[str, bool, int, int], int] = {}  # which, from the last rank, stage of the model, microbatch
    now, counts = [0] * pp, [Counter() for _ in range(pp)]
    n_left = sum(map(len, orders))
    while n_left:
        before = n_left
        for rank, order in enumerate(orders):
            while order:
                needed, made = [], []
                for which, chunk in halves(order[0]):
                    is_back = (chunk == 0) == (rank >= pp // 2)
                    stage, i = pp - 1 - rank if is_back else rank, counts[rank][which, chunk]
                    if which == "forward" and stage:
                        needed.append(("forward", is_back, stage - 1, i))
                    elif which == "backward":
                        needed.append(
                            ("forward", is_back, stage, i) if stage == pp - 1 else (which, is_back, stage + 1, i)
                        )
                    made.append((which, is_back, stage, i))
                if any(key not in ends for key in needed):
                    break
                one = order.pop(0)
                counts[rank].update(halves(one))
                now[rank] = max([now[rank], *(ends[key] for key in needed)]) + takes[one.which]
                ends |= dict.fromkeys(made, now[rank])
                n_left -= 1
        assert n_left < before, "ranks wait for each other"
    return max(now)


@pytest.mark.parametrize(("pp", "n"), SIZES)
def test_its_bubble_is_that_of_its_paper(pp: int, n: int) -> None:
    """(PP / 2 - 1) (F&B + B - 3 W), where passes take as long; else within their difference, as ranks wait for both."""
    assert ideal_time(pp, n, 1, 1, 1) == n * 3 + (pp // 2 - 1) * (3 + 2 - 3)
    for forward, inputs, weights in ((10, 11, 9), (20, 30, 20), (10, 12, 8)):
        backward = inputs + weights
        bubble = ideal_time(pp, n, forward, inputs, weights) - n * (forward + backward)
        paper = (pp // 2 - 1) * (forward + backward + backward - 3 * weights)
        assert abs(bubble - paper) <= (pp // 2 - 1) * (inputs - forward)


@pytest.mark.parametrize(("pp", "n"), SIZES)
def test_every_microbatch_goes_forth_and_back_once(pp: int, n: int) -> None:
    for half in range(pp // 2):
        passes = dual_pipe(pp, half, n)
        done = Counter(part for one in passes for part in halves(one))
        assert done == {(which, chunk): n // 2 for which in ("forward", "backward") for chunk in (0, 1)}
        put_off = [(one.chunk, one.microbatch) for one in passes if one.which == "backward-input"]
        assert put_off == [(one.chunk, one.microbatch) for one in passes if one.which == "backward-weight"]


@pytest.mark.parametrize(("pp", "n"), SIZES)
def test_a_rank_holds_at_most_pp_and_one_activations(pp: int, n: int) -> None:
    """Two of them at the moment at which a forward pass makes one while a backward pass uses up another."""
    most = 0
    for half in range(pp // 2):
        held = 0
        for one in dual_pipe(pp, half, n):
            kinds = [which for which, _ in halves(one)]
            most = max(most, held + kinds.count("forward"))
            held += kinds.count("forward") - kinds.count("backward")
        assert held == 0
    layout = Layout(pp=pp, n_microbatch=n, dual=True)
    assert most == pp + 1 == chunks_in_flight(layout, 0, "dualpipe")


def job(shape: ModelShape = GPT, **sizes) -> Job:
    layout = Layout(**({"tp": 1, "dual": True} | sizes))
    return Job(shape, layout, (H100,), "dualpipe" if layout.dual else "1f1b", bucket_parameters=3_000_000)


def run(one: Job, n_iteration: int = 1) -> Outcome:
    plan = plan_job(one, 16, SERVER, n_iteration)
    outcome = make_plan_case(FABRIC, plan).run(longest_round_ps=10**9)
    assert len(outcome.tasks) == plan.n_task and len(outcome.flows) == plan.n_flow
    assert len(outcome.spent) == 16 * n_iteration
    return outcome


def spent(outcome: Outcome, part: str) -> list[int]:
    return [row[4 + PARTS.index(part)] for row in sorted(outcome.spent)]


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        (GPT, {"tp": 2, "dp": 2, "pp": 4, "n_microbatch": 8}),
        (GPT, {"dp": 2, "pp": 8, "n_microbatch": 18, "zero": 1, "recompute": "full"}),
        (GPT, {"tp": 2, "cp": 2, "dp": 1, "pp": 4, "n_microbatch": 10, "sequence_parallel": True}),
        (MOE, {"dp": 8, "pp": 2, "ep": 8, "n_microbatch": 4, "zero": 1}),
        (MOE, {"tp": 2, "dp": 2, "pp": 4, "ep": 4, "n_microbatch": 8, "sequence_parallel": True}),
    ],
    ids=str,
)
def test_jobs_run_to_their_end_and_compute_all_passes(shape: ModelShape, sizes: dict) -> None:
    """To the ps what the segments of every pass say; ranks at both ends have embedding (chunk 0) and head (chunk 1)."""
    one = job(shape, **sizes)
    outcome, layout = run(one, 2), one.layout

    def chunk_ps(half: int, which: str, chunk: int) -> int:
        parts = ["dense" if shape.is_dense else "moe"] * (8 // layout.pp)
        parts += [("embedding", "head")[chunk]] if half == 0 else []
        return sum(s.time_ps for part in parts for s in segments(shape, layout, H100, part, which))

    def pass_ps(half: int, one: Pass) -> int:
        if one.which == BOTH:
            return chunk_ps(half, "forward", one.chunk) + chunk_ps(half, "backward", 1 - one.chunk)
        return chunk_ps(half, one.which, one.chunk)

    for row in outcome.spent:
        stage = row[1] // (layout.tp * layout.cp * layout.dp)
        half = min(stage, layout.pp - 1 - stage)
        passes = dual_pipe(layout.pp, half, layout.n_microbatch)
        assert row[4 + PARTS.index("compute")] == sum(pass_ps(half, one) for one in passes)


def test_a_pipeline_takes_its_closed_form_within_two_per_cent() -> None:
    """N (F + B) and the paper's bubble, where communication is next to nothing and the model's ends are small."""
    shape = ModelShape(16, 1024, 8, vocabulary=2, sequence=4096, learned_positions=False)
    one = job(shape, dp=2, pp=8, n_microbatch=16)
    outcome = run(one)

    def chunk_ps(which: str) -> int:
        return 2 * sum(s.time_ps for s in segments(shape, one.layout, H100, "dense", which))

    forward, inputs, weights = (chunk_ps(which) for which in ("forward", "backward-input", "backward-weight"))
    whole = chunk_ps("backward")
    expected_ps = 16 * (forward + whole) + 3 * (forward + 2 * whole - 3 * weights)
    kinds = plan_job(one, 16, SERVER).kinds
    last_ps = max(row[6] for row in outcome.tasks if row[3] == kinds.index("backward"))
    slack_ps = 3 * abs(inputs - forward)
    assert 0.98 * expected_ps - slack_ps < last_ps < 1.02 * expected_ps + slack_ps


def test_measured_passes_stand_for_layers() -> None:
    """Passes with times of their own take what the order takes on an ideal pipeline."""
    times = (2 * 10**9, 3 * 10**9, 10**9)
    one = replace(job(GPT, dp=4, pp=4, n_microbatch=12), pass_times_ps=times)
    kinds = plan_job(one, 16, SERVER).kinds
    last_ps = max(row[6] for row in run(one).tasks if row[3] == kinds.index("backward"))
    assert ideal_time(4, 12, *times) == pytest.approx(last_ps, rel=0.01)


def test_tokens_travel_while_the_other_pass_computes() -> None:
    """Of what 1F1B waits for exchanges of experts, less than half is left."""
    shape = replace(MOE, hidden=1024, sequence=2048)
    sizes = {"dp": 8, "pp": 2, "ep": 8, "n_microbatch": 12}
    waits = [sum(spent(run(job(shape, dual=dual, **sizes)), "ep")) for dual in (True, False)]
    assert 0 < waits[0] < 0.5 * waits[1]


def test_copies_of_a_stage_sum_their_gradients() -> None:
    """On two GPUs, each a stage per direction: an all-reduce of all parameters between them, 2 (n - 1) S in all."""
    one = job(replace(GPT, tied_embeddings=False), dp=1, pp=2, n_microbatch=4)
    plan = plan_job(replace(one, tuning=Tuning(protocol="Simple")), 2, np.arange(2))
    messages_bytes = 4 * 2 * 256 * 512 * 2
    assert int(plan.pair_bytes.sum()) - messages_bytes == 2 * one.shape.parameters() * one.layout.gradient_bytes


def test_microbatches_cross_every_border_forth_and_back() -> None:
    """Those from either end alike: eight more are as many messages over three borders, on four GPUs side by side."""
    sent = [int(plan_job(job(dp=4, pp=4, n_microbatch=n), 16, SERVER).pair_bytes.sum()) for n in (8, 16)]
    assert sent[1] - sent[0] == 8 * 2 * 3 * 4 * 256 * 512 * 2


def test_memory_has_two_stages_and_half_of_each_ones_activations() -> None:
    shape, sizes = replace(GPT, tied_embeddings=False), {"pp": 4, "n_microbatch": 16}
    dual, one_way = Layout(dual=True, **sizes), Layout(**sizes)
    weights = [
        sum(memory_of(shape, layout, stage, name).weight_bytes for stage in range(4))
        for layout, name in ((dual, "dualpipe"), (one_way, "1f1b"))
    ]  # pyright: ignore[reportArgumentType]
    assert weights[0] == 2 * weights[1] == 2 * 2 * shape.parameters()
    kept = [
        memory_of(shape, layout, 0, name).activation_bytes for layout, name in ((dual, "dualpipe"), (one_way, "1f1b"))
    ]
    assert kept[0] / kept[1] == 5 / 4  # PP + 1 and, on the first stage, PP


def test_what_is_left_open_is_what_the_schedule_takes() -> None:
    """An even number of microbatches, two for each stage at least, and no chunks."""
    found = choose(job(dp=1, pp=4, n_microbatch=1), 48, None, None)
    assert found.layout.vpp == 1 and found.layout.n_microbatch % 2 == 0 and found.layout.n_microbatch >= 8
    assert found.layout.microbatch * found.layout.n_microbatch == 48


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ({"dp": 16, "pp": 1, "n_microbatch": 8}, "pp: 1 with schedule .*an even number"),
        ({"dp": 4, "pp": 4, "n_microbatch": 6}, "microbatches: 6 microbatches .* at least two for each stage"),
        ({"dp": 4, "pp": 4, "n_microbatch": 9}, "microbatches: 9 microbatches .*an even number"),
        ({"dp": 4, "pp": 4, "n_microbatch": 8, "zero": 3}, r"\[workload\] zero: 3"),
        ({"dp": 4, "pp": 4, "n_microbatch": 8, "vpp": 2}, "vpp: 2 with schedule dualpipe"),
    ],
)
def test_a_layout_that_does_not_fit_is_refused(sizes: dict, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        plan_job(job(**sizes), 16, SERVER)
