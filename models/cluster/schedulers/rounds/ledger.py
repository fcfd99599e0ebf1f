"""What each job shall have and has had, as arrays with a row for each job, so that a round costs little for one."""

from typing import Any

import numpy as np

from models.cluster.job import Job

LEAST_ROWS = 64


class Ledger:
    """Rows 0 to n - 1 are of active jobs, in no order; row_of: by job number. Columns of tables are pools.

    number, n_gpu: int64[n]. may_use: bool[n, n_pool]. share: float64[n, n_pool] of a pool's time that a job shall run
    there; has_share: bool[n]. received_us: int64[n, n_pool] since the last reset, less half a round that all begin
    with. deficit_us: float64[n, n_pool] until then. pool: int64[n] where it runs, -1 nowhere; since_us, turn: int64[n],
    its start and the how manieth that was.
    """

    number: np.ndarray
    n_gpu: np.ndarray
    pool: np.ndarray
    since_us: np.ndarray
    turn: np.ndarray
    may_use: np.ndarray
    share: np.ndarray
    has_share: np.ndarray
    received_us: np.ndarray
    deficit_us: np.ndarray

    def __init__(self, n_pool: int) -> None:
        self.n, self.n_start = 0, 0
        self.row_of: dict[int, int] = {}
        kinds = {"may_use": bool, "has_share": bool, "share": float, "deficit_us": float}
        tables = ("may_use", "share", "received_us", "deficit_us")
        self._whole = {
            name: np.zeros((LEAST_ROWS, n_pool) if name in tables else LEAST_ROWS, kinds.get(name, np.int64))
            for name in Ledger.__annotations__
        }
        self._show()

    def _show(self) -> None:
        """The arrays are views of the rows that are in use."""
        for name, array in self._whole.items():
            setattr(self, name, array[: self.n])

    def add(self, job: Job, may_use: list[bool]) -> None:
        """A job that is new."""
        row = self.n
        if row == len(self._whole["number"]):
            self._whole = {name: np.concatenate([old, np.zeros_like(old)]) for name, old in self._whole.items()}
        self.row_of[job.number] = row
        new: dict[str, Any] = {"number": job.number, "n_gpu": job.n_gpu, "may_use": may_use, "pool": -1}
        for name, array in self._whole.items():
            array[row] = new.get(name, 0)
        self.n += 1
        self._show()

    def remove(self, job: Job) -> None:
        """A job that is done; the last row takes its place."""
        row, last = self.row_of.pop(job.number), self.n - 1
        if row != last:
            for array in self._whole.values():
                array[row] = array[last]
            self.row_of[int(self.number[row])] = row
        self.n = last
        self._show()

    def started(self, job: Job) -> None:
        """It runs."""
        row = self.row_of[job.number]
        self.pool[row], self.since_us[row], self.turn[row] = job.pool, job.start_us, self.n_start
        self.n_start += 1

    def ended(self, job: Job, counted_us: int, now_us: int) -> None:
        """It runs no more. counted_us: what was before is counted already."""
        row = self.row_of[job.number]
        self.received_us[row, job.pool] += now_us - max(int(self.since_us[row]), counted_us)
        self.pool[row] = -1

    def count(self, counted_us: int, now_us: int) -> None:
        """What all that run have had."""
        rows = np.flatnonzero(self.pool >= 0)
        self.received_us[rows, self.pool[rows]] += now_us - np.maximum(self.since_us[rows], counted_us)

    def reset(self, elapsed_us: int) -> None:
        """What somebody has had too little of its share in that time is remembered."""
        self.deficit_us += self.share * elapsed_us - self.received_us
        self.received_us[:] = 0

    def give(self, shares: dict[int, list[float]]) -> None:
        """New shares, of no more than these."""
        self.share[:] = 0.0
        self.has_share[:] = False
        rows = list(map(self.row_of.__getitem__, shares))
        if rows:
            self.share[rows] = list(shares.values())
            self.has_share[rows] = True

    def line(self, pool: int, half_us: float, is_strict: bool) -> np.ndarray:
        """Rows, in their order for a pool: who has had least of its share, then who had too little before.

        is_strict: only of those with a share.
        """
        share = self.share[:, pool]
        rows = np.flatnonzero(self.may_use[:, pool] & ((share > 0) | (not is_strict)))
        own = share[rows]
        rank = own / (half_us + self.received_us[rows, pool])
        return rows[np.lexsort((self.number[rows], -own, -self.deficit_us[rows, pool], -rank))]


def that_fit(sizes: np.ndarray, room: int) -> np.ndarray:
    """Which of a line fit, each if it does beside those before it. sizes: int64, above 0."""
    at, found = np.arange(len(sizes)), [np.zeros(0, np.int64)]
    while room > 0 and len(at):
        at = at[sizes[at] <= room]
        ends = np.cumsum(sizes[at])
        n = int(np.searchsorted(ends, room, "right"))
        if n:
            found.append(at[:n])
            room -= int(ends[n - 1])
        at = at[n:]
    return np.concatenate(found)
