"""Groups of ranks: all those that a job has if the traced rank's group is one of them.

A group of a job with several kinds of parallelism is the ranks that differ in some digits of a number with mixed bases:
tensor parallel ranks in the last, data parallel ranks in one before, or in several. So a group's ranks are a first one
plus sums of strides, and the other groups of its kind are the same pattern moved.
"""

from pdes.errors import ConfigError


def digits_of(ranks: tuple[int, ...]) -> list[tuple[int, int]] | None:
    """(stride, how many) of each digit in which the ranks of a group differ, None: they follow no such pattern."""
    left = [rank - min(ranks) for rank in sorted(ranks)]
    digits: list[tuple[int, int]] = []
    while len(left) > 1:
        stride, n = left[1], 1
        while n < len(left) and left[n] == n * stride:
            n += 1
        block = left[:n]
        if len(left) % n:
            return None
        bases = left[::n]
        if any(left[i * n + k] != base + block[k] for i, base in enumerate(bases) for k in range(n)):
            return None
        digits.append((stride, n))
        left = bases
        if len(left) > 1 and left[1] % (stride * n):
            return None
    return digits


def all_groups(ranks: tuple[int, ...], n_rank: int, where: str) -> list[list[int]]:
    """The groups of all ranks, each in the order of the traced one. ConfigError: the pattern does not cover the job."""
    digits = digits_of(ranks)
    accepted = "ranks at equal strides, as of tensor or data parallelism; else a folder with one trace per rank"
    if digits is None:
        raise ConfigError(where, f"the group {_listed(ranks)} follows no pattern", accepted)
    first = min(ranks)
    base = {rank: rank - sum(rank // stride % n * stride for stride, n in digits) for rank in range(n_rank)}
    span = digits[-1][0] * digits[-1][1] if digits else 1
    if n_rank % span or base.get(first) != first or any(base.get(rank) != first for rank in ranks):
        raise ConfigError(where, f"groups like {_listed(ranks)} do not cover {n_rank} ranks", accepted)
    offsets = [rank - first for rank in ranks]
    starts = sorted(set(base.values()))
    return [[start + offset for offset in offsets] for start in starts]


def _listed(ranks: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, ranks[:8]))
    return f"[{shown}, ...] of {len(ranks)}" if len(ranks) > 8 else f"[{shown}]"
