"""A training job run on a small network: what tests of training and of experts share."""

from collections.abc import Iterator

import numpy as np

from models.topology.graph import LinkKind
from models.topology.leaf_spine import leaf_spine
from models.topology.rail_optimised import rail_optimised
from models.workload.operations import Operation, Program, Repeat
from models.workload.plan import WorkloadPlan
from models.workload.training.iteration import TrainingJob, plan_training
from reference.network_case import Outcome, make_parameters, make_plan_case

GBPS, NS, US = 10**9, 1000, 10**6
NAMES = ("task_id", "gpu", "iteration", "kind", "stream", "start_ps", "end_ps", "bytes")
HEADER_BYTES, BYTE_PS = 48, 80  # at 100 Gbps


def run_job(
    job: TrainingJob, n_iteration: int = 1, gpus_per_server: int = 1
) -> tuple[Outcome, list[dict], WorkloadPlan]:
    """Run a job on a star, or on servers with rails: the outcome, its task rows by name, the plan.

    Every flow and every task that the plan promises has ended, and no others.
    """
    n_gpu = job.tp * job.dp * job.pp
    if gpus_per_server > 1:
        topology = rail_optimised(
            n_gpu, gpus_per_server, 4, LinkKind(100 * GBPS, 500 * NS), LinkKind(100 * GBPS, 1500 * NS)
        )
    else:
        topology = leaf_spine(1, 0, n_gpu, 100 * GBPS, 100 * GBPS, US, US)
    plan = plan_training(job, n_gpu, topology.server[topology.host], n_iteration)
    far = 2**31 - 1
    outcome = make_plan_case(topology, plan, make_parameters(topology, (far, far)), 10**7).run()
    tasks = [dict(zip(NAMES, row, strict=True)) for row in outcome.tasks]
    for task in tasks:
        task["kind"] = plan.kinds[task["kind"]]
    assert [t["task_id"] for t in tasks] == list(range(plan.n_task))
    assert sorted(outcome.flows) == list(range(plan.n_flow))
    return outcome, tasks, plan


def delivery_ps(size_bytes: int, n_message: int = 1) -> int:
    """Until the last of n_message messages of a GPU to as many others is there, on a star where nothing else is.

    More than one: of one packet each, so that they leave one after the other.
    """
    n_packet = -(-size_bytes // 1000)
    assert n_message == 1 or n_packet == 1
    last_ps = (size_bytes - (n_packet - 1) * 1000 + HEADER_BYTES) * BYTE_PS
    full_ps = (1000 + HEADER_BYTES) * BYTE_PS
    return 2 * US + (n_packet * full_ps + last_ps if n_packet > 1 else (n_message + 1) * last_ps)


def servers(n_gpu: int, gpus_per_server: int) -> np.ndarray:
    """The server of every GPU."""
    return np.arange(n_gpu) // gpus_per_server


def expanded(program: Program) -> Iterator[Operation]:
    """Every operation of a program as often as it runs, in order."""
    for op in program:
        if isinstance(op, Repeat):
            for _ in range(op.n):
                yield from expanded(op.body)
        else:
            yield op
