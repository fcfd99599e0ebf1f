"""A placement by what an iteration would take: HeteroSim's algorithm 2, with times in place of its equation 4.

Domain-first placements come first (`structured`), and that of equation 4; the fastest of them is refined by simulated
annealing: swaps of tensor groups, of what two blocks of GPUs have, of replicas and of stages (the paper's "intra-domain
swaps" and "stage reseating"). Deviations from section 4.2: the measure is the closed form of an iteration
(`closed_form`), which knows the ring plans, the ways through this network, GPU types and the pipeline; ranks in order
are one of the candidates, so that nothing is chosen that the measure calls slower.
"""

import math
import random
from itertools import islice
from typing import NamedTuple

import numpy as np

from models.compute.memory import memory_of
from models.topology.even_ways import EvenWays
from models.workload.closed_form.exchanges import Exchanges
from models.workload.closed_form.iteration import iteration_ps
from models.workload.compiler.job import Job
from models.workload.placing.equation_4 import place_by_equation_4
from models.workload.placing.layers import Layers, with_layers
from models.workload.placing.replicas import dealt_batch, with_batch
from models.workload.placing.structured import blocks_of, structured

N_STEP, LEAST_STEPS = 20_000, 20  # of annealing: the first over the number of GPUs
MOST_STEPS = 200
NO_ROOM = 4  # times as long counts what does not fit
FIRST_TEMPERATURE, LAST_TEMPERATURE = 0.02, 0.0002  # of the time of an iteration


class Placed(NamedTuple):
    """gpu_of_rank: what was found. Times of an iteration by the closed form. in_order_fits: the GPUs' memory."""

    gpu_of_rank: list[int]
    time_ps: int
    in_order_ps: int
    in_order_fits: bool


class Price:
    """Time of an iteration by placement. wire_share: bytes on the wire per byte of a message."""

    def __init__(self, job: Job, ways: EvenWays, wire_share: float) -> None:
        self.job, self.ways, self.wire_share = job, ways, wire_share
        self.server_of_gpu = ways.topology.server[ways.topology.host]
        self._layers = Layers(job) if job.shares_layers else None
        self._needs = None if job.shares_layers else _needed_bytes(job)
        self._known: dict[bytes, tuple[int, bool]] = {}

    def __call__(self, gpu_of_rank: np.ndarray) -> int:
        """ps; far more where a stage does not fit the memory of its GPUs."""
        time_ps, fits = self.found(gpu_of_rank)
        return time_ps if fits else time_ps * NO_ROOM

    def found(self, gpu_of_rank: np.ndarray) -> tuple[int, bool]:
        """(time in ps, whether all stages fit)"""
        key = gpu_of_rank.tobytes()
        if key not in self._known:
            self._known[key] = self._worked_out(self.exchanges(gpu_of_rank.tolist()))
        return self._known[key]

    def exchanges(self, gpu_of_rank: list[int] | None) -> Exchanges:
        """Of ranks that are there."""
        return Exchanges(self.job, self.ways, self.server_of_gpu, self.wire_share, gpu_of_rank)

    def _worked_out(self, exchanges: Exchanges) -> tuple[int, bool]:
        known: dict[object, int] = {}
        job, limits = self.job, self.job.memory_of_stages(exchanges.ranks)
        fits = self._needs is None or all(a <= b for a, b in zip(self._needs, limits, strict=True))
        if self._layers is not None:
            layers = self._layers.dealt(exchanges, known)
            fits, job = self._layers.fits(layers, exchanges), with_layers(job, layers)
        if job.shares_batch:
            job = with_batch(job, dealt_batch(job, exchanges, known))
        return iteration_ps(job, exchanges, known), fits


def _needed_bytes(job: Job) -> list[int] | None:
    """Memory by stage; None: it is the same wherever ranks are."""
    if len({device.hbm_bytes for device in job.devices}) == 1 or job.memory_bytes:
        return None
    stages = range(job.layout.pp)
    return [memory_of(job.shape, job.layout, stage, job.memory_schedule).total_bytes for stage in stages]


def place_ranks(job: Job, ways: EvenWays, wire_share: float, seed: int, most_steps: int = MOST_STEPS) -> Placed:
    """GPU of every rank, optimised; ranks in the order of the GPUs where nothing is faster."""
    price, in_order = Price(job, ways, wire_share), np.arange(job.layout.n_gpu)
    n_step = min(most_steps, max(LEAST_STEPS, N_STEP // len(in_order)))
    candidates = [in_order, by_equation_4(job, price.server_of_gpu, seed)]
    candidates += islice(structured(job, ways.topology), n_step)
    best = min(candidates, key=price)  # the first of those that are as fast
    best = _annealed(job, ways, price, best, n_step, seed)
    return Placed(best.tolist(), price.found(best)[0], *price.found(in_order))


def by_equation_4(job: Job, server_of_gpu: np.ndarray, seed: int) -> np.ndarray:
    """What HeteroSim's own measure finds. A GPU's rail is its number in its server."""
    order = np.argsort(server_of_gpu, kind="stable")
    rail, servers = np.empty(len(order), np.int64), server_of_gpu[order]
    rail[order] = np.arange(len(order)) - np.searchsorted(servers, servers)
    return np.array(place_by_equation_4(job, server_of_gpu, rail, seed))


def _annealed(job: Job, ways: EvenWays, price: Price, begin: np.ndarray, n_step: int, seed: int) -> np.ndarray:
    draws, swaps = random.Random(seed), _Swaps(job, ways)
    current = best = begin
    now = least = price(begin)
    for step in range(n_step):
        temperature = least * FIRST_TEMPERATURE * (LAST_TEMPERATURE / FIRST_TEMPERATURE) ** (step / n_step)
        proposed = swaps(current, draws)
        new = price(proposed)
        if new < now or draws.random() < math.exp((now - new) / temperature):
            current, now = proposed, new
            if now < least:
                best, least = current, now
    return best


class _Swaps:
    """Neighbours of a placement."""

    def __init__(self, job: Job, ways: EvenWays) -> None:
        layout = job.layout
        self.shape = layout.pp, layout.dp, layout.cp, layout.tp
        blocks = [block.gpus for block in blocks_of(job, ways.topology)]
        self.blocks = blocks if len(blocks) > 1 and len({len(gpus) for gpus in blocks}) == 1 else []
        kinds = [self._groups]
        kinds += [self._of_blocks] if self.blocks else []
        kinds += [self._of_stages] if layout.pp > 1 else []
        kinds += [self._of_replicas] if layout.dp > 1 and layout.pp > 1 else []
        self.kinds = kinds

    def __call__(self, gpu_of_rank: np.ndarray, draws: random.Random) -> np.ndarray:
        found = gpu_of_rank.copy()
        draws.choice(self.kinds)(found, draws)
        return found

    def _groups(self, found: np.ndarray, draws: random.Random) -> None:
        """Two tensor groups."""
        groups = found.reshape(-1, self.shape[3])
        if len(groups) > 1:
            i, k = draws.sample(range(len(groups)), 2)
            groups[[i, k]] = groups[[k, i]]

    def _of_blocks(self, found: np.ndarray, draws: random.Random) -> None:
        """All that two blocks have."""
        one, other = draws.sample(self.blocks, 2)
        becomes = np.arange(len(found))
        becomes[list(one)], becomes[list(other)] = other, one
        found[:] = becomes[found]

    def _of_stages(self, found: np.ndarray, draws: random.Random) -> None:
        stages = found.reshape(self.shape[0], -1)
        i, k = draws.sample(range(self.shape[0]), 2)
        stages[[i, k]] = stages[[k, i]]

    def _of_replicas(self, found: np.ndarray, draws: random.Random) -> None:
        """Of one stage."""
        replicas = found.reshape(self.shape[0], self.shape[1], -1)[draws.randrange(self.shape[0])]
        i, k = draws.sample(range(self.shape[1]), 2)
        replicas[[i, k]] = replicas[[k, i]]
