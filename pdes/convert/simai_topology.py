"""SimAI's topologies: files of the ns-3 family with a longer head, which are read as they are."""

from pathlib import Path

from pdes.convert.toml_text import toml_text, write_whole
from pdes.convert.topology_text import reference
from pdes.errors import ConfigError


def convert(topology: Path, output: Path, workload: Path, form: str) -> list[str]:
    """Write a config for a topology and a workload."""
    if not topology.is_file():
        raise ConfigError(str(topology), "there is no such file", "a topology file")
    text = toml_text(
        "Made by `pdes-sim convert simai`.",
        {
            "topology": {"kind": "file", "file": reference(topology, output)},
            "workload": {"kind": "trace", "format": form, "file": reference(workload, output)},
        },
    )
    write_whole(output, text)
    return []
