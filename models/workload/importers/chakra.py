"""Chakra execution traces, one file per rank (`<prefix>.<rank>.et`, or `.json`), to a trace graph.

As ASTRA-sim reads them: `comm_size` is the whole buffer of a rank, but for an all-gather the rank's own shard; a node
without `pg_name` means all ranks; what runs on the CPU, on the GPU and in memory are three lanes. Control and data
dependencies both hold. A compute node takes its `duration_micros`; one without takes as long as `num_ops` and
`tensor_size` need on the device (roofline). A collective without `comm_type` is the framework's call of one, which a
node of its own stands for: it takes its duration on its lane.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from models.workload.importers.chakra_node import (
    COMM_COLL,
    COMM_RECV,
    COMM_SEND,
    COMP,
    MEM_LOAD,
    MEM_STORE,
    METADATA,
    ChakraNode,
    node_from_json,
    read_nodes,
)
from models.workload.importers.communicators import read_communicators
from models.workload.trace.graph import (
    COLLECTIVE,
    COMPUTE,
    NOTHING,
    RECEIVE,
    SEND,
    GraphBuilder,
    Leniency,
    TraceGraph,
    TraceNode,
)
from pdes.errors import ConfigError
from pdes.files import read_json, require_file
from pdes.units import PS_PER_S, PS_PER_US

OPERATION_OF_TYPE = (0, 5, 2, 6, 7, 4, 3, 1, 1, 8)  # place in trace.graph.COLLECTIVES of each CollectiveCommType
ALL_GATHER = 2
GPU_LANE, CPU_LANE, MEMORY_LANE = range(3)
EVERYONE = "all"
MAX_ID = 2**63 - 1


@dataclass(frozen=True)
class Device:
    """What a compute node without a duration runs on."""

    flops_per_s: int
    memory_bytes_per_s: int

    def time_ps(self, n_op: int, size_bytes: int) -> int:
        """Roofline: the longer of computing and moving, rounded up."""
        return max(-(-n_op * PS_PER_S // self.flops_per_s), -(-size_bytes * PS_PER_S // self.memory_bytes_per_s))


def rank_files(prefix: Path) -> list[Path]:
    """The files of a trace, rank 0 first. prefix: their common part, their folder, or the one file there is."""
    if prefix.exists() and not prefix.is_dir():
        return [prefix]
    folder, stem = (prefix, "") if prefix.is_dir() else (prefix.parent, prefix.name)
    pattern = re.compile(re.escape(stem) + (r"" if stem else r".*") + r"\.(\d+)\.(et|json)")
    found: dict[int, Path] = {}
    for path in sorted(folder.glob("*") if folder.is_dir() else ()):
        match = pattern.fullmatch(path.name)
        if match and int(match[1]) in found:
            text = f"{found[int(match[1])].name} and {path.name} are both rank {int(match[1])}"
            raise ConfigError(str(prefix), text, "the common part of the names of one trace, such as dir/llama")
        if match:
            found[int(match[1])] = path
    missing = [rank for rank in range(len(found)) if rank not in found]
    if not found or missing:
        text = f"there is no {prefix.name}.{missing[0] if missing else 0}.et"
        raise ConfigError(str(prefix), text, "a trace file, or the common part of <prefix>.<rank>.et, ranks from 0")
    return [found[rank] for rank in range(len(found))]


def read_chakra(prefix: Path, groups: Path | None, device: Device, leniency: Leniency) -> TraceGraph:
    """A trace with all its ranks. groups: the communicators' file. ConfigError names file, rank and node."""
    paths = rank_files(prefix)
    builder = GraphBuilder(str(prefix), leniency)
    known = read_communicators(groups) if groups is not None else {}
    everyone = tuple(range(len(paths)))
    for rank, path in enumerate(paths):
        for node in _nodes(path):
            where = f"{path}, rank {rank}, node {node.node_id}"
            try:
                _add(builder, node, where, known, everyone, device)
            except (TypeError, ValueError, OverflowError) as error:  # of an attribute
                found = f"an attribute with a wrong value ({error})"
                raise ConfigError(where, found, "numbers, as Chakra writes them") from error
        builder.end_rank(str(path))
    return builder.finish(waits_for_ack=True)


def _nodes(path: Path) -> Iterator[ChakraNode]:
    try:
        with require_file(path).open("rb") as file:
            is_json = file.read(16).lstrip()[:1] in (b"{", b"[") and path.suffix == ".json"
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}", "a readable file") from error
    return _json_nodes(path) if is_json else read_nodes(path)


def _json_nodes(path: Path) -> Iterator[ChakraNode]:
    content = read_json(path)
    entries = content.get("workload_graph") if isinstance(content, dict) else content
    if not isinstance(entries, list):
        raise ConfigError(str(path), "holds no list of nodes", 'a list, or {"workload_graph": [...]}')
    for i, entry in enumerate(entries):
        yield node_from_json(entry, f"{path}, node {i + 1} of the list")


def _add(
    builder: GraphBuilder, node: ChakraNode, where: str, known: dict, everyone: tuple[int, ...], device: Device
) -> None:
    """Append one node of Chakra to the graph."""
    if any(not 0 <= i <= MAX_ID for i in (node.node_id, *node.after)):
        raise ConfigError(where, "an id of more than 63 bits", f"ids 0..{MAX_ID}")
    size_bytes = node.number("comm_size", 0) or 0
    name, after = node.name, node.after
    lane = CPU_LANE if node.number("is_cpu_op", 0) else GPU_LANE
    if node.kind == COMM_SEND:
        builder.add(
            TraceNode(
                node.node_id,
                SEND,
                name=name,
                size_bytes=size_bytes,
                peer=_rank(node, "comm_dst", where),
                tag=node.number("comm_tag", 0) or 0,
                after=after,
            )
        )
    elif node.kind == COMM_RECV:
        builder.add(
            TraceNode(
                node.node_id,
                RECEIVE,
                name=name,
                size_bytes=size_bytes,
                peer=_rank(node, "comm_src", where),
                tag=node.number("comm_tag", 0) or 0,
                after=after,
            )
        )
    elif node.kind == COMM_COLL and node.number("comm_type") is not None:
        _add_collective(builder, node, where, known, everyone)
    elif node.kind in (COMP, COMM_COLL):
        time_ps = node.number("pdes_time_ps")
        if time_ps is None:
            time_ps = node.duration_us * PS_PER_US
        if time_ps == 0 and node.kind == COMP:
            time_ps = device.time_ps(node.number("num_ops", 0) or 0, node.number("tensor_size", 0) or 0)
        if node.kind == COMM_COLL:
            builder.leniency.note("collectives without comm_type, taken for calls that take their duration", where)
        builder.add(TraceNode(node.node_id, COMPUTE, name=name, duration_ps=time_ps, lane=lane, after=after))
    elif node.kind in (MEM_LOAD, MEM_STORE):
        moved_ps = node.duration_us * PS_PER_US or device.time_ps(0, node.number("tensor_size", 0) or 0)
        builder.add(TraceNode(node.node_id, COMPUTE, name=name, duration_ps=moved_ps, lane=MEMORY_LANE, after=after))
    elif node.kind in (METADATA, 0):
        builder.add(TraceNode(node.node_id, NOTHING, name=name, after=after))
    else:
        raise ConfigError(where, f"a node of type {node.kind}", "0 to 7, as in Chakra's NodeType")


def _rank(node: ChakraNode, key: str, where: str) -> int:
    rank = node.number(key)
    if rank is None:
        raise ConfigError(where, f"no {key}", "a send with comm_dst, a receive with comm_src")
    return min(max(rank, -2), 2**31 - 1)


def _add_collective(
    builder: GraphBuilder, node: ChakraNode, where: str, known: dict, everyone: tuple[int, ...]
) -> None:
    """Its communicator by name, its size as `trace.graph` counts it."""
    kind = node.number("comm_type") or 0
    if not 0 <= kind < len(OPERATION_OF_TYPE):
        raise ConfigError(where, f"comm_type {kind}", f"0 to {len(OPERATION_OF_TYPE) - 1}")
    group = str(node.attributes.get("pg_name", ""))
    if group and group not in known:
        listed = ", ".join(_first(known)) or "none, as no communicators' file is given"
        raise ConfigError(where, f'pg_name "{group}"', f"a communicator that is listed: {listed}")
    ranks = known[group] if group else everyone
    size_bytes, operation = node.number("comm_size", 0) or 0, OPERATION_OF_TYPE[kind]
    root = node.number("root_rank", node.number("root", ranks[0] if ranks else 0)) or 0
    builder.add(
        TraceNode(
            node.node_id,
            COLLECTIVE,
            name=node.name,
            size_bytes=size_bytes * len(ranks) if operation == ALL_GATHER else size_bytes,
            operation=operation,
            communicator=builder.communicator(group or EVERYONE, ranks),
            root=root,
            after=node.after,
        )
    )


def _first(names: Iterable[str], n: int = 8) -> list[str]:
    return [f'"{name}"' for name in names][:n]
