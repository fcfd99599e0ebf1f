"""Warnings of rates that are written in bytes where bits are the custom: "400GB/s" of a link is 3.2 Tbps."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pdes.config.faults import place_of
from pdes.config.places import Path as KeyPath
from pdes.config.tables.network import LAW_TABLES
from pdes.units import QuantityError, bits_instead, format_rate, parse_rate_bps, shown

QUIET = frozenset(("nvlink", "nvlink_rate", "memory_bandwidth", "bandwidth"))
"""Keys whose values data sheets give in bytes per second: of NVLink, of memory, inside a server."""


def byte_rate_warnings(
    data: dict[str, Any], source: Path, overridden: set[tuple[str, ...]], lines: dict[KeyPath, int]
) -> list[str]:  # fmt: skip
    """A line for each of a config whose values are right. data: its tables as they were given."""
    suspects = [(path, text) for path, text in _texts(data, ()) if bits_instead(text) and path[-1] not in QUIET]
    if not suspects:
        return []
    from pdes.config.keys import all_keys

    rates = {key.path[-1] for key in all_keys() if key.unit == "a rate"}
    found = []
    for path, text in suspects:
        if path[-1] not in rates and not (path[0] == "network" and path[1] in (*LAW_TABLES, "parameters")):
            continue
        try:
            rate = format_rate(parse_rate_bps(text))
        except QuantityError:  # of a control's parameter, which is checked later
            continue
        where = place_of(source, path, overridden, lines)
        found.append(f"{where}: {shown(text)} is {rate}; write {bits_instead(text)} if bits were meant")
    return found


def _texts(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _texts(inner, (*path, key))
