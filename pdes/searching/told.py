"""A search for people: the lines after it, and search.json."""

import math
from typing import Any

import numpy as np

from pdes.searching.climb import CLOSED, FLOW, PACKETS, Climbed, Step, first_least, step
from pdes.searching.found import UNITS, Found
from pdes.searching.load import Search
from pdes.searching.screen import Screened
from pdes.sweeps.load import label
from pdes.sweeps.metrics import TRAINING
from pdes.units import format_size

MOST_LINES, MOST_REASONS = 10, 6
LEVELS = ("closed", "flow", "packets")
TIME = TRAINING[0]


def facts(found: Found) -> dict[str, Any]:
    """search.json."""
    own, c, best = found.search.config, found.climbed, found.rows[found.climbed.best]
    return {
        "config": str(found.search.source),
        "objective": own.objective,
        "best": {
            "values": found.best(),
            "seconds": dict(zip(LEVELS, map(_plain, found.seconds(c.best)), strict=True)),
            "cost": float(c.packets[c.best]), "price": best.price, "power": best.power,
            "memory_bytes": best.memory_bytes, "tokens": best.tokens,
        },
        "tried": {
            "candidates": len(found.rows), "refused": dict(found.refused().most_common()),
            **{f"{name}_runs": len(runs) for name, runs in found.runs.items()},
            "failed": sum(bool(row.message) for runs in found.runs.values() for row in runs.values()),
            "runs_now": found.n_new,
        },
        "gap": c.gap,
        "may_be_better": c.n_may,
        "steps": {"closed_to_flow": _step(c.to_flow), "flow_to_packets": _step(c.to_packets)},
    }  # fmt: skip


def _step(step: Step) -> dict[str, Any]:
    return {
        "candidates": step.n, "ratio": {"least": step.least, "median": step.median, "most": step.most},
        "rank_correlation": _plain(step.rank_correlation), "winner_holds": step.holds,
    }  # fmt: skip


def _plain(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def lines(found: Found) -> list[str]:
    """After the search."""
    c, refused = found.climbed, found.refused()
    runs = {name: len(own) for name, own in found.runs.items()}
    n_refused = sum(refused.values())
    said = [
        f"{len(found.rows):,} candidates, {n_refused:,} refused; {runs['flow']:,} in flow mode, {runs['packets']:,} "
        f"with packets; {found.n_new:,} of these {sum(runs.values()):,} runs now"
    ]
    if refused:
        said.append("refused: " + ", ".join(f"{n:,} by {kind}" for kind, n in refused.most_common(MOST_REASONS)))
    said += ["", *_table(found), "", f"best: {found.label(c.best)}"]
    return [*said, *verdicts(found)]


def verdicts(found: Found) -> list[str]:
    """What the three fidelities say of each other, and of what was not tried."""
    c = found.climbed
    return [
        _told(c.to_flow, CLOSED, FLOW), _told(c.to_packets, FLOW, PACKETS),
        gap_text(found),
    ]  # fmt: skip


def _told(step: Step, lower: str, higher: str) -> str:
    ranks = "" if math.isnan(step.rank_correlation) else f", rank correlation {step.rank_correlation:.3f}"
    holds = "stays" if step.holds else "does not stay"
    ratio = f"{step.least:.4f} to {step.most:.4f}" if step.n > 1 else f"{step.least:.4f}"
    return f"{higher} over {lower}: {ratio} ({step.n:,} candidates){ranks}; the winner {holds} the winner"


def gap_text(found: Found) -> str:
    """The gap that is left."""
    c = found.climbed
    if not c.gap:
        return "gap: none: with the least ratios above, or 1, no candidate without packets would be better"
    return (
        f"gap: {100 * c.gap:.3g} %: with the least ratios above, or 1, {c.n_may:,} candidates without packets would be "
        "better, by so much at most"
    )


def table_rows(found: Found, most: int) -> tuple[list[str], list[list[str]]]:
    """(headings, rows) of the best candidates."""
    names, own = found.names, found.search.config
    costs = [name for name in ("price", "power") if getattr(own, name) is not None]
    cost = [] if own.objective == "iteration" else [UNITS[own.objective]]
    headings = [*names.values(), *LEVELS, *cost, "memory", *costs]
    rows, c = [], found.climbed
    for i in found.order()[:most]:
        row = found.rows[i]
        times = [TIME.show(value) for value in found.seconds(i)]
        level = next((own for own in (c.packets, c.flow) if math.isfinite(own[i])), c.closed)
        rows.append([
            *(label(row.values.get(key, "")) for key in names), *times, *([f"{level[i]:.5g}"] if cost else []),
            format_size(row.memory_bytes), *(f"{getattr(row, name):,.6g}" for name in costs),
        ])  # fmt: skip
    return headings, rows


def plan_lines(search: Search, rows: list[Screened]) -> list[str]:
    """What the closed form alone says."""
    cost = np.array([row.weight * row.closed_s for row in rows])
    none, nothing = np.full(len(rows), math.nan), step(cost, cost)
    climbed = Climbed(cost, none, none, first_least(cost), nothing, nothing, 0.0, 0.0, 0)
    found = Found(search, rows, climbed, {"flow": {}, "packets": {}}, 0)
    refused, n = found.refused(), len(rows)
    said = [f"{n:,} candidates, {sum(refused.values()):,} refused"]
    if refused:
        said.append("refused: " + ", ".join(f"{k:,} by {kind}" for kind, k in refused.most_common(MOST_REASONS)))
    return [*said, "", *_table(found)]


def _table(found: Found) -> list[str]:
    headings, rows = table_rows(found, MOST_LINES)
    rows = [headings, *rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    signs = ["<" if i < len(found.names) else ">" for i in range(len(headings))]
    text = [
        "  ".join(f"{cell:{sign}{width}}" for cell, sign, width in zip(row, signs, widths, strict=True)).rstrip()
        for row in rows
    ]
    left = len(found.order()) - MOST_LINES
    return [*text, *([f"... and {left:,} more"] if left > 0 else [])]
