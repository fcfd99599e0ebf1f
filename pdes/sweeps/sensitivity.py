"""How much each axis matters: the share of the points' variance that it explains alone, and its best and worst value.

The share is epsilon squared (Kelley 1935), the correlation ratio less what chance gives: 0 for an axis that changes
nothing, whatever the number of its values. What axes do together is in none of the shares.
"""

import math
from typing import NamedTuple

import numpy as np

from pdes.sweeps.design import number_of
from pdes.sweeps.found import Found
from pdes.sweeps.load import label
from pdes.sweeps.metrics import Metric

MOST_GROUPS = 8  # of an axis whose values are drawn


class Effect(NamedTuple):
    """Of one axis. share: 0..1, NaN if it has one value or each point its own. groups: (value or range, mean)."""

    axis: str
    share: float
    groups: list[tuple[str, float]]


def effects(found: Found, metric: Metric) -> list[Effect]:
    """Of every axis, the strongest first."""
    means = found.values(metric).mean(axis=1)
    there = np.isfinite(means)
    result = []
    for k, axis in enumerate(found.sweep.axes):
        names, group = _groups([point[k] for point in found.sweep.points])
        members = [(name, there & (group == i)) for i, name in enumerate(names)]
        own = [(name, float(means[inside].mean())) for name, inside in members if inside.any()]
        result.append(Effect(axis.name, _share(means[there], group[there]), own))
    return sorted(result, key=lambda effect: -(effect.share if math.isfinite(effect.share) else -1))


def _groups(values: list) -> tuple[list[str], np.ndarray]:
    """(names, int64[n]): by value where values come again, by eighths where they are drawn."""
    numbers = [number_of(value) for value in values]
    unique = list(dict.fromkeys(map(label, values)))
    if len(unique) <= max(MOST_GROUPS, len(values) // 3) or any(number is None for number in numbers):
        place = {name: i for i, name in enumerate(unique)}
        return unique, np.array([place[label(value)] for value in values])
    order = np.argsort(np.array(numbers, float), kind="stable")
    group = np.empty(len(values), np.int64)
    group[order] = np.arange(len(values)) * MOST_GROUPS // len(values)
    names = []
    for i in range(MOST_GROUPS):
        own = order[group[order] == i]
        names.append(f"{label(values[own[0]])} to {label(values[own[-1]])}")
    return names, group


def _share(means: np.ndarray, group: np.ndarray) -> float:
    """Epsilon squared, not below zero."""
    names, counts = np.unique(group, return_counts=True)
    n, k, total = len(means), len(names), float(((means - means.mean()) ** 2).sum()) if len(means) else 0.0
    if k < 2 or n <= k or total == 0:
        return math.nan if total else 0.0
    within = sum(float(((means[group == name] - means[group == name].mean()) ** 2).sum()) for name in names)
    return max(0.0, 1 - (within / (n - k)) / (total / (n - 1)))
