"""What an iteration time depends on: a job's kind and GPUs, where they are, and who shares its links.

Racks and servers are numbered anew, in the order in which the jobs of a case use them, so that the same arrangement
anywhere in the cluster is one case, run once. Racks that two jobs use alike may still be numbered in two ways: then a
case is run twice, never taken for another one. Where racks are in pods, each pod has its own numbers, racks_per_pod of
them, so a rack's number says with which others it shares a pod.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from models.cluster.job import Job, Place
from models.cluster.machine import Machine

NOTHING: Mapping[int, int] = MappingProxyType({})


class Part(NamedTuple):
    """A job of a case. where: (rack, server in it, GPUs there), by the case's own numbers."""

    kind: str
    where: tuple[tuple[int, int, int], ...]

    @property
    def n_gpu(self) -> int:
        """All that it has."""
        return sum(n for _, _, n in self.where)


class Shape(NamedTuple):
    """The job that it is about, then those that share links with it. pool: whose servers they are. lost: (rack, how
    many of its uplinks are down), of racks of the first job.
    """

    pool: int
    parts: tuple[Part, ...]
    lost: tuple[tuple[int, int], ...] = ()

    def text(self) -> str:
        """For people: "llama 24 (rack 0: 8+8, rack 1: 8) beside moe 8 (rack 0: 4, rack 2: 4)"."""
        jobs = " beside ".join(f"{part.kind} {part.n_gpu} ({_where_text(part)})" for part in self.parts)
        lost = ", ".join(f"rack {rack}: {n}" for rack, n in self.lost)
        return f"{jobs}, without uplinks ({lost})" if lost else jobs


def _where_text(part: Part) -> str:
    racks: dict[int, list[str]] = {}
    for rack, _, n in part.where:
        racks.setdefault(rack, []).append(str(n))
    return ", ".join(f"rack {rack}: {'+'.join(sizes)}" for rack, sizes in racks.items())


def shape_of(machine: Machine, job: Job, others: Sequence[Job] = (), lost: Mapping[int, int] = NOTHING) -> Shape:
    """The case of a running job. Those of another pool are on another fabric, and are left out. lost: by the machine's
    racks, uplinks that are down.
    """
    mine = {machine.rack_of[server] for server, _ in job.place}

    def order(other: Job) -> tuple:
        racks = [machine.rack_of[server] for server, _ in other.place]
        sizes = sorted(((rack not in mine, -n) for rack, (_, n) in zip(racks, other.place, strict=True)))
        return other.request.kind, other.n_held, sizes, other.number

    jobs = [job, *sorted((other for other in others if other.pool == job.pool), key=order)]
    return shape(machine, job.pool, [(one.request.kind, one.place) for one in jobs], lost)


def shape(
    machine: Machine, pool: int, jobs: Sequence[tuple[str, Place]], lost: Mapping[int, int] = NOTHING
) -> Shape:  # fmt: skip
    """The same of kinds and places. A job's racks come by what it has in each, the fullest first; then by what others
    have there; of pods all racks together.
    """
    sizes: dict[int, list[list[int]]] = {}
    for i, (_, place) in enumerate(jobs):
        for server, n in place:
            sizes.setdefault(machine.rack_of[server], [[] for _ in jobs])[i].append(-n)
    in_rack = {rack: [*(sorted(own) for own in of_jobs), [-lost.get(rack, 0)]] for rack, of_jobs in sizes.items()}
    numbers, servers, n_in = _Racks(machine.pools[pool].racks_per_pod), dict[int, tuple[int, int]](), dict[int, int]()
    parts = []
    for i, (kind, place) in enumerate(jobs):
        by_rack: dict[int, list[tuple[int, int]]] = {}
        for server, n in place:
            by_rack.setdefault(machine.rack_of[server], []).append((-n, server))
        where = []
        pods: dict[int, list[list[int]]] = {}
        for rack in by_rack:
            pods.setdefault(machine.pod_of[rack], []).append(in_rack[rack][i])
        of_pod = {pod: (sum(map(sum, rows)), sorted(rows), pod) for pod, rows in pods.items()}

        def order(rack: int, i: int = i, of_pod: dict[int, Any] = of_pod) -> tuple:
            own = in_rack[rack]
            return of_pod[machine.pod_of[rack]], sum(own[i]), own[i], own, rack

        for rack in sorted(by_rack, key=order):
            number = numbers(rack, machine.pod_of[rack])
            for n, server in sorted(by_rack[rack]):
                if server not in servers:
                    servers[server] = number, n_in.get(number, 0)
                    n_in[number] = servers[server][1] + 1
                where.append((*servers[server], -n))
        parts.append(Part(kind, tuple(where)))
    down = {numbers(rack, machine.pod_of[rack]): n for rack, n in lost.items() if n and in_rack.get(rack, [[]])[0]}
    return Shape(pool, tuple(parts), tuple(sorted(down.items())))


class _Racks:
    """Racks numbered in the order of first use, those of each pod from its first number on."""

    def __init__(self, per_pod: int) -> None:
        self._per_pod, self._known = per_pod, dict[int, int]()
        self._pods: dict[int, list[int]] = {}

    def __call__(self, rack: int, pod: int) -> int:
        if rack not in self._known:
            there = self._pods.setdefault(pod, [len(self._pods) * self._per_pod, 0])
            self._known[rack] = sum(there)
            there[1] += 1
        return self._known[rack]


def packed(machine: Machine, pool: int, kind: str, n_gpu: int) -> Shape:
    """A job alone in as few servers as it fills, side by side from a rack's first on: what durations are about."""
    each, per_rack = machine.pools[pool].n_gpu, machine.pools[pool].servers_per_rack
    n_server = -(-n_gpu // each)
    sizes = [min(each, n_gpu - i * each) for i in range(n_server)]
    where = tuple((i // per_rack, i % per_rack, n) for i, n in enumerate(sizes))
    return Shape(pool, (Part(kind, where),))


def alone(machine: Machine, pool: int, part: Part) -> Shape:
    """One of a case's jobs by itself, on racks and servers of its own numbers."""
    per_pod = machine.pools[pool].racks_per_pod
    numbers, servers, n_in = _Racks(per_pod), dict[tuple[int, int], int](), dict[int, int]()
    where = []
    for rack, server, n in part.where:
        number = numbers(rack, rack // per_pod if per_pod else 0)
        if (rack, server) not in servers:
            servers[rack, server] = n_in.get(number, 0)
            n_in[number] = servers[rack, server] + 1
        where.append((number, servers[rack, server], n))
    return Shape(pool, (Part(part.kind, tuple(where)),))
