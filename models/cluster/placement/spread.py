"""The emptiest servers: each job beside as few others as possible, as where hosts' memory or storage is short."""

from models.cluster.job import Place
from models.cluster.machine import Machine


def place(machine: Machine, pool: int, n: int) -> Place | None:
    """All from the emptiest server, then from the next; a job never waits while there are GPUs enough."""
    if machine.n_free[pool] < n:
        return None
    n_in, most = machine.n_in[pool], machine.pools[pool].n_gpu
    chosen: Place = []
    while n:
        size = next(k for k in range(most, 0, -1) if n_in[k])
        server, n_here = machine.lowest(pool, size), min(n, size)
        machine.take(server, n_here)
        chosen.append((server, n_here))
        n -= n_here
    return chosen
