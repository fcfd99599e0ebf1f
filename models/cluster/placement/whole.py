"""Servers of its own for a job that fills one, one server for a smaller job; whoever finds none waits.

What is free in pieces helps nobody then: GPUs that are stranded.
"""

from models.cluster.job import Place
from models.cluster.machine import Machine


def place(machine: Machine, pool: int, n: int) -> Place | None:
    """As many free servers as it fills, and for the rest the fullest server that has so much."""
    n_in, most = machine.n_in[pool], machine.pools[pool].n_gpu
    n_whole, rest = divmod(n, most)
    size = next((k for k in range(rest, most + 1) if n_in[k] > (n_whole if k == most else 0)), 0) if rest else 0
    if n_in[most] < n_whole or (rest and not size):
        return None
    chosen: Place = []
    for n_here in [most] * n_whole + [rest] * (rest > 0):
        server = machine.lowest(pool, most if n_here == most else size)
        machine.take(server, n_here)
        chosen.append((server, n_here))
    return chosen
