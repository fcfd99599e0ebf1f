"""The longest path through the passes of a pipeline: when each stage is done, if every pass begins as early as it can.

Passes of a stage are in the order of its schedule; a forward pass waits for the one before it in the model, a backward
pass for the one behind it, each for a message. For p equal stages of v chunks and m microbatches that has the bubble
(p - 1) / v of a microbatch's time (Narayanan et al. SC'21, 2.2).
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from models.workload.closed_form.exchanges import Message
from models.workload.compiler.tokens import Token


class Clock(Protocol):
    """A GPU of a stage: what it is done with, and when."""

    now_ps: int
    began_ps: int | None

    def run(self, token: Token, ready_ps: int) -> None: ...


def run_passes(
    clocks: Sequence[Clock],
    tokens: Sequence[Sequence[Token]],
    n_chunk: int,
    message: Callable[[int, bool], Message],
    overlaps: bool = True,
) -> None:
    """Run all passes of all stages. message: from a stage to the next one, or back to the one before.

    Messages of a stage that leave by one port do so one after the other. overlaps: beside what is computed; else both
    ends are busy with a message while it takes.
    """
    pp = len(clocks)
    n_place = pp * n_chunk
    messages = {(s, way): message(s, way) for s in range(pp) for way in (False, True)} if pp > 1 else {}
    free_ps: dict[tuple[int, int], int] = {}  # of a stage's port
    there: dict[tuple[bool, int, int], int] = {}  # (is forward, place in the model, microbatch): when its input is
    at: list[int] = [0] * pp
    count: list[dict[tuple[str, int], int]] = [{} for _ in range(pp)]
    is_moving = True
    while is_moving:
        is_moving = False
        for stage, clock in enumerate(clocks):
            own, seen = tokens[stage], count[stage]
            while at[stage] < len(own):
                token = own[at[stage]]
                is_forward, kind = token.which == "forward", (token.which, token.chunk)
                place, i = token.chunk * pp + stage, seen.get(kind, 0)
                ready_ps = 0
                if token.which != "backward-weight" and place != (0 if is_forward else n_place - 1):
                    if (is_forward, place, i) not in there:
                        break
                    ready_ps = there.pop((is_forward, place, i))
                    if not overlaps:
                        neighbour = stage + (-1 if is_forward else 1)
                        ready_ps = max(ready_ps, clock.now_ps) + sum(messages[neighbour, not is_forward][:2])
                clock.run(token, ready_ps)
                following = place + (1 if is_forward else -1)
                if token.which != "backward-weight" and 0 <= following < n_place:
                    busy_ps, latency_ps, port = messages[stage, not is_forward]
                    if overlaps:
                        free_ps[stage, port] = max(clock.now_ps, free_ps.get((stage, port), 0)) + busy_ps
                        there[is_forward, following, i] = free_ps[stage, port] + latency_ps
                    else:
                        there[is_forward, following, i] = clock.now_ps
                        clock.now_ps += busy_ps + latency_ps
                seen[kind] = i + 1
                at[stage] += 1
                is_moving = True
    assert all(k == len(own) for k, own in zip(at, tokens, strict=True))
