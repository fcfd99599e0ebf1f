"""Starts that are late by a random time: by how much, who, and that nothing else changes."""

import numpy as np
import pytest

from models.topology.graph import LinkKind
from models.topology.rail_optimised import rail_optimised
from models.workload.collectives import Collective, plan_collectives
from models.workload.plan import WorkloadPlan
from models.workload.traffic.flows import FlowList
from models.workload.traffic.start_jitter import delay_flows, delay_streams, late_ps
from pdes.config import config_from_dict
from pdes.random_plain import PURPOSE_START_JITTER, uniform_plain
from pdes.scenario import build_scenario
from reference.network_case import Outcome, make_plan_case

NS, US, GBPS = 1000, 10**6, 10**9
JITTER_PS = 50 * NS


def test_a_delay_is_a_whole_time_below_the_jitter_from_seed_and_number():
    late = late_ps(7, range(4000), JITTER_PS)
    assert late.dtype == np.int64 and late.min() >= 0 and late.max() < JITTER_PS
    for i in (0, 1, 3999):
        assert abs(late[i] - uniform_plain(7, i, PURPOSE_START_JITTER, 0) * JITTER_PS) <= 1
    assert abs(late.mean() - JITTER_PS / 2) < 4 * JITTER_PS / np.sqrt(12 * 4000)
    assert (late_ps(8, range(4000), JITTER_PS) != late).mean() > 0.99
    assert late_ps(7, [3999, 1], JITTER_PS).tolist() == late[[3999, 1]].tolist()


def test_twice_the_jitter_is_twice_as_late():
    once, twice = late_ps(1, range(100), JITTER_PS), late_ps(1, range(100), 2 * JITTER_PS)
    assert set((twice - 2 * once).tolist()) == {0, 1}
    assert late_ps(1, range(100), 1).tolist() == [0] * 100


def test_every_flow_is_late_by_its_own_time():
    n = np.arange(5)
    flows = FlowList(n, n + 1, n + 9, 10 * n, np.full(5, 100), ("",) * 5)
    late = delay_flows(flows, 3, JITTER_PS)
    assert (late.start_ps - flows.start_ps).tolist() == late_ps(3, n.tolist(), JITTER_PS).tolist()
    assert late.size_bytes is flows.size_bytes and flows.start_ps.tolist() == [0, 10, 20, 30, 40]


def collectives(n_iteration: int = 1) -> WorkloadPlan:
    jobs = [
        Collective("first", "all-reduce", 40_000, (0, 1, 2, 3)),
        Collective("then", "all-to-all", 40_000, (0, 1, 2, 3), after=("first",)),
        Collective("later", "point-to-point", 9_000, (4, 5), start_ps=7 * US),
    ]
    return plan_collectives(jobs, 8, n_iteration)


def training(n_iteration: int, jitter: str = "0s") -> WorkloadPlan:
    model = {"layers": 2, "hidden": 64, "vocabulary": 256, "sequence": 64}
    workload = {"kind": "training", "model": model, "parallel": {"tp": 2, "dp": 2, "pp": 2}, "start_jitter": jitter}
    topology = {"kind": "roft", "gpus": 8, "gpus_per_server": 2}
    tables = {"topology": topology, "workload": workload, "simulation": {"iterations": n_iteration}}
    return build_scenario(config_from_dict(tables)).plan


def run(plan: WorkloadPlan) -> Outcome:
    return make_plan_case(
        rail_optimised(8, 2, 4, LinkKind(100 * GBPS, 500 * NS), LinkKind(100 * GBPS, 1500 * NS)), plan
    ).run()


def test_streams_of_a_gpu_are_late_together_and_after_their_own_start():
    plan, seed = collectives(), 5
    late = delay_streams(plan, seed, JITTER_PS)
    assert not plan.streams["wake_ps"].any() and late.operations is plan.operations
    begin_ps = np.where(plan.streams["gpu"] >= 4, 7 * US, 0)
    assert (late.streams["wake_ps"] - begin_ps).tolist() == late_ps(seed, plan.streams["gpu"].tolist(), 50_000).tolist()


def test_what_starts_by_time_starts_late_by_exactly_that():
    plan, late_of_gpu = collectives(), late_ps(5, range(8), JITTER_PS)
    flows, late = run(plan).flows, run(delay_streams(plan, 5, JITTER_PS)).flows
    assert flows.keys() == late.keys()
    first_of_ring = {
        int(s["gpu"]): int(s["first_flow"]) for s in plan.streams if plan.stream_names[s["name"]] == "first"
    }
    for gpu, flow in first_of_ring.items():
        assert (flows[flow][0], late[flow][0]) == (0, late_of_gpu[gpu])
    last = max(flows)
    assert (flows[last][0], late[last][0]) == (7 * US, 7 * US + late_of_gpu[4])


@pytest.mark.parametrize("n_iteration", [1, 3])
def test_iterations_are_late_by_less_than_the_jitter_and_not_again(n_iteration: int):
    """On links that nobody shares, every task ends as late as something that it waited for."""
    tasks, late = run(training(n_iteration)).tasks, run(training(n_iteration, "50ns")).tasks
    assert [row[:5] for row in tasks] == [row[:5] for row in late]
    shift_ps = np.array([row[6] for row in late]) - np.array([row[6] for row in tasks])
    assert shift_ps.min() >= 0 and 0 < shift_ps.max() < JITTER_PS
    late_of_gpu = late_ps(1, range(8), JITTER_PS)
    first = [next(row for row in late if row[1] == gpu) for gpu in range(4)]
    assert [row[5] for row in first] == late_of_gpu[:4].tolist()
