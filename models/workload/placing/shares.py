"""How equal pieces are shared out among takers that are not as fast: dealt one by one, then moved one by one.

Pieces are layers and takers stages, or pieces are microbatches and takers replicas.
"""

from collections.abc import Callable, Sequence

Shares = tuple[int, ...]
MOST_MOVES = 12  # of single pieces
N_DONOR = 2  # takers that they may leave: the busiest


def deal(n: int, first_ps: Sequence[int], each_ps: Sequence[int], most: Sequence[int]) -> Shares:
    """One piece for each taker, then each of the rest to whoever is done first with it and has room.

    A taker of k pieces takes first_ps + k each_ps; that is the least time of the slowest one. most: pieces that a taker
    has room for, all of them together for n or more.
    """
    dealt = [1] * len(first_ps)
    for _ in range(n - len(dealt)):
        free = [i for i, k in enumerate(dealt) if k < most[i]]
        dealt[min(free, key=lambda i: (first_ps[i] + (dealt[i] + 1) * each_ps[i], i))] += 1
    return tuple(dealt)


def moved(
    begin: Shares,
    busy_ps: Callable[[Shares, int], int],
    time_ps: Callable[[Shares], int],
    fits: Callable[[Shares], bool],
) -> Shares:
    """Single pieces leave the busiest takers, by busy_ps, while that makes time_ps less."""
    now = begin
    for _ in range(MOST_MOVES):
        takers = range(len(now))
        busiest = sorted(takers, key=lambda i: -busy_ps(now, i))[:N_DONOR]
        moves = [_with_one_moved(now, i, k) for i in busiest if now[i] > 1 for k in takers if k != i]
        faster = [one for one in moves if fits(one) and time_ps(one) < time_ps(now)]
        if not faster:
            break
        now = min(faster, key=time_ps)
    return now


def _with_one_moved(shares: Shares, donor: int, taker: int) -> Shares:
    found = list(shares)
    found[donor] -= 1
    found[taker] += 1
    return tuple(found)
