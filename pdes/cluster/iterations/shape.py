"""What an iteration time depends on: a job's kind and GPUs, where they are, and who shares its links.

Racks and servers are numbered anew, in the order in which the jobs of a case use them, so that the same arrangement
anywhere in the cluster is one case, run once. Racks that two jobs use alike may still be numbered in two ways: then a
case is run twice, never taken for another one.
"""

from collections.abc import Sequence
from typing import NamedTuple

from models.cluster.job import Job, Place
from models.cluster.machine import Machine


class Part(NamedTuple):
    """A job of a case. where: (rack, server in it, GPUs there), by the case's own numbers."""

    kind: str
    where: tuple[tuple[int, int, int], ...]

    @property
    def n_gpu(self) -> int:
        """All that it has."""
        return sum(n for _, _, n in self.where)


class Shape(NamedTuple):
    """The job that it is about, then those that share links with it. pool: whose servers they are."""

    pool: int
    parts: tuple[Part, ...]

    def text(self) -> str:
        """For people: "llama 24 (rack 0: 8+8, rack 1: 8) beside moe 8 (rack 0: 4, rack 2: 4)"."""
        return " beside ".join(f"{part.kind} {part.n_gpu} ({_where_text(part)})" for part in self.parts)


def _where_text(part: Part) -> str:
    racks: dict[int, list[str]] = {}
    for rack, _, n in part.where:
        racks.setdefault(rack, []).append(str(n))
    return ", ".join(f"rack {rack}: {'+'.join(sizes)}" for rack, sizes in racks.items())


def shape_of(machine: Machine, job: Job, others: Sequence[Job] = ()) -> Shape:
    """The case of a running job. Those of another pool are on another fabric, and are left out."""
    mine = {machine.rack_of[server] for server, _ in job.place}

    def order(other: Job) -> tuple:
        racks = [machine.rack_of[server] for server, _ in other.place]
        sizes = sorted(((rack not in mine, -n) for rack, (_, n) in zip(racks, other.place, strict=True)))
        return other.request.kind, other.n_held, sizes, other.number

    jobs = [job, *sorted((other for other in others if other.pool == job.pool), key=order)]
    return shape(machine, job.pool, [(one.request.kind, one.place) for one in jobs])


def shape(machine: Machine, pool: int, jobs: Sequence[tuple[str, Place]]) -> Shape:
    """The same of kinds and places. A job's racks come by what it has in each, the fullest first; then by what others
    have there."""
    sizes: dict[int, list[list[int]]] = {}
    for i, (_, place) in enumerate(jobs):
        for server, n in place:
            sizes.setdefault(machine.rack_of[server], [[] for _ in jobs])[i].append(-n)
    in_rack = {rack: [sorted(own) for own in of_jobs] for rack, of_jobs in sizes.items()}
    racks, servers, n_in = dict[int, int](), dict[int, tuple[int, int]](), dict[int, int]()
    parts = []
    for i, (kind, place) in enumerate(jobs):
        by_rack: dict[int, list[tuple[int, int]]] = {}
        for server, n in place:
            by_rack.setdefault(machine.rack_of[server], []).append((-n, server))
        where = []
        for rack in sorted(by_rack, key=lambda rack: (sum(in_rack[rack][i]), in_rack[rack][i], in_rack[rack], rack)):
            number = racks.setdefault(rack, len(racks))
            for n, server in sorted(by_rack[rack]):
                if server not in servers:
                    servers[server] = number, n_in.get(number, 0)
                    n_in[number] = servers[server][1] + 1
                where.append((*servers[server], -n))
        parts.append(Part(kind, tuple(where)))
    return Shape(pool, tuple(parts))


def packed(machine: Machine, pool: int, kind: str, n_gpu: int) -> Shape:
    """A job alone in as few servers as it fills, side by side from a rack's first on: what durations are about."""
    each, per_rack = machine.pools[pool].n_gpu, machine.pools[pool].servers_per_rack
    n_server = -(-n_gpu // each)
    sizes = [min(each, n_gpu - i * each) for i in range(n_server)]
    where = tuple((i // per_rack, i % per_rack, n) for i, n in enumerate(sizes))
    return Shape(pool, (Part(kind, where),))


def alone(pool: int, part: Part) -> Shape:
    """One of a case's jobs by itself, on racks and servers of its own numbers."""
    racks, servers, n_in = dict[int, int](), dict[tuple[int, int], int](), dict[int, int]()
    where = []
    for rack, server, n in part.where:
        number = racks.setdefault(rack, len(racks))
        if (rack, server) not in servers:
            servers[rack, server] = n_in.get(number, 0)
            n_in[number] = servers[rack, server] + 1
        where.append((number, servers[rack, server], n))
    return Shape(pool, (Part(part.kind, tuple(where)),))
