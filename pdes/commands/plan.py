"""`pdes-sim plan config.toml`: what a run would be."""

import argparse

from pdes.commands.parser import add_config, load, new_parser


def make_parser() -> argparse.ArgumentParser:
    """Its arguments."""
    from pdes.plan_options import add_arguments

    text = "Print what a run would be; with --ranks, on how many ranks how long."
    parser = new_parser("pdes-sim plan", text, plan)
    add_config(parser)
    add_arguments(parser)
    return parser


def plan(arguments: argparse.Namespace) -> int:
    """Print it. Raises SimError."""
    from pdes.config.cluster.load import is_cluster_config, load_cluster

    if is_cluster_config(arguments.config):
        from pdes.cluster.plan import plan_cluster

        print(plan_cluster(load_cluster(arguments.config, arguments.overrides)))
        return 0
    from pdes.plan_options import asked

    wanted, config = asked(arguments), load(arguments)
    from pdes import simulation

    simulation.plan(config, wanted)
    return 0
