"""After which time a network partition repeats itself, with exact numbers beside those of 64 bits."""

from math import lcm

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from pdes.engine.jit import loop_kernel
from pdes.skipping.periodic import MAX_CYCLE_PACKETS, _period_ps
from pdes.skipping.windows import MOST_CYCLE_BYTES, _cycle_bytes

# Of 16 senders of a ring whose acknowledgements were coming in at all paces: the least common multiple passes 2**63.
PRIMES = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53]


@loop_kernel
def cycle_bytes(kept, n_place):
    return _cycle_bytes(kept, 0, 2, 0, n_place)


@given(
    packets=st.lists(st.integers(1, 3), min_size=16, max_size=16),
    cycles=st.lists(st.integers(0, 60), min_size=16, max_size=16),
    gap_ps=st.integers(1, 10**6),
)
@example(packets=[1] * 16, cycles=PRIMES, gap_ps=83_840)
@example(packets=[1] * 16, cycles=[2**40 + 1, 2**40 - 1] * 8, gap_ps=83_840)
def test_a_period_is_exact_where_all_cycles_end_together_before_long(
    packets: list[int], cycles: list[int], gap_ps: int
) -> None:
    count = np.array(packets)
    period_ps, is_exact = _period_ps(count * gap_ps, count, np.full(16, 12_345), np.array(cycles))
    together = lcm(*(max(cycle, 1) for cycle in cycles))
    assert is_exact == (together <= MAX_CYCLE_PACKETS)
    assert period_ps == (together * gap_ps if is_exact else 12_345)


@given(moves=st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1, max_size=6))
@example(moves=[(10**9 - k, 10**9) for k in range(6)])
def test_a_cycle_is_the_least_common_multiple_of_all_that_moves_or_the_most_there_is(
    moves: list[tuple[int, int]],
) -> None:
    last_moves, before = np.array(moves).T
    kept = np.stack([np.zeros(len(moves), np.int64), before, before + last_moves]).astype(np.int64)
    moved = [a or a + b for a, b in moves if a + b > 0]
    wanted = min(lcm(*moved), MOST_CYCLE_BYTES) if moved else 0
    assert int(cycle_bytes(kept, len(moves))) == wanted
