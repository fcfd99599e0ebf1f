"""Elastic jobs: how fast they are on so many GPUs, what Sia and Pollux give them, and that no progress is lost."""

import ctypes
import os
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.cluster.distribution import NEVER, Distribution
from models.cluster.failures import Failures, Process
from models.cluster.find import SCHEDULERS
from models.cluster.goodput import Amdahl, Curves, Goodput, Measured, Model, Pollux
from models.cluster.job import Job, Request
from models.cluster.loop import Cluster, Rules
from models.cluster.machine import Machine, Pool
from models.cluster.placement import POLICIES
from models.cluster.progress import Checkpoints
from models.cluster.schedulers.rounds.elastic import counts
from models.cluster.schedulers.rounds.solver import silent
from reference.cluster_runs import HOUR, S, Setting, Witness, simulate

pytest.importorskip("scipy")
BOTH = ("sia", "pollux")
LINEAR = Amdahl(0.0)
RESNET = Pollux(0.02, 0.004, (0.05, 0.002), (0.1, 0.005), 1.6, 1000.0, 128.0, 4096.0)
COSTS = Checkpoints(0, 20 * S, 40 * S, 5 * S)


def elastic(number: int, submit_h: float, n_gpu: int, hours: float, least: int, most: int, kind: str = "") -> Request:
    return Request(
        number, str(number), int(submit_h * HOUR), n_gpu, int(hours * HOUR), kind=kind, min_gpu=least, max_gpu=most
    )


def of(usual: Goodput) -> dict[str, Model]:
    return {"": Model(usual, 1, 64)}


class Runs(Witness):
    """Keeps (job, from, to, GPUs, pool, work) of every stretch in which a job has run."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.runs, self.began = [], {}

    def happened(self, now_us: int, what: str, job: Job | None, server: int, why: str) -> None:
        super().happened(now_us, what, job, server, why)
        if what == "start":
            self.began[job.number] = now_us
            request = job.request
            least, most = (request.min_gpu, request.max_gpu) if request.max_gpu else (job.n_gpu, job.n_gpu)
            assert least <= job.n_held <= most
        elif what in ("stop", "end"):
            work = job.speed * max(now_us - job.begin_us, 0)
            self.runs.append((job.number, self.began[job.number], now_us, job.n_held, job.pool, work))


def shares(watch: Runs) -> dict[int, list[tuple[float, float, int]]]:
    """By job: hours from and to, and GPUs."""
    found: dict[int, list[tuple[float, float, int]]] = {}
    for number, from_us, to_us, n_gpu, _, _ in sorted(watch.runs):
        found.setdefault(number, []).append((from_us / HOUR, to_us / HOUR, n_gpu))
    return found


# How fast


def test_amdahls_law() -> None:
    assert Amdahl(0.0)(8, 1, 1.0) == 8 and Amdahl(0.5)(8, 1, 2.0) == pytest.approx(2 / (0.5 + 0.0625))


@given(st.integers(1, 64), st.integers(1, 8), st.floats(1.0, 8.0), st.floats(1.0, 1e5))
def test_pollux_takes_the_batch_with_the_most_goodput(n_gpu: int, n_server: int, overlap: float, noise: float) -> None:
    model = RESNET._replace(overlap=overlap, noise=noise)
    batches = np.geomspace(model.least, model.most, 2000)
    best = max(model.of_batch(float(batch), n_gpu, n_server, 1.0) for batch in batches)
    found = model(n_gpu, n_server, 1.0)
    assert best * (1 - 1e-9) <= found <= best * 1.001


def test_pollux_model_in_its_limits() -> None:
    """One GPU has nothing to wait for; without noise no larger batch helps; with much, samples are all that counts."""
    fixed = RESNET._replace(most=128.0)
    assert fixed(1, 1, 1.0) == pytest.approx(128 / (0.02 + 0.512))
    assert fixed._replace(overlap=1.0)(2, 1, 1.0) == pytest.approx(128 / (0.02 + 0.256 + 0.05))
    assert fixed._replace(overlap=1.0)(4, 2, 1.0) == pytest.approx(128 / (0.02 + 0.128 + 0.1 + 0.01))
    assert fixed._replace(overlap=200.0)(4, 2, 1.0) == pytest.approx(128 / 0.148, rel=1e-3)
    assert RESNET._replace(noise=0.0)(8, 1, 1.0) == pytest.approx(fixed._replace(noise=0.0)(8, 1, 1.0))
    much = RESNET._replace(noise=1e12)
    assert much(8, 1, 1.0) == pytest.approx(4096 / much.iteration_s(4096, 8, 1, 1.0))


def test_measured_rates_between_counts() -> None:
    model = Measured((2, 4, 8), (10.0, 18.0, 30.0))
    assert [model(n, 1, 1.0) for n in (1, 2, 3, 4, 6, 8, 16)] == [5, 10, 14, 18, 24, 30, 30]


def test_a_job_on_what_it_asks_for_takes_as_long_as_it_says() -> None:
    pools = [Pool("A", 4, 8, 16, 1.0), Pool("B", 4, 4, 16, 0.5)]
    request = elastic(0, 0, 8, 1, 1, 32)
    for model in (Amdahl(0.1), RESNET, Measured((1, 8), (1.0, 5.0))):
        curves = Curves(pools, of(model))
        assert curves.speed(request, 0, [(0, 8)]) == 1.0
        assert (curves.speed(request, 0, [(0, 8), (1, 8)]) > 1.0) == (not isinstance(model, Measured))
        assert curves.speed(request, 1, [(4, 4), (5, 4)]) == pytest.approx(0.5) or model is RESNET


# What they get


def test_counts_are_powers_of_two_then_servers() -> None:
    job = Job(elastic(0, 0, 6, 1, 2, 100))
    assert counts(job, 8, 20) == [2, 4, 6, 8, 16, 24, 32, 40, 48, 56, 64, 100]
    assert counts(Job(Request(0, "0", 0, 6, 1)), 8, 20) == [6] and counts(Job(Request(0, "0", 0, 9, 1)), 8, 1) == []


@pytest.mark.parametrize("name", BOTH)
@settings(max_examples=30)
@given(st.floats(1.0, 1e5), st.floats(0.0, 0.05), st.integers(1, 4), st.integers(1, 64))
def test_a_job_alone_gets_the_gpus_with_the_most_goodput(
    name: str, noise: float, sync_s: float, least: int, asked: int
) -> None:
    model = RESNET._replace(noise=noise, sync_servers=(0.1, sync_s))
    request = elastic(0, 0, max(asked, least), 5, least, 64)
    _, watch = simulate([request], Setting([Pool("A", 8, 8, 4, 1.0)], name, curves=of(model)), Runs)
    best = max(counts(Job(request), 8, 8), key=lambda n: (model(n, -(-n // 8), 1.0), -n))
    assert [n for _, _, n in shares(watch)[0]] == [best]


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("n_job", [1, 2, 4, 8])
def test_jobs_that_are_alike_get_alike(name: str, n_job: int) -> None:
    jobs = [elastic(i, 0, 2, 3, 1, 16) for i in range(n_job)]
    for model in (LINEAR, Amdahl(0.03), RESNET):
        _, watch = simulate(jobs, Setting([Pool("A", 2, 8, 4, 1.0)], name, curves=of(model)), Runs)
        assert [shares(watch)[i][0][2] for i in range(n_job)] == [16 // n_job] * n_job or model is RESNET
        assert len({shares(watch)[i][0][2] for i in range(n_job)}) == 1


@pytest.mark.parametrize("name", BOTH)
def test_progress_is_kept_when_shares_change(name: str) -> None:
    """Work of 8 GPU-hours alone on 8 GPUs for half an hour; then the two have 4 each until the first is done."""
    jobs = [elastic(0, 0, 8, 1, 1, 8), elastic(1, 0.5, 8, 1, 1, 8)]
    setting = Setting([Pool("A", 1, 8, 4, 1.0)], name, {"round_minutes": 6.0}, curves=of(LINEAR))
    _, watch = simulate(jobs, setting, Runs)
    assert shares(watch) == {0: [(0, 0.5, 8), (0.5, 1.5, 4)], 1: [(0.5, 1.5, 4), (1.5, 2.0, 8)]}
    _, watch = simulate(jobs, setting._replace(checkpoints=Checkpoints(0, 60 * S, 120 * S, 0)), Runs)
    ends = {number: own[-1][1] for number, own in shares(watch).items()}
    assert ends[0] == 1.5 + 0.05 and [n for _, _, n in shares(watch)[0]] == [8, 4]


@pytest.mark.parametrize("name", BOTH)
def test_rigid_jobs_keep_their_gpus_beside_elastic_ones(name: str) -> None:
    jobs = [Request(0, "0", 0, 3, 2 * HOUR), elastic(1, 0, 4, 3, 1, 8)]
    pools = [Pool("A", 1, 8, 4, 1.0)]
    _, watch = simulate(jobs, Setting(pools, name, {"round_minutes": 6.0}, curves=of(LINEAR)), Runs)
    assert shares(watch) == {0: [(0, 2, 3)], 1: [(0, 2, 4), (2, 2.5, 8)]}


def test_each_goes_where_it_gains() -> None:
    """b is as fast on either type, so a gets the fast one, wherever it was."""
    pools = [Pool("slow", 1, 4, 4, 1.0), Pool("fast", 1, 4, 4, 4.0)]
    same = Model(LINEAR, 1, 4, {"fast": LINEAR, "slow": LINEAR})
    jobs = [elastic(0, 0, 4, 1, 4, 4, "b"), elastic(1, 0, 4, 4, 4, 4, "a")]
    _, watch = simulate(jobs, Setting(pools, "sia", curves={"a": Model(LINEAR, 1, 4), "b": same}), Runs)
    assert {run[0]: run[4] for run in watch.runs} == {0: 0, 1: 1}


def test_a_change_must_be_worth_its_restart() -> None:
    """Alone at 4 of 8 GPUs, as another had the rest: it grows once its age makes the restart worth it, not before."""
    jobs = [elastic(0, 0, 4, 2, 4, 8), Request(1, "1", 0, 4, 60 * S)]
    slow = Checkpoints(0, 0, 600 * S, 0)
    _, watch = simulate(jobs, Setting([Pool("A", 1, 8, 4, 1.0)], "sia", checkpoints=slow, curves=of(Amdahl(0.4))), Runs)
    first, *more = [run for run in shares(watch)[0]]
    assert first[2] == 4 and first[1] > 0.1 and [n for _, _, n in more] == [8]
    gain = Amdahl(0.4)(8, 1, 1.0) / Amdahl(0.4)(4, 1, 1.0)
    age_us = (first[1]) * HOUR
    assert age_us / (age_us + 600 * S) * gain > 1 > (age_us / 2) / (age_us / 2 + 600 * S) * gain


# The optimum


@given(st.data())
def test_the_programme_finds_what_trying_everything_finds(data: st.DataObject) -> None:
    power = data.draw(st.sampled_from([-2.0, -0.5, 0.5, 1.0]))
    pools = [Pool("A", 2, 4, 4, 1.0), Pool("B", 1, 4, 4, data.draw(st.sampled_from([0.3, 2.0])))][
        : 1 + data.draw(st.integers(0, 1))
    ]
    curves, requests = {}, []
    for i in range(data.draw(st.integers(1, 4))):
        least, most = sorted(data.draw(st.tuples(st.integers(1, 4), st.integers(1, 8))))
        curves[str(i)] = Model(Amdahl(data.draw(st.floats(0, 0.9))), least, most)
        rigid = Request(i, str(i), 0, least, HOUR)
        requests.append(rigid if data.draw(st.booleans()) and i else elastic(i, 0, least, 1, least, most, str(i)))
    found = Curves(pools, curves)
    machine = Machine(pools)
    rules = Rules(
        POLICIES["packed"], lambda r, pool, p: found.speed(r, pool, p) if r.max_gpu else 1.0, lambda *_: COSTS
    )
    cluster = Cluster(machine, rules, [], Failures([], machine, 0), Runs(machine))
    sia = SCHEDULERS["sia"](cluster, {"power": power, "gap": 0.0})
    jobs = [Job(request) for request in requests]
    for job in jobs:
        sia.submitted(job)
    room, chosen = machine.n_free, sia.changes()
    cost = {
        job.number: dict(zip(kind.configs, sia.costs(kind).tolist(), strict=True) if kind.configs else ())
        for job in jobs
        for kind in (sia.kinds.of_job[job.number],)
    }

    def total(configs: list) -> float:
        used = [0] * len(pools)
        for config in configs:
            if config is not None:
                used[config.pool] += config.n_gpu
        if any(n > most for n, most in zip(used, room, strict=True)):
            return np.inf
        return sum(cost[job.number][c] for job, c in zip(jobs, configs, strict=True) if c is not None)

    best = min(total(list(one)) for one in product(*([None, *sia.configs[job.number]] for job in jobs)))
    assert total([chosen.get(job.number) for job in jobs]) == pytest.approx(best, abs=1e-7)


# Conservation


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Request], Setting]:
    pools = draw(st.sampled_from(([Pool("A", 3, 4, 2, 1.0)], [Pool("A", 3, 4, 2, 1.0), Pool("B", 2, 8, 2, 0.5)])))
    at_us, jobs = 0, []
    for i in range(draw(st.integers(1, 15))):
        at_us += draw(st.sampled_from([0, 0, S, 100 * S, HOUR]))
        n_gpu, work_us = (
            draw(st.sampled_from([1, 1, 2, 3, 4, 8])),
            draw(st.sampled_from([1, S, 600 * S, HOUR, 7 * HOUR + 1])),
        )
        job = Request(i, str(i), at_us, n_gpu, work_us, gpu_type=draw(st.sampled_from(["", "A"])))
        if draw(st.booleans()):
            job = job._replace(min_gpu=draw(st.integers(1, n_gpu)), max_gpu=draw(st.integers(n_gpu, 20)))
        jobs.append(job)
    gap = Distribution("exponential", 100.0 * HOUR)
    processes = [
        Process(f"{per}-{takes}", per, gap, takes, Distribution("fixed", 300.0 * S), NEVER if takes == "job" else gap)
        for per, takes in draw(
            st.lists(st.sampled_from([("gpu", "job"), ("server", "server"), ("rack", "rack")]), max_size=2)
        )
    ]
    setting = Setting(
        pools, draw(st.sampled_from([*BOTH, "fcfs", "las", "srtf", "gang"])), {},
        draw(st.sampled_from(sorted(POLICIES))),
        draw(st.sampled_from([Checkpoints(), COSTS, COSTS._replace(interval_us=900 * S)])),
        processes, curves=of(draw(st.sampled_from([LINEAR, Amdahl(0.2), RESNET]))), seed=draw(st.integers(0, 9)),
    )  # fmt: skip
    return jobs, setting


@settings(max_examples=300)
@given(cases())
def test_nothing_is_lost_or_made_when_jobs_change_their_size(case: tuple[list[Request], Setting]) -> None:
    jobs, setting = case
    cluster, watch = simulate(jobs, setting, Runs)
    watch.check()
    assert sorted(job.number for job in watch.done) == [job.number for job in jobs]
    assert cluster.usage.totals[0] == sum(job.waited_us for job in watch.done)
    assert cluster.usage.totals[3] == sum(job.gpu_us for job in watch.done)
    assert cluster.held_gpus == cluster.waiting_gpus == 0 and not cluster.running and not cluster.waiting
    assert all(job.gpu_us >= job.lost_gpu_us + job.overhead_gpu_us >= 0 for job in watch.done)
    if setting.processes:
        return
    for job in watch.done:
        own = [run for run in watch.runs if run[0] == job.number]
        assert job.gpu_us == sum((to_us - from_us) * n for _, from_us, to_us, n, _, _ in own)
        assert len(own) == job.n_start == job.n_preemption + 1
        if not setting.checkpoints.interval_us:
            work_us = sum(work for *_, work in own)
            fastest = 64.0  # an instant of rounding at the end, and up to a unit of work at each stop
            assert 0 <= work_us - job.request.work_us <= job.n_start + fastest


@given(cases())
def test_who_watches_an_elastic_run_changes_nothing(case: tuple[list[Request], Setting]) -> None:
    first, second = (simulate(*case, Runs)[1].runs for _ in range(2))
    assert first == second


def test_what_a_solver_prints_is_not_among_what_a_run_says(capfd: pytest.CaptureFixture[str]) -> None:
    """Neither what C writes at once nor what it keeps to write later; what was written before is there."""
    libc = ctypes.CDLL(None)
    libc.puts(b"before")
    with silent():
        libc.puts(b"kept")
        os.write(1, b"at once")
    libc.puts(b"after")
    libc.fflush(None)
    assert capfd.readouterr().out == "before\nafter\n"
