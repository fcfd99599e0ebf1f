"""`pdes-sim report DIR ...`: a page that explains a run, or compares several, and the summary again."""

import argparse

from pdes.commands.parser import new_parser


def make_parser() -> argparse.ArgumentParser:
    """Its arguments."""
    text = "Explain a run in one HTML file, and print its summary; or compare several runs with the first one."
    parser = new_parser("pdes-sim report", text, report)
    parser.add_argument("directories", metavar="DIR", nargs="+", help="a result folder")
    text = "instead of report.html in the folder, or comparison.html here"
    parser.add_argument("--out", metavar="FILE.html", help=text)
    return parser


def report(arguments: argparse.Namespace) -> int:
    """Write it, and print. Raises SimError."""
    from pdes.cluster.report import is_cluster_folder
    from pdes.results.report import print_and_write

    if any(map(is_cluster_folder, arguments.directories)):
        from pdes.cluster import report
        from pdes.errors import ConfigError

        if len(arguments.directories) > 1:
            found = "several folders, and one is of a run with [cluster]"
            raise ConfigError("report", found, "Accepted: one at a time; `pdes-sim diff A B` compares two")
        report.print_and_write(arguments.directories[0], arguments.out)
        return 0
    print_and_write(arguments.directories, arguments.out)
    return 0
