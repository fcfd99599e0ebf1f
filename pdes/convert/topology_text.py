"""A topology file of the ns-3 family, written from links."""

import os
from collections.abc import Sequence
from pathlib import Path

from pdes.convert.toml_text import Tables, toml_text, write_whole
from pdes.errors import ConfigError
from pdes.files import read_text as read_file
from pdes.files import why_unreadable
from pdes.units import exact_duration, exact_rate

Link = tuple[int, int, int, int]
"""(node, node, rate_bps, delay_ps)."""


def topology_text(n_node: int, switches: Sequence[int], links: Sequence[Link]) -> str:
    """The text of a topology.txt; nodes that are no switches are hosts."""
    lines = [f"{n_node} {len(switches)} {len(links)}", " ".join(map(str, switches))]
    lines += [f"{a} {b} {exact_rate(rate_bps)} {exact_duration(delay_ps)} 0" for a, b, rate_bps, delay_ps in links]
    return "\n".join(lines) + "\n"


def write_case(output: Path, head: str, topology: str, tables: Tables) -> None:
    """Write a topology file beside a config, and the config, which names it."""
    beside = output.with_name(f"{output.stem}.topology.txt")
    write_whole(beside, topology)
    kept = tables.pop("topology", {})
    assert isinstance(kept, dict)
    write_whole(output, toml_text(head, {"topology": {"kind": "file", "file": beside.name, **kept}, **tables}))


def reference(path: Path, output: Path) -> str:
    """`path` as the config at `output` names it."""
    return Path(os.path.relpath(path.resolve(), output.resolve().parent)).as_posix()


def read_text(path: Path, what: str) -> list[tuple[int, str]]:
    """Lines with text, without what stands behind #, and their numbers. ConfigError: the file cannot be read."""
    try:
        text = read_file(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), f"cannot be read: {why_unreadable(error)}", what) from error
    lines = ((number, line.partition("#")[0].strip()) for number, line in enumerate(text.splitlines(), 1))
    return [(number, line) for number, line in lines if line]
