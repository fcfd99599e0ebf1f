"""How full the cluster is over time: integrals over intervals of one length."""

from array import array
from typing import Any

COLUMNS = ("waiting_jobs", "waiting_gpus", "running_jobs", "held_gpus", "up_gpus")


Level = tuple[int, int, int, int, int]
"""What there is now, in the order of COLUMNS."""


class Usage:
    """Integrals of a level over time: in all, and by interval. interval_us: 0 for no intervals."""

    def __init__(self, interval_us: int) -> None:
        self.interval_us = interval_us
        self.at_us = self._begin_us = 0
        self.totals = [0] * len(COLUMNS)
        self._before = [0] * len(COLUMNS)
        self.intervals: list[array] = [array("q") for _ in COLUMNS]
        self.begins_us = array("q")

    @property
    def jobs_us(self) -> int:
        """Jobs that waited or ran, times time, until now."""
        return self.totals[0] + self.totals[2]

    def advance(self, now_us: int, level: Level) -> None:
        """The level has been the same since the last call, until now."""
        while self.interval_us and now_us >= self._begin_us + self.interval_us:
            self._add(self._begin_us + self.interval_us, level)
            self._close()
        if now_us != self.at_us:
            self._add(now_us, level)

    def finish(self) -> None:
        """Close the interval that has begun."""
        if self.interval_us and self.at_us > self._begin_us:
            self._close()

    def __getstate__(self) -> dict[str, Any]:
        """Arrays as bytes: a checkpoint has few kinds of objects."""
        return vars(self) | {"intervals": [a.tobytes() for a in self.intervals], "begins_us": self.begins_us.tobytes()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.intervals = [array("q", values) for values in state["intervals"]]
        self.begins_us = array("q", state["begins_us"])

    def _add(self, now_us: int, level: Level) -> None:
        span_us, totals = now_us - self.at_us, self.totals
        totals[0] += level[0] * span_us  # one by one: a loop takes three times as long, and this is at every event
        totals[1] += level[1] * span_us
        totals[2] += level[2] * span_us
        totals[3] += level[3] * span_us
        totals[4] += level[4] * span_us
        self.at_us = now_us

    def _close(self) -> None:
        for values, total, before in zip(self.intervals, self.totals, self._before, strict=True):
            values.append(total - before)
        self.begins_us.append(self._begin_us)
        self._before, self._begin_us = list(self.totals), self.at_us
