"""Exchanges that share a copy engine: one by one, none lost, no deadlock, and as long as they take together."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.compute.devices import DEVICES
from models.compute.layout import Layout
from models.compute.model_shape import ModelShape
from models.topology.graph import LinkKind
from models.topology.rail_optimised import rail_optimised
from models.workload.compiler.build import plan_job
from models.workload.compiler.job import Job
from models.workload.plan import WorkloadPlan
from pdes.errors import ConfigError
from reference.network_case import Outcome, make_plan_case

GBPS, NS = 10**9, 10**3
H100 = DEVICES["h100"]
GPT = ModelShape(8, 512, 8, vocabulary=1024, sequence=256)
MOE = replace(GPT, n_expert=8, top_k=2)


def plan_of(shape: ModelShape, n_engine: int, rate_gbps: int = 1600, **sizes) -> tuple[WorkloadPlan, Outcome]:
    of_job = ("schedule", "overlap_gradients", "overlap_parameters", "align_parameters", "align_gradients")
    options = {key: sizes.pop(key) for key in of_job if key in sizes}
    link = LinkKind(rate_gbps * GBPS, 100 * NS)
    fabric = rail_optimised(16, 8, 2, link, link, 1.0)
    device = replace(H100, copy_engines=n_engine)
    job = Job(shape, Layout(**sizes), (device,), bucket_parameters=3_000_000, **options)
    plan = plan_job(job, 16, fabric.server[fabric.host], 2)
    outcome = make_plan_case(fabric, plan).run(longest_round_ps=10**9)
    assert len(outcome.tasks) == plan.n_task and len(outcome.flows) == plan.n_flow
    return plan, outcome


def beside(plan: WorkloadPlan, outcome: Outcome) -> dict[int, list[tuple[int, int]]]:
    """By GPU: begin and end of what is beside computing, in order; a gate that is passed is none."""
    found: dict[int, list[tuple[int, int]]] = {}
    for row in outcome.tasks:
        name = plan.stream_names[row[4]]
        if name != "main" and "/" not in name:
            found.setdefault(row[1], []).append((row[5], row[6]))
    return {gpu: sorted(rows) for gpu, rows in found.items()}


def exchanged(plan: WorkloadPlan, outcome: Outcome) -> list[tuple[int, ...]]:
    """(GPU, kind, bytes) of all that is beside computing."""
    return sorted((row[1], row[3], row[7]) for row in outcome.tasks if plan.stream_names[row[4]] != "main")


def n_at_once(rows: list[tuple[int, int]]) -> int:
    """The most at one instant."""
    edges = sorted(
        [(end, -1) for begin, end in rows if end > begin] + [(begin, 1) for begin, end in rows if end > begin]
    )
    return int(np.cumsum([way for _, way in edges]).max(initial=0))


LAYOUTS = [
    (GPT, {"tp": 1, "dp": 16, "pp": 1, "n_microbatch": 2, "zero": 3}),
    (GPT, {"tp": 2, "dp": 4, "pp": 2, "n_microbatch": 4, "zero": 3, "sequence_parallel": True, "tp_overlap": True}),
    (GPT, {"tp": 2, "dp": 8, "pp": 1, "n_microbatch": 2, "zero": 1, "sequence_parallel": True, "tp_overlap": True}),
    (GPT, {"tp": 1, "dp": 8, "pp": 2, "vpp": 2, "n_microbatch": 4, "zero": 1}),
    (GPT, {"tp": 2, "dp": 2, "cp": 4, "pp": 1, "n_microbatch": 2, "zero": 2}),
    (GPT, {"tp": 1, "dp": 4, "pp": 4, "n_microbatch": 8, "dual": True, "schedule": "dualpipe"}),
    (MOE, {"tp": 1, "dp": 16, "pp": 1, "ep": 4, "n_microbatch": 1, "zero": 3}),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "sizes"), LAYOUTS, ids=[str(sizes) for _, sizes in LAYOUTS])
def test_exchanges_that_share_an_engine_go_one_by_one(shape, sizes):
    """With one engine never two at once, with two at most two; the same bytes, and no less time."""
    results = {n: plan_of(shape, n, **dict(sizes)) for n in (0, 1, 2)}
    sent = {n: exchanged(*found) for n, found in results.items()}
    for n in (1, 2):
        assert max(map(n_at_once, beside(*results[n]).values()), default=0) <= n
        assert sent[n] == sent[0]
    ends = {n: max(row[6] for row in outcome.tasks) for n, (_, outcome) in results.items()}
    assert ends[1] >= 0.999 * ends[0] and ends[2] >= 0.999 * ends[0]


def test_without_one_some_are_at_once():
    """So that the test above says something."""
    assert max(map(n_at_once, beside(*plan_of(GPT, 0, 40, **dict(LAYOUTS[0][1]))).values())) == 2


def test_where_exchanges_take_longer_than_computing_they_take_their_sum():
    """Sharded parameters over slow links: one engine is busy from the first gathering to the last sum; gathered ahead,
    so that computing is not waited for between them.
    """
    plan, outcome = plan_of(GPT, 1, 10, tp=1, dp=16, pp=1, n_microbatch=2, zero=3)
    for rows in beside(plan, outcome).values():
        busy = sum(end - begin for begin, end in rows)
        assert busy >= 0.97 * (rows[-1][1] - rows[0][0])
    two = plan_of(GPT, 0, 10, tp=1, dp=16, pp=1, n_microbatch=2, zero=3)
    assert max(row[6] for row in two[1].tasks) <= max(row[6] for row in outcome.tasks)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_no_layout_waits_for_ever(data):
    tp = data.draw(st.sampled_from([1, 2, 4]))
    pp = data.draw(st.sampled_from([1, 2, 4]))
    vpp = data.draw(st.sampled_from([1, 2])) if pp > 1 else 1
    sizes = {
        "tp": tp, "pp": pp, "dp": 16 // tp // pp, "vpp": vpp, "n_microbatch": pp * data.draw(st.integers(1, 2)),
        "zero": data.draw(st.integers(0, 3)), "sequence_parallel": tp > 1, "tp_overlap": data.draw(st.booleans()),
        "overlap_gradients": data.draw(st.booleans()), "overlap_parameters": data.draw(st.booleans()),
        "align_parameters": data.draw(st.booleans()), "align_gradients": data.draw(st.booleans()),
    }  # fmt: skip
    try:
        plan, outcome = plan_of(GPT, data.draw(st.sampled_from([1, 2])), **sizes)
    except ConfigError:
        return
    assert max(row[6] for row in outcome.tasks) > 0 and plan.n_task == len(outcome.tasks)
