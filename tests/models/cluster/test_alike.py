"""Jobs that are alike as one group: the optimum is that of the programme with one variable for each job."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.cluster.job import Request
from models.cluster.machine import Pool
from models.cluster.schedulers.rounds import knapsack
from models.cluster.schedulers.rounds.alike import Group, Kind
from models.cluster.schedulers.rounds.elastic import Config
from models.cluster.schedulers.rounds.knapsack import Choices, counts_of_each
from reference.cluster_runs import HOUR, Setting, Witness, simulate

optimize = pytest.importorskip("scipy.optimize")
sparse = pytest.importorskip("scipy.sparse")


def ungrouped(choices: Choices, room: np.ndarray) -> float:
    """The least costs, by an integer programme with a variable for each configuration of each job."""
    own = [np.flatnonzero(choices.owners == group) for group in range(len(choices.counts))]
    jobs = [ways for ways, n in zip(own, choices.counts, strict=True) for _ in range(n)]
    ks = np.concatenate([*jobs, np.zeros(0, np.int64)]).astype(np.int64)
    if not len(ks):
        return 0.0
    owners = np.repeat(np.arange(len(jobs)), [len(ways) for ways in jobs])
    columns = np.arange(len(ks))
    by_job = sparse.csr_matrix((np.ones(len(ks)), (owners, columns)), shape=(len(jobs), len(ks)))
    by_pool = sparse.csr_matrix((choices.sizes[ks] * 1.0, (choices.pools[ks], columns)), shape=(len(room), len(ks)))
    limits = [optimize.LinearConstraint(by_job, ub=1), optimize.LinearConstraint(by_pool, ub=room)]
    options = {"mip_rel_gap": 0.0, "presolve": False}
    return optimize.milp(
        choices.costs[ks], integrality=np.ones(len(ks)), bounds=optimize.Bounds(0, 1), constraints=limits,
        options=options,
    ).fun  # fmt: skip


@st.composite
def problems(draw: st.DrawFn) -> tuple[Choices, np.ndarray]:
    """Up to five groups of up to four jobs with up to three configurations in one pool or two; ties are frequent."""
    n_pool, per_group = draw(st.integers(1, 2)), draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))
    owners = np.repeat(np.arange(len(per_group)), per_group)
    cost = draw(st.sampled_from([st.sampled_from([-1.0, -0.5, -0.35, -0.2, -0.1, 0.1]), st.floats(-1.0, 0.2)]))

    def of_each(what: st.SearchStrategy, n: int = len(owners)) -> np.ndarray:
        return np.array(draw(st.lists(what, min_size=n, max_size=n)))

    return Choices(
        of_each(cost), owners, of_each(st.integers(0, n_pool - 1)), of_each(st.integers(1, 8)),
        of_each(st.integers(0, 4), len(per_group)),
    ), of_each(st.integers(0, 40), n_pool)  # fmt: skip


def check(choices: Choices, room: np.ndarray, found: np.ndarray) -> None:
    assert (found >= 0).all()
    assert (np.bincount(choices.pools, found * choices.sizes, len(room)) <= room).all()
    assert (np.bincount(choices.owners, found, len(choices.counts)) <= choices.counts).all()


@settings(max_examples=300, deadline=None)
@given(problems())
def test_grouped_costs_are_those_of_the_ungrouped_programme(case: tuple[Choices, np.ndarray]) -> None:
    choices, room = case
    found = np.array(counts_of_each(choices, room, 0.0))
    check(choices, room, found)
    assert (found * choices.costs).sum() == pytest.approx(ungrouped(choices, room), abs=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_with_many_jobs_the_table_and_the_programme_agree(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes of a month's jobs: groups of hundreds on 4,096 GPUs, and single jobs with costs of their own."""
    draws = np.random.default_rng(seed)
    sizes = np.concatenate([[1, 2, 3, 8, 64, 512], *[[8, 16, 24]] * 30])
    owners = np.concatenate([np.arange(6), 6 + np.repeat(np.arange(30), 3)])
    counts = np.concatenate([draws.integers(1, 300, 6), np.ones(30, np.int64)])
    choices = Choices(sizes**-0.5 * (1 + 0.1 * draws.random(len(sizes))) - 1.1, owners, 0 * sizes, sizes, counts)
    room = np.array([4096 + seed])
    exact, rough = (np.array(counts_of_each(choices, room, gap)) for gap in (0.0, 1e-4))
    monkeypatch.setattr(knapsack, "LARGEST_TABLE", 0)
    programme = np.array(counts_of_each(choices, room, 1e-12))
    for found in (exact, rough, programme):
        check(choices, room, found)
    best = (programme * choices.costs).sum()
    assert (exact * choices.costs).sum() == pytest.approx(best, rel=1e-9)
    assert best - 1e-9 <= (rough * choices.costs).sum() <= best * (1 - 1e-4)


@given(st.data())
def test_whoever_has_something_keeps_it_and_the_others_come_in_order(data: st.DataObject) -> None:
    kind = Kind([Config(0, n, 1.0) for n in (1, 2, 4)])
    where = data.draw(st.lists(st.integers(-1, 2), max_size=12))
    held = {i: own for i in range(3) if (own := [number for number, at in enumerate(where) if at == i])}
    waits = [number for number, at in enumerate(where) if at < 0]
    group = Group(kind, [-1.0, -3.0, -2.0], held, waits)
    wanted, left = {}, group.n_job
    for i in range(3):
        wanted[i] = data.draw(st.integers(0, left))
        left -= wanted[i]
    changes = dict(group.handed_out(wanted))
    after = [
        kind.configs.index(changes[n]) if changes.get(n) else -1 if n in changes else at for n, at in enumerate(where)
    ]
    assert [after.count(i) for i in range(3)] == [wanted[i] for i in range(3)]
    kept = sum(after[n] == where[n] >= 0 for n in range(len(where)))
    assert kept == sum(min(wanted[i], len(own)) for i, own in held.items())
    assert all(after[n] != where[n] for n in changes)
    started = [n for n in waits if n in changes]
    assert started == waits[: len(started)]
    ranks = [{1: 0, 2: 1, 0: 2}[after[n]] for n in sorted(changes) if after[n] >= 0]
    assert ranks == sorted(ranks)


def test_jobs_that_are_alike_take_turns_by_number_and_nobody_is_stopped() -> None:
    """40 jobs of 2 GPUs and an hour on 16 GPUs: eight at a time, as they came."""
    jobs = [Request(i, str(i), i, 2, HOUR) for i in range(40)]
    cluster, watch = simulate(jobs, Setting([Pool("A", 2, 8, 4, 1.0)], "sia"), Witness)
    assert not vars(cluster)["_scheduler"].kinds.of_job  # memory does not grow with jobs that are done
    assert all(job.n_start == 1 for job in watch.done) and cluster.now_us < 5.1 * HOUR
    assert [job.number for job in sorted(watch.done, key=lambda job: (job.first_start_us, job.number))] == list(
        range(40)
    )
