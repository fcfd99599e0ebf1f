"""Readers of the topology and routing files of the ns-3 RoCE family (HPCC, ConWeave, ASTRA-sim, SimAI).

`topology.txt`: "nodes switches links", the switch ids, then one line "a b rate delay error_rate" per link. SimAI's
header is "nodes gpus_per_server nv_switches switches links gpu_type", its first nv_switches ids are NVSwitches. Node
ids are kept: ECMP hashes them. As in ns-3, what follows the promised links is not read; HPCC's own file has such text.
"""

from collections.abc import Callable
from pathlib import Path

from models.topology.graph import Link, LinkKind, Topology, make_topology
from models.topology.ns3_time import ns3_delay_ps, ns3_rate_bps
from pdes.errors import ConfigError
from pdes.files import read_text
from pdes.units import (
    QuantityError,
    bits_instead,
    format_rate,
    parse_duration_ps,
    parse_rate_bps,
    shown,
    whole_number,
)

MAX_NODES = 10**7  # a guard against a misread header, not a limit of the simulator
LINK_WORDS = "a link is 'node node rate delay error_rate', such as '0 128 100Gbps 0.001ms 0'"

Line = tuple[int, list[str]]
"""A line with text: its number, from 1, and its words."""


def read_ns3_topology(
    path: str | Path, gpus_per_server: int = 1, is_ns3: bool = False, warn: Callable[[str], None] | None = None,
    nvlink: LinkKind | None = None,
) -> Topology:  # fmt: skip
    """Read a topology file; host x (by ascending id) belongs to server x // gpus_per_server.

    SimAI's header brings its own gpus_per_server. A link's error rate becomes its random loss. is_ns3: rates and delays
    are cut off as ns-3 does, to whole bit/s and ns; else they are exact. warn: is told of rates that are written in
    bytes where bits are the custom. nvlink: gives each server an NVSwitch, whose ids follow the file's. Raises
    ConfigError with the file and the line.
    """
    path = Path(path)
    lines = read_lines(path)
    if not lines:
        raise ConfigError(str(path), "an empty file", "Accepted: 'nodes switches links', switch ids, links")
    n_node, gpus_per_server, n_nvswitch, n_switch, n_link = _header(path, lines[0], gpus_per_server)
    switches, n_used = _switch_ids(path, lines[1:], n_switch, n_node)
    links, loss = _links(path, lines[1 + n_used :], n_link, n_node, is_ns3)
    nvswitches, all_switches = set(switches[:n_nvswitch]), set(switches)
    host_rank = {node: i for i, node in enumerate(node for node in range(n_node) if node not in all_switches)}
    if not host_rank:
        raise ConfigError(f"{path}, line {lines[0][0]}", f"{n_switch} switches among {n_node} nodes: no host is left")
    server = [host_rank[node] // gpus_per_server if node in host_rank else -1 for node in range(n_node)]
    _join_nvswitches(server, nvswitches, links)
    if warn is not None:
        _warn_of_bytes(path, lines[1 + n_used :], links, server, warn)
    kind = "gpu" if gpus_per_server > 1 else "host"
    node_name = [
        f"{kind}{node}" if node in host_rank else f"nvswitch{node}" if node in nvswitches else f"switch{node}"
        for node in range(n_node)
    ]
    is_switch = [node in all_switches for node in range(n_node)]
    if nvlink is not None:
        if nvswitches:
            found = f"the file has {len(nvswitches)} NVSwitches of its own, and [topology] nvlink asks for others"
            raise ConfigError(f"{path}, line {lines[0][0]}", found, 'Accepted: one of the two; nvlink = "none"')
        n_server = max(server) + 1
        links += [nvlink.between(node, n_node + server[node]) for node in host_rank]
        loss += [0.0] * len(host_rank)
        node_name += [f"nvswitch{n_node + i}" for i in range(n_server)]
        server, is_switch = server + list(range(n_server)), is_switch + [True] * n_server
    return make_topology(f"{path.name}, {len(host_rank)} {kind}s", node_name, is_switch, server, links, loss)


def read_ns3_next_hops(path: str | Path) -> dict[tuple[int, int], list[int]]:
    """Read `nexthops.txt`, lines "switch destination next_hop ..." in table order, for `route_pairs`.

    Raises ConfigError with the file and the line number.
    """
    path = Path(path)
    table: dict[tuple[int, int], list[int]] = {}
    for line in read_lines(path):
        words = _ints(path, line, "a line is 'switch destination next_hop ...', all node ids")
        if len(words) < 3:
            raise _bad_line(path, line, "fewer than 3 words", "Accepted: 'switch destination next_hop ...'")
        table[words[0], words[1]] = words[2:]
    return table


def read_lines(path: Path) -> list[Line]:
    """The lines of a file that hold text. Raises ConfigError if the file cannot be read."""
    try:
        text = read_text(path, "utf-8", "replace")
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}", "Give a readable file") from error
    return [(number, line.split()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]


def _header(path: Path, line: Line, gpus_per_server: int) -> tuple[int, int, int, int, int]:
    """(nodes, GPUs per server, NVSwitches, all switches, links); the two forms differ in their number of words."""
    accepted = "'nodes switches links', or SimAI's 'nodes gpus_per_server nv_switches switches links gpu_type'"
    words = line[1]
    if len(words) not in (3, 6):
        raise _bad_line(path, line, f"a header of {len(words)} words", f"Accepted: {accepted}")
    counts = _ints(path, (line[0], words[:5]), f"the header is {accepted}")
    if len(words) == 3:
        n_node, n_switch, n_link = counts
        n_nvswitch = 0
    else:
        n_node, gpus_per_server, n_nvswitch, n_switch, n_link = counts
        n_switch += n_nvswitch
    if not 1 <= n_node <= MAX_NODES or not 0 <= n_switch <= n_node or min(n_link, n_nvswitch) < 0:
        raise _bad_line(path, line, f"'{' '.join(words)}', counts that do not fit together", f"Accepted: {accepted}")
    if gpus_per_server < 1:
        raise _bad_line(path, line, f"{gpus_per_server} GPUs per server", "A whole number from 1 on is accepted")
    return n_node, gpus_per_server, n_nvswitch, n_switch, n_link


def _switch_ids(path: Path, lines: list[Line], n_switch: int, n_node: int) -> tuple[list[int], int]:
    """The switch ids, which may stand on several lines, and how many lines they took."""
    ids: dict[int, None] = {}
    for n_used, line in enumerate(lines):
        if len(ids) == n_switch:
            return list(ids), n_used
        for node in _ints(path, line, f"{n_switch} switch ids stand before the links"):
            if not 0 <= node < n_node or node in ids:
                what = "a second time" if node in ids else "as a switch"
                raise _bad_line(path, line, f"node {node} {what}", f"Accepted: distinct ids in 0..{n_node - 1}")
            ids[node] = None
        if len(ids) > n_switch:
            raise _bad_line(path, line, f"{len(ids)} switch ids", f"The header promises {n_switch}")
    if len(ids) < n_switch:
        raise ConfigError(
            f"{path}, end of file", f"ends after {len(ids)} switch ids", f"The header promises {n_switch}"
        )
    return list(ids), len(lines)


def _links(path: Path, lines: list[Line], n_link: int, n_node: int, is_ns3: bool) -> tuple[list[Link], list[float]]:
    """The promised links, and the probability of loss of each."""
    links = [_link(path, line, n_node, is_ns3) for line in lines[:n_link]]
    if len(links) < n_link:
        raise ConfigError(f"{path}, end of file", f"ends after {len(links)} links", f"The header promises {n_link}")
    return [link for link, _ in links], [loss for _, loss in links]


def _link(path: Path, line: Line, n_node: int, is_ns3: bool) -> tuple[Link, float]:
    words = line[1]
    if len(words) != 5:
        raise _bad_line(path, line, f"{len(words)} words", f"Accepted: {LINK_WORDS}")
    end_a, end_b = _ints(path, (line[0], words[:2]), LINK_WORDS)
    if not (0 <= end_a < n_node and 0 <= end_b < n_node and end_a != end_b):
        raise _bad_line(path, line, f"a link of nodes {end_a} and {end_b}", f"Accepted: two ids in 0..{n_node - 1}")
    try:
        rate_bps, delay_ps = _speed(words[2], words[3], is_ns3)
    except QuantityError as error:
        raise _bad_line(path, line, error.found, error.accepted) from error
    if rate_bps == 0:
        raise _bad_line(path, line, f"the rate {words[2]}", "A rate above zero is accepted")
    try:
        error_rate = float(words[4])
    except ValueError:
        raise _bad_line(path, line, f"the error rate '{words[4]}'", f"Accepted: {LINK_WORDS}") from None
    if not 0 <= error_rate <= 1:
        raise _bad_line(path, line, f"the error rate {words[4]}", "A probability is accepted, 0 to 1")
    return (end_a, end_b, rate_bps, delay_ps), error_rate


def _speed(rate: str, delay: str, is_ns3: bool) -> tuple[int, int]:
    """(rate_bps, delay_ps); what ns-3 does not read gets the message of the exact reader. Raises QuantityError."""
    if is_ns3:
        rate_bps, delay_ps = ns3_rate_bps(rate), ns3_delay_ps(delay)
        if rate_bps is not None and delay_ps is not None:
            return rate_bps, delay_ps
        parse_rate_bps(rate)
        if delay_ps is None:
            parse_duration_ps(delay)
        raise QuantityError(f"'{rate} {delay}', which ns-3 does not read", f"Accepted: {LINK_WORDS}")
    return parse_rate_bps(rate), parse_duration_ps(delay)


def _warn_of_bytes(
    path: Path, lines: list[Line], links: list[Link], server: list[int], warn: Callable[[str], None]
) -> None:  # fmt: skip
    """Once for each text, at its first link. Data sheets give rates inside servers in bytes: these are left alone."""
    found: dict[str, list[tuple[int, int]]] = {}
    for (number, words), (end_a, end_b, rate_bps, _) in zip(lines, links, strict=False):
        is_inside = server[end_a] == server[end_b] >= 0
        if not is_inside and bits_instead(words[2]):
            found.setdefault(words[2], []).append((number, rate_bps))
    for text, places in found.items():
        number, rate_bps = places[0]
        more = f" (links with it: {len(places)})" if len(places) > 1 else ""
        meant = f"write {bits_instead(text)} if bits were meant{more}"
        warn(f"{path}, line {number}: {shown(text)} is {format_rate(rate_bps)}; {meant}")


def _join_nvswitches(server: list[int], nvswitches: set[int], links: list[Link]) -> None:
    """Give an NVSwitch the server of its GPUs, if they are all of one. server is written."""
    near: dict[int, set[int]] = {}
    for end_a, end_b, _, _ in links:
        for switch, other in ((end_a, end_b), (end_b, end_a)):
            if switch in nvswitches:
                near.setdefault(switch, set()).add(server[other])
    for switch, servers in sorted(near.items()):
        if len(servers) == 1:
            server[switch] = servers.pop()


def _ints(path: Path, line: Line, accepted: str) -> list[int]:
    numbers = []
    for word in line[1]:
        try:
            numbers.append(whole_number(word))
        except ValueError:
            raise _bad_line(path, line, f"'{word}', which is no whole number", f"Accepted: {accepted}") from None
    return numbers


def _bad_line(path: Path, line: Line, found: str, accepted: str) -> ConfigError:
    return ConfigError(f"{path}, line {line[0]}", found, accepted)
