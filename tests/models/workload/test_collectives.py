"""Collectives: who sends what to whom, what waits for what, and what is refused."""

import pytest

from models.topology.leaf_spine import leaf_spine
from models.workload.collectives import Collective, chunk_bytes, plan_collectives
from pdes.errors import ConfigError
from reference.network_case import Outcome, make_plan_case

US = 10**6


def run(jobs: list[Collective], n_iteration: int = 1, n_host: int = 4) -> tuple[Outcome, dict]:
    """Run collectives on a star; (start, end) by (name, gpu, iteration)."""
    topology = leaf_spine(1, 0, n_host, 10**11, 10**11, US, US)
    plan = plan_collectives(jobs, n_host, n_iteration)
    outcome = make_plan_case(topology, plan, window_bytes=10**6).run()
    assert sorted(outcome.flows) == list(range(plan.n_flow))
    assert [row[0] for row in outcome.tasks] == list(range(plan.n_task))
    return outcome, {(plan.stream_names[row[4]], row[1], row[2]): (row[5], row[6]) for row in outcome.tasks}


@pytest.mark.parametrize("size_bytes, n_gpu, chunk", [(1, 4, 1), (4, 4, 1), (5, 4, 2), (4000, 4, 1000)])
def test_chunks_are_padded_to_equal_size(size_bytes, n_gpu, chunk):
    assert chunk_bytes(size_bytes, n_gpu) == chunk


def test_an_all_to_all_joins_every_pair_once():
    plan = plan_collectives([Collective("a", "all-to-all", 100, (3, 0, 2))], 4)
    pairs = sorted(zip(plan.pair_src.tolist(), plan.pair_dst.tolist(), strict=True))
    assert pairs == [(0, 2), (0, 3), (2, 0), (2, 3), (3, 0), (3, 2)]
    assert plan.pair_bytes.tolist() == [34] * 6


def test_a_ring_goes_around_in_the_order_of_its_gpus():
    plan = plan_collectives([Collective("a", "all-reduce", 90, (3, 0, 2))], 4)
    assert list(zip(plan.pair_src.tolist(), plan.pair_dst.tolist(), strict=True)) == [(3, 0), (0, 2), (2, 3)]
    assert plan.pair_bytes.tolist() == [4 * 30] * 3


def test_a_start_time_holds_it_back():
    _, times = run([Collective("a", "all-reduce", 4000, (0, 1), start_ps=9 * US)])
    assert {start for start, _ in times.values()} == {9 * US}


def test_after_holds_back_a_gpus_part_until_its_own_earlier_part_is_done():
    jobs = [
        Collective("slow", "all-reduce", 1_000_000, (0, 1)),
        Collective("free", "all-to-all", 1000, (2, 3)),
        Collective("behind", "all-gather", 4000, (1, 2, 3), after=("slow", "free")),
        Collective("last", "point-to-point", 10, (1, 0), after=("behind", "slow")),
    ]
    _, times = run(jobs)
    for gpu, before in ((1, "slow"), (2, "free"), (3, "free")):
        assert times["behind", gpu, 0][0] == times[before, gpu, 0][1]
    assert times["behind", 2, 0][0] < times["slow", 1, 0][1] < times["behind", 2, 0][1]
    assert times["last", 0, 0][0] >= times["slow", 0, 0][1]
    assert times["last", 0, 0][1] > times["behind", 1, 0][1]


def test_gates_hold_in_every_iteration():
    jobs = [
        Collective("first", "all-reduce", 30_000, (0, 1, 2)),
        Collective("second", "all-to-all", 9_000, (0, 1, 2, 3), after=("first",)),
    ]
    _, times = run(jobs, n_iteration=4)
    for iteration in range(4):
        for gpu in range(3):
            assert times["second", gpu, iteration][0] >= times["first", gpu, iteration][1]
    assert len(times) == 4 * 7


def test_iterations_of_a_ring_follow_each_other():
    outcome, times = run([Collective("a", "all-reduce", 4000, (0, 1, 2, 3))], n_iteration=3)
    for gpu in range(4):
        for iteration in range(2):
            assert times["a", gpu, iteration + 1][0] == times["a", gpu, iteration][1]
    assert len(outcome.flows) == 3 * 4 * 6


def test_collectives_that_do_not_wait_run_side_by_side():
    alone = run([Collective("a", "all-reduce", 100_000, (0, 1))])[1]
    both = run([Collective("a", "all-reduce", 100_000, (0, 1)), Collective("b", "all-reduce", 100_000, (2, 3))])[1]
    assert both["a", 0, 0] == alone["a", 0, 0] == both["b", 2, 0]


@pytest.mark.parametrize(
    "job, text",
    [
        (Collective("x", "broadcast", 1, (0, 1)), r'x: operation = "broadcast"\. Accepted: all-reduce'),
        (Collective("x", "all-reduce", 1, (0,)), r"x: gpus = \[0\]\. Accepted: at least two GPUs"),
        (
            Collective("x", "all-reduce", 1, (0, 1, 0)),
            r"x: gpus = \[0, 1, 0\]\. Accepted: at least two GPUs, none of them twice",
        ),
        (Collective("x", "point-to-point", 1, (0, 1, 2)), r"x: 3 GPUs\. Accepted: a point-to-point has two"),
        (Collective("x", "all-reduce", 1, (0, 4)), r"x: GPU 4\. Accepted: the topology has GPUs 0\.\.3"),
        *(
            (
                Collective("x", "all-reduce", 1, (0, 1), after=(name,)),
                rf'x: after = "{name}"\. Accepted: the name of a collective above',
            )
            for name in "xy"
        ),
    ],
)
def test_what_cannot_be_is_refused_by_name(job, text):
    with pytest.raises(ConfigError, match=r"\[\[workload\.collective\]\] " + text):
        plan_collectives([job], 4)
