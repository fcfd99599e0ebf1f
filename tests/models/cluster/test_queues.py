"""Queues that have formulas, and laws that hold in every run."""

import math

import pytest

from models.cluster.arrivals import Arrivals, requests
from models.cluster.distribution import Distribution, table_of
from models.cluster.machine import Pool
from pdes.random_plain import uniform_plain
from reference.cluster_runs import HOUR, Plain, Setting, simulate

ONE = table_of({1: 1.0})


def drawn(n_job: int, per_hour: float, duration: Distribution, seed: int = 1):
    return list(
        requests(Arrivals(n_job, per_hour, 0.0, ONE, duration, ("",), table_of({0: 1.0}), table_of({0: 1.0})), seed)
    )


def erlang_c(n_server: int, offered: float) -> float:
    """The probability that a job has to wait, by Erlang's recursion for blocking."""
    blocked = 1.0
    for k in range(1, n_server + 1):
        blocked = offered * blocked / (k + offered * blocked)
    load = offered / n_server
    return blocked / (1 - load * (1 - blocked))


SLOW = pytest.mark.slow  # M/M/1 is in either test, and two squares tell a formula from a constant


@pytest.mark.parametrize(("n_server", "load"), [pytest.param(1, 0.6, marks=SLOW), (4, 0.8), (32, 0.9)])
def test_waits_are_those_of_m_m_c(n_server: int, load: float) -> None:
    offered = n_server * load
    jobs = drawn(40_000, offered, Distribution("exponential", HOUR))
    cluster, watch = simulate(jobs, Setting([Pool("G", n_server, 1, 16, 1.0)]), Plain)
    mean = sum(job.waited_us for job in watch.done) / len(watch.done)
    expected = erlang_c(n_server, offered) * HOUR / (n_server - offered)
    assert mean == pytest.approx(expected, rel=0.08)
    assert sum(job.waited_us > 0 for job in watch.done) / len(watch.done) == pytest.approx(
        erlang_c(n_server, offered), rel=0.05
    )


@pytest.mark.parametrize(
    ("duration", "squares"),
    [
        (Distribution("fixed", HOUR), 1.0),
        (Distribution("exponential", HOUR), 2.0),
        pytest.param(Distribution("lognormal", HOUR * math.exp(-0.125), 0.5), math.exp(0.25), marks=SLOW),
        pytest.param(
            Distribution("weibull", HOUR / math.gamma(1 + 1 / 1.5), 1.5),
            math.gamma(1 + 2 / 1.5) / math.gamma(1 + 1 / 1.5) ** 2,
            marks=SLOW,
        ),
    ],
)
def test_waits_are_those_of_pollaczek_and_khinchine(duration: Distribution, squares: float) -> None:
    """M/G/1: mean wait = rate * E[S^2] / (2 (1 - load)). squares: E[S^2] / E[S]^2."""
    load = 0.7
    _, watch = simulate(drawn(60_000, load, duration), Setting(), Plain)
    mean = sum(job.waited_us for job in watch.done) / len(watch.done)
    assert mean == pytest.approx(load * squares * HOUR / (2 * (1 - load)), rel=0.06)


def test_shortest_first_is_that_of_cobham() -> None:
    """M/G/1 with two classes, short ones first without preemption (Cobham 1954)."""
    rate, short, long_ = 0.6, 0.25, 1.75  # hours; half of all each
    jobs = [
        job._replace(work_us=int((short if uniform_plain(7, job.number, 1, 0) < 0.5 else long_) * HOUR))
        for job in drawn(60_000, rate, Distribution("fixed", HOUR))
    ]
    _, watch = simulate(jobs, Setting(scheduler="sjf"), Plain)
    residual = rate * (short**2 + long_**2) / 4
    load_short, load = rate / 2 * short, rate / 2 * (short + long_)
    expected = {short: residual / (1 - load_short), long_: residual / ((1 - load_short) * (1 - load))}
    for size, wait in expected.items():
        of_size = [job.waited_us for job in watch.done if job.request.work_us == int(size * HOUR)]
        assert sum(of_size) / len(of_size) / HOUR == pytest.approx(wait, rel=0.06)


def test_a_day_swings_as_asked() -> None:
    arrivals = Arrivals(
        48_000, 100.0, 0.8, ONE, Distribution("fixed", 1.0), ("",), table_of({0: 1.0}), table_of({0: 1.0})
    )
    hours = [0] * 24
    for job in requests(arrivals, 3):
        hours[job.submit_us // HOUR % 24] += 1
    for hour, n in enumerate(hours):
        middle = 1 - 0.8 * math.sin(math.pi / 24) / (math.pi / 24) * math.cos(2 * math.pi * (hour + 0.5) / 24)
        assert n == pytest.approx(2000 * middle, rel=0.12)
