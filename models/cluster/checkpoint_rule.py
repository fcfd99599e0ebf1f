"""How often a job writes a checkpoint: as configured, or by a rule from how often it is interrupted.

Young (1974): sqrt(2 w M) of computing between two, for checkpoints of w and interruptions every M. Daly (2006,
equation 37) has further terms, which matter where w is not small beside M.
"""

import math

from models.cluster.failures import RACK, SERVER, SLOWS, Failures
from models.cluster.job import Request
from models.cluster.progress import Checkpoints
from models.cluster.storage import Storage


class CheckpointRule:
    """interval: microseconds, "off", "young" or "daly". failures: of which a rule takes the mean rates.

    storage: what writing and reading a checkpoint takes besides write_us and restart_us.
    """

    def __init__(
        self, interval: str | int, times_us: tuple[int, int, int], failures: Failures, storage: Storage | None = None
    ) -> None:
        """times_us: a checkpoint's, a restart's, a beginning's."""
        self.interval, self._storage = interval, storage
        write_us, restart_us, begin_us = times_us
        self._plain = Checkpoints(0 if isinstance(interval, str) else interval, write_us, restart_us, begin_us)
        self._failures = failures
        self._known: dict[tuple[int, int, str], Checkpoints] = {}

    def __call__(self, request: Request, n_server: int) -> Checkpoints:
        """Of a job on so many servers."""
        has_rule = isinstance(self.interval, str) and self.interval != "off"
        if not has_rule and self._storage is None:
            return self._plain
        key = request.n_gpu, n_server, request.kind if self._storage is not None else ""
        if key not in self._known:
            found = self._plain
            if self._storage is not None:
                moves_us = self._storage.transfer_us(request, n_server)
                found = found._replace(write_us=found.write_us + moves_us, restart_us=found.restart_us + moves_us)
            if has_rule:
                between_us = mean_us_between(self._failures, request.n_gpu, n_server)
                rule = young_us if self.interval == "young" else daly_us
                found = found._replace(interval_us=0 if math.isinf(between_us) else rule(found.write_us, between_us))
            self._known[key] = found
        return self._known[key]


def young_us(write_us: float, between_us: float) -> int:
    """The interval, at least a microsecond."""
    return max(int(math.sqrt(2 * write_us * between_us)), 1)


def daly_us(write_us: float, between_us: float) -> int:
    """The same with Daly's higher orders; never above the time between interruptions."""
    if write_us >= 2 * between_us:
        return max(int(between_us), 1)
    ratio = math.sqrt(write_us / (2 * between_us))
    return max(int(math.sqrt(2 * write_us * between_us) * (1 + ratio / 3 + ratio * ratio / 9) - write_us), 1)


def mean_us_between(failures: Failures, n_gpu: int, n_server: int) -> float:
    """Mean time between interruptions of a job in as few racks as hold it, were all processes memoryless.

    Racks and servers are taken to be those of the first pool, and all processes to be at work there.
    """
    pool, per_us = failures.machine.pools[0], 0.0
    n_rack = -(-n_server // pool.servers_per_rack)
    for process in failures.processes:
        if process.takes in SLOWS:  # a job that is slow loses no work
            continue
        n = {"gpu": n_gpu, SERVER: n_server, RACK: n_rack}[process.per]
        if process.takes == RACK and process.per != RACK:  # whatever fails in its racks
            n = min(n_rack * pool.servers_per_rack, pool.n_server) * (pool.n_gpu if process.per == "gpu" else 1)
        per_us += n / process.gap.mean_us
    return 1 / per_us if per_us else math.inf
