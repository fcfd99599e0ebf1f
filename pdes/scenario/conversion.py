"""What `pdes-sim convert` only refers to is read before the config is written: what cannot run is not converted."""

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from models.topology.ns3_file import read_ns3_next_hops, read_ns3_topology
from models.workload.importers.formats import ASTRA_TEXT, PROFILE, SIMAI, TraceSource, read_trace
from models.workload.importers.layer_table import read_layer_table
from models.workload.importers.system_file import read_system
from models.workload.traffic.flows import read_ns3_flows, to_hosts
from pdes.config import load_config
from pdes.convert.ns3 import INPUT_FILES
from pdes.convert.parser import LAUNCHES, PROFILES, USUAL_FORMAT
from pdes.errors import ConfigError


def check_inputs(arguments: argparse.Namespace) -> None:
    """Read the topology, flows and traces as a run would. ConfigError names file, line, what was found and accepted.

    Files that are missing are left to the converter, which says which ones it wants.
    """
    source = Path(arguments.input)
    if arguments.format == "ns3":
        if all((source / name).is_file() for name in INPUT_FILES):
            _check_ns3(source, arguments.compatibility != "none")
        return
    if arguments.format not in USUAL_FORMAT or not source.is_file() or arguments.workload is None:
        return
    if arguments.format == "simai":
        read_ns3_topology(source)
    if arguments.system is not None:
        read_system(Path(arguments.system), ())
    form, workload = arguments.workload_format or USUAL_FORMAT[arguments.format], Path(arguments.workload)
    if form in (SIMAI, ASTRA_TEXT):
        read_layer_table(workload)
        return
    groups = Path(arguments.communicators) if arguments.communicators else None
    read_trace(TraceSource(form, workload, groups, tolerant=True), 0)


def _check_ns3(case: Path, is_ns3: bool) -> None:
    topology = read_ns3_topology(case / "topology.txt", is_ns3=is_ns3)
    flows = case / "flow.txt"
    to_hosts(read_ns3_flows(flows, is_ns3), topology.host, str(flows))
    if (case / "nexthops.txt").is_file():
        read_ns3_next_hops(case / "nexthops.txt")


@contextmanager
def checked_outputs(arguments: argparse.Namespace) -> Iterator[None]:
    """What is made of profiles and launch scripts takes its place once it could be run, else what was there stays.

    ConfigError: it could not be, or be written.
    """
    output = Path(arguments.output)
    if arguments.format not in (*PROFILES, *LAUNCHES) or output.is_dir() or not output.absolute().parent.is_dir():
        yield
        return
    try:
        with _folder_beside(output) as folder:
            arguments.output = str(folder / output.name)
            yield
            _check_made(arguments)
            for made in sorted(folder.iterdir(), key=lambda path: path.name == output.name):  # the config last
                made.replace(output.parent / made.name)
    except ConfigError as error:
        where = error.where.replace(arguments.output, str(output))
        raise ConfigError(where, error.found, error.accepted) from error
    finally:
        arguments.output = str(output)


@contextmanager
def _folder_beside(output: Path) -> Iterator[Path]:
    """A folder that goes. ConfigError: none can be made there."""
    try:
        folder = tempfile.TemporaryDirectory(prefix=f".{output.name}.", dir=output.parent)
    except OSError as error:
        accepted = "Accepted: a file name in a folder that can be written"
        raise ConfigError(str(output), f"cannot be written: {error.strerror}", accepted) from error
    with folder as name:
        yield Path(name)


def _check_made(arguments: argparse.Namespace) -> None:
    """Read it as a run would."""
    config = load_config(arguments.output)
    if arguments.format in PROFILES:
        read_trace(TraceSource(PROFILE, config.input_path(config.workload.file)), 0)  # pyright: ignore[reportAttributeAccessIssue]
