"""Means with intervals over seeds, and differences between what has the same seeds.

Intervals are Student's t. Two configs that share a seed have the same draws, so their differences scatter less than
either does.
"""

import importlib
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pdes.errors import ConfigError

CONFIDENCE, MOST_SEEDS = 0.95, 10_000


class Interval(NamedTuple):
    """Of a mean. half: of the interval's width, NaN if there is one value."""

    mean: float
    half: float


def interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Of the values of all seeds, at least one."""
    own = np.array(values, float)
    if len(own) < 2:
        return Interval(float(own[0]), math.nan)
    if np.ptp(own) == 0:
        return Interval(float(own[0]), 0.0)
    return Interval(float(own.mean()), quantile(len(own), confidence) * float(own.std(ddof=1)) / math.sqrt(len(own)))


class Difference(NamedTuple):
    """B - A of one figure.

    half: of the interval's width. more: seeds until it is decided, about; 0: it is decided; -1: it will never be.
    """

    a: float
    b: float
    mean: float
    half: float
    more: int


def paired(a: Sequence[float], b: Sequence[float], confidence: float = CONFIDENCE) -> Difference:
    """By the same seeds, at least two of them. confidence: that each interval has the truth in it."""
    own, other = np.array(a, float), np.array(b, float)
    differences = other - own
    n, mean, scatter = len(differences), float(differences.mean()), float(differences.std(ddof=1))
    half = quantile(n, confidence) * scatter / math.sqrt(n) if scatter > 0 else 0.0
    return Difference(float(own.mean()), float(other.mean()), mean, half, _more(n, abs(mean), scatter, confidence))


def quantile(n: int, confidence: float = CONFIDENCE) -> float:
    """Student's t for so many values. ConfigError: SciPy is missing."""
    try:
        return float(importlib.import_module("scipy.special").stdtrit(n - 1, (1 + confidence) / 2))
    except ImportError as error:
        found, accepted = "it needs SciPy, which is not installed", 'pip install "pdes-sim[cluster]"'
        raise ConfigError("intervals over seeds", found, accepted) from error


def _more(n: int, mean: float, scatter: float, confidence: float) -> int:
    """Were mean and scatter those of all seeds."""

    def is_decided(n: int) -> bool:
        return quantile(n, confidence) * scatter / math.sqrt(n) < mean

    if scatter == 0 or is_decided(n):
        return 0
    if not is_decided(MOST_SEEDS):
        return -1
    low, high = n, MOST_SEEDS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_decided(middle) else (middle, high)
    return high - n


def more_text(more: int) -> str:
    """Of `Difference.more`, where nothing is decided."""
    if more < 0:
        return f"not decided: more than {MOST_SEEDS:,} seeds, if at all"
    return f"not decided: about {more:,} more seed{'s' * (more > 1)}"
