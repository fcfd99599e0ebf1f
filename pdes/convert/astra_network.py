"""ASTRA-sim's network file: `topology`, `npus_count`, `bandwidth` and `latency`, a list with an entry per dimension.

Bandwidths "in GB/s" are GiB/s, latencies ns, as ASTRA-sim computes. NPUs are numbered with the first dimension
innermost. On a Switch each NPU has a link to one; Ring and FullyConnected are links between NPUs. As hosts do not
forward here, an NPU with other links than one to a switch has a router of its own, behind a link of no delay and of the
rate of all its others. ASTRA-sim counts no headers: packets have headers and acknowledgements of 1 B.
"""

import re
from pathlib import Path
from typing import NamedTuple

from pdes.convert.toml_text import Tables
from pdes.convert.topology_text import Link, read_text, reference, topology_text, write_case
from pdes.errors import ConfigError
from pdes.units import PS_PER_NS

BITS_PER_GIB = 8 * 2**30
KINDS = ("Ring", "Switch", "FullyConnected")
KEYS = ("topology", "npus_count", "bandwidth", "latency")
MAX_NPUS, MAX_LINKS, MAX_RATE_BPS = 2**20, 2**24, 2**63 - 1
NETWORK: dict[str, object] = {
    "congestion_control": "none", "ecn": False, "payload": "4096B", "header": "1B", "ack": "1B",
}  # fmt: skip


class Dimension(NamedTuple):
    """One dimension of the network."""

    kind: str
    n_npu: int
    rate_bps: int
    delay_ps: int


def read_network(path: Path) -> list[Dimension]:
    """The dimensions of a network file. ConfigError names the line."""
    found: dict[str, tuple[int, list[str]]] = {}
    for number, line in read_text(path, "an ASTRA-sim network file"):
        match = re.fullmatch(r"([\w-]+)\s*:\s*\[(.*)\]", line)
        if match is None or match[1] not in KEYS:
            raise ConfigError(f"{path}, line {number}", f"found {line[:60]!r}", f"{', '.join(KEYS)}: [...]")
        found[match[1]] = number, [word.strip().strip("'\"") for word in match[2].split(",") if word.strip()]
    missing = [key for key in KEYS if key not in found]
    lengths = {len(words) for _, words in found.values()}
    if missing or lengths == {0} or len(lengths) != 1:
        what = f"no {missing[0]}" if missing else f"lists of {sorted(lengths)} entries"
        raise ConfigError(str(path), what, f"{', '.join(KEYS)}, an entry per dimension each")
    columns = [[(found[key][0], word) for word in found[key][1]] for key in KEYS]
    return [_dimension(path, *entries) for entries in zip(*columns, strict=True)]


def _dimension(path: Path, kind: tuple, npus: tuple, bandwidth: tuple, latency: tuple) -> Dimension:
    if kind[1] not in KINDS:
        raise ConfigError(f"{path}, line {kind[0]}", f"found {kind[1]!r}", ", ".join(KINDS))
    n_npu, gib, ns = (_number(path, *entry) for entry in (npus, bandwidth, latency))
    if n_npu != int(n_npu) or not 1 <= n_npu <= MAX_NPUS or gib <= 0:
        found = f"{npus[1]} NPUs at {bandwidth[1]} GB/s"
        raise ConfigError(f"{path}, line {npus[0]}", found, "a whole number of NPUs, a rate above 0")
    return Dimension(kind[1], int(n_npu), round(gib * BITS_PER_GIB), round(ns * PS_PER_NS))


def _number(path: Path, number: int, word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = -1.0
    if not 0 <= value < 10**9:
        raise ConfigError(f"{path}, line {number}", f"found {word!r}", "a number from 0 on")
    return value


def network_links(dimensions: list[Dimension]) -> tuple[int, list[int], list[Link]]:
    """(nodes, switches, links): NPUs first, then routers, then the dimensions' switches."""
    n_npu = 1
    for d in dimensions:
        n_npu *= d.n_npu
    if n_npu > MAX_NPUS:
        raise ConfigError("the network", f"{n_npu} NPUs", f"at most {MAX_NPUS}")
    has_router = len(dimensions) > 1 or dimensions[0].kind != "Switch"
    n_node = 2 * n_npu if has_router else n_npu
    port_bps = sum(d.rate_bps * {"Switch": 1, "Ring": 2}.get(d.kind, d.n_npu - 1) for d in dimensions)
    n_link = sum(n_npu * (d.n_npu - 1 if d.kind == "FullyConnected" else 1) for d in dimensions)
    if n_link > MAX_LINKS or port_bps > MAX_RATE_BPS:
        found = f"{n_link} links, {port_bps} bit/s of an NPU"
        raise ConfigError("the network", found, f"at most {MAX_LINKS} links, {MAX_RATE_BPS} bit/s")
    links: list[Link] = [(i, n_npu + i, max(port_bps, 1), 0) for i in range(n_npu)] if has_router else []
    first, stride = n_npu if has_router else 0, 1
    for d in dimensions:
        for start in (i for i in range(n_npu) if i // stride % d.n_npu == 0):
            group = [first + start + k * stride for k in range(d.n_npu)]
            if d.kind == "Switch":
                links += [(node, n_node, d.rate_bps, d.delay_ps) for node in group]
                n_node += 1
            elif d.kind == "Ring" and d.n_npu > 1:
                pairs = zip(group, group[1:] + group[:1] if d.n_npu > 2 else group[1:], strict=False)
                links += [(a, b, d.rate_bps, d.delay_ps) for a, b in pairs]
            elif d.kind == "FullyConnected":
                links += [(a, b, d.rate_bps, d.delay_ps) for i, a in enumerate(group) for b in group[i + 1 :]]
        stride *= d.n_npu
    return n_node, list(range(n_npu, n_node)), links


def convert(
    network: Path,
    output: Path,
    workload: Path,
    form: str,
    communicators: Path | None = None,
    system: Path | None = None,
) -> list[str]:
    """Write a config, and its topology, for a network file and a workload; warnings for people."""
    dimensions = read_network(network)
    table: dict[str, object] = {"kind": "trace", "format": form, "file": reference(workload, output)}
    if communicators is not None:
        table["communicators"] = reference(communicators, output)
    if system is not None:
        table["system"] = reference(system, output)
    if len(dimensions) > 1:
        table["dimensions"] = [d.n_npu for d in dimensions]
    tables: Tables = {"workload": table, "network": dict(NETWORK)}
    head = f"Made by `pdes-sim convert astra-sim`. Bandwidths of {network.name} are taken for GiB/s."
    write_case(output, head, topology_text(*network_links(dimensions)), tables)
    return []
