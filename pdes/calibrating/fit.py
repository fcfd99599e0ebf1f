"""Constants with which predicted times come closest to measured ones, and in their order; and what holds them out.

Arcadia (NSDI'26) section 7.2, equation 3, makes small

    sum_i (T_i - M_i)^2 + lambda sum_{i < j, M_i < M_j} max(0, T_i - T_j)

over measured times M and predicted ones T: the second sum is large where what was measured to be faster is predicted to
be slower. Deviations: times are logarithms, so that microseconds and seconds count alike and an error is relative;
errors above LINEAR_FROM count by their size and not its square, so that one wild measurement decides nothing; a
constant of which measurements say nothing stays near where it was, by `Problem.spread`; and SciPy's least squares solve
it in place of hill climbing, for which the penalty is smooth up to SMOOTH. Lambda is chosen by what is held out.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from models.cluster.schedulers.rounds.solver import optimize

ROW_ERROR = 0.05  # to be expected of a measurement, relative
LINEAR_FROM = 0.1  # relative errors above it count by their size
SMOOTH = 0.01  # relative times: below it the penalty is a square
DIFFERENCE, TOLERANCE, MAX_STEPS = 0.003, 1e-6, 60
N_FOLD = 5
MOST_PAIRS, PAIRS_OF_EACH = 20_000, 40
ORIGIN = 16.0  # where the search has the start, so that steps that are relative to it are alike everywhere
EDGE = 1e-9
LAMBDAS = (0.0, 0.01, 0.1, 1.0)
NOT_WORSE = 0.005  # relative: of two lambdas the smaller one, unless the other one's error is lower by more
NEGLIGIBLE = 1e-5  # and an error


class Problem(NamedTuple):
    """What is fitted to what. Constants are positive, and their logarithms are searched.

    predict: (constants float64[n], rows int64[k]) -> their times. weight: float64[m], of rows. spread: of the logarithm
    of a constant, how far from its start it may well be. group: of rows; those of a group are held out together.
    """

    names: tuple[str, ...]
    start: np.ndarray
    low: np.ndarray
    high: np.ndarray
    spread: np.ndarray
    measured: np.ndarray
    group: Sequence[str]
    predict: Callable[[np.ndarray, np.ndarray], np.ndarray]
    weight: np.ndarray
    row_error: float = ROW_ERROR
    difference: float = DIFFERENCE  # relative, of a constant, by which slopes are seen
    reshape: "Callable[[np.ndarray], Problem] | None" = None  # for what is no constant: as rows say, without the others

    def of(self, rows: np.ndarray) -> "Problem":
        """As it is fitted to these rows."""
        return self if self.reshape is None else self.reshape(rows)


class Tried(NamedTuple):
    """One lambda. Errors are means of absolute relative ones; order: share of pairs that are predicted in the order in
    which they were measured, of rows held out."""

    weight: float
    held_out: np.ndarray  # float64[m], relative
    order: float

    @property
    def error(self) -> float:
        """Of rows held out."""
        return float(np.abs(self.held_out).mean())


class Fitted(NamedTuple):
    """The constants, and relative errors of all rows: before, with them, and each one held out.

    problem: reshaped to all rows.
    """

    problem: Problem
    constants: np.ndarray
    before: np.ndarray
    after: np.ndarray
    chosen: Tried
    tried: list[Tried]


def bent(errors: np.ndarray) -> np.ndarray:
    """Errors whose squares grow like their sizes above LINEAR_FROM."""
    return np.sign(errors) * LINEAR_FROM * np.sqrt(2 * (np.sqrt(1 + (errors / LINEAR_FROM) ** 2) - 1))


def pairs_of(measured: np.ndarray) -> np.ndarray:
    """int64[n, 2], rows of which the first was measured to be faster; of many rows some for each, the same always."""
    n = len(measured)
    if n * (n - 1) // 2 <= MOST_PAIRS:
        i, j = np.triu_indices(n, 1)
    else:
        draw = np.random.Generator(np.random.Philox(n))
        i = np.repeat(np.arange(n), min(PAIRS_OF_EACH, max(1, MOST_PAIRS // n)))
        j = draw.integers(0, n, len(i))
    is_up = measured[i] < measured[j]
    found = np.column_stack([np.where(is_up, i, j), np.where(is_up, j, i)])
    return found[measured[found[:, 0]] < measured[found[:, 1]]]


def misorder(log_times: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Of each pair a number whose square is equation 3's max(0, T_i - T_j), smooth at 0."""
    late = np.maximum(0.0, log_times[pairs[:, 0]] - log_times[pairs[:, 1]])
    return late / np.sqrt(late + SMOOTH)


def fit(problem: Problem, rows: np.ndarray, weight: float = 0.0, start: np.ndarray | None = None) -> np.ndarray:
    """Constants fitted to some rows. weight: lambda of equation 3."""
    own = np.log(problem.measured[rows])
    pairs = pairs_of(problem.measured[rows]) if weight else np.zeros((0, 2), np.int64)
    root = np.sqrt(problem.weight[rows])

    def residuals(point: np.ndarray) -> np.ndarray:
        times = np.log(problem.predict(problem.start * np.exp(point - ORIGIN), rows))
        parts = [bent(times - own) * root, np.sqrt(weight) * misorder(times, pairs)]
        return np.concatenate([*(part / problem.row_error for part in parts), (point - ORIGIN) / problem.spread])

    low, high, begin = (
        ORIGIN + np.log(value / problem.start)
        for value in (problem.low, problem.high, problem.start if start is None else start)
    )
    found = optimize("pdes-sim calibrate", "a fit").least_squares(
        residuals, np.clip(begin, low + EDGE, high - EDGE), bounds=(low, high), diff_step=problem.difference / ORIGIN,
        ftol=TOLERANCE, xtol=TOLERANCE / ORIGIN, max_nfev=MAX_STEPS,
    )  # fmt: skip
    return problem.start * np.exp(found.x - ORIGIN)


def folds_of(problem: Problem) -> list[np.ndarray]:
    """Rows that are held out together: those of a group, where there are two or more; else a part of all, drawn."""
    names = sorted(set(problem.group))
    if len(names) > 1:
        return [np.flatnonzero([group == name for group in problem.group]) for name in names]
    n = len(problem.measured)
    order = np.random.Generator(np.random.Philox(n)).permutation(n)
    return [np.sort(order[i :: min(N_FOLD, n)]) for i in range(min(N_FOLD, n))]


def held_out(problem: Problem, weight: float, starts: list[np.ndarray] | None = None) -> tuple[Tried, list[np.ndarray]]:
    """Every fold by a fit to the others; and the constants of each. starts: from where each fit begins."""
    found, times = [], np.zeros(len(problem.measured))
    for i, fold in enumerate(folds_of(problem)):
        others = np.setdiff1d(np.arange(len(problem.measured)), fold)
        own = problem.of(others)
        found.append(fit(own, others, weight, None if starts is None else starts[i]))
        times[fold] = own.predict(found[-1], fold)
    errors = times / problem.measured - 1
    return Tried(weight, errors, share_in_order(times, problem.measured)), found


def share_in_order(times: np.ndarray, measured: np.ndarray) -> float:
    """Of pairs that differ, those that are predicted in the order in which they were measured; 1: there are none."""
    pairs = pairs_of(measured)
    return float((times[pairs[:, 0]] < times[pairs[:, 1]]).mean()) if len(pairs) else 1.0


def calibrate(
    problem: Problem, lambdas: Sequence[float] = LAMBDAS, say: Callable[[str], None] = lambda _: None
) -> Fitted:
    """Fit with each lambda, and take the one with the least error of what is held out."""
    everything = np.arange(len(problem.measured))
    tried: list[Tried] = []
    starts: list[np.ndarray] | None = None
    for weight in sorted(set(lambdas)):
        say(f"fitting to {len(everything)} measurements, lambda {weight:g}")
        one, starts = held_out(problem, weight, starts)
        tried.append(one)
    chosen = tried[0]
    for one in tried[1:]:
        if one.error < chosen.error * (1 - NOT_WORSE) - NEGLIGIBLE:
            chosen = one
    own = problem.of(everything)
    constants = fit(own, everything)
    if chosen.weight:
        constants = fit(own, everything, chosen.weight, constants)
    before = problem.predict(problem.start, everything) / problem.measured - 1
    after = own.predict(constants, everything) / problem.measured - 1
    return Fitted(own, constants, before, after, chosen, tried)
