"""Finish-time fairness: what a job would have taken with an equal share of the GPUs, by itself (Themis, section 3)."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from models.cluster.job import Job, Request
from models.cluster.machine import Pool
from reference.cluster_runs import S, Setting, Witness, simulate


class _Seen(Witness):
    """Notes each job's time in isolation as it ends."""

    def left(self, job: Job) -> None:
        super().left(job)
        self.found = getattr(self, "found", {}) | {job.number: (self.cluster.now_us, self.cluster.isolated_us(job))}


def ran(requests: list[Request], setting: Setting) -> dict[int, tuple[int, int]]:
    """Of each job: when it ended, and its time in isolation."""
    _, watch = simulate(requests, setting, _Seen)
    return watch.found  # pyright: ignore[reportAttributeAccessIssue]


def test_a_job_alone_is_treated_fairly_to_the_microsecond() -> None:
    found = ran([Request(0, "a", 5 * S, 3, 100 * S)], Setting((Pool("G", 1, 8, 1, 1.0),)))
    assert found == {0: (105 * S, 100 * S)}


def test_of_two_jobs_on_one_gpu_the_second_one_is_wronged() -> None:
    """The first has the whole GPU, of which half is its share; the second waits while two share, then is alone."""
    found = ran([Request(i, str(i), 0, 1, 100 * S) for i in range(2)], Setting())
    assert found[0] == (100 * S, 200 * S)  # rho 1/2
    assert found[1] == (200 * S, 150 * S)  # 1.5 jobs in the mean: rho 4/3


def test_a_share_of_more_gpus_than_a_job_asks_for_does_not_make_it_faster() -> None:
    pools = (Pool("G", 1, 8, 1, 1.0),)
    found = ran([Request(i, str(i), 0, n, 100 * S) for i, n in enumerate((1, 1, 6))], Setting(pools))
    assert [isolated // S for _, isolated in found.values()] == [100, 100, 225]  # 6 GPUs' work on 8 / 3


def test_only_gpus_that_a_job_may_use_are_shared() -> None:
    pools = (Pool("A", 1, 2, 1, 1.0), Pool("B", 1, 8, 1, 1.0))
    found = ran([Request(i, str(i), 0, 2, 60 * S, gpu_type=kind) for i, kind in enumerate("AB")], Setting(pools))
    assert [isolated // S for _, isolated in found.values()] == [120, 60]


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 4), st.integers(1, 200)), min_size=1, max_size=12),
       st.sampled_from(["fcfs", "srtf", "backfill"]))  # fmt: skip
def test_it_is_the_mean_number_of_jobs_that_counts(drawn: list[tuple[int, int, int]], scheduler: str) -> None:
    """Counted anew, from when jobs came and went."""
    requests = [Request(i, str(i), at * S, n, work * S) for i, (at, n, work) in enumerate(sorted(drawn))]
    found = ran(requests, Setting((Pool("G", 2, 4, 1, 1.0),), scheduler))
    for one in requests:
        end_us, isolated_us = found[one.number]
        there_us = sum(
            max(0, min(end_us, found[other.number][0]) - max(one.submit_us, other.submit_us)) for other in requests
        )
        mean = Fraction(there_us, end_us - one.submit_us)
        assert mean >= 1
        assert isolated_us == max(one.work_us, one.work_us * one.n_gpu * mean // 8)
