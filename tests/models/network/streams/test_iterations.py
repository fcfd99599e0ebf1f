"""Claims about when iterations count as repeating, and what ends then."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.network.streams.iterations import FIRST_LOOK_PS, IterationWatch
from models.network.watch.observers import next_look_ps
from models.topology.leaf_spine import leaf_spine
from models.workload.agreement import agreement
from models.workload.plan import WorkloadPlan
from models.workload.program import STREAM
from models.workload.training.iteration import plan_training
from models.workload.training.job import TrainingJob
from models.workload.training.transformer import GptModel
from pdes.engine.exchange import World
from pdes.engine.round import make_loop, run_rounds
from pdes.engine.time_index import NEVER
from reference.network_case import Outcome, make_plan_case

GBPS, US, MS = 10**9, 10**6, 10**9
STAR = leaf_spine(1, 0, 4, 100 * GBPS, 100 * GBPS, US, US)
JOB = TrainingJob(GptModel(8, 64, vocabulary=1, sequence=64), 1, 1, 4, n_microbatch=4, flops_per_s=10**11)


def job_plan(n_iteration: int) -> WorkloadPlan:
    return plan_training(JOB, 4, STAR.server[STAR.host], n_iteration)


def make_watch(n_iteration: int, n_repeat: int, tolerance: float) -> IterationWatch:
    return IterationWatch(STAR, job_plan(n_iteration), np.zeros(5, np.int64), World(), n_repeat, tolerance)


def state_at(ends_ps: list[int], lead_ps: int, now_ps: int, n_iteration: int) -> SimpleNamespace:
    """Four streams; the first is lead_ps ahead of the others, which end the iterations."""
    streams = np.zeros(4, STREAM)
    streams["n_iteration"] = n_iteration
    streams["iteration"][1:] = sum(end_ps < now_ps for end_ps in ends_ps)
    streams["iteration"][0] = sum(end_ps - lead_ps < now_ps for end_ps in ends_ps)
    end_ps = np.array([end_ps if end_ps < now_ps else -1 for end_ps in ends_ps], np.int64)
    return SimpleNamespace(work=SimpleNamespace(streams=streams, iteration_end_ps=end_ps))


def follow(watch: IterationWatch, ends_ps: list[int], lead_ps: int = 0) -> tuple[list[int], np.ndarray | None]:
    """Look whenever the watch is due until the last end; (the looks, the streams as it left them if it cut them)."""
    looks = []
    while watch.due_ps <= ends_ps[-1]:
        looks.append(watch.due_ps)
        state = state_at(ends_ps, lead_ps, looks[-1], len(ends_ps))
        assert not watch.look(state, looks[-1])
        assert watch.due_ps > looks[-1]
        if watch.agreed:
            assert watch.due_ps == NEVER
            return looks, state.work.streams
    return looks, None


def test_equal_iterations_end_behind_what_the_fastest_stream_has_begun():
    """Stream 0 leads by one and a half iterations: when three are done, it is in the fifth."""
    watch = make_watch(20, 3, 0.0)
    looks, streams = follow(watch, [MS * (1 + i) for i in range(20)], lead_ps=3 * MS // 2)
    assert watch.agreed == ((MS, MS, MS), 1, 0.0) and watch.n_iteration == 5
    assert streams is not None and streams["n_iteration"].tolist() == [5] * 4
    assert 3 * MS < looks[-1] <= 3 * MS + MS // 64


def test_the_first_iteration_need_not_agree():
    watch = make_watch(20, 3, 0.001)
    follow(watch, [2 * MS + MS * i for i in range(20)])
    assert watch.agreed == ((MS, MS, MS), 1, 0.0) and watch.n_iteration == 5


def test_what_was_begun_to_the_end_cannot_be_cut():
    watch = make_watch(4, 3, 0.0)
    looks, streams = follow(watch, [MS * (1 + i) for i in range(4)], lead_ps=MS)
    assert streams is None and watch.n_iteration == 4 and watch.agreed is None and watch.due_ps == NEVER
    assert looks[-1] < 4 * MS


times = st.lists(st.sampled_from([900, 999, 1000, 1001, 1100, 2000]), min_size=4, max_size=30)


@given(times=times, n_repeat=st.integers(1, 4), lead=st.integers(0, 2500), tolerance=st.sampled_from([0, 0.002, 0.3]))
def test_it_cuts_only_behind_times_that_agree_and_looks_seldom(times, n_repeat, lead, tolerance):
    times_ps = [US * time for time in times]
    ends_ps = np.cumsum(times_ps).tolist()
    watch = make_watch(len(times), n_repeat, tolerance)
    looks, streams = follow(watch, ends_ps, lead * US)
    n_first = sum(look_ps <= ends_ps[0] for look_ps in looks)
    assert n_first < 80 and len(looks) - n_first <= 20 * len(times)  # 8 in each, 16 where the last one was half as long
    if streams is None:
        assert watch.n_iteration == len(times) and watch.agreed is None
        return
    assert watch.agreed is not None and watch.agreed.bound <= tolerance
    n_left = len(times) - watch.n_iteration
    assert watch.agreed in [agreement(times_ps[:i], n_repeat, n_left) for i in range(n_repeat, len(times))]
    assert streams["n_iteration"].tolist() == [watch.n_iteration] * 4
    assert watch.n_iteration == streams["iteration"].max() + 1 < len(times)


def run_watched(n_iteration: int, watch: IterationWatch | None) -> Outcome:
    outcome = Outcome()
    model, ahead_ps = make_plan_case(STAR, job_plan(n_iteration)).model(1, outcome)
    model.observers = [] if watch is None else [watch]
    run_rounds(model, make_loop(ahead_ps, next_look_ps=next_look_ps(model.observers)), model.exchange)
    model.flush()
    outcome.tasks.sort()
    outcome.model = model
    return outcome


@pytest.mark.parametrize("n_repeat", [1, 3])
def test_a_pipeline_that_is_cut_ran_as_one_of_fewer_iterations(n_repeat):
    """Flows, tasks and times are those of a run that was told the number; stages were in different iterations."""
    watch = make_watch(50, n_repeat, 0.001)
    cut = run_watched(50, watch)
    assert n_repeat < watch.n_iteration <= n_repeat + 2
    plain = run_watched(watch.n_iteration, None)
    assert (cut.flows, cut.tasks) == (plain.flows, plain.tasks)
    n = watch.n_iteration
    ends_ps, plain_ps = (run.model.state.work.iteration_end_ps for run in (cut, plain))
    assert ends_ps[:n].tolist() == plain_ps.tolist() and set(ends_ps[n:].tolist()) == {-1}


def test_the_first_look_is_soon_and_the_next_ones_are_further_and_further_apart():
    watch = make_watch(9, 3, 0.0)
    looks, _ = follow(watch, [10 * MS * (1 + i) for i in range(9)])
    before = [look_ps for look_ps in looks if look_ps <= 10 * MS]
    assert before[0] == FIRST_LOOK_PS
    assert all(b - a == a // 8 for a, b in zip(before, before[1:], strict=False))
