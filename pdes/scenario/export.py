"""`pdes-sim export`: our workload, or the flows of a run, in another tool's format."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdes.errors import ConfigError

if TYPE_CHECKING:
    from pdes.config import Config


def run_export(arguments: argparse.Namespace) -> list[Path]:
    """Export; the files written. Raises ConfigError."""
    output = Path(arguments.output)
    if arguments.format == "fct":
        from pdes.results.ns3_fct import write_fct

        return [write_fct(Path(arguments.input), output)]
    from models.workload.exporters.chakra_export import write_chakra
    from models.workload.exporters.goal_export import write_goal
    from pdes.config import load_config
    from pdes.scenario.inputs import build_workload
    from pdes.scenario.topology import build_topology

    config = load_config(arguments.input, arguments.overrides)
    for text in config.warnings:
        print(f"pdes-sim: warning: {text}", file=sys.stderr)
    if arguments.format == "kernels":
        return [_write_kernels(config, output)]
    plan = build_workload(config, build_topology(config))
    writers: dict[str, Callable[..., list[Path]]] = {"chakra": write_chakra, "goal": write_goal}
    return writers[arguments.format](plan, output)


def _write_kernels(config: "Config", output: Path) -> Path:
    """The kernels of a training job, with their times on its GPU type."""
    from models.workload.compiler.kernels import write_kernels
    from pdes.scenario.devices import training_devices
    from pdes.scenario.topology import build_topology
    from pdes.scenario.training import checked_job

    w: Any = config.workload
    gpu = w.compute.gpu if w.kind == "training" else None
    if gpu is None:
        accepted = 'Accepted: a config of kind "training" with [workload.compute] gpu'
        raise ConfigError(str(config.source), "has no kernels", accepted)
    write_kernels(checked_job(config, build_topology(config)), training_devices(config)[gpu], output)
    return output
