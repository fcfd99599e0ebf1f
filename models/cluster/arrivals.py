"""Jobs that are drawn: a Poisson process, whose rate may go up and down within a day, and what each job asks for."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from models.cluster.distribution import Distribution, Table
from models.cluster.job import Request
from pdes.random_plain import (
    PURPOSE_JOB_DURATION,
    PURPOSE_JOB_GAP,
    PURPOSE_JOB_KIND,
    PURPOSE_JOB_PRIORITY,
    PURPOSE_JOB_SIZE,
    PURPOSE_JOB_TENANT,
    uniform_plain,
)

DAY_US, HOUR_US = 86400e6, 3600e6


class Arrivals(NamedTuple):
    """day_swing: how far the rate goes up and down within a day, as a share of it.

    tenants, kinds: what `tenant` and `kind` number.
    """

    n_job: int
    per_hour: float
    day_swing: float
    n_gpu: Table
    duration: Distribution
    tenants: tuple[str, ...]
    tenant: Table
    priority: Table
    kinds: tuple[str, ...] = ()
    kind: Table = Table((0,), (1.0,))


def requests(arrivals: Arrivals, seed: int, skip: int = 0) -> Iterator[Request]:
    """All jobs but the first `skip`, in the order of submission."""
    expected = 0.0
    for i in range(arrivals.n_job):
        expected += -math.log1p(-uniform_plain(seed, i, PURPOSE_JOB_GAP, 0))
        if i < skip:
            continue
        submit_us = _when_us(expected * HOUR_US / arrivals.per_hour, arrivals.day_swing)
        n_gpu = arrivals.n_gpu.value(uniform_plain(seed, i, PURPOSE_JOB_SIZE, 0))
        work_us = max(arrivals.duration.quantile_us(uniform_plain(seed, i, PURPOSE_JOB_DURATION, 0)), 1)
        tenant = arrivals.tenants[arrivals.tenant.value(uniform_plain(seed, i, PURPOSE_JOB_TENANT, 0))]
        priority = arrivals.priority.value(uniform_plain(seed, i, PURPOSE_JOB_PRIORITY, 0))
        kind = ""
        if arrivals.kinds:
            kind = arrivals.kinds[arrivals.kind.value(uniform_plain(seed, i, PURPOSE_JOB_KIND, 0))]
        yield Request(i, str(i), submit_us, n_gpu, work_us, tenant, priority, kind)


def _when_us(mean_us: float, swing: float) -> int:
    """When so much of the process has passed as takes mean_us at its mean rate, which is least at midnight."""
    if not swing:
        return int(mean_us + 0.5)
    low, high = mean_us - DAY_US, mean_us + DAY_US
    while high - low > 0.25:
        middle = (low + high) / 2
        passed = middle - swing * DAY_US / (2 * math.pi) * math.sin(2 * math.pi * middle / DAY_US)
        low, high = (middle, high) if passed < mean_us else (low, middle)
    return max(int(high + 0.5), 0)
