"""The longest path through the passes of a pipeline: when each stage is done, if every pass begins as early as it can.

Passes of a stage are in the order of its schedule; a forward pass waits for the one before it in the model, a backward
pass for the one behind it, each for a message. For p equal stages of v chunks and m microbatches that has the bubble
(p - 1) / v of a microbatch's time (Narayanan et al. SC'21, 2.2).
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from models.workload.compiler.tokens import Token


class Clock(Protocol):
    """A GPU of a stage: what it is done with, and when."""

    now_ps: int
    began_ps: int | None

    def run(self, token: Token, ready_ps: int) -> None: ...


def run_passes(
    clocks: Sequence[Clock], tokens: Sequence[Sequence[Token]], n_chunk: int,
    forth_ps: Callable[[int], int], back_ps: Callable[[int], int],
) -> None:  # fmt: skip
    """Run all passes of all stages. forth_ps, back_ps: of a message from a stage to the next, and of one back to it."""
    pp = len(clocks)
    n_place = pp * n_chunk
    forth, back = [forth_ps(s) if pp > 1 else 0 for s in range(pp)], [back_ps(s) if pp > 1 else 0 for s in range(pp)]
    done: dict[tuple[bool, int, int], int] = {}  # (is forward, place in the model, microbatch): when
    at, count = [0] * pp, [{} for _ in range(pp)]
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
                if token.which != "backward-weight":
                    is_end = place == (0 if is_forward else n_place - 1)
                    before = (is_forward, place - 1 if is_forward else place + 1, i)
                    if not is_end and before not in done:
                        break
                    message_ps = forth[(stage - 1) % pp] if is_forward else back[stage]
                    ready_ps = 0 if is_end else done[before] + message_ps
                clock.run(token, ready_ps)
                if token.which != "backward-weight":
                    done[is_forward, place, i] = clock.now_ps
                seen[kind] = i + 1
                at[stage] += 1
                is_moving = True
    assert all(k == len(own) for k, own in zip(at, tokens, strict=True))
