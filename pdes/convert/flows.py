"""`pdes-sim convert flows FOLDER_OR_CSV -o case.toml`: a config of a list of flows with their ways through a fat-tree.

The config asks for flow mode without packets' effects: a message takes the links' delays, then its bytes at its max-min
fair rate, as in SimGrid's CM02 without cross traffic. Beside it come the flows in our columns, and their ways. As in a
table of routes, what goes from a host to another one goes the way of the first flow between them.
"""

from pathlib import Path
from typing import NamedTuple

from pdes.convert.flow_case import MAX_K, Flow, FlowCase, find_case, read_case
from pdes.convert.toml_text import Tables, toml_text, write_whole
from pdes.errors import ConfigError
from pdes.units import QuantityError, exact_duration, exact_rate, parse_duration_ps, parse_rate_bps

FIRST_SPORT, DPORT = 10000, 100  # of queue pairs: those of two hosts count their source ports up, flow by flow


class Links(NamedTuple):
    """What the file does not say of the fat-tree. k: None: the least that has room. rate, delay: with their units."""

    k: int | None = None
    rate: str = "100Gbps"
    delay: str = "1us"


def convert(source: str | Path, output: str | Path, links: Links | None = None) -> list[str]:
    """Write `output`, and flows and ways beside it; return warnings for people. ConfigError names file and line."""
    case, target, given = read_case(find_case(Path(source))), Path(output), links or Links()
    flow_file, way_file = (target.with_name(f"{target.stem}.{what}") for what in ("flows.csv", "paths.txt"))
    for file in (target, flow_file, way_file):
        if file.exists() and file.samefile(case.path):
            raise ConfigError(str(file), "is the input, and would be written over", "another output")
    topology = _topology(given)
    k, warnings = _k(case, given.k)
    write_whole(flow_file, _flow_text(case.flows))
    network: dict[str, object] = {"congestion_control": "none", "header": "0B"}
    if case.has_ways:
        text, n_other = _way_text(case.flows, k)
        write_whole(way_file, text)
        network["paths_file"] = way_file.name
        if n_other:
            what = "flow that has" if n_other == 1 else "flows that have"
            warnings.append(f"{case.path}: {n_other} {what} another agg or core than the first between the same two "
                            "hosts: its way is taken for them, too")  # fmt: skip
    tables: Tables = {
        "topology": {"kind": "fat-tree", "k": k, **topology},
        "workload": {"kind": "flows", "file": flow_file.name, "format": "csv", "queue_pairs": "per-flow"},
        "network": network,
        "wormhole": {"mode": "flow"},
        "wormhole.flow": {"compensation": "none"},
    }
    write_whole(target, toml_text(f"Made by `pdes-sim convert flows` of {case.path.name}. {_said(given.k)}", tables))
    return warnings


def _said(k: int | None) -> str:
    return "k is as --k says." if k is not None else "k is the least with room for all its hosts and ways."


def _topology(links: Links) -> dict[str, object]:
    """Keys of the links. ConfigError names the option."""
    found = []
    for option, text, parse, exact in (
        ("--rate", links.rate, parse_rate_bps, exact_rate), ("--delay", links.delay, parse_duration_ps, exact_duration),
    ):  # fmt: skip
        try:
            value = parse(text)
        except QuantityError as error:
            raise ConfigError(option, error.found, error.accepted) from error
        if value == 0:
            raise ConfigError(option, f"found {text}", "more than zero")
        found.append(exact(value))
    return {"link_rate": found[0], "link_delay": found[1]}


def _k(case: FlowCase, given: int | None) -> tuple[int, list[str]]:
    """Ports of a switch, and warnings. ConfigError: the given ones are none, or leave no room for a flow."""
    if given is not None:
        if not 2 <= given <= MAX_K or given % 2:
            raise ConfigError("--k", f"found {given}", f"an even number from 2 to {MAX_K}")
        for flow in case.flows:
            for what, number, n in _needs(flow, given):
                if number >= n:
                    found, room = f"{what} {number}", f"0 to {n - 1}" if n > 1 else "0"
                    raise ConfigError(f"{case.path}, line {flow.line}", found, f"{room}, with --k {given}")
        return given, []
    most = Flow(*(max(column) for column in zip(*case.flows, strict=True)))
    k = 2
    while any(number >= n for _, number, n in _needs(most, k)):
        k += 2
    room = f"host {max(most.src, most.dst)}" + f", agg {most.agg} and core {most.core}" * case.has_ways
    return k, [f"{case.path}: k = {k}, the least fat-tree with {room}; --k says another"]


def _needs(flow: Flow, k: int) -> tuple[tuple[str, int, int], ...]:
    """(what, its number, how many the fat-tree has) of all that a flow names."""
    n_host, half = k**3 // 4, k // 2
    return ("src", flow.src, n_host), ("dst", flow.dst, n_host), ("agg", flow.agg, half), ("core", flow.core, half)


def _flow_text(flows: list[Flow]) -> str:
    rows = [f"{flow.src},{flow.dst},{flow.size_bytes},{flow.start_ps}\n" for flow in flows]
    return "src,dst,size_bytes,start_ps\n" + "".join(rows)


def _way_text(flows: list[Flow], k: int) -> tuple[str, int]:
    """(the text of a paths file, a line per flow; how many flows would have had another way than they get)."""
    ways: dict[tuple[int, int], list[int]] = {}
    n_flow: dict[tuple[int, int], int] = {}
    rows, n_other = [], 0
    for flow in flows:
        pair, way = (flow.src, flow.dst), nodes_of(flow, k)
        first = ways.setdefault(pair, way)
        n_other += way != first
        n_before = n_flow[pair] = n_flow.get(pair, -1) + 1
        data, ack = ("-".join(map(str, nodes)) for nodes in (first, first[::-1]))
        rows.append(f"{flow.src} {flow.dst} {FIRST_SPORT + n_before} {DPORT} data {data} ack {ack}\n")
    return "".join(rows), n_other


def nodes_of(flow: Flow, k: int) -> list[int]:
    """The nodes of a flow's way. Ids: hosts, edges pod by pod, aggregations pod by pod, cores."""
    half = k // 2
    first_edge = k * half * half
    first_aggregation, first_core = first_edge + k * half, first_edge + 2 * k * half
    up, down = flow.src // half, flow.dst // half
    way = [flow.src, first_edge + up]
    if up != down:
        pods = up // half, down // half
        way.append(first_aggregation + pods[0] * half + flow.agg)
        if pods[0] != pods[1]:
            way += [first_core + flow.agg * half + flow.core, first_aggregation + pods[1] * half + flow.agg]
        way.append(first_edge + down)
    return [*way, flow.dst]
