"""Alignment with production: what of an iteration's time the simulator does not know, by the number of GPUs.

Arcadia (NSDI'26) section 7.1, a linear regression over the six terms of `pdes.config.calibration.Alignment`; on top of
constants, and only where it is asked for. Deviation: squares of relative errors are made small, and a little ridge
holds coefficients where there are few measurements. It is an interpolation: outside of the GPU counts that were
measured it says nothing.
"""

from typing import Any, NamedTuple

import numpy as np

from pdes.calibrating.fit import Problem, folds_of
from pdes.config.calibration import COEFFICIENTS, Alignment, terms
from pdes.errors import ConfigError

RIDGE = 1e-3
LEAST_ROWS, LEAST_COUNTS = 8, 3


class Aligned(NamedTuple):
    """Mean absolute relative errors of rows held out: of the constants alone, and aligned."""

    alignment: Alignment
    before: float
    after: float

    def table(self) -> dict[str, Any]:
        """As [alignment] has it."""
        own = dict(zip(COEFFICIENTS, (float(f"{c:.9g}") for c in self.alignment.coefficients), strict=True))
        return own | {"least_gpus": self.alignment.least_gpus, "most_gpus": self.alignment.most_gpus}


def check_gpus(gpus: list[int]) -> None:
    """ConfigError: there is too little for a regression. gpus: of each run."""
    counts = len(set(gpus))
    if len(gpus) < LEAST_ROWS or counts < LEAST_COUNTS:
        found = f"{len(gpus)} runs on {counts} numbers of GPUs"
        accepted = f"Accepted: {LEAST_ROWS} runs or more, on {LEAST_COUNTS} numbers of GPUs or more"
        raise ConfigError("--align", found, accepted)


def align(problem: Problem, held_out_ps: np.ndarray, fitted_ps: np.ndarray, gpus: list[int]) -> Aligned:
    """Fitted to all measurements; the error is of those that neither constants nor regression know.

    held_out_ps: float64[n], predictions by constants without a row's fold; fitted_ps: with all.
    """
    counts = sorted(set(gpus))
    times_s, own_s, all_s = problem.measured / 1e12, held_out_ps / 1e12, fitted_ps / 1e12
    errors, n = np.zeros(len(gpus)), np.array(gpus)
    for fold in folds_of(problem):
        others = np.setdiff1d(np.arange(len(gpus)), fold)
        found = _regress(n[others], own_s[others], times_s[others])
        errors[fold] = [_at(found, int(n[i]), float(own_s[i])) / times_s[i] - 1 for i in fold]
    whole = _regress(n, all_s, times_s)
    before = float(np.abs(held_out_ps / problem.measured - 1).mean())
    return Aligned(Alignment(whole, counts[0], counts[-1]), before, float(np.abs(errors).mean()))


def _regress(gpus: np.ndarray, simulated_s: np.ndarray, measured_s: np.ndarray) -> tuple[float, ...]:
    """Coefficients. What is not explained by the time itself is held small: the ridge is around T = t."""
    rows = np.array([terms(int(n), t) for n, t in zip(gpus, simulated_s, strict=True)])
    rest = 1 - simulated_s / measured_s
    scaled = rows / measured_s[:, None]
    size = np.sqrt((scaled**2).mean(axis=0))
    ridge = np.sqrt(RIDGE * len(gpus)) * np.eye(len(size))
    wanted = np.concatenate([rest, np.zeros(len(size))])
    own = np.linalg.lstsq(np.vstack([scaled / size, ridge]), wanted, rcond=None)[0] / size
    own[COEFFICIENTS.index("time")] += 1
    return tuple(own.tolist())


def _at(coefficients: tuple[float, ...], gpus: int, time_s: float) -> float:
    return float(np.dot(coefficients, terms(gpus, time_s)))
