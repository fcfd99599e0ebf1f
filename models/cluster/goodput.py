"""How fast an elastic job gets on with its work on so many GPUs: goodput, throughput times statistical efficiency.

Pollux (Qiao et al., OSDI '21, section 3) defines it. A model gives work per time in a unit of its own; what matters is
the ratio to that on the GPUs that the job asks for, where it takes as long as it says.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from models.cluster.job import Place, Request
from models.cluster.machine import Pool

GOLDEN, STEPS = 0.6180339887498949, 60


class Goodput(Protocol):
    """A model of a kind of jobs."""

    def __call__(self, n_gpu: int, n_server: int, speed: float) -> float:
        """Work per time on GPUs of such a speed; above 0."""
        ...


class Amdahl(NamedTuple):
    """serial: the share of the work on one GPU that does not get faster with more of them."""

    serial: float

    def __call__(self, n_gpu: int, n_server: int, speed: float) -> float:
        """Beside one GPU of speed 1; wherever they are."""
        return speed / (self.serial + (1 - self.serial) / n_gpu)


class Pollux(NamedTuple):
    """Iterations of data parallelism, sections 3.1 and 3.2. Times in seconds, batches in samples.

    grad_s, grad_per_sample_s: of a GPU's gradient. sync: of all gradients on two GPUs of a server, and for each GPU
    more; of several servers. overlap: 1 if nothing overlaps, large if the longer of the two is all. noise: the gradient
    noise scale. least, most: the batch that the job's work is measured in, and the largest. Deviations: the noise scale
    does not grow during training, and memory does not bound a GPU's batch.
    """

    grad_s: float
    grad_per_sample_s: float
    sync_local: tuple[float, float]
    sync_servers: tuple[float, float]
    overlap: float
    noise: float
    least: float
    most: float

    def __call__(self, n_gpu: int, n_server: int, speed: float) -> float:
        """With the batch that makes the most of it; a faster GPU has its gradient sooner."""
        low, high = self.least, self.most  # 1 / goodput is convex in the batch
        for _ in range(STEPS if high > low else 0):
            a, b = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
            if self.of_batch(a, n_gpu, n_server, speed) < self.of_batch(b, n_gpu, n_server, speed):
                low = a
            else:
                high = b
        return max(self.of_batch(batch, n_gpu, n_server, speed) for batch in (self.least, (low + high) / 2, self.most))

    def of_batch(self, batch: float, n_gpu: int, n_server: int, speed: float) -> float:
        """Samples per second, times what one is worth beside one of the least batch: (noise + least) / (noise + it)."""
        return batch / self.iteration_s(batch, n_gpu, n_server, speed) * self.efficiency(batch)

    def iteration_s(self, batch: float, n_gpu: int, n_server: int, speed: float) -> float:
        """Section 3.2, equations 8 to 11."""
        grad_s = (self.grad_s + self.grad_per_sample_s * batch / n_gpu) / speed
        fixed_s, more_s = self.sync_local if n_server == 1 else self.sync_servers
        sync_s = fixed_s + more_s * (n_gpu - 2) if n_gpu > 1 else 0.0
        longer, shorter = max(grad_s, sync_s), min(grad_s, sync_s)
        return longer * (1 + (shorter / longer) ** self.overlap) ** (1 / self.overlap)

    def efficiency(self, batch: float) -> float:
        """Section 3.1, equation 6."""
        return (self.noise + self.least) / (self.noise + batch)


class Measured(NamedTuple):
    """Iterations per second on so many GPUs, sorted, on one type; the batch stays as it is.

    Between two counts it is a straight line, below the least it goes to zero; more than the most are no faster.
    """

    counts: Sequence[int]
    rates: Sequence[float]

    def __call__(self, n_gpu: int, n_server: int, speed: float) -> float:
        """speed: beside that on which it was measured."""
        i = bisect_left(self.counts, n_gpu)
        if i == len(self.counts):
            return self.rates[-1] * speed
        n, rate = self.counts[i], self.rates[i]
        before, rate_before = (self.counts[i - 1], self.rates[i - 1]) if i else (0, 0.0)
        return (rate_before + (rate - rate_before) * (n_gpu - before) / (n - before)) * speed


class Model(NamedTuple):
    """Of a kind. on_type: measured on a type of GPU. usual: on others. least, most: GPUs."""

    usual: Goodput
    least: int
    most: int
    on_type: dict[str, Goodput] = {}

    def goodput(self, pool: Pool, n_gpu: int, n_server: int) -> float:
        """Work per time there."""
        measured = self.on_type.get(pool.gpu)
        return measured(n_gpu, n_server, 1.0) if measured else self.usual(n_gpu, n_server, pool.speed)


class Curves:
    """How much faster elastic jobs are than on the GPUs that they ask for, of speed 1, on as few servers as possible.

    models: by kind; "" for all that have none of their own.
    """

    def __init__(self, pools: Sequence[Pool], models: dict[str, Model]) -> None:
        self.pools, self.models = pools, models
        self._per_server = max(pool.n_gpu for pool in pools)
        self._known: dict[tuple[str, int, int, int, int], float] = {}

    def model(self, kind: str) -> Model | None:
        """Of a kind."""
        return self.models.get(kind, self.models.get(""))

    def speed(self, request: Request, pool: int, place: Place) -> float:
        """Work per time of an elastic job."""
        n_gpu = sum(n for _, n in place)
        key = request.kind, request.n_gpu, pool, n_gpu, len(place)
        if key not in self._known:
            model = self.model(request.kind)
            assert model is not None
            as_it_says = model.usual(request.n_gpu, -(-request.n_gpu // self._per_server), 1.0)
            self._known[key] = model.goodput(self.pools[pool], n_gpu, len(place)) / as_it_says
        return self._known[key]

    def with_range(self, request: Request) -> Request:
        """The job, with its kind's range if it has none, widened so that it has what the job asks for."""
        model = self.model(request.kind)
        if model is None or request.max_gpu:
            return request
        return request._replace(min_gpu=min(model.least, request.n_gpu), max_gpu=max(model.most, request.n_gpu))
