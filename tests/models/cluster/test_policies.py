"""What each scheduler decides, in cases small enough to see."""

from models.cluster.job import Request
from models.cluster.machine import Pool
from reference.cluster_runs import HOUR, Setting, simulate

GPUS = (Pool("A", 1, 4, 16, 1.0),)


def job(number: int, submit_h: float, n_gpu: int, hours: float, **more) -> Request:
    return Request(number, str(number), int(submit_h * HOUR), n_gpu, int(hours * HOUR), **more)


def starts_and_ends(jobs: list[Request], setting: Setting) -> dict[int, tuple[float, float]]:
    """Hours of first start and end."""
    done = simulate(jobs, setting)[1].done
    return {job.number: (job.first_start_us / HOUR, job.end_us / HOUR) for job in sorted(done, key=lambda j: j.number)}


def test_first_come_first_served_holds_up_all_behind() -> None:
    jobs = [job(0, 0, 3, 2), job(1, 0, 2, 1), job(2, 0, 1, 1)]
    assert starts_and_ends(jobs, Setting(GPUS)) == {0: (0, 2), 1: (2, 3), 2: (2, 3)}
    assert starts_and_ends(jobs, Setting(GPUS, options={"strict": False})) == {0: (0, 2), 1: (2, 3), 2: (0, 1)}


def test_backfilling_does_not_hold_up_the_first() -> None:
    """1 needs all and can start at 2; 2 would hold it up, 3 ends before, 4 is like 2 in what it has left."""
    jobs = [job(0, 0, 3, 2), job(1, 0, 4, 1), job(2, 0, 1, 3), job(3, 0, 1, 2)]
    assert starts_and_ends(jobs, Setting(GPUS, "backfill")) == {0: (0, 2), 1: (2, 3), 2: (3, 6), 3: (0, 2)}


def test_backfilling_goes_by_estimates() -> None:
    jobs = [job(0, 0, 3, 2, estimate_us=4 * HOUR), job(1, 0, 4, 1), job(2, 0, 1, 3)]
    assert starts_and_ends(jobs, Setting(GPUS, "backfill")) == {0: (0, 2), 1: (3, 4), 2: (0, 3)}


def test_the_shortest_goes_first() -> None:
    jobs = [job(0, 0, 4, 1), job(1, 0, 4, 3), job(2, 0, 4, 2), job(3, 0.5, 2, 2.5)]
    assert starts_and_ends(jobs, Setting(GPUS, "sjf")) == {0: (0, 1), 1: (5.5, 8.5), 2: (1, 3), 3: (3, 5.5)}
    service = Setting(GPUS, "sjf", {"service": True})  # 3 has 5 GPU-hours, 2 has 8
    assert starts_and_ends(jobs, service) == {0: (0, 1), 1: (5.5, 8.5), 2: (3.5, 5.5), 3: (1, 3.5)}


def test_shortest_remaining_time_takes_gpus() -> None:
    """1 stops 0, which has 4 h left; 2 has as much as 1 has left and does not stop it."""
    jobs = [job(0, 0, 4, 5), job(1, 1, 4, 2), job(2, 2, 4, 1)]
    assert starts_and_ends(jobs, Setting(GPUS, "srtf")) == {0: (0, 8), 1: (1, 3), 2: (3, 4)}


def test_priorities_stop_the_last_started() -> None:
    jobs = [job(0, 0, 2, 4), job(1, 1, 2, 4), job(2, 2, 2, 1, priority=1)]
    assert starts_and_ends(jobs, Setting(GPUS, "priority")) == {0: (0, 4), 1: (1, 6), 2: (2, 3)}
    calm = Setting(GPUS, "priority", {"preempt": False})
    assert starts_and_ends(jobs, calm) == {0: (0, 4), 1: (1, 5), 2: (4, 5)}


def test_what_is_lent_is_taken_back() -> None:
    jobs = [job(0, 0, 4, 4, tenant="a"), job(1, 1, 2, 1, tenant="b"), job(2, 1, 2, 1, tenant="b")]
    quotas = {"quotas": {"b": 2, "a": 2}}
    assert starts_and_ends(jobs, Setting(GPUS, "quota", quotas)) == {0: (0, 5), 1: (1, 2), 2: (1, 2)}
    jobs = [job(0, 0, 4, 4, tenant="a"), job(1, 1, 2, 1, tenant="b")]
    own = Setting(GPUS, "quota", {"quotas": {"a": 4, "b": 2}})
    assert starts_and_ends(jobs, own) == {0: (0, 4), 1: (4, 5)}  # 0 is within its quota


def test_regions_are_all_looked_at() -> None:
    """Guaranteed jobs of b: one where it fills a region best, one where the fewest GPUs of best effort are stopped."""
    regions = (Pool("A", 1, 4, 16, 1.0), Pool("B", 1, 8, 16, 1.0))
    jobs = [
        job(0, 0, 3, 9, tenant="a"),
        job(1, 0, 6, 9, tenant="a"),
        job(2, 1, 2, 1, tenant="b"),
        job(3, 2, 3, 1, tenant="b"),
    ]
    cluster, watch = simulate(jobs, Setting(regions, "mast", {"quotas": {"b": 5}}))
    places = {event[2]: event[0] for event in watch.events if event[1] == "start"}
    assert starts_and_ends(jobs, Setting(regions, "mast", {"quotas": {"b": 5}})) == {
        0: (0, 10), 1: (0, 9), 2: (1, 2), 3: (2, 3),
    }  # fmt: skip
    assert places[0] == 3 * HOUR  # stopped once: 3 GPUs, where 6 would have had to stop in the other region


def test_a_region_that_is_full_holds_up_one_tenant_alone() -> None:
    """a waits for region A, which d has by its quota; b gets its quota back in B, though a is before it."""
    regions = (Pool("A", 1, 4, 16, 1.0), Pool("B", 1, 4, 16, 1.0))
    jobs = [
        job(0, 0, 4, 5, tenant="d", gpu_type="A"),
        job(1, 1, 4, 1, tenant="a", gpu_type="A"),
        job(2, 1, 4, 3, tenant="c", gpu_type="B"),
        job(3, 2, 4, 1, tenant="b", gpu_type="B"),
    ]
    quotas = {"quotas": {"a": 4, "b": 4, "d": 4}}
    assert starts_and_ends(jobs, Setting(regions, "mast", quotas)) == {0: (0, 5), 1: (5, 6), 2: (1, 5), 3: (2, 3)}


def test_least_attained_service_falls_by_levels() -> None:
    """After one GPU-hour, a quarter of an hour on 4 GPUs, 0 falls to the second level, and 1 goes first."""
    jobs = [job(0, 0, 4, 2), job(1, 0.1, 4, 0.2)]
    assert starts_and_ends(jobs, Setting(GPUS, "las", {"gpu_hours": [1.0]})) == {0: (0, 2.2), 1: (0.25, 0.45)}


def test_gangs_take_turns() -> None:
    jobs = [job(0, 0, 4, 2), job(1, 0, 4, 1.5)]
    turns = Setting(GPUS, "gang", {"slice_minutes": 60.0})
    assert starts_and_ends(jobs, turns) == {0: (0, 3), 1: (1, 3.5)}
