"""Pipeline schedules: in which order a stage runs the passes of its microbatches over its chunks.

GPipe (Huang et al. 2019): all forward passes, then all backward ones. 1F1B (Narayanan et al. SOSP'19): as many forward
passes ahead as there are stages behind, then one of each in turn. Interleaved 1F1B (Narayanan et al. SC'21, 2.2): the
same over several chunks of layers per stage, pp microbatches through one chunk before they go through the next; if
microbatches are no multiple of pp, the last group has fewer. Zero bubble (Qi et al. 2024): backward passes for inputs
and for weights apart; `zero_bubble` has them. DualPipe (DeepSeek-V3): `dual_pipe`.
"""

from typing import Literal

from models.workload.compiler.schedules.dual_pipe import dual_pipe
from models.workload.compiler.schedules.passes import Pass
from models.workload.compiler.schedules.zero_bubble import zero_bubble

Schedule = Literal["gpipe", "1f1b", "zero-bubble-1p", "zero-bubble-2p", "dualpipe"]


def _interleaved(pp: int, vpp: int, n_microbatch: int) -> list[tuple[int, int]]:
    """(chunk, microbatch) in the order of forward passes, groups of pp microbatches through all chunks."""
    return [
        (chunk, microbatch)
        for first in range(0, n_microbatch, pp)
        for chunk in range(vpp)
        for microbatch in range(first, min(first + pp, n_microbatch))
    ]


def one_f_one_b(pp: int, stage: int, vpp: int, n_microbatch: int) -> list[Pass]:
    """1F1B, interleaved if vpp > 1."""
    if vpp == 1:
        order = [(0, i) for i in range(n_microbatch)]
        warm_up = pp - stage - 1
    else:
        order = _interleaved(pp, vpp, n_microbatch)
        warm_up = 2 * (pp - stage - 1) + (vpp - 1) * min(pp, n_microbatch)
        if n_microbatch <= pp:
            warm_up = len(order)
    warm_up = min(warm_up, len(order))
    forward = [Pass("forward", chunk, i) for chunk, i in order]
    backward = [Pass("backward", vpp - 1 - chunk, i) for chunk, i in order]
    passes = forward[:warm_up]
    for k in range(warm_up, len(order)):
        passes += [forward[k], backward[k - warm_up]]
    return passes + backward[len(order) - warm_up :]


def gpipe(n_microbatch: int) -> list[Pass]:
    """All forward, then all backward passes, one chunk per stage."""
    which = ("forward", "backward")
    return [Pass(name, 0, i) for name in which for i in range(n_microbatch)]


def stage_passes(
    schedule: Schedule, pp: int, stage: int, vpp: int, n_microbatch: int, times_ps: tuple[int, int, int] = (1, 1, 1),
    left_permille: int = 1000,
) -> list[Pass]:  # fmt: skip
    """Passes of a stage in order.

    times_ps: of a stage's forward, backward-input and backward-weight passes; left_permille: of activations, what is
    held between the last two: they decide the order in which zero-bubble schedules fill their gaps.
    """
    if schedule == "gpipe":
        return gpipe(n_microbatch)
    if schedule == "1f1b":
        return one_f_one_b(pp, stage, vpp, n_microbatch)
    if schedule == "dualpipe":
        return dual_pipe(pp, min(stage, pp - 1 - stage), n_microbatch)
    limit = 1 if schedule == "zero-bubble-1p" else 2
    return zero_bubble(pp, n_microbatch, limit, times_ps, left_permille)[stage]
