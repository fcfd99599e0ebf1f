"""The report's section on several jobs: when they ran, their iterations, and the ports that they shared."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pdes.results.jobs import HEADINGS, job_rows, placements, read_alone
from pdes.results.report import figures
from pdes.results.report.figures import Plot
from pdes.results.report.tables import paragraph, plot_html, section, table_html
from pdes.units import format_size

MOST_JOBS, MOST_SERIES = 200, 8


def jobs_section(result: Mapping[str, Any], folder: Path, plots: dict[str, Plot]) -> str:
    """ "" for a run of one workload."""
    jobs: Sequence[Mapping[str, Any]] = result.get("jobs") or []
    alone, n_heading = read_alone(folder), len(HEADINGS)
    n_heading -= not alone
    rows = [row[:n_heading] for row in job_rows(jobs[:MOST_JOBS], alone)]
    parts = [table_html(HEADINGS[:n_heading], rows)] if rows else []
    if len(jobs) > MOST_JOBS:
        parts.append(paragraph(f"The first {MOST_JOBS} of {len(jobs):,} jobs.", "note"))
    if jobs and not alone:
        parts.append(paragraph("With --alone each job is also run by itself, and its slowdown is known.", "note"))
    parts += [paragraph(text, "note") for text in placements(jobs[:MOST_JOBS])]
    series = [(job["name"], job["iteration_time_ps"], len(job["iteration_time_ps"])) for job in jobs]
    series = [one for one in series if len(one[1]) > 1][:MOST_SERIES]
    if series:
        plots["job-iterations"] = figures.iterations_plot(series)
        parts.append(plot_html("job-iterations", "Iteration times by job"))
    shared = [
        (job["name"], port["port"], *_shares(job["name"], port["bytes"]))
        for job in jobs[:MOST_JOBS]
        for port in job["most_shared"]
    ]
    if shared:
        caption = "Ports where most is sent by other jobs, five of each job, by the ways of its queue pairs"
        parts.append(table_html(("job", "port", "its payload", "others' payload"), shared, 2, caption))
    return section("jobs", "Jobs", *parts)


def _shares(name: str, sent: Mapping[str, int]) -> tuple[str, str]:
    """(what a job sends over a port, what the others do)."""
    own = sent.get(name, 0)
    return format_size(own), format_size(sum(sent.values()) - own)
