"""`pdes-sim report` of a result folder of the cluster level: a page with how full it was, who waited, what was lost."""

import json
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from pdes.cluster.figures import summary
from pdes.cluster.on_servers import Servers, gantt, heat_map, uplinks_map
from pdes.errors import ConfigError
from pdes.files import read_json
from pdes.results.folder import DERIVED_FILES, ResultFolder, is_complete
from pdes.results.opened import readable
from pdes.results.report.figures import Plot, distributions_plot, lines_plot
from pdes.results.report.page import page_html, write_page
from pdes.results.report.tables import Tile, plot_html, section, table_html, tiles_html
from pdes.units import US_PER_S, format_long_duration

MOST_ROWS, DAY_US, HOUR_US = 2000, 86400e6, 3600e6
CLASSES = ((1, 1), (2, 8), (9, 64), (65, 512), (513, 2**62))  # of jobs, by GPUs


def is_cluster_folder(folder: str | Path) -> bool:
    """Whether a run of the cluster level has left its results there."""
    try:
        if Path(folder).is_dir() and not is_complete(Path(folder)):
            ResultFolder(folder).finish_interrupted_commit()
        found = read_json(Path(folder) / "result.json")
    except ConfigError:  # said elsewhere
        return False
    return isinstance(found, dict) and found.get("level") == "cluster"


def print_and_write(directory: str, out: str | None) -> None:
    """The summary on stdout, and the page."""
    folder = Path(directory)
    with readable(folder):
        result, run = read_json(folder / "result.json"), read_json(folder / "run.json")
        print(summary(result, run["events"], run["wall_s"], directory))
        html = _page(folder, result, run)
    path = folder / DERIVED_FILES[0] if out is None else Path(out)
    write_page(path, html)
    print(f"report in {path}")


def _page(folder: Path, result: dict[str, Any], run: dict[str, Any]) -> str:
    import pyarrow.parquet as pq

    jobs = {name: column.to_numpy() for name, column in _columns(pq.read_table(folder / "jobs.parquet")).items()}
    usage = {name: column.to_numpy() for name, column in _columns(pq.read_table(folder / "usage.parquet")).items()}
    plots: dict[str, Plot] = {}
    sections = [
        section("headline", "Headline", tiles_html(_tiles(result))),
        _fullness(usage, result, plots),
        _on_servers(folder, result, plots),
        _jobs(jobs, plots),
        _losses(result),
        section("config", "Config", _folded(result["config"])),
    ]
    subtitle = f"{result['jobs']:,} jobs, {result['config']['cluster']['scheduler']}"
    footer = f"{run['events']:,} events in {run['wall_s']:.2f} s"
    return page_html(folder.resolve().name, subtitle, sections, plots, footer)


def _columns(table: Any) -> dict[str, Any]:
    numbers = [name for name in table.column_names if str(table.schema.field(name).type) == "int64"]
    return {name: table.column(name).fill_null(-1) for name in numbers}


def _tiles(result: dict[str, Any]) -> list[Tile]:
    tiles = [
        Tile("jobs done", f"{result['jobs_done']:,}", f"of {result['jobs']:,}"),
        Tile("simulated", _time(result["end_s"]), ""),
        Tile("GPUs held", f"{100 * result['held_share']:.1f} %", "of the time that they were up"),
        Tile("goodput", f"{100 * result['goodput']:.1f} %", "work that was kept"),
    ]
    if result["wait_s"]:
        tiles.append(Tile("mean wait", _time(result["wait_s"]["mean"]), f"p99 {_time(result['wait_s']['p99'])}"))
    return tiles


def _fullness(usage: dict[str, np.ndarray], result: dict[str, Any], plots: dict[str, Plot]) -> str:
    begin_us = usage["begin_us"]
    if not len(begin_us):
        return ""
    step = -(-len(begin_us) // MOST_ROWS)
    span_us = np.diff(np.append(begin_us, result["end_s"] * US_PER_S))
    starts = np.arange(0, len(begin_us), step)

    def mean(name: str) -> list[float]:
        values = np.add.reduceat(usage[f"{name}_us"], starts) / np.maximum(np.add.reduceat(span_us, starts), 1)
        return [float(f"{value:.5g}") for value in values]

    days = [float(f"{value:.5g}") for value in begin_us[starts] / DAY_US]
    gpus = {"up": mean("up_gpus"), "held by jobs": mean("held_gpus"), "asked for by waiting jobs": mean("waiting_gpus")}
    plots["gpus"] = lines_plot(days, gpus, "days")
    plots["jobs"] = lines_plot(days, {"running": mean("running_jobs"), "waiting": mean("waiting_jobs")}, "days")
    return section("fullness", "How full it was", plot_html("gpus", "GPUs"), plot_html("jobs", "Jobs"))


def _on_servers(folder: Path, result: dict[str, Any], plots: dict[str, Plot]) -> str:
    """ "" if the run has not kept which servers jobs had."""
    import pyarrow.parquet as pq

    path = folder / "places.parquet"
    if not path.exists():
        return ""
    places = {name: column.to_numpy() for name, column in _columns(pq.read_table(path)).items()}
    if not len(places["job_id"]):
        return ""
    names = pq.read_table(folder / "jobs.parquet", columns=["job"]).column("job").to_pylist()
    servers, end_us = Servers(result["config"]["cluster"]["pool"]), round(result["end_s"] * US_PER_S)
    plots["gantt"], which = gantt(places, names, servers, end_us)
    plots["servers"], how = heat_map(places, servers, end_us)
    figures = [plot_html("gantt", "Jobs on servers", which), plot_html("servers", "Use of servers", how)]
    of_racks = uplinks_map(places, servers, end_us)
    if of_racks is not None:
        plots["uplinks"], whose = of_racks
        figures.append(plot_html("uplinks", "Jobs on racks' uplinks", whose))
    return section("servers", "Where jobs were", *figures)


def _jobs(jobs: dict[str, np.ndarray], plots: dict[str, Plot]) -> str:
    done = jobs["end_us"] >= 0
    rows, series = [], []
    for least, most in CLASSES:
        own = done & (jobs["gpus"] >= least) & (jobs["gpus"] <= most)
        if not own.any():
            continue
        name = f"{least}" if least == most else f"{least} to {most}" if most < 2**62 else f"{least} and more"
        wait, whole = jobs["waited_us"][own], (jobs["end_us"] - jobs["submit_us"])[own]
        slowdown = float((whole / np.maximum(jobs["work_us"][own], 1)).mean())
        figures = wait.mean(), np.percentile(wait, 99), whole.mean()
        times = [format_long_duration(float(value)) for value in figures]
        rows.append((f"{name} GPUs", f"{own.sum():,}", *times, f"{slowdown:.3g}"))
        series.append((f"{name} GPUs", np.maximum(wait / HOUR_US, 0.01)))
    if not rows:
        return ""
    plot = distributions_plot(series, "wait, hours (0.01: less than that)")
    plot["layout"]["yaxis"]["title"]["text"] = "share of jobs"
    plots["waits"] = plot
    headings = ("size", "jobs", "mean wait", "p99 wait", "mean completion", "mean slowdown")
    return section("jobs", "Who waited", table_html(headings, rows), plot_html("waits", "Waits by size"))


def _losses(result: dict[str, Any]) -> str:
    hours = result["gpu_hours"]
    whole = max(hours["up"], hours["held"], 1e-9)
    parts = {
        "productive": hours["productive"], "lost to failures": hours["lost"],
        "start-up and checkpoints": hours["overhead"], "idle": whole - hours["held"],
    }  # fmt: skip
    rows = [(name, f"{value:,.0f}", f"{100 * value / whole:.2f} %") for name, value in parts.items()]
    found = [table_html(("GPU time", "GPU-hours", "share"), rows)]
    causes = sorted(hours["lost_by_component"].items(), key=lambda pair: -pair[1])
    down = hours["down_by_component"]
    if result["failures"] or down:
        lost = dict(causes)
        names = sorted(result["failures"], key=lambda name: -lost.get(name, 0.0))
        names += [name for name in hours["down_by_component"] if name not in names]  # what is planned
        rows = [
            (name, f"{result['failures'].get(name, 0):,}", f"{lost.get(name, 0.0):,.0f}", f"{down.get(name, 0.0):,.0f}")
            for name in names
        ]
        found.append(table_html(("component", "failures", "GPU-hours lost by jobs", "GPU-hours down"), rows))
    return section("losses", "Where GPU time went", *found)


def _folded(config: dict[str, Any]) -> str:
    text = json.dumps(config, indent=1, sort_keys=True, ensure_ascii=False)
    return f"<details><summary>All keys, as they were used</summary><pre>{escape(text)}</pre></details>"


def _time(seconds: float) -> str:
    return format_long_duration(seconds * US_PER_S)
