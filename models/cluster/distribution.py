"""Distributions of durations, by their quantiles: a uniform number in, microseconds out (design R3)."""

import math
from bisect import bisect_right
from statistics import NormalDist
from typing import NamedTuple

_NORMAL = NormalDist()
LARGEST_US = 2**60


class Distribution(NamedTuple):
    """shape: "fixed", "exponential", "weibull", "lognormal" or "empirical".

    scale_us: the value; the mean; Weibull's scale; the median; not used. form: Weibull's shape; the standard deviation
    of the logarithm. values_us: sorted, all as likely: empirical.
    """

    shape: str
    scale_us: float = 0.0
    form: float = 1.0
    values_us: tuple[int, ...] = ()

    def quantile_us(self, u: float) -> int:
        """The value that a share u, 0 <= u < 1, of all draws is below."""
        if self.shape == "fixed":
            return int(self.scale_us)
        if self.shape == "empirical":
            return self.values_us[int(u * len(self.values_us))]
        if self.shape == "lognormal":
            value = self.scale_us * math.exp(self.form * _NORMAL.inv_cdf(max(u, 2.0**-54)))
        else:
            value = self.scale_us * (-math.log1p(-u)) ** (1 / self.form)
        return min(int(value + 0.5), LARGEST_US)

    @property
    def mean_us(self) -> float:
        """Of all draws."""
        if self.shape == "empirical":
            return sum(self.values_us) / len(self.values_us)
        if self.shape == "lognormal":
            return self.scale_us * math.exp(self.form**2 / 2)
        return self.scale_us * (math.gamma(1 + 1 / self.form) if self.shape == "weibull" else 1)

    def is_memoryless(self) -> bool:
        """Whether what has passed says nothing of what comes."""
        return self.shape == "exponential"


NEVER = Distribution("fixed", 0.0)


class Table(NamedTuple):
    """Values, each with the share of draws that are below it or it: sizes of jobs, tenants."""

    values: tuple[int, ...]
    shares: tuple[float, ...]

    def value(self, u: float) -> int:
        """Of a uniform number."""
        return self.values[min(bisect_right(self.shares, u), len(self.values) - 1)]


def table_of(weights: dict[int, float]) -> Table:
    """weights: of each value, in any scale."""
    whole, below, shares = sum(weights.values()), 0.0, []
    for weight in weights.values():
        below += weight
        shares.append(below / whole)
    return Table(tuple(weights), tuple(shares))
