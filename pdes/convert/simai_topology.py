"""SimAI's topologies: files of the ns-3 family with a longer head, which are read as they are."""

from pathlib import Path

from models.topology.ns3_file import read_ns3_topology
from pdes.convert.toml_text import toml_text, write_whole
from pdes.convert.topology_text import reference


def convert(topology: Path, output: Path, workload: Path, form: str) -> list[str]:
    """Write a config for a topology and a workload."""
    read_ns3_topology(topology)  # so that what is wrong with it is said now
    text = toml_text(
        "Made by `pdes-sim convert simai`.",
        {
            "topology": {"kind": "file", "file": reference(topology, output)},
            "workload": {"kind": "trace", "format": form, "file": reference(workload, output)},
        },
    )
    write_whole(output, text)
    return []
