"""As few servers as possible, and those that are nearly full; a job never waits while there are GPUs enough."""

from models.cluster.job import Place
from models.cluster.machine import Machine


def place(machine: Machine, pool: int, n: int) -> Place | None:
    """Best fit: the fullest server that has what is left, else all that the emptiest one has."""
    if machine.n_free[pool] < n:
        return None
    n_in, most = machine.n_in[pool], machine.pools[pool].n_gpu
    chosen: Place = []
    while n:
        size = next((k for k in range(n, most + 1) if n_in[k]), 0)
        size = size or next(k for k in range(min(n, most), 0, -1) if n_in[k])
        server, n_here = machine.lowest(pool, size), min(n, size)
        machine.take(server, n_here)
        chosen.append((server, n_here))
        n -= n_here
    return chosen
