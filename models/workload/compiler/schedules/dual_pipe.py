"""DualPipe (DeepSeek-V3, section 3.2.1): microbatches enter a pipeline from both of its ends at the same time.

Rank r of pp holds two stages of the model: chunk 0 is stage h = min(r, pp - 1 - r) and chunk 1 stage pp - 1 - h. On the
first half of the ranks microbatches of chunk 0 go from the first rank to the last, on the second half the other way,
and those of chunk 1 come towards them; so ranks r and pp - 1 - r do the same, mirrored. In the steady state a forward
pass of one chunk and a backward pass of the other run in each other's gaps ("both"). The order is that of DeepSeek's
published program (steps 1 to 8); a bubble takes (pp / 2 - 1) (F&B + B - 3 W).
"""

from collections import deque

from models.workload.compiler.schedules.passes import Pass

BOTH = "both"
"""A forward pass over a chunk and a backward pass over the other one. chunk, microbatch: of the forward pass."""


class _Rank:
    """Passes in order, with the next microbatch of each chunk."""

    def __init__(self) -> None:
        self.passes: list[Pass] = []
        self._n = {"forward": [0, 0], "backward": [0, 0]}
        self._due: deque[tuple[int, int]] = deque()  # passes for weights that were put off

    def _next(self, which: str, chunk: int) -> int:
        self._n[which][chunk] += 1
        return self._n[which][chunk] - 1

    def forward(self, chunk: int) -> None:
        self.passes.append(Pass("forward", chunk, self._next("forward", chunk)))

    def backward(self, chunk: int, is_split: bool = False) -> None:
        microbatch = self._next("backward", chunk)
        self.passes.append(Pass("backward-input" if is_split else "backward", chunk, microbatch))
        if is_split:
            self._due.append((chunk, microbatch))

    def weight(self) -> None:
        self.passes.append(Pass("backward-weight", *self._due.popleft()))

    def both(self, chunk: int) -> None:
        self._next("backward", 1 - chunk)
        self.passes.append(Pass(BOTH, chunk, self._next("forward", chunk)))


def dual_pipe(pp: int, half: int, n_microbatch: int) -> list[Pass]:
    """Passes of ranks half and pp - 1 - half. pp is even, n_microbatch too, and at least 2 pp: half from each end."""
    rank, n_half, n_behind = _Rank(), n_microbatch // 2, pp // 2 - half - 1
    for _ in range(2 * n_behind):
        rank.forward(0)
    for _ in range(half + 1):
        rank.forward(0)
        rank.forward(1)
    for _ in range(n_behind):
        rank.backward(1, is_split=True)
        rank.weight()
        rank.forward(1)
    for i in range(n_half - pp + half + 1):
        if i == 0 and n_behind == 0:  # in the middle, where the other half waits for the forward pass
            rank.forward(0)
            rank.backward(1)
        else:
            rank.both(0)
        rank.both(1)
    for _ in range(n_behind):
        rank.backward(1)
        rank.both(1)
    for k in range(2 * (half + 1)):
        rank.backward(1 - k % 2, is_split=k > half)
    for _ in range(n_behind):
        rank.weight()
        rank.backward(0, is_split=True)
    for _ in range(half + 1):
        rank.weight()
    return rank.passes
