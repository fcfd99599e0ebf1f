"""When times of messages count as known whose packets go different ways."""

import numpy as np
import pytest

from pdes.skipping.fluid.generations import LEAST, Generations

TOOK_PS, TOLERANCE = 10**9, 0.01


def learned(*generations: list[float]) -> list[int | None]:
    """What is known after each message of generations in lockstep, times relative to TOOK_PS; the last is the first of
    one more."""
    found, made, posted_ps = [], Generations(), 0
    for times in [*generations, [1.0]]:
        for took in sorted(times):
            took_ps = int(took * TOOK_PS)
            agreed = made.add(posted_ps, (took_ps - 1000, took_ps), TOLERANCE)
            found.append(None if agreed is None else agreed[1])
        posted_ps += int(max(times) * TOOK_PS)
    return found


def test_the_mean_of_two_generations_that_agree_is_known_when_the_second_is_over() -> None:
    rng = np.random.default_rng(1)
    first, second = ((1 + 0.005 * rng.standard_normal(LEAST)).tolist() for _ in range(2))
    *before, last = learned(first, second)
    assert before == [None] * (2 * LEAST) and last is not None
    assert last == pytest.approx(TOOK_PS * np.mean(first + second), rel=1e-6)


def test_those_that_are_over_first_say_nothing_of_the_others() -> None:
    """As many as suffice take the same, and some twice as long."""
    assert learned(*[[1.0] * 2 * LEAST + [2.0] * 4] * 4) == [None] * (4 * (2 * LEAST + 4) + 1)


def test_a_first_generation_that_is_faster_is_none_of_them() -> None:
    found = learned([0.9] * LEAST, [1.0] * LEAST, [1.0] * LEAST)
    assert found[:-1] == [None] * (3 * LEAST) and found[-1] == pytest.approx(TOOK_PS)


def test_messages_that_come_one_by_one_are_known_when_there_are_enough_of_them() -> None:
    found = learned(*[[1.0]] * (LEAST + 1))
    assert found[:LEAST] == [None] * LEAST and found[LEAST] == pytest.approx(TOOK_PS)
