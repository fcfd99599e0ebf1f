"""Failures, checkpoints, spares: closed forms, and small cases by hand."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.cluster.checkpoint_rule import daly_us, mean_us_between, young_us
from models.cluster.distribution import NEVER, Distribution
from models.cluster.failures import Process
from models.cluster.job import Request
from models.cluster.machine import Pool
from models.cluster.progress import Checkpoints, done_in, time_us
from models.cluster.spares import Spares
from reference.cluster_runs import DAY, HOUR, Plain, S, Setting, simulate

MINUTE = 60 * S


def failing(per: str, takes: str, gap_us: float, **more: Distribution) -> Process:
    gap = Distribution("exponential", gap_us)
    return Process("part", per, gap, takes, more.get("detection", NEVER), more.get("repair", NEVER))


def every(gap_us: int, takes: str = "server", **more: Distribution) -> Process:
    return Process(
        "part", "server", Distribution("fixed", gap_us), takes, more.get("detection", NEVER), more.get("repair", NEVER)
    )


@pytest.mark.parametrize("interval_us", [30 * MINUTE, 2 * HOUR, 6 * HOUR])
def test_a_job_takes_as_long_as_daly_says(interval_us: int) -> None:
    """Memoryless failures every M, checkpoints of w each t, restarts of r (Daly 2006, equation 20):

    M exp(r/M) (exp((t+w)/M) - 1) / t of time for each of work.
    """
    between_us, write_us, restart_us, work_us = 24 * HOUR, 5 * MINUTE, 20 * MINUTE, 60_000 * HOUR
    checkpoints = Checkpoints(interval_us, write_us, restart_us, 0)
    setting = Setting(checkpoints=checkpoints, processes=[failing("server", "job", between_us)])
    _, watch = simulate([Request(0, "0", 0, 1, work_us)], setting, Plain)
    expected = math.exp(restart_us / between_us) * (math.exp((interval_us + write_us) / between_us) - 1)
    assert watch.done[0].end_us / work_us == pytest.approx(between_us * expected / interval_us, rel=0.01)


def test_rules_are_near_the_least_cost() -> None:
    """The rules' intervals cost hardly more than the best one of that equation; Daly's is nearer."""
    for write_us, between_us in ((MINUTE, 24 * HOUR), (5 * MINUTE, 3 * HOUR), (10 * MINUTE, HOUR)):

        def cost(interval_us: float, write_us: int = write_us, between_us: int = between_us) -> float:
            return (math.exp((interval_us + write_us) / between_us) - 1) / interval_us

        best = min(cost(MINUTE * 1.001**k) for k in range(7000))
        of_daly, of_young = cost(daly_us(write_us, between_us)), cost(young_us(write_us, between_us))
        assert 0.99999 * best <= of_daly <= 1.001 * best and of_daly <= of_young < 1.05 * best


@pytest.mark.parametrize(("n_gpu", "hours"), [(16_384, 1.8), (131_072, 0.23)])
def test_large_clusters_fail_as_often_as_metas(n_gpu: int, hours: float) -> None:
    """6.5 failures per 1,000 node-days (Meta's research clusters, HPCA 2025)."""
    pools, span_us = [Pool("G", n_gpu // 8, 8, 16, 1.0)], (400 if n_gpu < 20_000 else 60) * DAY
    process = failing("server", "server", 1000 / 6.5 * DAY)
    job = Request(0, "0", 0, 1, 10 * span_us)
    cluster, _ = simulate([job], Setting(pools, processes=[process], stop_us=span_us), Plain)
    assert span_us / cluster.n_failure["part"] / HOUR == pytest.approx(hours, rel=0.03)


def test_a_failure_takes_what_no_checkpoint_has() -> None:
    """By hand. Checkpoints each hour, of 6 min; the server fails at 2 h 30 min, is noticed 10 min later, 1 h of repair.

    Two hours are saved by 2 h 12 min, so 18 min of work are lost; then 10 min of restart and 3 h - 2 h of work.
    """
    checkpoints = Checkpoints(HOUR, 6 * MINUTE, 10 * MINUTE, 0)
    process = every(150 * MINUTE, detection=Distribution("fixed", 10 * MINUTE), repair=Distribution("fixed", HOUR))
    cluster, watch = simulate([Request(0, "0", 0, 1, 3 * HOUR)], Setting(checkpoints=checkpoints, processes=[process]))
    (job,) = watch.done
    assert [event[:2] for event in watch.events] == [
        (0, "start"), (150 * MINUTE, "fail"), (150 * MINUTE, "interrupt"), (160 * MINUTE, "requeue"),
        (220 * MINUTE, "repair"), (220 * MINUTE, "start"), (290 * MINUTE, "end"),
    ]  # fmt: skip
    assert job.lost_gpu_us == (18 + 10) * MINUTE
    assert job.overhead_gpu_us == (12 + 10) * MINUTE
    assert job.waited_us == 60 * MINUTE
    assert cluster.lost_gpu_us == {"part": 28 * MINUTE}


def test_spares_stand_in() -> None:
    """A hot one as soon as the failure is noticed, a cold one an hour later, if that is sooner than the repair."""
    repair = Distribution("fixed", 50 * HOUR)
    process = every(3 * HOUR, detection=Distribution("fixed", MINUTE), repair=repair)
    job = Request(0, "0", 0, 1, 4 * HOUR)
    ends = {}
    for name, spares in {"none": (0, 0), "hot": (1, 0), "cold": (0, 1)}.items():
        setting = Setting(processes=[process], hot=spares[0], cold=spares[1], checkpoints=Checkpoints(HOUR, 0, 0, 0))
        ends[name] = simulate([job], setting)[1].done[0].end_us
    assert ends == {
        "none": 3 * HOUR + MINUTE + 50 * HOUR + HOUR, "hot": 4 * HOUR + MINUTE, "cold": 5 * HOUR + MINUTE,
    }  # fmt: skip


def test_schedulers_see_the_same_failures() -> None:
    """Of servers, whatever runs on them: so two policies can be compared in pairs."""
    jobs = [Request(i, str(i), i * HOUR, 1 + i % 3, 20 * HOUR) for i in range(30)]
    process = failing("server", "server", 40 * HOUR, repair=Distribution("exponential", 5 * HOUR))
    seen = []
    for scheduler in ("fcfs", "sjf", "gang"):
        setting = Setting([Pool("G", 3, 4, 16, 1.0)], scheduler, processes=[process], stop_us=100 * HOUR)
        seen.append([e for e in simulate(jobs, setting)[1].events if e[1] in ("fail", "repair")])
    assert seen[0] == seen[1] == seen[2] != []


def test_progress_goes_back_and_forth() -> None:
    """What `time_us` says that work takes, `done_in` says is done then, and no sooner."""
    for checkpoints in (Checkpoints(), Checkpoints(10, 3), Checkpoints(7, 0), Checkpoints(1, 5)):
        for work_us in range(1, 60):
            for speed in (1.0, 0.5, 2.0, 1 / 3):
                time = time_us(work_us, speed, checkpoints)
                assert done_in(time, work_us, speed, checkpoints).work_us == work_us
                before = [done_in(t, work_us, speed, checkpoints) for t in range(time)]
                assert all(done.work_us <= work_us and done.saved_us <= done.work_us for done in before)
                assert [done.work_us for done in before] == sorted(done.work_us for done in before)
                assert speed != 1.0 or before[-1].work_us < work_us


@pytest.mark.parametrize(
    ("per", "takes"),
    [("gpu", "server"), ("server", "server"), ("server", "rack"), ("gpu", "rack"), ("rack", "rack"), ("rack", "job")],
)
def test_a_job_is_interrupted_as_often_as_the_rules_of_checkpoints_expect(per: str, takes: str) -> None:
    """A job of five servers of four GPUs, in three racks of two."""
    pools = [Pool("G", 6, 4, 2, 1.0)]
    process, job = failing(per, takes, 1000.0 * HOUR), Request(0, "0", 0, 20, 10**9 * HOUR)
    span_us = 200_000 * HOUR
    cluster, watch = simulate([job], Setting(pools, processes=[process], stop_us=span_us, placement="rack"), Plain)
    n = cluster.running[0].n_failure
    assert n > 400
    assert span_us / n == pytest.approx(mean_us_between(cluster.failures, 20, 5), rel=0.1)


@given(st.integers(0, 2**31), st.integers(0, 6), st.integers(1, 60))
def test_as_many_servers_are_down_as_are_in_repair_beyond_the_spares(seed: int, n_spare: int, n_failure: int) -> None:
    draw = random.Random(seed)
    spares, at_us, down, in_repair = Spares([n_spare], [0]), 0, [], []
    for _ in range(n_failure):
        at_us += draw.randint(0, 20)
        repaired_us = at_us + draw.randint(1, 100)
        down.append((at_us, spares.back_us(0, at_us, repaired_us)))
        in_repair.append((at_us, repaired_us))
    for now_us in range(at_us + 100):
        n_down, n_repaired = (sum(since <= now_us < until for since, until in of) for of in (down, in_repair))
        assert n_down == max(n_repaired - n_spare, 0)


@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(0, 4))
def test_a_cold_spare_is_never_worse_than_none(seed: int, n_cold: int, n_hot: int) -> None:
    draw = random.Random(seed)
    spares, at_us = Spares([n_hot], [n_cold], 30), 0
    for _ in range(60):
        at_us += draw.randint(0, 20)
        repaired_us = at_us + draw.randint(1, 100)
        assert at_us <= spares.back_us(0, at_us, repaired_us) <= repaired_us
