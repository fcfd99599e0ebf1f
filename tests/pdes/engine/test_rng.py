"""Random numbers: the compiled function is its plain twin, and they look uniform and independent."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdes.engine.rng import random_bits, uniform
from pdes.random_plain import mix64_plain, random_bits_plain, uniform_plain

KEY = st.integers(-(2**63), 2**63 - 1)
SMALL_KEY = st.integers(0, 2**31)


@given(KEY, KEY, SMALL_KEY, KEY)
def test_compiled_equals_plain(seed, entity, purpose, counter):
    key = seed, entity, purpose, counter
    assert int(random_bits(*key)) == random_bits_plain(*key)
    assert uniform(*key) == uniform_plain(*key)
    assert 0.0 <= uniform(*key) < 1.0


def test_the_mixer_is_splitmix64():
    # Steele, Lea, Flood 2014; the sequence of seed 0 as Vigna's splitmix64.c prints it.
    golden = 0x9E3779B97F4A7C15
    assert [mix64_plain(golden * k % 2**64) for k in (1, 2, 3)] == [
        0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F,
    ]  # fmt: skip


@given(SMALL_KEY, SMALL_KEY, st.integers(0, 1000), SMALL_KEY)
def test_every_part_of_the_key_matters(seed, entity, purpose, counter):
    here = random_bits_plain(seed, entity, purpose, counter)
    for other in ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)):
        key = [a + b for a, b in zip((seed, entity, purpose, counter), other, strict=True)]
        assert random_bits_plain(*key) != here


def chi_square(values: np.ndarray, n_bin: int) -> float:
    count = np.bincount(values, minlength=n_bin)
    expected = len(values) / n_bin
    return float(((count - expected) ** 2 / expected).sum())


# Chi-square with 255 degrees of freedom: mean 255, standard deviation sqrt(510) = 22.6. At a true uniform a value above
# 345 has a probability of 1.4e-4 (upper tail); the seeds below are fixed.
LIMIT_255 = 345.0


@pytest.mark.parametrize("along", ["counter", "entity", "seed"])
@pytest.mark.parametrize("shift", [0, 28, 56])
def test_bits_are_uniform_along_every_part_of_the_key(along, shift):
    n = 2**15
    keys = {
        "counter": [(1, 17, 5, k) for k in range(n)],
        "entity": [(1, k, 5, 0) for k in range(n)],
        "seed": [(k, 17, 5, 0) for k in range(n)],
    }
    values = np.array([(int(random_bits(*key)) >> shift) & 255 for key in keys[along]])
    assert chi_square(values, 256) < LIMIT_255


def test_neighbours_are_independent():
    """Pairs of successive draws of one stream, and of the same draw of neighbouring entities, fill a 16 x 16 grid."""
    n = 2**15
    stream = np.array([int(uniform(1, 3, 5, k) * 16) for k in range(n + 1)])
    entities = np.array([int(uniform(1, k, 5, 9) * 16) for k in range(n + 1)])
    for draws in (stream, entities):
        assert chi_square(draws[:-1] * 16 + draws[1:], 256) < LIMIT_255


def test_the_mean_is_a_half():
    n = 2**15
    mean = np.mean([uniform(1, 3, 5, k) for k in range(n)])
    assert abs(mean - 0.5) < 4 * np.sqrt(1 / 12 / n)
