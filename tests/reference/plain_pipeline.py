"""A 1F1B pipeline between whose stages messages take a fixed time, as rows of tasks: pass after pass, in order."""


def one_f_one_b(stage: int, n_stage: int, n_microbatch: int) -> list[tuple[str, int]]:
    """Order of the passes of a stage: as many forward passes as stages behind it, then by turns."""
    ahead = min(n_stage - 1 - stage, n_microbatch)
    passes = [("forward", i) for i in range(ahead)]
    for i in range(n_microbatch):
        passes += [("forward", i + ahead)] if i + ahead < n_microbatch else []
        passes.append(("backward", i))
    return passes


def make_tasks(times: list[tuple[int, int]], n_microbatch: int, delay_ps: int, begin_ps: int = 0) -> list[tuple]:
    """(gpu, iteration, kind, start, end) of a GPU per stage. times: (forward, backward) of each, ps; messages take
    delay_ps.
    """
    n_stage, done, rows = len(times), {}, []
    todo = [one_f_one_b(stage, n_stage, n_microbatch) for stage in range(n_stage)]
    free_ps = [begin_ps] * n_stage
    while any(todo):
        for stage, passes in enumerate(todo):
            if not passes:
                continue
            kind, i = passes[0]
            source = stage - 1 if kind == "forward" else stage + 1
            is_fed = not 0 <= source < n_stage
            ready_ps = begin_ps if is_fed else done.get((kind, source, i), -1) + delay_ps
            if not is_fed and (kind, source, i) not in done:
                continue
            start_ps = max(free_ps[stage], ready_ps)
            if start_ps > free_ps[stage]:
                rows.append((stage, 0, "pp-wait", free_ps[stage], start_ps))
            free_ps[stage] = start_ps + times[stage][kind == "backward"]
            rows.append((stage, 0, kind, start_ps, free_ps[stage]))
            done[kind, stage, i] = free_ps[stage]
            passes.pop(0)
    return rows
