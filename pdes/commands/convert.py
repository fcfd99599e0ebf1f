"""`pdes-sim convert FORMAT INPUT -o config.toml`: a config of another tool's input."""

import argparse
import sys

from pdes.commands.parser import new_parser


def make_parser() -> argparse.ArgumentParser:
    """Its arguments."""
    from pdes.convert.parser import add_convert

    parser = new_parser("pdes-sim convert", "Make a config of another tool's input.", convert)
    add_convert(parser)
    return parser


def convert(arguments: argparse.Namespace) -> int:
    """Write it, and print warnings, or the audit of a cluster's trace. Raises SimError."""
    from pdes.convert.parser import run_convert
    from pdes.scenario.conversion import check_inputs, checked_outputs

    check_inputs(arguments)
    head = "pdes-sim: " if arguments.format == "cluster" else "pdes-sim: warning: "
    with checked_outputs(arguments):
        said = run_convert(arguments)
    for line in said:
        print(f"{head}{line}", file=sys.stderr)
    return 0
