"""Jobs whose speed changes, servers that are slow, drained or maintained: closed forms, a twin, and cases by hand."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.cluster.checkpoint_rule import mean_us_between
from models.cluster.distribution import NEVER, Distribution
from models.cluster.failures import Failures, Process, Window
from models.cluster.job import Job, Request
from models.cluster.machine import Machine, Pool
from models.cluster.progress import Checkpoints
from models.cluster.schedulers.fcfs import Fcfs
from models.cluster.schedulers.shortest import Srtf
from reference.cluster_runs import HOUR, Plain, S, Setting, simulate

MINUTE = 60 * S


def drawn(mean_us: float) -> Distribution:
    return Distribution("exponential", mean_us)


def fixed(value_us: int) -> Distribution:
    return Distribution("fixed", value_us)


def once(at_us: int, takes: str, leaves: float, lasts_us: int, **more: object) -> Process:
    """The first server's, then not for a long time."""
    gap = Distribution("empirical", values_us=(at_us,))
    return Process("part", "server", gap, takes, fixed(0), fixed(lasts_us), leaves=leaves)._replace(**more)


class Changing(Fcfs):
    """Changes the speed of the only job when it is told to. changes: (when, speed)."""

    changes: tuple[tuple[int, float], ...] = ()

    def started(self, job: Job) -> None:
        super().started(job)
        for at_us, _ in self.changes:
            self.cluster.wake(at_us)

    def decide(self) -> None:
        super().decide()
        for at_us, speed in self.changes:
            for job in self.cluster.running.values():
                if at_us == self.cluster.now_us:
                    self.cluster.set_speed(job, speed, "part")


@settings(max_examples=2400)
@given(
    st.integers(1, 500), st.integers(0, 60), st.integers(0, 9), st.integers(0, 30),
    st.dictionaries(st.integers(1, 300), st.sampled_from([0.25, 0.5, 0.75, 1.0]), max_size=6), st.integers(0, 400),
)  # fmt: skip
def test_work_is_the_integral_of_speed(
    work_us: int, interval_us: int, write_us: int, begin_us: int, speeds: dict[int, float], fails_us: int
) -> None:
    """A twin that counts microsecond by microsecond: when the job ends, what a failure meanwhile leaves of it."""
    changes = tuple(sorted(speeds.items()))
    kind = type("Now", (Changing,), {"changes": changes})
    checkpoints = Checkpoints(interval_us, write_us, 0, begin_us)
    processes = [Process("bug", "server", Distribution("fixed", fails_us), "job", NEVER, NEVER)] if fails_us else []
    setting = Setting(scheduler=kind, checkpoints=checkpoints, processes=processes)
    if fails_us:
        setting = setting._replace(stop_us=fails_us)
    cluster, watch = simulate([Request(0, "0", 0, 1, work_us)], setting)
    speed, work, saved, computing, writing, slow, end_us = 1.0, 0.0, 0.0, 0, 0, 0.0, None
    for now_us in range(fails_us or 10_000):
        speed = speeds.get(now_us, speed)
        if now_us < begin_us:
            continue
        if writing:
            writing -= 1
            saved = work if not writing else saved
            continue
        work, slow, computing = work + speed, slow + 1 - speed, computing + 1
        if work >= work_us:
            end_us = now_us + 1
            break
        if interval_us and computing % interval_us == 0:
            writing = write_us
            saved = work if not write_us else saved
    slack = len(changes) + 1  # each change rounds down to a microsecond of work
    if end_us is not None and not (fails_us and end_us + 10 * slack >= fails_us):
        (job,) = watch.done
        assert end_us <= job.end_us <= end_us + 4 * slack + write_us * (1 + 4 * slack // max(interval_us, 1))
        assert job.lost_gpu_us == pytest.approx(slow, abs=4 * slack)
    elif fails_us and end_us is None and cluster.running:
        (job,) = cluster.running.values()
        assert job.n_failure == 1
        assert job.saved_us == pytest.approx(saved, abs=slack)
        assert cluster.lost_gpu_us.get("part", 0) == pytest.approx(slow, abs=slack)


@pytest.mark.parametrize("shape", ["exponential", "weibull"])
def test_servers_are_up_as_often_as_a_renewal_process_says(shape: str) -> None:
    """Mean time between failures over that and the mean time until repair, whatever the distributions."""
    gap, repair = Distribution(shape, 100.0 * HOUR, 0.7 if shape == "weibull" else 1.0), drawn(20.0 * HOUR)
    process = Process("part", "server", gap, "server", fixed(HOUR), repair)
    setting = Setting([Pool("G", 200, 8, 16, 1.0)], processes=[process], stop_us=20_000 * HOUR)
    cluster, _ = simulate([Request(0, "0", 0, 1, 10**6 * HOUR)], setting, Plain)
    up, all_gpus = cluster.usage.totals[4], 1600 * cluster.now_us
    expected = gap.mean_us / (gap.mean_us + 21 * HOUR)
    assert up / all_gpus == pytest.approx(expected, rel=0.005)
    assert cluster.incidents.down_gpu_us["part"] == all_gpus - up


@pytest.mark.parametrize(
    ("takes", "per", "n_server"), [("speed", "server", 3), ("speed", "gpu", 2), ("network", "server", 3)]
)
def test_a_job_is_as_fast_on_average_as_its_slowest_server(takes: str, per: str, n_server: int) -> None:
    """Each part is slow for a share d of time, so that of n parts some is with probability 1 - (1 - d)^n.

    Of the network, a share of a quarter of a third of the time costs 1 / (2/3 + 4/3) of the speed.
    """
    gap, lasts = drawn(90.0 * HOUR), drawn(10.0 * HOUR)
    process = Process("part", per, gap, takes, NEVER, lasts, leaves=0.25)
    if per == "gpu":
        process = process._replace(gap=Distribution("weibull", 90.0 * HOUR, 1.0), repair=lasts)
        process = process._replace(gap=process.gap._replace(form=0.999999))  # each GPU on its own
    pools, n_part = [Pool("G", n_server, 4, 16, 1.0)], n_server * (4 if per == "gpu" else 1)
    setting = Setting(pools, processes=[process], stop_us=400_000 * HOUR, network_share=1 / 3)
    cluster, _ = simulate([Request(0, "0", 0, 4 * n_server, 10**7 * HOUR)], setting, Plain)
    (job,) = cluster.running.values()
    cluster.settle(job)
    leaves = 0.25 if takes == "speed" else 1 / (2 / 3 + 4 / 3)
    expected = leaves + (1 - leaves) * 0.9**n_part
    assert job.saved_us / cluster.now_us == pytest.approx(expected, rel=0.01)
    assert job.lost_gpu_us == pytest.approx((cluster.now_us - job.saved_us) * job.n_held, rel=1e-6)


def test_a_nic_slows_only_jobs_on_several_servers() -> None:
    """Half of a network that takes half of the time: 1 / (1/2 + 1) of the speed, for an hour."""
    process = once(HOUR, "network", 0.5, HOUR)
    setting = Setting([Pool("G", 2, 4, 16, 1.0)], processes=[process], stop_us=5 * HOUR, network_share=0.5)
    _, watch = simulate([Request(0, "0", 0, 6, 3 * HOUR), Request(1, "1", 0, 2, 3 * HOUR)], setting)
    ends = {job.number: job.end_us for job in watch.done}
    assert ends == {0: pytest.approx(3 * HOUR + HOUR // 2, abs=4), 1: 3 * HOUR}  # slow again from hour 3 on
    assert [job.lost_gpu_us for job in watch.done if job.number == 1] == [0]


def test_a_server_is_drained_once_it_is_noticed() -> None:
    """Slow from hour 1 to 2, at a half; then the job goes elsewhere, with a checkpoint; the server is repaired."""
    process = once(HOUR, "speed", 0.5, 10 * HOUR, detection=fixed(HOUR), drains=True, gpu="A")
    pools = [Pool("A", 1, 4, 16, 1.0), Pool("B", 1, 4, 16, 1.0)]
    checkpoints = Checkpoints(10 * HOUR, MINUTE, 5 * MINUTE)
    setting = Setting(pools, processes=[process], checkpoints=checkpoints, stop_us=11 * HOUR)
    cluster, watch = simulate([Request(0, "0", 0, 4, 3 * HOUR)], setting)
    (job,) = watch.done
    assert [event[:3] for event in watch.events] == [
        (0, "start", 0), (HOUR, "fail", -1), (HOUR, "speed", 0), (2 * HOUR, "recover", -1), (2 * HOUR, "move", 0),
        (2 * HOUR, "start", 0), (2 * HOUR + 6 * MINUTE + 3 * HOUR // 2, "end", 0),
    ]  # fmt: skip
    assert job.lost_gpu_us == 4 * HOUR // 2 and job.overhead_gpu_us == 4 * 6 * MINUTE and job.n_move == 1
    assert cluster.lost_gpu_us == {"part": 2 * HOUR}


def test_servers_are_closed_for_a_window_and_open_behind_it() -> None:
    """One of two from hour 2 on, for an hour of every 5; a job of both servers waits meanwhile. By hand."""
    window = Window("firmware", (1,), 2 * HOUR, 5 * HOUR, HOUR)
    setting = Setting([Pool("G", 2, 1, 16, 1.0)], windows=[window], checkpoints=Checkpoints(0, MINUTE, 0, 0))
    cluster, watch = simulate([Request(0, "0", 0, 2, 7 * HOUR)], setting)
    (job,) = watch.done
    assert [event[:2] for event in watch.events if event[2] == 0] == [
        (0, "start"), (2 * HOUR, "move"), (3 * HOUR, "start"), (7 * HOUR, "move"), (8 * HOUR, "start"),
        (9 * HOUR + 2 * MINUTE, "end"),
    ]  # fmt: skip
    assert job.lost_gpu_us == 0 and job.overhead_gpu_us == 2 * 2 * MINUTE and job.waited_us == 2 * HOUR
    assert cluster.incidents.down_gpu_us == {"firmware": 2 * HOUR}


def test_a_server_that_fails_before_a_window_comes_back_behind_it() -> None:
    process = Process("part", "server", Distribution("fixed", HOUR), "server", NEVER, fixed(90 * MINUTE))
    window = Window("firmware", (0,), 2 * HOUR, 0, HOUR)
    setting = Setting(windows=[window], processes=[process], checkpoints=Checkpoints(MINUTE, 0, 0, 0))
    _, watch = simulate([Request(0, "0", 0, 1, 90 * MINUTE)], setting)
    assert [event[0] for event in watch.events if event[1] == "start"] == [0, 3 * HOUR]


def test_who_goes_by_ends_hears_that_they_move() -> None:
    """A slow job has most left, so a shorter one takes its GPUs; at full speed it would have had less left."""
    process = once(HOUR, "speed", 0.25, 50 * HOUR)
    pools = [Pool("G", 1, 1, 16, 1.0)]
    jobs = [Request(0, "0", 0, 1, 4 * HOUR), Request(1, "1", 2 * HOUR, 1, int(2.5 * HOUR))]
    _, watch = simulate(jobs, Setting(pools, "srtf", processes=[process], stop_us=40 * HOUR))
    assert ("stop", 0) in [event[1:3] for event in watch.events]
    _, watch = simulate(jobs, Setting(pools, "srtf", stop_us=40 * HOUR))
    assert ("stop", 0) not in [event[1:3] for event in watch.events]


def test_ends_stay_sorted() -> None:
    class Watched(Srtf):
        def decide(self) -> None:
            super().decide()
            assert all(one.estimated_end_us <= other.estimated_end_us for one, other in pairwise(self.by_end))

    process = Process("part", "server", drawn(3.0 * HOUR), "speed", NEVER, drawn(2.0 * HOUR), leaves=0.3)
    jobs = [Request(i, str(i), i * HOUR // 3, 1 + i % 5, (1 + i % 7) * HOUR) for i in range(80)]
    _, watch = simulate(jobs, Setting([Pool("G", 4, 4, 16, 1.0)], Watched, processes=[process]))
    assert sum(event[1] == "speed" for event in watch.events) > 50


def test_what_slows_is_no_interruption_for_the_rules_of_checkpoints() -> None:
    machine = Machine([Pool("G", 4, 8, 16, 1.0)])
    slow = Process("part", "gpu", drawn(HOUR), "speed", NEVER, NEVER, leaves=0.5)
    assert mean_us_between(Failures([slow], machine, 1), 8, 1) == float("inf")
    hard = Process("gpu", "gpu", drawn(HOUR), "server", NEVER, NEVER)
    assert mean_us_between(Failures([slow, hard], machine, 1), 8, 1) == pytest.approx(HOUR / 8)
