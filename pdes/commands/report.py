"""`pdes-sim report DIR`: the summary of a result folder again."""

import argparse
import os

from pdes.commands.parser import new_parser
from pdes.errors import ConfigError


def make_parser() -> argparse.ArgumentParser:
    """Its arguments."""
    parser = new_parser("pdes-sim report", "Print the summary of a result folder.", report)
    parser.add_argument("directory", metavar="DIR", help="a result folder")
    return parser


def report(arguments: argparse.Namespace) -> int:
    """Print it. Raises SimError."""
    if not os.path.isdir(arguments.directory):
        raise ConfigError(arguments.directory, "is not a folder", "Accepted: a result folder, as --out names it")
    from pdes.results.summary import print_report

    print_report(arguments.directory)
    return 0
