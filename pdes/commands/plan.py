"""`pdes-sim plan config.toml`: what a run would be."""

import argparse

from pdes.commands.parser import add_config, load, new_parser


def make_parser() -> argparse.ArgumentParser:
    """Its arguments."""
    parser = new_parser("pdes-sim plan", "Print what a run would be, and run nothing.", plan)
    add_config(parser)
    return parser


def plan(arguments: argparse.Namespace) -> int:
    """Print it. Raises SimError."""
    config = load(arguments)
    from pdes import simulation

    simulation.plan(config)
    return 0
