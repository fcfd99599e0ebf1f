"""Zero-bubble schedules (Qi et al. 2024, section 2): weights' gradients fill the gaps of the pipeline.

Passes are placed by a list scheduler on an ideal pipeline, as the paper's heuristic (3.1) does: a stage that is free
runs a backward pass for inputs if its gradient is there, else a forward pass if it may hold another activation, else a
backward pass for weights that is due. What limit x pp activations take may be held: 1 is the memory of 1F1B ("ZB-1p"),
2 twice that ("ZB-2p"). A microbatch's activations are held whole up to the backward pass for inputs, and a share of
them up to that for weights (table 1: M_W of M_B). Nothing waits for the other stages between iterations, as with the
paper's post-validation (section 4). Deviations: no search over the heuristic's binary choices, and passes for weights
are not split; the time of a message is the pipeline's own affair.
"""

import heapq
from functools import lru_cache

from models.workload.compiler.schedules.passes import Pass

WHOLE = 1000  # permille


class _Stage:
    def __init__(self) -> None:
        self.passes: list[Pass] = []
        self.n = {"forward": 0, "backward-input": 0, "backward-weight": 0}
        self.ready_ps: dict[str, list[int]] = {"forward": [], "backward-input": []}
        self.free_ps = 0


def _choice(stage: _Stage, now_ps: int, most_permille: int, left_permille: int, n_microbatch: int) -> str:
    """What a free stage runs now, "" to wait."""
    n, ready = stage.n, stage.ready_ps
    held_permille = WHOLE * (n["forward"] - n["backward-input"])
    held_permille += left_permille * (n["backward-input"] - n["backward-weight"])

    def is_there(which: str) -> bool:
        return len(ready[which]) > n[which] and ready[which][n[which]] <= now_ps

    if is_there("backward-input"):
        return "backward-input"
    if n["forward"] < n_microbatch and held_permille + WHOLE <= most_permille and is_there("forward"):
        return "forward"
    return "backward-weight" if n["backward-weight"] < n["backward-input"] else ""


@lru_cache(maxsize=64)
def zero_bubble(
    pp: int, n_microbatch: int, limit: int, times_ps: tuple[int, int, int], left_permille: int = WHOLE
) -> list[list[Pass]]:
    """Passes of every stage in order, for stages that take as long as each other.

    left_permille: of a microbatch's activations, what is still held once its backward pass for inputs is done.
    """
    time_ps = dict[str, int](zip(("forward", "backward-input", "backward-weight"), times_ps, strict=True))
    stages = [_Stage() for _ in range(pp)]
    stages[0].ready_ps["forward"] = [0] * n_microbatch
    events = [(0, i) for i in range(pp)]
    while events:
        now_ps, i = heapq.heappop(events)
        stage = stages[i]
        if stage.free_ps > now_ps:
            continue
        which = _choice(stage, now_ps, limit * pp * WHOLE, left_permille, n_microbatch)
        if not which:
            continue
        stage.passes.append(Pass(which, 0, stage.n[which]))
        stage.n[which] += 1
        stage.free_ps = end_ps = now_ps + time_ps[which]
        heapq.heappush(events, (end_ps, i))
        if which == "forward":
            to, name = (i + 1, which) if i + 1 < pp else (i, "backward-input")
        else:
            to, name = i - 1, which
        if which != "backward-weight" and to >= 0:
            stages[to].ready_ps[name].append(end_ps)
            heapq.heappush(events, (end_ps, to))
    return [stage.passes for stage in stages]
