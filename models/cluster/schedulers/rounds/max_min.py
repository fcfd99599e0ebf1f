"""Least attained service as max-min fairness (Gavel, OSDI '20, section 4.1): all jobs progress alike, if they can.

A job's progress is its mean speed over that of an equal share of each pool, times its number of GPUs, Gavel's scale
factor: a job of eight GPUs that has an eighth of the time has as much of the cluster as one of one GPU that has all of
it. Jobs run with all their GPUs or not at all, so that a pool's GPUs bound the sum of shares times GPUs (section 3.1).

Programmes count GPUs in those of the smallest job: eight times as many GPUs in all pools and of all jobs are the same
programme, to the bit.
"""

import importlib
from typing import Any

import numpy as np

from models.cluster.schedulers.rounds.rounds import Rounds, Shares
from models.cluster.schedulers.rounds.solver import optimize

ROUNDING = 1e-12
MOST_ALONE = 500  # jobs, for which a programme with shares of each takes some 15 ms


class MaxMin(Rounds):
    """All GPUs are the same to it: an equal share of each pool's GPUs for each job."""

    shuffles = True
    turn = "round_minutes"

    def shares(self) -> Shares:
        """Those of all."""
        return self.equal_shares()

    def equal_shares(self) -> Shares:
        """Each job gets as many GPU-hours of each pool, and together at most all of its time.

        With n jobs and W GPUs, one of s GPUs gets min(1, W / (n s)) of its time, split over pools by their GPUs.
        """
        n_up, n_job = self.cluster.machine.n_up, len(self.active)
        whole = sum(n_up)
        return {
            number: [n_here / max(n_job * job.n_gpu, whole) for n_here in n_up] for number, job in self.active.items()
        }


class MaxMinPerf(MaxMin):
    """It knows how fast each job is on each GPU: a linear programme."""

    shuffles = False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.optimize = optimize()
        self.sparse = importlib.import_module("scipy.sparse")

    def shares(self) -> Shares:
        """Of all that may use anything that is up, the least progress is the most there can be."""
        n_pool, n_up = self.n_pool, self.cluster.machine.n_up
        numbers, sizes = list(self.active), self.sizes()
        speeds = np.array([[self.speed(self.active[n], pool) for pool in range(n_pool)] for n in numbers])
        whole = max(len(numbers) * min(job.n_gpu for job in self.active.values()), sum(n_up))
        equal = np.array([n_here / whole for n_here in n_up])  # of time, the same for all: X equal
        progress = np.array([own @ equal for own in speeds]) / sizes
        if not (progress > 0).any():
            return self.equal_shares()
        found = self.most(speeds, progress, sizes)
        return {number: [float(x) for x in row] for number, row in zip(numbers, found, strict=True)}

    def sizes(self) -> np.ndarray:
        """float64[n_job]: GPUs of each active job, in those of the smallest."""
        found = np.array([float(job.n_gpu) for job in self.active.values()])
        return found / found.min()

    def room(self) -> np.ndarray:
        """float64[n_pool]: GPUs that are up, in those of the smallest active job."""
        return np.array(self.cluster.machine.n_up, float) / min(job.n_gpu for job in self.active.values())

    def most(self, speeds: np.ndarray, wanted: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Shares, float[n_job, n_pool], by which all jobs get the most times the speed that they want.

        speeds: of each job in each pool. wanted: 0 for a job that all it may use is down for. sizes: as `sizes` has
        them. Where there are many, those with the same speeds and GPUs that want the same are one group and equally
        fast: the mean over all orders of them is as good as any answer. Each gets few pools of its group's, as it would
        at a corner of the programme.
        """
        if self.n_pool == 1:
            return self._of_one_pool(speeds[:, 0], wanted, sizes)[:, None]
        if len(wanted) <= MOST_ALONE:
            return self._of_groups(speeds, wanted, sizes, np.ones(len(wanted), np.int64))
        rows = np.column_stack([speeds, wanted, sizes])
        known = np.unique(rows, axis=0, return_index=True, return_inverse=True, return_counts=True)
        _, first, group_of, counts = known
        order, shares = np.argsort(group_of.ravel(), kind="stable"), np.empty_like(speeds)
        of_groups = self._of_groups(speeds[first], wanted[first], sizes[first], counts)
        own = zip(speeds[first], of_groups, counts.tolist(), strict=True)
        shares[order] = np.concatenate([shared_out(*each) for each in own])
        return shares

    def _of_one_pool(self, speeds: np.ndarray, wanted: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """As many times what they ask for until one has all of its time, or the GPUs have all of theirs."""
        asks = wanted > 0
        needs = np.where(asks, wanted / np.where(asks, speeds, 1.0), 0.0)
        total, room = (needs * sizes).sum(), self.room()[0]
        return needs * min(room / total, 1 / needs.max()) if total else needs

    def _of_groups(self, speeds: np.ndarray, wanted: np.ndarray, sizes: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Shares of a job of each group. Variables: these, then the number of times.

        Rows: what each gets is no less than that number of times what it wants; a job's time; a pool's GPUs.
        """
        (n_group, n_pool), room = speeds.shape, self.room()
        width, shares = n_group * n_pool + 1, np.arange(n_group * n_pool)
        owners, asks = shares // n_pool, np.flatnonzero(wanted > 0)
        ratio = -(speeds[asks] / wanted[asks, None]).ravel()
        rows = np.concatenate([np.repeat(asks, n_pool), asks, n_group + owners, 2 * n_group + shares % n_pool])
        columns = np.concatenate(
            [shares.reshape(n_group, n_pool)[asks].ravel(), np.full(len(asks), width - 1), shares, shares]
        )
        values = np.concatenate([ratio, np.ones(len(asks) + len(shares)), (counts * sizes)[owners]])
        limits = self.sparse.csc_array((values, (rows, columns)), shape=(2 * n_group + n_pool, width))
        limits.eliminate_zeros()
        most = np.concatenate([np.zeros(n_group), np.ones(n_group), room])
        target = np.zeros(width)
        target[-1] = -1.0
        found = self.optimize.linprog(target, A_ub=limits, b_ub=most, method="highs").x
        return found[:-1].reshape(n_group, n_pool).clip(0, 1)


def shared_out(speeds: np.ndarray, share: np.ndarray, n_job: int) -> np.ndarray:
    """Shares, float[n_job, n_pool], of jobs that are all as fast as with that share each, and use it up together.

    speeds, share: float[n_pool] of each job. Time on a pool that is faster than the mean goes with time on one that is
    slower, or with none, in such parts that together they are as fast as the mean: the nearest of both first.
    """
    if n_job == 1 or np.count_nonzero(share) < 2:
        return np.tile(share, (n_job, 1))
    n_pool, mean = len(speeds), float(speeds @ share)
    speed_of = [*speeds.tolist(), 0.0]
    left = [x * n_job for x in (*share.tolist(), max(1.0 - float(share.sum()), 0.0))]
    order = sorted(range(n_pool + 1), key=lambda pool: (speed_of[pool], pool))
    fast = [pool for pool in order if speed_of[pool] >= mean and left[pool] > 0]
    slow = [pool for pool in reversed(order) if speed_of[pool] < mean and left[pool] > 0]
    found = np.zeros((n_job, n_pool + 1))
    for row in found:
        time = 1.0
        while time > ROUNDING and fast:
            parts = {fast[0]: 1.0}
            if slow and speed_of[fast[0]] > mean:
                part = (mean - speed_of[slow[0]]) / (speed_of[fast[0]] - speed_of[slow[0]])
                parts = {fast[0]: part, slow[0]: 1 - part}
            took = min(time, *(left[pool] / part for pool, part in parts.items() if part > 0))
            time -= took
            for pool, part in parts.items():
                row[pool] += took * part
                left[pool] -= took * part
            fast = [pool for pool in fast if left[pool] > ROUNDING]
            slow = [pool for pool in slow if left[pool] > ROUNDING]
    return found[:, :n_pool]
