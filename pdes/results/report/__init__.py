"""`pdes-sim report`: one HTML file that explains a run, or compares several. It reads results and makes none up."""

from collections.abc import Sequence
from pathlib import Path

from pdes.errors import ConfigError
from pdes.results.folder import DERIVED_FILES
from pdes.results.opened import Results, open_results, readable
from pdes.results.report.compare import comparison_sections, print_differences, run_names
from pdes.results.report.jobs import jobs_section
from pdes.results.report.page import page_html, write_page
from pdes.results.report.sections import (
    Facts,
    Plots,
    config_section,
    fast_forward_section,
    flows_section,
    headline_section,
    network_section,
    run_section,
    time_section,
)

FILE_NAME = DERIVED_FILES[0]
COMPARISON_NAME = "comparison.html"
MOST_RUNS = 16

__all__ = ["COMPARISON_NAME", "FILE_NAME", "write_comparison", "write_report"]


def write_report(directory: str | Path, out: str | Path | None = None) -> Path:
    """Write the report of a result folder; its path: by default report.html in the folder. Raises ConfigError."""
    results = open_results(directory)
    plots: Plots = {}
    with readable(results.folder):
        facts = Facts(results)
        sections = [
            headline_section(facts),
            jobs_section(facts.result, facts.folder, plots),
            time_section(facts, plots),
            flows_section(facts, plots),
            network_section(facts, plots),
            fast_forward_section(facts, plots),
            run_section(facts, plots),
            config_section(facts),
        ]
        html = page_html(results.folder.resolve().name, _subtitle(results), sections, plots, _footer(results))
    path = results.folder / FILE_NAME if out is None else Path(out)
    write_page(path, html)
    return path


def print_and_write(directories: Sequence[str], out: str | None = None) -> None:
    """What `pdes-sim report` does: the summary of one run, or the differences of several, and the file."""
    from pdes.results.summary import print_report

    if len(directories) == 1:
        print_report(directories[0])
        path = write_report(directories[0], out)
    else:
        path = write_comparison(directories, out, is_printed=True)
    print(f"report in {path}")


def write_comparison(
    directories: Sequence[str | Path], out: str | Path | None = None, is_printed: bool = False
) -> Path:
    """Write a comparison of result folders, the first one is what others are compared with. Raises ConfigError.

    is_printed: its table of differences as well, on stdout.
    """
    if len(directories) > MOST_RUNS:
        raise ConfigError("report", f"{len(directories)} folders", f"Accepted: at most {MOST_RUNS} at a time")
    facts = []
    for directory in directories:
        results = open_results(directory)
        with readable(results.folder):
            facts.append(Facts(results))
    plots: Plots = {}
    with readable(", ".join(map(str, directories))):
        sections = comparison_sections(facts, plots)
        title = " / ".join(run_names(facts))
        html = page_html(title, f"{len(facts)} runs compared", sections, plots, _footer(facts[0].results))
        if is_printed:
            print_differences(facts)
    path = Path(COMPARISON_NAME if out is None else out)
    write_page(path, html)
    return path


def _subtitle(results: Results) -> str:
    result = results.result
    parts = [result.get("topology", ""), result.get("workload", {}).get("kind", "")]
    parts += [result.get("workload", {}).get("layout", "")]
    parts.append(result["config"].get("network", {}).get("congestion_control", ""))
    return " · ".join(str(part) for part in parts if part)


def _footer(results: Results) -> str:
    version = results.run.get("versions", {}).get("pdes-sim", "")
    return f"pdes-sim {version if version[:1].isdigit() else ''}".strip()
