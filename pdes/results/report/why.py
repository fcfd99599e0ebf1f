"""Why a flow was slow, in words: the fullest port on its way and who else used it, pauses, and what was sent again."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pdes.results.report.ports import Ports
from pdes.results.summary import FLOW_COLUMNS, pick_slowest_flows
from pdes.results.tables import open_table, read_table
from pdes.units import BITS_PER_BYTE, PS_PER_S, format_duration, format_size

SHOWN = 20
SLOW = 1.05  # slowdown below which there is nothing to explain
FULL_SHARE = 0.5  # below, a port was not what held a flow back
OTHERS = ("tag", "retransmitted_bytes", "ecn_marks")
HEADINGS = ("flow", "from", "to", "kind", "why", "size", "FCT", "idle network", "slowdown")


class Hop(NamedTuple):
    """A port on a flow's way, while the flow ran."""

    port_id: int
    flows_beside: int
    bytes_beside: int
    full_frac: float  # of what it can send, the flow's own packets included


def slow_flow_rows(path: Path, ports: Ports, result: Mapping[str, Any], active_ps: int) -> list[tuple[str, ...]]:
    """Rows of the table of the slowest flows, HEADINGS."""
    slowest = pick_slowest_flows(read_table(path, FLOW_COLUMNS), SHOWN)
    others = rows_at(path, OTHERS, [flow["flow_id"] for flow in slowest])
    ways = {flow["flow_id"]: flow["path"] for flow in result.get("slowest_flows", [])}
    rows = []
    for flow, other in zip(slowest, others, strict=True):
        hops = hops_of(flow, ways.get(flow["flow_id"], []), ports, result)
        ends = (_node(ports, flow["src"]), _node(ports, flow["dst"]))
        times = (format_duration(flow["fct_ps"]), format_duration(flow["ideal_fct_ps"]), f"{flow['slowdown']:.2f}")
        text = why_text(flow | other, hops, ports, active_ps) if flow["slowdown"] >= SLOW else "as on an idle network"
        rows.append((str(flow["flow_id"]), *ends, other["tag"] or "", text, format_size(flow["size_bytes"]), *times))
    return rows


def hops_of(flow: Mapping[str, Any], way: list[dict[str, int]], ports: Ports, result: Mapping[str, Any]) -> list[Hop]:
    """The ports of a flow's way. way: as in `result.json`."""
    network = result["config"]["network"]
    on_wire = (network["payload_bytes"] + network["header_bytes"]) / network["payload_bytes"]
    hops = []
    for hop in way:
        rate_bps = int(ports.columns["rate_bps"][hop["port_id"]])
        room_bytes = rate_bps / BITS_PER_BYTE * flow["fct_ps"] / PS_PER_S
        full_frac = (flow["size_bytes"] + hop["bytes_beside"]) * on_wire / max(room_bytes, 1)
        hops.append(Hop(hop["port_id"], hop["flows_beside"], hop["bytes_beside"], full_frac))
    return hops


def why_text(flow: Mapping[str, Any], hops: list[Hop], ports: Ports, active_ps: int) -> str:
    """One sentence, of what is known. flow: with retransmitted_bytes and ecn_marks."""
    parts = []
    if hops:
        fullest = max(hops, key=lambda hop: hop.full_frac)
        name, share = ports.name(fullest.port_id), f"{100 * min(fullest.full_frac, 1):.0f} %"
        if fullest.full_frac < FULL_SHARE:
            parts.append(f"no port on its way was more than {share} full meanwhile ({name})")
        elif fullest.flows_beside:
            n = fullest.flows_beside
            who = f"{n:,} other flow{'s' if n > 1 else ''}, {format_size(fullest.bytes_beside)}"
            parts.append(f"{name} was {share} full: {who} beside it")
        else:
            parts.append(f"{name} was {share} full, with nothing beside it")
        paused = ports.paused_frac(active_ps)
        worst = max(hops, key=lambda hop: paused[hop.port_id]).port_id
        if paused[worst] > 0:
            parts.append(f"{ports.name(worst)} was paused for {100 * paused[worst]:.2g} % of the run")
    if flow["retransmitted_bytes"] > 0:
        parts.append(f"{format_size(flow['retransmitted_bytes'])} sent again")
    if flow["ecn_marks"] > 0:
        parts.append(f"{flow['ecn_marks']:,} packets came back marked")
    return "; ".join(parts) or "its way is not known"


def rows_at(path: Path, columns: tuple[str, ...], ids: list[int]) -> list[dict[str, Any]]:
    """Some columns of some flows; only the row groups that have them are read. Rows are in order of id, from 0."""
    found: dict[int, dict[str, Any]] = {}
    with open_table(path, columns) as file:
        sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        ends = np.cumsum(sizes)
        for i_group in sorted({int(np.searchsorted(ends, flow_id, side="right")) for flow_id in ids}):
            table = file.read_row_group(i_group, columns=list(columns))
            first = int(ends[i_group]) - sizes[i_group]
            for flow_id in ids:
                if first <= flow_id < first + sizes[i_group]:
                    found[flow_id] = {name: table.column(name)[flow_id - first].as_py() for name in columns}
    return [found[flow_id] for flow_id in ids]


def _node(ports: Ports, node: int) -> str:
    return ports.nodes[node] if node < len(ports.nodes) else str(node)
