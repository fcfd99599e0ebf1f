"""What GPUs wait because a pipeline has stages, and what because messages between stages take time.

The first is the bubble: a pipeline of stages that are as fast, whose messages take no time, has it, too. The second is
exposed communication. Both follow, GPU by GPU, from what each did and waited; means are taken of them last, so that the
whole is the mean of its parts.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

WORK = ("compute_ps", "tp_ps", "cp_ps", "ep_ps")
"""Parts of a GPU's time that its stage takes for a microbatch, whatever the network between stages does."""


class Pipeline(NamedTuple):
    """The pipeline of a training job."""

    n_stage: int = 1
    n_microbatch: int = 1
    """Per replica, times the chunks of a stage if those are interleaved: its bubble is that of so many microbatches."""
    is_in_order: bool = True
    """Whether GPUs are numbered stage by stage: else nobody knows which stage a GPU is of."""


def pipeline_shape(result: Mapping[str, Any]) -> Pipeline:
    """The pipeline of the job in a result's embedded config; of one stage where there is none."""
    workload = result.get("config", {}).get("workload", {})
    parallel = workload.get("parallel", {})
    n_stage, n_chunk = int(parallel.get("pp") or 1), parallel.get("vpp")
    n_microbatch = int(result.get("workload", {}).get("microbatches") or workload.get("microbatches") or n_stage)
    in_order = workload.get("placement", "in-order") == "in-order" and workload.get("schedule") != "dualpipe"
    return Pipeline(n_stage, n_microbatch * (n_chunk if isinstance(n_chunk, int) else 1), in_order)


def split_waits(
    parts: Mapping[str, np.ndarray], later_ps: np.ndarray, backward_ps: np.ndarray, pipeline: Pipeline
) -> tuple[np.ndarray, np.ndarray]:
    """(pipeline bubble, exposed communication of the pipeline) of each GPU, ps.

    parts: int64[n_gpu], of an iteration. later_ps: of pp_wait_ps, what belongs to later iterations: the GPU is done
    and would otherwise idle. backward_ps: of compute_ps, the backward passes'. GPUs of a pipeline in order: all of
    them, by number; with more than one stage else: of any.

    Of p stages that take t_i for a microbatch, m of them: a 1F1B pipeline takes sum(t) + (m - 1) max(t), so that stage
    s stands (sum(t) + (m - 1) max(t) - m t_s); of that, the backward passes of the stages before it lie behind its own
    last one. Where stages are not known, all of it may lie before. What a GPU waits beyond is communication's.
    """
    wait_ps = parts["pp_wait_ps"] - later_ps
    if pipeline.n_stage == 1 or not len(wait_ps):
        return np.zeros_like(wait_ps), wait_ps
    work_ps = np.sum([parts[name] for name in WORK], axis=0)
    n_stage, n_microbatch, n_gpu = pipeline.n_stage, pipeline.n_microbatch, len(work_ps)
    stage_ps, tail_ps = np.sort(work_ps)[-1:], np.zeros_like(work_ps)
    if pipeline.is_in_order and n_gpu % n_stage == 0:
        stage_ps = work_ps.reshape(n_stage, -1).mean(axis=1)
        backward_frac = backward_ps.sum() / max(int(parts["compute_ps"].sum()), 1)
        before_ps = (np.cumsum(stage_ps) - stage_ps) * backward_frac / n_microbatch
        tail_ps = np.repeat(before_ps, n_gpu // n_stage).astype(np.int64)
    sum_ps = int(work_ps.sum()) * n_stage // n_gpu
    took_ps = (sum_ps + (n_microbatch - 1) * int(stage_ps.max())) // n_microbatch
    ideal_ps = np.maximum(took_ps - work_ps, 0)
    before_ps = np.clip(ideal_ps - tail_ps, 0, wait_ps)
    behind_ps = np.clip(ideal_ps - before_ps, 0, later_ps + parts["idle_ps"])
    return before_ps + behind_ps, wait_ps - before_ps
