"""The span of a run in which something happened: busy and paused times are shares of it."""

from collections.abc import Mapping
from typing import Any

from pdes.results.fast_forward import simulated_ps
from pdes.units import format_duration

SAID_FROM = 0.99  # share of the simulated time up to which a shorter span is worth a line


def active_span(result: Mapping[str, Any]) -> tuple[int, int]:
    """First start and last delivery, ps; of results that do not say so all that was simulated."""
    begin_ps, end_ps = result.get("active_ps") or (0, simulated_ps(result))
    return int(begin_ps), int(end_ps)


def active_time_ps(result: Mapping[str, Any]) -> int:
    """How long that is, at least 1."""
    begin_ps, end_ps = active_span(result)
    return max(end_ps - begin_ps, 1)


def active_text(result: Mapping[str, Any]) -> str:
    """What shares of time are shares of, "" if it is (nearly) all that was simulated."""
    if active_time_ps(result) >= SAID_FROM * simulated_ps(result):
        return ""
    begin_ps, end_ps = active_span(result)
    span = f"{format_duration(end_ps - begin_ps, 4)} from the first start, at {format_duration(begin_ps, 4)},"
    return f"Shares of ports are of the {span} to the last delivery"
