"""How far one kind of estimate was off in a run: what was predicted of some that were drawn, against how they went.

Times are compared, and rates: bytes that were predicted to take longer than they did had a lower rate. What was drawn
together (the flows of a wave, or all in a stretch of time) errs together, so the standard error is of what was drawn
(`audit`).
"""

import math
from typing import Any

import numpy as np

from pdes.skipping.audit import standard_error


class KindErrors:
    """Of one kind; alike on every rank."""

    def __init__(self) -> None:
        self.n_audited = 0  # that were simulated although they need not be
        self.n_void = 0  # of these, that went another way than anybody could have known
        self._time: list[np.ndarray] = []  # float64[n_flow] each, of completion times, with their signs
        self._rate: list[np.ndarray] = []
        self._unit: list[int] = []  # that was drawn, of each of these

    def add(self, expected_ps: np.ndarray, took_ps: np.ndarray, before_ps: np.ndarray, unit: int) -> None:
        """What was predicted to take expected_ps took took_ps. int64[n_flow] each, all above 0.

        before_ps: what each message had taken until then, at least 0. unit: number of what was drawn together.
        """
        if len(took_ps):
            self._time.append((expected_ps - took_ps) / (before_ps + took_ps))
            self._rate.append(took_ps / expected_ps - 1)
            self._unit.append(unit)

    def facts(self) -> dict[str, Any]:
        """What `result.json` says of it; None: nothing could be compared."""
        signed = np.concatenate([np.zeros(0), *self._time])
        time, rate = np.sort(np.abs(signed)), np.abs(np.concatenate([np.zeros(0), *self._rate]))
        return {
            "audited": self.n_audited,
            "void": self.n_void,
            "flows": len(time),
            "mean_fct_error": _mean(time),
            "standard_error": standard_error(self._by_unit()),
            "p99_fct_error": float(time[-(len(time) // 100) - 1]) if len(time) else None,
            "max_fct_error": float(time[-1]) if len(time) else None,
            "fct_bias": _mean(signed),
            "mean_rate_error": _mean(rate),
            "max_rate_error": float(rate.max()) if len(rate) else None,
        }

    def _by_unit(self) -> list[np.ndarray]:
        """Errors of completion times of all that was drawn together, without signs."""
        units: dict[int, list[np.ndarray]] = {}
        for unit, errors in zip(self._unit, self._time, strict=True):
            units.setdefault(unit, []).append(np.abs(errors))
        return [np.concatenate(errors) for errors in units.values()]


def _mean(values: np.ndarray) -> float | None:
    return math.fsum(values.tolist()) / len(values) if len(values) else None
