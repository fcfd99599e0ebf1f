"""Gavel's policies on jobs of several GPUs: GPUs are what is shared, and jobs have all of theirs or none."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.cluster.job import Job, Request
from models.cluster.loop import Cluster
from models.cluster.machine import Pool
from models.cluster.schedulers.rounds import max_min
from models.cluster.schedulers.rounds.rounds import Rounds
from models.cluster.schedulers.scheduler import Scheduler
from reference.cluster_runs import HOUR, S, Setting, Witness, prepared

pytest.importorskip("scipy")
FAMILY = ("fifo-rounds", "fifo-perf", "max-min", "max-min-perf", "finish-time-fair", "allox")
SPEEDS = st.sampled_from([0.2, 0.5, 0.75, 1.0])


class Case(NamedTuple):
    """speeds: of each job in each pool."""

    pools: list[Pool]
    jobs: list[Request]
    speeds: list[tuple[float, ...]]


@st.composite
def cases(draw: st.DrawFn, one_size: bool = False, at_once: bool = False, most_jobs: int = 14) -> Case:
    """A few pools, and jobs that each fit into the largest one."""
    pools = [
        Pool(f"G{i}", draw(st.integers(1, 3)), draw(st.sampled_from([1, 2, 4])), 2, 1.0)
        for i in range(draw(st.integers(1, 3)))
    ]
    largest = max(pool.n_server * pool.n_gpu for pool in pools)
    sizes = [n for n in (1, 1, 2, 3, 4, 8) if n <= largest]
    size, jobs, at_us = draw(st.sampled_from(sizes)), [], 0
    for i in range(draw(st.integers(1, most_jobs))):
        at_us += 0 if at_once else draw(st.sampled_from([0, 0, 600 * S, HOUR]))
        n_gpu = size if one_size else draw(st.sampled_from(sizes))
        jobs.append(Request(i, str(i), at_us, n_gpu, draw(st.sampled_from([S, 900 * S, HOUR, 5 * HOUR + 1]))))
    return Case(pools, jobs, [draw(st.tuples(*[SPEEDS] * len(pools))) for _ in jobs])


def begun(case: Case, name: str) -> tuple[Cluster, Scheduler, Witness]:
    """Nothing has happened; jobs are as fast as the case says."""
    cluster, scheduler, watch = prepared(case.jobs, Setting(case.pools, name))
    cluster.rules = cluster.rules._replace(speed=lambda request, pool, place: case.speeds[request.number][pool])
    return cluster, scheduler, watch


def ends(case: Case, name: str) -> dict[int, int]:
    """Of all jobs; on the way no GPU has two of them."""
    cluster, scheduler, watch = begun(case, name)
    cluster.run(scheduler)
    watch.check()
    return {job.number: job.end_us for job in watch.done}


def larger(case: Case, of_servers: bool, times: int = 8) -> Case:
    """So many times the GPUs, in larger servers or in more of them, and of every job."""
    pools = [
        pool._replace(n_server=pool.n_server * times) if of_servers else pool._replace(n_gpu=pool.n_gpu * times)
        for pool in case.pools
    ]
    return Case(pools, [job._replace(n_gpu=job.n_gpu * times) for job in case.jobs], case.speeds)


@pytest.mark.parametrize("name", FAMILY)
def test_eight_times_the_gpus_of_all_is_the_same_run(name: str) -> None:
    @settings(max_examples=25)
    @given(cases(one_size=name == "allox"), st.booleans(), st.sampled_from([0, max_min.MOST_ALONE]))
    def holds(case: Case, of_servers: bool, alone: int) -> None:
        max_min.MOST_ALONE, before = alone, max_min.MOST_ALONE
        try:
            found = ends(case, name)
            assert ends(larger(case, of_servers), name) == found
        finally:
            max_min.MOST_ALONE = before
        assert sorted(found) == list(range(len(case.jobs)))  # every job ends

    holds()


def waiting(case: Case, name: str) -> Rounds:
    """The scheduler when all jobs have come and none has run."""
    _, scheduler, _ = begun(case, name)
    for request in case.jobs:
        scheduler.submitted(Job(request))
    assert isinstance(scheduler, Rounds)
    return scheduler


def parts(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Speeds, 0 where a job has no room; GPUs of jobs; GPUs of pools."""
    sizes = np.array([job.n_gpu for job in case.jobs], float)
    room = np.array([pool.n_server * pool.n_gpu for pool in case.pools], float)
    return np.where(sizes[:, None] <= room, np.array(case.speeds), 0.0), sizes, room


def fits(shares: np.ndarray, sizes: np.ndarray, room: np.ndarray) -> bool:
    """Gavel's section 3.1: no job has more than all of its time, no pool more than its GPUs."""
    return bool(
        (shares >= -1e-9).all()
        and (shares.sum(axis=1) <= 1 + 1e-9).all()
        and (sizes @ shares <= room * (1 + 1e-9)).all()
    )


def twin(case: Case, per_job: np.ndarray) -> float:
    """The most t for which every job's speed times per_job can be t: a dense programme, a row for each rule."""
    from scipy.optimize import linprog

    speeds, sizes, room = parts(case)
    n_job, n_pool = speeds.shape
    rows, most = [], []
    for m in range(n_job):
        row = np.zeros((n_job, n_pool))
        row[m] = -speeds[m] * per_job[m]
        rows.append([*row.ravel(), 1.0])
        most.append(0.0)
        row[m] = 1.0
        rows.append([*row.ravel(), 0.0])
        most.append(1.0)
    for j in range(n_pool):
        row = np.zeros((n_job, n_pool))
        row[:, j] = sizes
        rows.append([*row.ravel(), 0.0])
        most.append(room[j])
    found = linprog([*np.zeros(n_job * n_pool), -1.0], A_ub=np.array(rows), b_ub=most, method="highs-ipm")
    return -found.fun


@settings(max_examples=150)
@given(cases(at_once=True, most_jobs=6), st.sampled_from([0, max_min.MOST_ALONE]))
def test_max_min_is_the_optimum_of_gavels_programme(case: Case, alone: int) -> None:
    """Section 4.1: the least of speed over that with equal time on each GPU, times GPUs."""
    max_min.MOST_ALONE, before = alone, max_min.MOST_ALONE
    try:
        shares = waiting(case, "max-min-perf").shares()
    finally:
        max_min.MOST_ALONE = before
    speeds, sizes, room = parts(case)
    per_job = sizes / (speeds @ (room / room.sum()))
    found = np.array([shares[i] for i in range(len(case.jobs))])
    assert fits(found, sizes, room)
    assert ((speeds * found).sum(axis=1) * per_job).min() == pytest.approx(twin(case, per_job), rel=1e-6)


@settings(max_examples=200)
@given(cases(at_once=True, most_jobs=9))
def test_finish_time_fairness_is_the_least_rho_of_plain_programmes(case: Case) -> None:
    """All came now, so rho is the speed in isolation over that by the shares: its largest is one programme."""
    shares = waiting(case, "finish-time-fair").shares()
    speeds, sizes, room = parts(case)
    isolated = np.minimum(1.0, room.sum() / (len(sizes) * sizes))[:, None] * (room / room.sum())  # equal GPU time
    assert fits(isolated, sizes, room)
    per_job = 1 / (speeds * isolated).sum(axis=1)
    found = np.array([shares[i] for i in range(len(case.jobs))])
    assert fits(found, sizes, room)
    rho = 1 / ((speeds * found).sum(axis=1) * per_job).min()
    assert rho == pytest.approx(1 / twin(case, per_job), rel=1e-3)


@given(cases(at_once=True))
def test_equal_shares_are_of_gpus(case: Case) -> None:
    """Each has as many GPU-hours as any other, or all of its time; together no more than there are."""
    scheduler = waiting(case, "max-min")
    shares = scheduler.shares()
    _, sizes, room = parts(case)
    found = np.array([shares[i] for i in range(len(case.jobs))])
    assert fits(found, sizes, room)
    times, each = found.sum(axis=1), room.sum() / len(sizes)
    assert all(t == pytest.approx(min(1.0, each / n)) for t, n in zip(times, sizes, strict=True))


def test_a_job_of_eight_gpus_has_an_eighth_of_the_time() -> None:
    """On 8 GPUs, beside two of one GPU that have all of theirs; equal shares of GPUs are 8 / 3, for it a third."""
    jobs = [Request(i, str(i), 0, n, HOUR) for i, n in enumerate((1, 1, 8))]
    case = Case([Pool("G", 1, 8, 1, 1.0)], jobs, [(1.0,)] * 3)
    assert waiting(case, "max-min").shares() == {0: [1.0], 1: [1.0], 2: [1 / 3]}
    shares = waiting(case, "max-min-perf").shares()
    assert [x for row in shares.values() for x in row] == pytest.approx([1.0, 1.0, 1 / 8])


@pytest.mark.parametrize("name", ["max-min", "max-min-perf", "finish-time-fair"])
def test_no_gpu_stands_idle_that_a_waiting_job_could_have(name: str) -> None:
    """After each round has begun; all jobs are there from the first one on, so that all have shares."""

    def looks(scheduler: Rounds) -> None:
        """Whenever jobs have been started."""
        start = scheduler._run

        def started(chosen: np.ndarray) -> None:
            start(chosen)
            cluster = scheduler.cluster
            for job in cluster.waiting.values():
                assert not cluster.fits(job), f"{job.n_gpu} of {cluster.machine.n_free}"

        scheduler._run = started

    @settings(max_examples=30)
    @given(cases(at_once=True))
    def holds(case: Case) -> None:
        cluster, scheduler, watch = begun(case, name)
        assert isinstance(scheduler, Rounds)
        looks(scheduler)
        cluster.run(scheduler)
        assert len(watch.done) == len(case.jobs)

    holds()
