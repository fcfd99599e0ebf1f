"""The longest path through the passes of a pipeline: when each stage is done, if every pass begins as early as it can.

Passes of a stage are in the order of its schedule; a forward pass waits for the one before it in the model, a backward
pass for the one behind it, each for a message. For p equal stages of v chunks and m microbatches that has the bubble
(p - 1) / v of a microbatch's time (Narayanan et al. SC'21, 2.2).
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from models.workload.closed_form.exchanges import Message
from models.workload.compiler.tokens import EXCHANGE, Token

Key = tuple[bool, int, int]
"""A message: is it of a forward pass, the place in the model that it goes to, and the microbatch."""


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


def run_exchanging(
    clocks: Sequence[Clock],
    tokens: Sequence[Sequence[Token]],
    n_chunk: int,
    message: Callable[[int, bool], Message],
) -> None:
    """The same where stages exchange with both neighbours at once and wait: `tokens` has the EXCHANGEs.

    A message begins when both its ends are there; those that a stage gives by one port go one after the other.
    """
    pp = len(clocks)
    messages = {(s, way): message(s, way) for s in range(pp) for way in (False, True)}
    given: dict[Key, tuple[int, int]] = {}  # from when, and what it takes
    taken: dict[Key, int] = {}
    of_stage: list[list[Key]] = [[] for _ in range(pp)]  # what it is in the middle of
    n_before: list[dict[tuple[bool, str, int], int]] = [{} for _ in range(pp)]

    def keys_of(stage: int, passes: tuple[tuple[str, int], ...], gives: bool) -> list[Key]:
        found = []
        for which, chunk in passes:
            is_forward, place = which == "forward", chunk * pp + stage
            to = place + (1 if is_forward else -1) if gives else place
            count = n_before[stage]
            i = count[gives, which, chunk] = count.get((gives, which, chunk), -1) + 1
            if 0 <= to < n_chunk * pp and (gives or to != (0 if is_forward else n_chunk * pp - 1)):
                found.append((is_forward, to, i))
        return found

    def post(stage: int, token: Token, now_ps: int) -> None:
        busy_ps: dict[int, int] = {}
        gives, takes = keys_of(stage, token.gives, True), keys_of(stage, token.takes, False)
        for key in gives:
            own_ps, latency_ps, port = messages[stage, not key[0]]
            busy_ps[port] = busy_ps.get(port, 0) + own_ps
            given[key] = now_ps, busy_ps[port] + latency_ps
        taken.update(dict.fromkeys(takes, now_ps))
        of_stage[stage] = [*gives, *takes]

    at, is_posted, is_moving = [0] * pp, [False] * pp, True
    while is_moving:
        is_moving = False
        for stage, clock in enumerate(clocks):
            while at[stage] < len(tokens[stage]):
                token = tokens[stage][at[stage]]
                if token.which == EXCHANGE:
                    if not is_posted[stage]:
                        post(stage, token, clock.now_ps)
                        is_posted[stage] = is_moving = True
                    if any(key not in given or key not in taken for key in of_stage[stage]):
                        break
                    ends = [max(given[key][0], taken[key]) + given[key][1] for key in of_stage[stage]]
                    clock.now_ps, is_posted[stage] = max(ends, default=clock.now_ps), False
                else:
                    clock.run(token, clock.now_ps)
                at[stage] += 1
                is_moving = True
    assert all(k == len(own) for k, own in zip(at, tokens, strict=True))
