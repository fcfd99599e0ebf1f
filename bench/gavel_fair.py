"""Finish-time fairness as Gavel's code first had it: in isolation a job has done until now what it has done."""

import numpy as np

from models.cluster.schedulers.rounds.finish_time import FinishTimeFair


class FairAsFirstCoded(FinishTimeFair):
    """The time in isolation is how long a job has been there, and what is left over its speed by equal shares."""

    def in_isolation_us(self, numbers: list[int], left_us: np.ndarray, alone: np.ndarray) -> np.ndarray:
        """float64[n]."""
        there_us = [float(self.cluster.now_us - self.active[n].request.submit_us) for n in numbers]
        return np.array(there_us) + left_us / alone
