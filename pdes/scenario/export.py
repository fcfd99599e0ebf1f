"""`pdes-sim export`: our workload, or the flows of a run, in another tool's format."""

import argparse
from collections.abc import Callable
from pathlib import Path


def run_export(arguments: argparse.Namespace) -> list[Path]:
    """Export; the files written. Raises ConfigError."""
    output = Path(arguments.output)
    if arguments.format == "fct":
        from pdes.results.ns3_fct import write_fct

        return [write_fct(Path(arguments.input), output)]
    from models.workload.exporters.chakra_export import write_chakra
    from models.workload.exporters.goal_export import write_goal
    from pdes.config import load_config
    from pdes.scenario.inputs import build_topology, build_workload

    config = load_config(arguments.input, arguments.overrides)
    plan = build_workload(config, build_topology(config))
    writers: dict[str, Callable[..., list[Path]]] = {"chakra": write_chakra, "goal": write_goal}
    return writers[arguments.format](plan, output)
