"""What the studies share: options, a table as CSV and Markdown, figures that can be read in light and dark."""

import argparse
import csv
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pdes

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "gallery"
COLOURS = (
    "#2b83ba",
    "#d95f02",
    "#4daf4a",
    "#a86fc9",
    "#c99a06",
    "#8c8c8c",
    "#d17ab8",
)  # of middling lightness: for both schemes
INK, PAPER, GRID = "#010203", "#fdfcfb", "#c9c8c7"  # stand for colours that the scheme decides, see `SCHEMES`
SCHEMES = """<style>
svg { --ink: #1c1f24; --paper: #ffffff; --grid: #d9dce1 }
@media (prefers-color-scheme: dark) { svg { --ink: #dfe3ea; --paper: #1b1e26; --grid: #3b404b } }
</style>"""
Row = dict[str, Any]
"""Of a study's table: heading -> figure."""


@dataclass(frozen=True)
class Study:
    """One study as it was asked for. Its configs lie beside its program."""

    name: str
    is_quick: bool
    out: Path  # gets a result folder for each run, the table and the figures
    pages: Path | None  # gets the table and the figures, for the documentation

    def config(self, *overrides: str, file: str = "config.toml") -> pdes.Config:
        """A config of the study with `key=value`s as after --set."""
        return pdes.load_config(Path(__file__).parent / self.name / file, list(overrides))

    def simulate(self, label: str, *overrides: str, file: str = "config.toml") -> pdes.Result:
        """Run such a config; results go to a folder of this label."""
        return pdes.simulate(self.config(*overrides, file=file), self.out / label)

    def simulate_cluster(self, label: str, *overrides: str) -> Path:
        """Run such a config of jobs on a cluster; its result folder."""
        from pdes.cluster.run import run_cluster

        folder = self.out / label
        run_cluster(self._cluster(f"output.dir={json.dumps(str(folder))}", *overrides), is_quiet=True)
        return folder

    def outcome(self, *overrides: str) -> dict[str, Any]:
        """result.json of such a run, which leaves no folder."""
        from pdes.cluster.outcome import outcome

        return outcome(self._cluster(*overrides))

    def _cluster(self, *overrides: str) -> Any:
        from pdes.config.cluster.load import load_cluster

        return load_cluster(Path(__file__).parent / self.name / "config.toml", list(overrides))

    def tell(self, rows: Sequence[Row]) -> None:
        """Print the table as Markdown and keep it as CSV; the page of the study gets both."""
        print(markdown(rows))
        for folder in filter(None, (self.out, self.pages)):
            with (folder / f"{self.name}.csv").open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
        page = PAGES / f"{self.name}.md"
        if self.pages is not None and page.exists():
            text = re.sub(r"(?s)(<!-- table -->\n).*?(<!-- /table -->)", rf"\1{markdown(rows)}\n\2", page.read_text())
            page.write_text(text)

    def draw(self, suffix: str, panels: int, paint: Callable[[Any], None], height: float = 3.4) -> None:
        """Let `paint` draw on so many axes side by side, and write that as an SVG; without matplotlib, say so."""
        name = f"{self.name}-{suffix}.svg"
        try:
            import matplotlib
        except ImportError:
            print(f"no {name}: matplotlib is missing (pip install pdes-sim[plots])")
            return
        matplotlib.use("Agg")
        from matplotlib import pyplot

        with pyplot.rc_context(_style()):
            figure, axes = pyplot.subplots(1, panels, figsize=(8.2, height), layout="constrained", squeeze=False)
            paint(axes[0] if panels > 1 else axes[0][0])
            figure.savefig(self.out / name, metadata={"Date": None})
            pyplot.close(figure)
        text = (self.out / name).read_text(encoding="utf-8")
        for stands_for, variable in ((INK, "ink"), (PAPER, "paper"), (GRID, "grid")):
            text = text.replace(stands_for, f"var(--{variable})")
        text = re.sub(r"(<svg[^>]*>)", rf"\1\n{SCHEMES}", text, count=1)
        for folder in filter(None, (self.out, self.pages)):
            (folder / name).write_text(text, encoding="utf-8")


def study(name: str, what: str | None, arguments: Sequence[str] | None) -> Study:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=what, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smaller sweep, in seconds")
    parser.add_argument("--out", type=Path, help=f"folder for all that comes of it (default: results/studies/{name})")
    parser.add_argument("--publish", action="store_true", help="also bring table and figures into docs/gallery")
    asked = parser.parse_args(arguments)
    if asked.publish and asked.quick:
        parser.error("--publish is for the whole study: not with --quick")
    out = asked.out or Path("results") / "studies" / name
    out.mkdir(parents=True, exist_ok=True)
    return Study(name, asked.quick, out, PAGES if asked.publish else None)


def markdown(rows: Sequence[Row]) -> str:
    """A table of rows with the same headings."""
    lines = [" | ".join(rows[0]), " | ".join("---" for _ in rows[0])]
    lines += [" | ".join(str(value) for value in row.values()) for row in rows]
    return "\n".join(f"| {line} |" for line in lines)


def label_panel(axis: Any, title: str, x: str, y: str) -> None:
    """Title and labels of one panel; its y axis begins at 0 unless it is logarithmic."""
    axis.set_title(title)
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    if axis.get_yscale() == "linear":
        axis.set_ylim(0, 1.06 * axis.get_ylim()[1])


def legend_below(axis: Any) -> None:
    """One legend for all panels, of the curves of this one."""
    handles, labels = axis.get_legend_handles_labels()
    axis.figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 7), frameon=False)


def _style() -> Any:
    """Text stays text, ids and so bytes are the same every time, and colours of the scheme are left open."""
    ink = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    return {
        **dict.fromkeys(ink, INK),
        **{"figure.facecolor": PAPER, "axes.facecolor": PAPER, "savefig.facecolor": PAPER},
        **{"legend.facecolor": PAPER, "legend.edgecolor": GRID, "legend.framealpha": 0.8},
        **{"grid.color": GRID, "axes.grid": True, "axes.axisbelow": True, "axes.spines.top": False},
        **{"axes.spines.right": False, "font.size": 9, "axes.titlesize": 10, "legend.fontsize": 8},
        **{"svg.fonttype": "none", "svg.hashsalt": "pdes-sim", "lines.linewidth": 1.4, "lines.markersize": 4},
        "axes.prop_cycle": _cycle(),
    }


def _cycle() -> Any:
    from cycler import cycler

    return cycler(color=COLOURS)
