"""A cluster simulated in a test, without files: what happened, and what every run must hold."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from models.cluster.failures import Failures, Process
from models.cluster.find import SCHEDULERS
from models.cluster.goodput import Curves, Model
from models.cluster.job import DONE, Job, Place, Request
from models.cluster.loop import NEVER_US, Cluster, Rules
from models.cluster.machine import Machine, Pool
from models.cluster.placement import POLICIES
from models.cluster.progress import Checkpoints
from models.cluster.schedulers.scheduler import Scheduler
from models.cluster.spares import Spares
from models.cluster.usage import Usage

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
    curves: Mapping[str, Model] = {}


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


def simulate(requests: Sequence[Request], setting: Setting, kind: type[Witness] = Witness) -> tuple[Cluster, Witness]:
    """Run; the cluster at its end, and who has watched it."""
    machine = Machine(list(setting.pools))
    watch = kind(machine)
    failures = Failures(list(setting.processes), machine, setting.seed)
    place, speeds = POLICIES[setting.placement], [pool.speed for pool in setting.pools]
    curves = Curves(setting.pools, dict(setting.curves))

    def speed(request: Request, pool: int, place: Place) -> float:
        return curves.speed(request, pool, place) if request.max_gpu else speeds[pool]

    rules = Rules(place, speed, lambda *_: setting.checkpoints, setting.stop_us)
    cluster = Cluster(machine, rules, requests, failures, watch)
    cluster.spares = Spares([setting.hot] * len(setting.pools), [setting.cold] * len(setting.pools), HOUR)
    cluster.usage = Usage(HOUR)
    watch.cluster = cluster
    found = setting.scheduler
    cluster.run((SCHEDULERS[found] if isinstance(found, str) else found)(cluster, setting.options))
    return cluster, watch
