"""A cluster simulated in a test, without files: what happened, and what every run must hold."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from models.cluster.failures import Failures, Process, Window
from models.cluster.find import SCHEDULERS
from models.cluster.goodput import Curves, Model
from models.cluster.job import DONE, Job, Place, Request
from models.cluster.loop import Cluster
from models.cluster.machine import Machine, Pool
from models.cluster.placement import POLICIES
from models.cluster.progress import Checkpoints
from models.cluster.rules import NEVER_US, Rules
from models.cluster.saved import load, save
from models.cluster.schedulers.scheduler import Scheduler
from models.cluster.spares import Spares
from models.cluster.storage import Storage
from models.cluster.usage import Usage
from pdes.engine.pickled import copied

S, HOUR, DAY = 10**6, 3600 * 10**6, 86400 * 10**6


class Setting(NamedTuple):
    """What a test may choose."""

    pools: Sequence[Pool] = (Pool("G", 1, 1, 16, 1.0),)
    scheduler: str | type[Scheduler] = "fcfs"
    options: Mapping[str, Any] = {}
    placement: str = "packed"
    checkpoints: Checkpoints = Checkpoints()
    processes: Sequence[Process] = ()
    stop_us: int = NEVER_US
    seed: int = 1
    hot: int = 0
    cold: int = 0
    windows: Sequence[Window] = ()
    network_share: float = 0.0
    curves: Mapping[str, Model] = {}
    storage: Storage | None = None


class Witness:
    """Hears of everything, and checks at each event that no GPU has two jobs and that none is lost or made."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.done, self.events = machine, [], []

    def happened(self, now_us: int, what: str, job: Job | None, server: int, why: str) -> None:
        self.events.append((now_us, what, -1 if job is None else job.number, server, why))
        if what == "start":
            assert job is not None
            assert sum(n for _, n in job.place) == job.n_held and len(dict(job.place)) == len(job.place)
            assert all(self.machine.is_up(server) and n > 0 for server, n in job.place)
            self.check()

    def check(self) -> None:
        used: Counter[int] = Counter()
        for job in self.cluster.running.values():
            for server, n in job.place:
                used[server] += n
        for server in range(self.machine.n_server):
            pool = self.machine.pools[self.machine.pool_of[server]]
            assert used[server] == self.machine.taken[server] <= pool.n_gpu
            free = self.machine.free[server]
            assert free == (pool.n_gpu - used[server] if self.machine.is_up(server) else -1)
        for i, n_free in enumerate(self.machine.n_free):
            of_pool = [n for n, pool in zip(self.machine.free, self.machine.pool_of, strict=True) if pool == i]
            assert n_free == sum(max(n, 0) for n in of_pool)
            assert self.machine.n_in[i] == [of_pool.count(k) for k in range(self.machine.pools[i].n_gpu + 1)]
        rack_free = Counter()
        for server, n in enumerate(self.machine.free):
            rack_free[self.machine.rack_of[server]] += max(n, 0)
        assert self.machine.rack_free == [rack_free[rack] for rack in range(len(self.machine.rack_free))]

    def left(self, job: Job) -> None:
        assert job.state == DONE
        self.done.append(job)

    cluster: Cluster


class Plain(Witness):
    """Checks nothing: for long runs."""

    def happened(self, now_us: int, what: str, job: Job | None, server: int, why: str) -> None:
        pass


def prepared(
    requests: Iterable[Request], setting: Setting, kind: type[Witness] = Witness
) -> tuple[Cluster, Scheduler, Witness]:
    """A cluster in which nothing has happened, its scheduler, and who watches."""
    machine = Machine(list(setting.pools))
    watch = kind(machine)
    failures = Failures(list(setting.processes), machine, setting.seed, setting.windows)
    place, speeds = POLICIES[setting.placement], [pool.speed for pool in setting.pools]
    curves = Curves(setting.pools, dict(setting.curves))

    def speed(request: Request, pool: int, place: Place) -> float:
        return curves.speed(request, pool, place) if request.max_gpu else speeds[pool]

    rules = Rules(place, speed, lambda *_: setting.checkpoints, setting.stop_us)
    rules = rules._replace(network_share=setting.network_share, storage=setting.storage)
    cluster = Cluster(machine, rules, requests, failures, watch)
    cluster.spares = Spares([setting.hot] * len(setting.pools), [setting.cold] * len(setting.pools), HOUR)
    cluster.usage = Usage(HOUR)
    watch.cluster = cluster
    found = setting.scheduler
    return cluster, (SCHEDULERS[found] if isinstance(found, str) else found)(cluster, setting.options), watch


def simulate(requests: Sequence[Request], setting: Setting, kind: type[Witness] = Witness) -> tuple[Cluster, Witness]:
    """Run; the cluster at its end, and who has watched it."""
    cluster, scheduler, watch = prepared(requests, setting, kind)
    cluster.run(scheduler)
    return cluster, watch


def simulate_in_pieces(
    requests: Sequence[Request], setting: Setting, lengths: Sequence[int]
) -> tuple[Cluster, list[tuple], list[Job], int]:
    """Break off after so many instants, save, load into a new cluster, go on; the events, jobs that are done, pieces.

    lengths: of the first pieces; the last one goes to the end.
    """
    events, done, state, n_piece = [], [], None, 0
    while True:
        jobs = requests
        if state is not None:
            following = state["cluster"]["next"]
            jobs = [] if following is None else requests[following.number + 1 :]
        cluster, scheduler, watch = prepared(jobs, setting)
        if state is not None:
            load(cluster, scheduler, state)
        left = [lengths[n_piece] if n_piece < len(lengths) else 10**9]

        def rests(left: list[int] = left) -> bool:
            left[0] -= 1
            return left[0] < 0

        ended = cluster.run(scheduler, rests)
        events += watch.events
        done += watch.done
        n_piece += 1
        if ended:
            return cluster, events, done, n_piece
        state = copied(save(cluster, scheduler))
