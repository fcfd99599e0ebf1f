"""Rounds replayed with and without waiting for each other: what can be told by hand, and bounds of what cannot."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from overlap import replay


def test_what_is_slower_in_every_round_is_what_all_take() -> None:
    work = np.array([[12.0] * 50, [10.0] * 50])
    assert replay(work, work / 2) == (600, 600, 600)


def test_turns_at_being_slower_are_hidden_by_what_is_not_early() -> None:
    work = np.array([[12.0, 10.0] * 25, [10.0, 12.0] * 25])
    assert replay(work, work / 2) == (600, 550, 550)
    assert replay(work, work) == (600, 600, 550)


def test_of_long_turns_no_more_is_hidden_than_one_round_has() -> None:
    """At its end the slower rank of the first turn is behind by what it has that is not early, 6."""
    work = np.array([[12.0] * 100 + [10.0] * 100, [10.0] * 100 + [12.0] * 100])
    assert replay(work, work / 2) == (2400, 2394, 2200)


@given(st.integers(1, 5), st.integers(1, 40), st.floats(0, 1), st.integers(0, 2**32))
def test_overlap_is_never_worse_than_waiting_nor_better_than_not_waiting(
    n_rank: int, n_round: int, share: float, seed: int
) -> None:
    work = np.random.default_rng(seed).uniform(1, 100, (n_rank, n_round))
    together, overlapped, apart = replay(work, share * work)
    assert apart <= overlapped * (1 + 1e-12) and overlapped <= together * (1 + 1e-12)
    assert replay(work, work)[1] == pytest.approx(together)
