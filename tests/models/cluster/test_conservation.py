"""Random jobs, schedulers, placements, failures: no GPU has two jobs, no work and no GPU time is lost or made."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.cluster.asked import StuckError
from models.cluster.distribution import NEVER, Distribution
from models.cluster.failures import SLOWS, Process, Window
from models.cluster.find import SCHEDULERS
from models.cluster.job import Job, Request
from models.cluster.loop import Cluster
from models.cluster.machine import Pool
from models.cluster.placement import POLICIES
from models.cluster.progress import Checkpoints, time_us
from models.cluster.schedulers.scheduler import Scheduler
from models.cluster.storage import Storage
from reference.cluster_runs import HOUR, S, Setting, Witness, simulate, simulate_in_pieces

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "quota": [{"quotas": {"a": 6, "b": 16}}],
    "mast": [{"quotas": {"a": 6, "b": 8}}, {"quotas": {"a": 16}}],
    "las": [{"gpu_hours": [0.5, 2.0]}, {}],
    "gang": [{"slice_minutes": 20.0}],
    "priority": [{}, {"strict": False}, {"preempt": False}],
    "fcfs": [{}, {"strict": False}],
    "sjf": [{}, {"service": True}, {"strict": True}],
}
POOLS = ([Pool("A", 4, 4, 2, 1.0)], [Pool("A", 3, 4, 2, 1.0), Pool("B", 2, 8, 2, 0.5)])


STORAGES = (None, None, Storage(10**9, None, input_bps=10**8), Storage(None, 10**9, input_bps=6 * 10**8))
WINDOWS = st.tuples(
    st.lists(st.integers(0, 3), min_size=1, unique=True), st.sampled_from([0, HOUR, 3 * HOUR + 1]),
    st.sampled_from([0, 5 * HOUR]),
)  # fmt: skip


@st.composite
def cases(draw: st.DrawFn, without: str = "") -> tuple[list[Request], Setting]:
    pools = draw(st.sampled_from(POOLS))
    name = draw(st.sampled_from(sorted(SCHEDULERS.keys() - {without})))
    n_job, at_us, jobs = draw(st.integers(1, 40)), 0, []
    types = ["", "", *(pool.gpu for pool in pools)]
    sizes = [1, 1, 2, 3, 4, 8, 12]
    if SCHEDULERS[name].one_size:
        sizes = [draw(st.sampled_from(sizes))]
    for i in range(n_job):
        at_us += draw(st.sampled_from([0, 0, S, 600 * S, HOUR]))
        n_gpu = draw(st.sampled_from(sizes))
        work_us = draw(st.sampled_from([1, S, 600 * S, HOUR, 7 * HOUR + 1]))
        estimate = draw(st.sampled_from([0, 0, HOUR]))
        jobs.append(
            Request(i, str(i), at_us, n_gpu, work_us, draw(st.sampled_from("ab")), draw(st.integers(0, 2)), "",
                    draw(st.sampled_from(types)), estimate)
        )  # fmt: skip
    checkpoints = draw(
        st.sampled_from([Checkpoints(), Checkpoints(600 * S, 7 * S, 60 * S, 3 * S), Checkpoints(HOUR, 0, 0, 0)])
    )
    # 100 h: a job without checkpoints must have a chance to end.
    gap = Distribution(draw(st.sampled_from(["exponential", "weibull"])), 100.0 * HOUR, 1.0)
    kinds = [
        ("gpu", "job"), ("gpu", "server"), ("server", "rack"), ("rack", "rack"), ("rack", "job"), ("gpu", "speed"),
        ("server", "speed"), ("server", "network"), ("rack", "network"),
    ]  # fmt: skip
    often = gap._replace(scale_us=draw(st.sampled_from([1.0, 20.0])) * HOUR)
    processes = []
    for per, takes in draw(st.lists(st.sampled_from(kinds), max_size=2)):
        leaves, drains = draw(st.sampled_from([0.25, 0.9])), draw(st.booleans())
        repair = NEVER if takes == "job" else often if takes in SLOWS else gap
        own_gap, detection = often if takes in SLOWS else gap, Distribution("fixed", 300.0 * S)
        processes.append(
            Process(f"{per}-{takes}", per, own_gap, takes, detection, repair, leaves=leaves, drains=drains)
        )
    windows = [
        Window(f"window {k}", tuple(servers), from_us, every_us, 2 * HOUR)
        for k, (servers, from_us, every_us) in enumerate(draw(st.lists(WINDOWS, max_size=2)))
    ]
    stop_us = draw(st.sampled_from([2**62, 2**62, 5 * HOUR]))
    options = draw(st.sampled_from(OPTIONS.get(name, [{}])))
    if name == "quota" and len(pools) > 1:
        options = {"quotas": {"a": 12, "b": 28}}
    spares = draw(st.integers(0, 1)), draw(st.integers(0, 1))
    placement = draw(st.sampled_from(sorted(POLICIES)))
    return jobs, Setting(
        pools,
        name,
        options,
        placement,
        checkpoints,
        processes,
        stop_us,
        draw(st.integers(0, 9)),
        *spares,
        windows,
        0.5,
        storage=draw(st.sampled_from(STORAGES)),
    )


@settings(max_examples=1000)  # 14 schedulers, 4 placements, 2 clusters
@given(cases("sia"))  # whose integer programmes take long: test_elastic has it
def test_nothing_is_lost_or_made(case: tuple[list[Request], Setting]) -> None:
    jobs, setting = case
    cluster, watch = simulate(jobs, setting)
    watch.check()
    if setting.stop_us == 2**62:
        assert sorted(job.number for job in watch.done) == [job.number for job in jobs]
        assert not cluster.running and not cluster.waiting and cluster.held_gpus == 0
        level_us = [sum(values) for values in cluster.usage.intervals]
        assert level_us == cluster.usage.totals
        # Little's law, exactly: what is summed over time is what is summed over jobs.
        assert cluster.usage.totals[0] == sum(job.waited_us for job in watch.done)
        assert cluster.usage.totals[3] == sum(job.gpu_us for job in watch.done)
        assert cluster.usage.totals[2] == sum(_running_us(watch.events, job.number) for job in watch.done)
    unfinished = [*cluster.running.values(), *cluster.waiting.values()]
    for job in cluster.running.values():
        cluster.settle(job)
    everybody = [*watch.done, *unfinished]
    assert sum(cluster.lost_gpu_us.values()) == sum(job.lost_gpu_us for job in everybody)
    assert cluster.usage.totals[3] == sum(job.gpu_us for job in everybody)
    _check_down(cluster, watch)
    assert all(job.gpu_us >= job.lost_gpu_us + job.overhead_gpu_us for job in everybody)
    for job in watch.done:
        assert job.saved_us == job.request.work_us
        assert job.end_us - job.request.submit_us >= job.request.work_us
        held, n = job.gpu_us, job.n_gpu
        speeds = {pool.speed for pool in setting.pools}
        productive = held - job.lost_gpu_us - job.overhead_gpu_us
        least, most = (time_us(job.request.work_us, speed, Checkpoints()) * n for speed in (max(speeds), min(speeds)))
        n_change = sum(event[1:3] == ("speed", job.number) for event in watch.events)
        is_whole = (
            len(speeds) == 1
            and setting.storage is None
            and not any(process.takes in SLOWS for process in setting.processes)
        )
        rounding = 0 if is_whole else n * 4 * (job.n_start + n_change + 1)
        assert least - rounding <= productive <= most + rounding
        assert job.lost_gpu_us >= 0 and job.overhead_gpu_us >= 0


def _check_down(cluster: Cluster, watch: Witness) -> None:
    """All GPU time of a cluster is that of servers that are up, or down for some cause."""
    machine = cluster.machine
    all_gpus = sum(pool.n_server * pool.n_gpu for pool in machine.pools)
    assert all_gpus * cluster.now_us == cluster.usage.totals[4] + sum(cluster.incidents.down_gpu_us.values())
    n_move = sum(event[1] == "move" for event in watch.events)
    everybody = [*watch.done, *cluster.running.values(), *cluster.waiting.values()]
    assert n_move == sum(job.n_move for job in everybody)


def _running_us(events: list[tuple], number: int) -> int:
    total, since = 0, -1
    for now_us, what, job, _, _ in events:
        if job == number and what == "start":
            assert since < 0, "it runs already"
            since = now_us
        elif job == number and what in ("stop", "end", "requeue", "move"):
            assert since >= 0, "it does not run"
            total, since = total + now_us - since, -1
    return total


@given(cases())
def test_who_watches_changes_nothing(case: tuple[list[Request], Setting]) -> None:
    """The same again, bit for bit: nothing depends on addresses or on an order of sets."""
    first, second = (simulate(*case)[1].events for _ in range(2))
    assert first == second


@settings(max_examples=300)
@given(cases("sia"), st.lists(st.integers(0, 60), min_size=1, max_size=3))
def test_a_run_in_pieces_is_the_same_run(case: tuple[list[Request], Setting], lengths: list[int]) -> None:
    """Saved at any instant and loaded by a new cluster, with what a checkpoint on the disk can keep.

    Sia's integer programmes take too long for two runs of each case: `test_cluster_checkpoint.py` has it.
    """
    whole, watch = simulate(*case)
    cluster, events, done, _ = simulate_in_pieces(*case, lengths)
    assert events == watch.events
    assert [_facts(job) for job in done] == [_facts(job) for job in watch.done]
    assert cluster.usage.totals == whole.usage.totals and cluster.n_event == whole.n_event
    assert cluster.usage.intervals == whole.usage.intervals and cluster.lost_gpu_us == whole.lost_gpu_us
    assert list(map(_facts, cluster.running.values())) == list(map(_facts, whole.running.values()))


def _facts(job: Job) -> dict[str, Any]:
    return {name: getattr(job, name) for name in Job.__slots__}


@given(st.integers(0, 2**31), st.sampled_from(sorted(POLICIES)), st.integers(1, 70))
def test_placements_take_what_they_say(seed: int, name: str, n: int) -> None:
    """A job gets all of its GPUs or none; it gets them whenever enough are free, but for "whole"."""
    import random

    from models.cluster.machine import Machine

    draw, machine = random.Random(seed), Machine([Pool("A", 8, 8, 3, 1.0)])
    for server in range(8):
        if k := draw.randint(0, 8):
            machine.take(server, k)
    before = list(machine.free)
    place = POLICIES[name](machine, 0, n)
    if place is None:
        assert machine.free == before
        assert sum(before) < n or name == "whole"
    else:
        assert sum(k for _, k in place) == n
        assert [a - b for a, b in zip(before, machine.free, strict=True)] == [dict(place).get(s, 0) for s in range(8)]
        if name == "packed" and n <= 8:
            assert len(place) == 1 or max(before) < n
        if name == "rack":
            racks = {machine.rack_of[server] for server, _ in place}
            free = [sum(before[r : r + 3]) for r in (0, 3, 6)]
            assert len(racks) == 1 or max(free) < n
        if name == "whole":
            assert len(place) == -(-n // 8)


def test_a_scheduler_that_starts_nothing_is_found_out() -> None:
    with pytest.raises(StuckError):
        simulate([Request(0, "0", 0, 1, HOUR, "a")], Setting(scheduler="quota", options={"borrow": False}))


def test_a_scheduler_that_wakes_for_ever_is_found_out() -> None:
    class Sleeper(Scheduler):
        def decide(self) -> None:
            self.cluster.wake(self.cluster.now_us + HOUR)

    with pytest.raises(StuckError):
        simulate([Request(0, "0", 0, 1, HOUR)], Setting(scheduler=Sleeper))
