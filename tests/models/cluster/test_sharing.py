"""Jobs that share links: an M/G/1 queue with processor sharing, work that is conserved, and who is asked about."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.cluster.failures import Failures
from models.cluster.job import Job, Place, Request
from models.cluster.loop import Cluster
from models.cluster.machine import Machine, Pool
from models.cluster.placement.least_contended import LeastContended
from models.cluster.progress import Checkpoints
from models.cluster.rules import Rules
from models.cluster.schedulers.fcfs import Fcfs
from models.cluster.sharing import Case, Sharing
from models.cluster.usage import Usage
from pdes.cluster.iterations.shape import Shape, alone, packed, shape
from reference.cluster_runs import Plain

HOUR = 3_600_000_000


def two_racks(machine: Machine, pool: int, n: int) -> Place | None:
    """Half of the GPUs in either rack: the first server of each with room."""
    half = machine.n_server // 2
    chosen: Place = []
    for first in (0, half):
        server = next((s for s in range(first, first + half) if machine.free[s] >= n // 2), None)
        if server is None:
            return None
        chosen.append((server, n // 2))
    for server, n_here in chosen:
        machine.take(server, n_here)
    return chosen


def fair(cases: Sequence[Case]) -> list[float]:
    """All that share have the same part."""
    return [1 / (1 + len(case.others)) for case in cases]


def cluster_of(requests: Sequence[Request], n_server: int, kind: type[Plain] = Plain) -> Cluster:
    """Two racks in which all jobs share all links."""
    machine = Machine([Pool("GPU", n_server, 8, n_server // 2, 1.0)])
    rules = Rules(two_racks, lambda *_: 1.0, lambda *_: Checkpoints())
    cluster = Cluster(machine, rules, requests, Failures([], machine, 1), kind(machine))
    cluster.usage, cluster.sharing = Usage(HOUR), Sharing(machine, fair, 10**6)
    return cluster


@pytest.mark.parametrize(("kind", "load"), [("exponential", 0.6), ("deterministic", 0.6), ("hyper", 0.5)])
def test_jobs_that_share_all_links_are_a_queue_with_processor_sharing(kind: str, load: float) -> None:
    """Mean time in the system E[S] / (1 - load), whatever the distribution of work (Kleinrock 1967)."""
    draws, n = np.random.default_rng(5), 20_000
    mean_us = 10**6
    work = {
        "exponential": draws.exponential(mean_us, n),
        "deterministic": np.full(n, mean_us),
        "hyper": draws.exponential(np.where(draws.random(n) < 0.9, mean_us / 2, mean_us * 5.5)),
    }[kind]
    submit = np.cumsum(draws.exponential(mean_us / load, n)).astype(int)
    ends: dict[int, int] = {}

    class Ends(Plain):
        def left(self, job: Job) -> None:
            ends[job.number] = cluster.now_us

    requests = [Request(i, str(i), int(submit[i]), 2, max(1, int(work[i]))) for i in range(n)]
    cluster = cluster_of(requests, 400, Ends)
    cluster.run(Fcfs(cluster, {}))
    mean = np.mean([ends[i] - submit[i] for i in range(n)])
    assert mean == pytest.approx(np.mean(work) / (1 - np.sum(work) / submit[-1]), rel=0.08)


def test_two_jobs_that_share_take_turns_to_the_microsecond() -> None:
    """Alone, then at half speed beside each other, then alone again."""
    requests = [Request(0, "a", 0, 2, 100), Request(1, "b", 40, 2, 100)]
    cluster = cluster_of(requests, 4)
    cluster.run(Fcfs(cluster, {}))
    # a has 60 left when b comes: both at half speed until a has ended at 160, when b has 40 left.
    assert cluster.now_us == 200


def test_jobs_in_one_rack_share_nothing() -> None:
    machine = Machine([Pool("GPU", 4, 8, 2, 1.0)])
    sharing = Sharing(machine, fair, 10)

    class Known:
        def __init__(self, number: int, place: Place) -> None:
            self.number, self.place, self.is_hung, self.full_speed = number, place, False, 1.0

        def set_full_speed(self, job: "Known", speed: float) -> None:
            job.full_speed = speed

    loop = Known(-1, [])
    places = [[(0, 8), (1, 8)], [(0, 4), (2, 4)], [(1, 2), (3, 2)], [(2, 8)]]
    jobs = [Known(i, place) for i, place in enumerate(places)]
    for job in jobs:
        sharing.started(loop, job)  # pyright: ignore[reportArgumentType]
    assert [job.full_speed for job in jobs] == [1.0, 0.5, 0.5, 1.0]
    sharing.ended(loop, jobs[1])  # pyright: ignore[reportArgumentType]
    assert [job.full_speed for job in jobs] == [1.0, 0.5, 1.0, 1.0]


@given(st.data())
@settings(deadline=None)
def test_the_same_arrangement_elsewhere_is_the_same_case(data: st.DataObject) -> None:
    """Pods, racks in them and servers in those in another order: for one job always, for several up to their names."""
    n_pod, per_pod = data.draw(st.sampled_from([(1, 1), (1, 4), (2, 2), (3, 2)]))
    n_rack, per_rack, has_pods = n_pod * per_pod, data.draw(st.integers(1, 4)), n_pod > 1
    machine = Machine([Pool("GPU", n_rack * per_rack, 8, per_rack, 1.0, per_pod if has_pods else 0)])
    servers = st.lists(st.integers(0, n_rack * per_rack - 1), min_size=1, max_size=6, unique=True)
    jobs = [
        (kind, [(server, data.draw(st.integers(1, 4))) for server in data.draw(servers)])
        for kind in data.draw(st.lists(st.sampled_from("ab"), min_size=1, max_size=3))
    ]
    inner = [data.draw(st.permutations(range(per_pod))) for _ in range(n_pod)]
    racks = [pod * per_pod + rack for pod in data.draw(st.permutations(range(n_pod))) for rack in inner[pod]]
    within = [data.draw(st.permutations(range(per_rack))) for _ in range(n_rack)]

    def moved(server: int) -> int:
        rack, place = divmod(server, per_rack)
        return racks[rack] * per_rack + within[rack][place]

    elsewhere = [(kind, [(moved(server), n) for server, n in place]) for kind, place in jobs]
    here, there = shape(machine, 0, jobs), shape(machine, 0, elsewhere)
    assert _invariant(here) == _invariant(there)
    if len(jobs) == 1:
        assert here == there
    for (kind, place), part in zip(jobs, here.parts, strict=True):
        assert part.kind == kind and part.n_gpu == sum(n for _, n in place)
        assert alone(machine, 0, part) == shape(machine, 0, [(kind, place)])
        pods = Counter(machine.pod_of[machine.rack_of[server]] for server, _ in place)
        assert not has_pods or Counter(pods.values()) == Counter(
            Counter(rack // per_pod for rack, _, _ in part.where).values()
        )
    # Servers and racks that two jobs have in common they have in common in the case, too.
    used = [{(rack, server) for rack, server, _ in part.where} for part in here.parts]
    for i, (_, one) in enumerate(jobs):
        for k, (_, other) in enumerate(jobs):
            common = {server for server, _ in one} & {server for server, _ in other}
            assert len(used[i] & used[k]) == len(common)
            racks_here = {s // per_rack for s, _ in one} & {s // per_rack for s, _ in other}
            assert len({r for r, _ in used[i]} & {r for r, _ in used[k]}) == len(racks_here)


def _invariant(found: Shape) -> list[list[list[int]]]:
    """What every rack has of every job."""
    racks: dict[int, list[list[int]]] = {}
    for i, part in enumerate(found.parts):
        for rack, _, n in part.where:
            racks.setdefault(rack, [[] for _ in found.parts])[i].append(n)
    return sorted([sorted(own) for own in of_jobs] for of_jobs in racks.values())


def test_jobs_in_several_pods_share_what_is_above_them() -> None:
    """Four racks of one server, two to a pod: jobs in other racks of the same pods meet at the cores, others do not."""
    machine = Machine([Pool("GPU", 8, 8, 1, 1.0, 2), Pool("GPU", 4, 8, 2, 1.0)])
    assert machine.pod_of == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    sharing = Sharing(machine, fair, 10)
    jobs = [Job(Request(i, "a", 0, 16, 100)) for i in range(4)]
    for job, servers in zip(jobs, [(0, 2), (1, 3), (4, 5), (1, 7)], strict=True):
        job.place = [(server, 8) for server in servers]
        sharing.add(job)
    assert [[other.number for other in sharing.case(job).others] for job in jobs] == [[1, 3], [0, 3], [], [1, 0]]
    one = shape(machine, 0, [("a", jobs[0].place), ("a", jobs[1].place), ("a", jobs[2].place)])
    assert [[rack for rack, _, _ in part.where] for part in one.parts] == [[0, 2], [1, 3], [4, 5]]


def test_a_packed_job_fills_servers_from_a_racks_first_on() -> None:
    machine = Machine([Pool("GPU", 8, 8, 2, 1.0)])
    assert packed(machine, 0, "a", 20).parts[0].where == ((0, 0, 8), (0, 1, 8), (1, 0, 4))
    assert packed(machine, 0, "a", 20) == shape(machine, 0, [("a", [(4, 8), (5, 8), (7, 4)])])


def test_the_least_contended_place_is_beside_nobody_who_sends() -> None:
    """Of four racks with half a server free each in all but the last, whose jobs stay in their rack."""
    machine = Machine([Pool("GPU", 8, 8, 2, 1.0)])
    sharing = Sharing(machine, fair, 10)
    running = Job(Request(0, "a", 0, 24, 100))
    running.place, running.n_held, running.pool, running.full_speed = [(0, 6), (2, 6), (4, 6), (1, 6)], 24, 0, 1.0
    for server, n in [*running.place, (3, 8), (5, 8), (6, 6), (7, 6)]:
        machine.take(server, n)
    sharing.add(running)
    chooses = LeastContended(sharing, fair)
    job = Job(Request(1, "b", 0, 4, 100))
    before = list(machine.free)
    place = chooses.place(machine, 0, 4, job)
    assert place is not None and len({machine.rack_of[server] for server, _ in place}) == 1  # it slows nobody
    assert sharing.case(running).others == () and machine.n_free[0] == sum(before) - 4
    machine.give(place)
    assert machine.free == before
    assert chooses.place(machine, 0, 100, job) is None and machine.free == before


def test_a_place_that_slows_others_more_than_it_is_faster_is_left() -> None:
    """Packed the job would be as fast as anywhere, but slow a large one: it goes to another pair of racks."""
    machine = Machine([Pool("GPU", 8, 8, 2, 1.0)])

    def slows_large(cases: Sequence[Case]) -> list[float]:
        return [0.5 if case.others and case.job.n_held > 10 else 1.0 for case in cases]

    sharing, large = Sharing(machine, slows_large, 10), Job(Request(0, "a", 0, 24, 100))
    large.place, large.n_held, large.pool, large.full_speed = [(0, 8), (1, 5), (2, 5), (3, 6)], 24, 0, 1.0
    for server, n in [*large.place, (4, 8), (5, 4), (6, 8), (7, 4)]:
        machine.take(server, n)
    sharing.add(large)
    place = LeastContended(sharing, slows_large).place(machine, 0, 6, Job(Request(1, "b", 0, 6, 100)))
    assert place is not None and {machine.rack_of[server] for server, _ in place} == {2, 3}
