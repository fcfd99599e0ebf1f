"""Figures of the benches, with matplotlib; without it (`pip install pdes-sim[plots]`) none, and a line that says so."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Curve = tuple[Any, Any]
"""(x, y) of equal length."""
COLOURS = ("#0b6e99", "#c8553d", "#5b8c5a", "#7d5ba6", "#b8860b", "#555555", "#d17ab8", "#2f4858")


def find_pyplot() -> Any | None:
    """matplotlib's pyplot, drawing into files; None: it is missing."""
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def draw(
    path: Path,
    title: str,
    panels: Mapping[str, Mapping[str, Curve]],
    x_label: str,
    y_label: str,
    x_ticks: Sequence[str] | None = None,
    log_y: bool = False,
    points: Sequence[str] = (),
    log_x: bool = False,
) -> bool:
    """Draw a row of panels (title -> label -> curve) into a PNG or SVG, as `path` ends; False: matplotlib is missing.

    x_ticks: names of x = 0, 1, 2, ...; curves are then drawn with a mark at each. points: labels without a line.
    """
    pyplot = find_pyplot()
    if pyplot is None:
        print(f"no {path.name}: matplotlib is missing (pip install pdes-sim[plots])")
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    pyplot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "pdes-sim"})  # the same bytes every time
    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(1 + 4.2 * len(panels), 3.6), sharey=True, squeeze=False, layout="constrained"
    )
    for axis, (name, curves) in zip(axes[0], panels.items(), strict=True):
        for (label, (x, y)), colour in zip(curves.items(), _colours(len(curves)), strict=True):
            is_points = label in points
            marker, width = "o" if x_ticks or is_points else "", 0 if is_points else 1.4
            axis.plot(x, y, label=label, color=colour, linewidth=width, marker=marker, markersize=3)
        axis.set_title(name, fontsize=10)
        axis.set_xlabel(x_label)
        axis.grid(True, alpha=0.3)
        if x_ticks is not None:
            axis.set_xticks(range(len(x_ticks)), x_ticks, rotation=45, fontsize=8)
        if log_y:
            axis.set_yscale("log")
        if log_x:
            axis.set_xscale("log")
    axes[0][0].set_ylabel(y_label)
    axes[0][0].legend(fontsize=8)
    figure.suptitle(title, fontsize=11)
    figure.savefig(path, dpi=130, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)
    print(f"drawn: {path}")
    return True


def _colours(n: int) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in np.arange(n)]
