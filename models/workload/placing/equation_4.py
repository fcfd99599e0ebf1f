"""Placements by HeteroSim's own measure (section 4.2, equation 4 and algorithm 2); `optimise` prices what they take.

Greedy first: servers in the order of their GPUs' speed, so that groups are of one type as far as that comes out even,
ranks along them, so that tensor-parallel groups share a server. Then simulated annealing over swaps of two ranks or of
two whole tensor-parallel groups, by equation 4 with equal weights. Deviations: every GPU has a NIC of its own, so
spreading a data-parallel group over rails is given, and what counts is that neighbours in a ring are on one rail; terms
are shares of groups and edges rather than times.
"""

import math
import random

import numpy as np

from models.workload.compiler.job import Job
from models.workload.compiler.ranks import Ranks

N_STEP = 2000
FIRST_TEMPERATURE, LAST_TEMPERATURE = 0.05, 0.0005
OTHER_RAIL = 1.5  # of an edge between servers, next to one on the same rail


class PlacementCost:
    """Equation 4 for one job and cluster."""

    def __init__(self, job: Job, server_of_gpu: np.ndarray, rail_of_gpu: np.ndarray) -> None:
        self._server, self._rail = np.asarray(server_of_gpu), np.asarray(rail_of_gpu)
        layout = job.layout
        ranks = Ranks(layout)
        stages = range(layout.n_program)
        self._tensor = np.array([group for stage in stages for group in ranks.tensor(stage)])
        sharers = np.array([group for stage in stages for group in ranks.sharers(stage)])
        self._rings = np.stack([sharers.ravel(), np.roll(sharers, -1, axis=1).ravel()]) if layout.n_sharer > 1 else None
        per_stage = ranks.per_stage
        edges = np.arange((layout.pp - 1) * per_stage)
        self._stages = np.stack([edges, edges + per_stage]) if layout.pp > 1 else None
        self._groups = [self._tensor, sharers]
        n_gpu = len(self._server)
        peak = np.array([job.device(gpu).peak(layout.precision) for gpu in range(n_gpu)], float)
        slowness = np.array([job.slowness.get(gpu, 1.0) for gpu in range(n_gpu)])
        self._time = slowness * peak.max() / peak

    def __call__(self, gpu_of_rank: np.ndarray) -> float:
        """J of a placement; 0 is the best there can be."""
        server, rail, time = (column[gpu_of_rank] for column in (self._server, self._rail, self._time))
        split = np.sort(server[self._tensor], axis=1)
        tensor = float((np.diff(split, axis=1) != 0).sum(axis=1).mean()) if split.shape[1] > 1 else 0.0
        pipeline = self._edges(self._stages, server, rail, 1.0)
        data = self._edges(self._rings, server, rail, 0.0)
        skew = sum(float((1 - time[g].min(axis=1) / time[g].max(axis=1)).mean()) for g in self._groups)
        return tensor + pipeline + data + skew

    @staticmethod
    def _edges(edges: np.ndarray | None, server: np.ndarray, rail: np.ndarray, same_rail: float) -> float:
        if edges is None:
            return 0.0
        is_far = server[edges[0]] != server[edges[1]]
        is_other = rail[edges[0]] != rail[edges[1]]
        return float((is_far * np.where(is_other, same_rail + OTHER_RAIL - 1, same_rail)).mean())


def place_by_equation_4(
    job: Job, server_of_gpu: np.ndarray, rail_of_gpu: np.ndarray, seed: int, n_step: int = N_STEP
) -> list[int]:
    """GPU of every rank, optimised. Never worse by equation 4 than ranks in the order of the GPUs."""
    cost = PlacementCost(job, server_of_gpu, rail_of_gpu)
    in_order, greedy = np.arange(len(server_of_gpu)), _greedy(job, server_of_gpu)
    current = min((in_order, greedy), key=cost)
    now, tp, draws = cost(current), job.layout.tp, random.Random(seed)
    best, least = current, now
    for step in range(n_step if least > 0 else 0):
        temperature = FIRST_TEMPERATURE * (LAST_TEMPERATURE / FIRST_TEMPERATURE) ** (step / n_step)
        proposed = _swapped(current, tp if draws.random() < 0.5 else 1, draws)
        new = cost(proposed)
        if new < now or draws.random() < math.exp((now - new) / temperature):
            current, now = proposed, new
            if now < least:
                best, least = current, now
    return [int(gpu) for gpu in best]


def _greedy(job: Job, server_of_gpu: np.ndarray) -> np.ndarray:
    """GPUs by how long they compute, then by server."""
    layout = job.layout
    time = [job.slowness.get(gpu, 1.0) / job.device(gpu).peak(layout.precision) for gpu in range(len(server_of_gpu))]
    worst = {
        server: max(t for t, s in zip(time, server_of_gpu, strict=True) if s == server) for server in set(server_of_gpu)
    }
    return np.array(sorted(range(len(time)), key=lambda gpu: (worst[server_of_gpu[gpu]], server_of_gpu[gpu], gpu)))


def _swapped(gpu_of_rank: np.ndarray, n: int, draws: random.Random) -> np.ndarray:
    """Two runs of n ranks with each other's GPUs."""
    found = gpu_of_rank.copy()
    a, b = (n * draws.randrange(len(found) // n) for _ in range(2))
    found[a : a + n], found[b : b + n] = gpu_of_rank[b : b + n], gpu_of_rank[a : a + n]
    return found
