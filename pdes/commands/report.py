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
    from pdes.results.report import print_and_write

    print_and_write(arguments.directories, arguments.out)
    return 0
