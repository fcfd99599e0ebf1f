"""Rounds as in Gavel: known answers on tiny clusters, and what holds for every policy."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from models.cluster.failures import Failures
from models.cluster.find import SCHEDULERS
from models.cluster.job import Job, Request
from models.cluster.loop import Cluster
from models.cluster.machine import Machine, Pool
from models.cluster.placement import POLICIES
from models.cluster.progress import Checkpoints
from models.cluster.rules import Rules
from models.cluster.schedulers.rounds import max_min

MINUTE_US = 60 * 10**6
SOLVED = ("max-min-perf", "finish-time-fair", "allox")
ALL = ("fifo-rounds", "fifo-perf", "max-min", *SOLVED)


class Watch:
    """Who ran where, and when jobs were done."""

    def __init__(self):
        self.runs, self.done_us, self.began = [], {}, {}

    def happened(self, now_us, what, job, server, why):
        if what == "start":
            self.began[job.number] = (now_us, job.place[0][0], job.speed)
        elif what in ("stop", "end"):
            self.runs.append((job.number, now_us, *self.began[job.number]))

    def left(self, job):
        self.done_us[job.number] = self.cluster.now_us


def run(name, jobs, servers=(1, 1), speeds=None, **options):
    """jobs: (submitted, work) in minutes. speeds: of each job on each pool."""
    if name in SOLVED:
        pytest.importorskip("scipy")
    machine = Machine([Pool(f"g{i}", n, 1, 16, 1.0) for i, n in enumerate(servers)])
    watch = Watch()
    requests = [Request(i, str(i), at * MINUTE_US, 1, work * MINUTE_US) for i, (at, work) in enumerate(jobs)]

    def speed(request, pool, place):
        return speeds[request.number][pool] if speeds else 1.0

    rules = Rules(POLICIES["packed"], speed, lambda request, n: Checkpoints())
    watch.cluster = cluster = Cluster(machine, rules, requests, Failures([], machine, 0), watch)
    scheduler = SCHEDULERS[name](cluster, options)
    for request in requests:
        if not request.submit_us:
            scheduler.submitted(Job(request))
    at_once = scheduler.shares()
    cluster.run(SCHEDULERS[name](cluster, options))
    return watch, scheduler, at_once


def test_a_new_job_waits_for_the_next_round_and_for_new_shares():
    watch, *_ = run("fifo-perf", [(0, 60), (1, 10)], reset_minutes=6.0)
    assert watch.done_us == {0: 60 * MINUTE_US, 1: 16 * MINUTE_US}


def test_fifo_perf_takes_the_fastest_free_pool_and_moves_there_once_it_is_free():
    """The second does 6 minutes of work by the round that starts at 12, and its other 4 at full speed."""
    watch, *_ = run("fifo-perf", [(0, 10), (0, 10)], speeds=[(0.5, 1.0), (0.5, 1.0)])
    assert watch.done_us == {0: 10 * MINUTE_US, 1: 16 * MINUTE_US}


def test_max_min_gives_turns_on_one_gpu():
    watch, *_ = run("max-min", [(0, 12), (0, 12)], servers=(1,))
    assert watch.done_us == {0: 18 * MINUTE_US, 1: 24 * MINUTE_US}


def test_max_min_perf_sends_each_job_where_it_gains_most():
    watch, *_ = run("max-min-perf", [(0, 60), (0, 60)], speeds=[(0.5, 1.0), (1.0, 0.5)])
    assert watch.done_us == {0: 60 * MINUTE_US, 1: 60 * MINUTE_US}


def test_max_min_perf_shares_out_equally_where_no_trade_helps_both():
    """Speeds (1, 0.1) and (1, 0.9): (0.1 + 0.9 x) / 0.55 = (1 - 0.1 x) / 0.95 has x = 1/2, where both are 1."""
    shares = run("max-min-perf", [(0, 60), (0, 60)], speeds=[(1.0, 0.1), (1.0, 0.9)])[2]
    assert [x for row in shares.values() for x in row] == pytest.approx([0.5] * 4)


def test_finish_time_fairness_lets_the_job_that_has_waited_longest_catch_up():
    """One GPU, both with 60 left: there for 60 and 0, each with half of it in isolation, 120 for what is left."""
    scheduler = waiting([(0, 60), (60, 60)], servers=(1,), now=60)
    (first,), (second,) = scheduler.shares().values()
    # (60 + 60 / x) / 120 = (60 / (1 - x)) / 120, so x * x + x = 1
    assert (first, second) == pytest.approx(((5**0.5 - 1) / 2, (3 - 5**0.5) / 2), rel=1e-3)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_finish_time_fairness_is_the_least_largest_rho(data):
    """Two jobs on two pools: no shares on a fine grid have a smaller one, whatever the rho of the last shares was."""
    pytest.importorskip("scipy")
    speeds = [tuple(data.draw(st.sampled_from([0.1, 0.4, 0.7, 1.0])) for _ in range(2)) for _ in range(2)]
    jobs = [(data.draw(st.integers(0, 90)), data.draw(st.integers(5, 200))) for _ in range(2)]
    scheduler = waiting(sorted(jobs), servers=(1, 1), now=100, speeds=speeds)
    scheduler.rho = data.draw(st.sampled_from([1e-3, 0.5, 1.0, 2.0, 50.0, float("inf")]))
    jobs = sorted(jobs)

    def worst(shares):
        found = []
        for (at, work), own, row in zip(jobs, speeds, shares, strict=True):
            speed = sum(s * x for s, x in zip(own, row, strict=True))
            found.append((100 - at + work / max(speed, 1e-12)) / (work / (sum(own) / 2)))
        return max(found)

    got = [row for _, row in sorted(scheduler.shares().items())]
    assert all(sum(row) <= 1 + 1e-9 for row in got) and all(
        sum(column) <= 1 + 1e-9 for column in zip(*got, strict=True)
    )
    grid = [i / 40 for i in range(41)]
    least = min(worst([(x, y), (1 - x, 1 - y)]) for x in grid for y in grid if x + y <= 1 and 2 - x - y <= 1)
    assert worst(got) <= least * (1 + 1e-3)


def waiting(jobs, servers, now, speeds=None):
    """A scheduler at an instant at which none of its jobs has run yet."""
    pytest.importorskip("scipy")
    machine = Machine([Pool(f"g{i}", n, 1, 16, 1.0) for i, n in enumerate(servers)])
    requests = [Request(i, str(i), at * MINUTE_US, 1, work * MINUTE_US) for i, (at, work) in enumerate(jobs)]

    def speed(request, pool, place):
        return speeds[request.number][pool] if speeds else 1.0

    rules = Rules(POLICIES["packed"], speed, lambda request, n: Checkpoints())
    cluster = Cluster(machine, rules, requests, Failures([], machine, 0), Watch())
    cluster.now_us = now * MINUTE_US
    scheduler = SCHEDULERS["finish-time-fair"](cluster, {})
    for request in requests:
        scheduler.submitted(Job(request))
    return scheduler


def test_allox_puts_the_short_job_first():
    watch, *_ = run("allox", [(0, 100), (0, 10)], servers=(1,), reset_minutes=6.0)
    assert watch.done_us == {0: 110 * MINUTE_US, 1: 10 * MINUTE_US}


@pytest.mark.parametrize("name", ALL)
def test_no_gpu_runs_two_jobs_every_job_ends_and_work_is_kept(name):
    jobs = [(3 * i, 20 + 7 * (i * 5 % 9)) for i in range(20)]
    watch, *_ = run(name, jobs, servers=(2, 2), speeds=[(1.0, (1 + i % 4) / 4) for i in range(20)])
    assert len(watch.done_us) == len(jobs)
    for server in range(4):
        mine = sorted((began, ended) for _, ended, began, where, _ in watch.runs if where == server)
        assert all(before[1] <= after[0] for before, after in pairwise(mine))
    for number, (_, work) in enumerate(jobs):
        done = sum((ended - began) * speed for i, ended, began, _, speed in watch.runs if i == number)
        assert done == pytest.approx(work * MINUTE_US, rel=1e-6)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_groups_get_what_the_ungrouped_programme_gives(data):
    """The least progress is the same, whoever is in a group is as fast, and nothing is shared out twice."""
    scheduler = waiting([(0, 60)], servers=(3, 2, 4)[: (n_pool := data.draw(st.integers(1, 3)))], now=0)
    speed = st.sampled_from([0.0, 0.1, 0.4, 0.7, 1.0])
    kinds = data.draw(st.lists(st.tuples(*[speed] * n_pool), min_size=1, max_size=4))
    numbers = data.draw(st.lists(st.integers(0, len(kinds) - 1), min_size=1, max_size=20))
    speeds = np.array([kinds[i] for i in numbers])
    wanted = speeds @ np.linspace(0.2, 0.5, n_pool)
    assume((wanted > 0).any())
    sizes = np.array([1.0 + i for i in numbers])
    asks, n_up = wanted > 0, scheduler.cluster.machine.n_up

    def least(shares):
        assert (shares >= -1e-9).all() and (shares.sum(axis=1) <= 1 + 1e-9).all()
        assert (sizes @ shares <= np.array(n_up) + 1e-9).all()
        return ((speeds * shares).sum(axis=1)[asks] / wanted[asks]).min()

    alone = scheduler._of_groups(speeds, wanted, sizes, np.ones(len(numbers), np.int64))
    max_min.MOST_ALONE, before = 0, max_min.MOST_ALONE
    try:
        grouped = scheduler.most(speeds, wanted, sizes)
    finally:
        max_min.MOST_ALONE = before
    assert least(grouped) == pytest.approx(least(alone), rel=1e-9, abs=1e-9)
    got = (speeds * grouped).sum(axis=1)
    assert all(got[i] == pytest.approx(got[numbers.index(kind)], abs=1e-9) for i, kind in enumerate(numbers))


def test_shares_of_a_group_are_handed_out_in_few_pools():
    """Four that need 0.6 each of a fast pool's 1 and a slow one's 0.2: the idle time goes with the fast one first."""
    shares = max_min.shared_out(np.array([1.0, 0.2]), np.array([0.55, 0.25]), 4)
    assert (shares @ [1.0, 0.2]) == pytest.approx([0.6] * 4) and shares.sum(axis=0) == pytest.approx([2.2, 1.0])
    assert shares[0] == pytest.approx([0.5, 0.5]) and shares[-1] == pytest.approx([0.6, 0.0])
