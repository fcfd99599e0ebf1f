"""The servers of a cluster: how many GPUs are free where.

Servers lie in buckets by how many of their GPUs are free, so that a placement looks at no server that it does not take.
A bucket is a heap of server numbers; what has left it is dropped when it comes up.
"""

import heapq
from typing import NamedTuple

from models.cluster.job import Place


class Pool(NamedTuple):
    """Servers that are alike. speed: work per time of a job here, if the job has no table of its own.

    racks_per_pod: of a fabric whose racks share switches by pods, 0 of others.
    """

    gpu: str
    n_server: int
    n_gpu: int
    servers_per_rack: int
    speed: float
    racks_per_pod: int = 0


class Machine:
    """free: GPUs of each server that no job has, -1 for a server that is down. n_free, n_up: GPUs by pool.

    pod_of: by rack, a number of its own for each pod; racks of a pool without pods are in one.
    """

    def __init__(self, pools: list[Pool]) -> None:
        self.pools = pools
        self.pool_of: list[int] = []
        self.rack_of: list[int] = []
        self.first: list[int] = []
        self.free: list[int] = []
        self.taken: list[int] = []
        self.buckets: list[list[list[int]]] = []
        self.n_in: list[list[int]] = []
        self.n_free = [pool.n_server * pool.n_gpu for pool in pools]
        self.n_up = list(self.n_free)
        self.rack_free: list[int] = []
        self.racks_of: list[range] = []
        self.pod_of: list[int] = []
        for i, pool in enumerate(pools):
            self.first.append(len(self.free))
            first_rack, per_rack = len(self.rack_free), pool.servers_per_rack
            n_rack = -(-pool.n_server // per_rack)
            self.racks_of.append(range(first_rack, first_rack + n_rack))
            first_pod, per_pod = 1 + max(self.pod_of, default=-1), pool.racks_per_pod or n_rack
            self.pod_of += [first_pod + rack // per_pod for rack in range(n_rack)]
            self.rack_free += [0] * n_rack
            for k in range(pool.n_server):
                self.pool_of.append(i)
                self.rack_of.append(first_rack + k // per_rack)
                self.rack_free[first_rack + k // per_rack] += pool.n_gpu
                self.free.append(pool.n_gpu)
                self.taken.append(0)
            self.buckets.append([[] for _ in range(pool.n_gpu)] + [list(range(self.first[i], len(self.free)))])
            self.n_in.append([0] * pool.n_gpu + [pool.n_server])
        self._up = [True] * len(self.free)
        self._servers = [
            range(first, min(first + pool.servers_per_rack, self.first[i] + pool.n_server))
            for i, pool in enumerate(pools)
            for first in range(self.first[i], self.first[i] + pool.n_server, pool.servers_per_rack)
        ]

    @property
    def n_server(self) -> int:
        """All of them."""
        return len(self.free)

    def servers_of_rack(self, rack: int) -> range:
        """Server numbers."""
        return self._servers[rack]

    def is_up(self, server: int) -> bool:
        """Whether it has not failed, or is repaired."""
        return self._up[server]

    def lowest(self, pool: int, n: int) -> int:
        """The first server of the pool with just n GPUs free, -1 if there is none. n: above 0."""
        if not self.n_in[pool][n]:
            return -1
        bucket, free = self.buckets[pool][n], self.free
        while free[bucket[0]] != n:
            heapq.heappop(bucket)
        return bucket[0]

    def take(self, server: int, n: int) -> None:
        """A job gets n of its GPUs."""
        self._change(server, -n)
        self.taken[server] += n

    def give(self, place: Place) -> None:
        """A job gives back what it has; of servers that are down nothing becomes free."""
        for server, n in place:
            self.taken[server] -= n
            if self._up[server]:
                self._change(server, n)

    def fail(self, server: int) -> None:
        """It is down, and has been up; what jobs have of it they give back themselves."""
        pool, n = self.pool_of[server], self.free[server]
        self._up[server] = False
        self.n_in[pool][n] -= 1
        self.n_free[pool] -= n
        self.rack_free[self.rack_of[server]] -= n
        self.n_up[pool] -= self.pools[pool].n_gpu
        self.free[server] = -1

    def repair(self, server: int) -> None:
        """It is up again; no job has anything of it."""
        pool = self.pool_of[server]
        assert not self.taken[server] and not self._up[server]
        self._up[server] = True
        self.free[server] = 0
        self.n_in[pool][0] += 1
        self.n_up[pool] += self.pools[pool].n_gpu
        self._change(server, self.pools[pool].n_gpu)

    def _change(self, server: int, n: int) -> None:
        pool, old = self.pool_of[server], self.free[server]
        new = old + n
        n_in = self.n_in[pool]
        n_in[old] -= 1
        n_in[new] += 1
        self.free[server] = new
        self.n_free[pool] += n
        self.rack_free[self.rack_of[server]] += n
        if new:
            bucket = self.buckets[pool][new]
            heapq.heappush(bucket, server)
            if len(bucket) > 2 * self.pools[pool].n_server + 64:  # drop what has left, and what is there twice
                bucket[:] = sorted({other for other in bucket if self.free[other] == new})
