"""What `pdes-sim convert` only refers to is read before the config is written: what cannot run is not converted."""

import argparse
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


def check_outputs(arguments: argparse.Namespace) -> None:
    """Read what was made of profiles and launch scripts as a run would. ConfigError: it cannot; no config is left."""
    output = Path(arguments.output)
    try:
        if arguments.format in (*PROFILES, *LAUNCHES):
            load_config(output)
        if arguments.format in PROFILES:
            read_trace(TraceSource(PROFILE, output.with_name(f"{output.stem}.profile.json")), 0)
    except ConfigError:
        output.unlink(missing_ok=True)
        raise
