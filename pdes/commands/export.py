"""`pdes-sim export FORMAT INPUT -o OUTPUT`: a workload, or flows, in another tool's format."""

import argparse

from pdes.commands.parser import new_parser


def make_parser() -> argparse.ArgumentParser:
    """Its arguments."""
    from pdes.convert.parser import add_export

    parser = new_parser("pdes-sim export", "Write a workload, or flows, in another tool's format.", export)
    add_export(parser)
    return parser


def export(arguments: argparse.Namespace) -> int:
    """Write it, and print the names of the files. Raises SimError."""
    from pdes.scenario.export import run_export

    for path in run_export(arguments):
        print(path)
    return 0
