"""`pdes-sim timeline DIR`: what GPUs did over time, as a trace for Perfetto and Chrome."""

import argparse

from pdes.commands.parser import new_parser


def make_parser() -> argparse.ArgumentParser:
    """Its arguments."""
    from pdes.results.timeline.parser import add_timeline

    text = "Write what GPUs did over time as a trace for https://ui.perfetto.dev."
    parser = new_parser("pdes-sim timeline", text, timeline)
    add_timeline(parser)
    return parser


def timeline(arguments: argparse.Namespace) -> int:
    """Write it. Raises SimError."""
    from pdes.results.timeline.parser import run_timeline

    run_timeline(arguments)
    return 0
