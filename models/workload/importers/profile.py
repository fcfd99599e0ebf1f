"""Programs of ranks as profilers have seen them: what `pdes-sim convert kineto` and `convert nsight` write, in JSON.

    {"form": 1, "ranks": 4, "groups": {"tp": [[0, 1], [2, 3]]}, "programs": [{"rank": null, "nodes": [...]}]}

A program of rank null is every rank's, else there is one for each. A node is known by its place in its program and
waits for those in `after`. It computes (`time_ps`, one after the other on a `lane`), or is a `collective` of `bytes`,
or a `send` or `receive` of so many, in a `group`: each of the group's lists is one communicator, and a rank takes part
in the one that has it. `root` is a place in that list; `shift` says how many places further in it, and round, the other
end is. So the same words hold for every rank. Messages between two ranks with one `tag` go one after the other.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from models.workload.trace.graph import (
    COLLECTIVE,
    COLLECTIVES,
    COMPUTE,
    RECEIVE,
    SEND,
    GraphBuilder,
    Leniency,
    TraceGraph,
    TraceNode,
)
from pdes.errors import ConfigError
from pdes.files import read_json
from pdes.units import shown

FORM = 1
MAX_RANKS, MAX_LANE, MAX_NUMBER = 2**20, 2**15 - 1, 2**61
MAX_ALL_NODES = 2**27  # of all ranks: a program for all is no larger in the file than one rank's
KINDS = ("time_ps", "collective", "send", "receive")


def n_profile_rank(path: Path) -> int:
    """How many ranks a profile has. ConfigError names the file."""
    return _content(path)[1]


def _content(path: Path) -> tuple[dict[str, Any], int]:
    content = read_json(path)
    if not isinstance(content, dict) or content.get("form") != FORM:
        raise ConfigError(str(path), "is no profile of this form", f'{{"form": {FORM}, "ranks": ..., ...}}')
    return content, _whole(content, "ranks", str(path), 1, MAX_RANKS)


def read_profile(path: Path, leniency: Leniency) -> TraceGraph:
    """The nodes of all ranks. ConfigError names the file, the program and the node."""
    content, n_rank = _content(path)
    members = {name: _placed(lists, n_rank, f"{path}, group {name}") for name, lists in _groups(content, path)}
    programs = _programs(content.get("programs"), n_rank, path)
    if sum(len(nodes) for nodes in programs) > MAX_ALL_NODES:
        raise ConfigError(str(path), "too many nodes of all ranks together", f"at most {MAX_ALL_NODES}")
    builder = GraphBuilder(str(path), leniency)
    for rank, nodes in enumerate(programs):
        for place, entry in enumerate(nodes):
            builder.add(_node(builder, entry, rank, place, members, f"{path}, rank {rank}, node {place}"))
        builder.end_rank(str(path))
    return builder.finish(waits_for_ack=True)


def _whole(entry: Mapping[str, Any], key: str, where: str, least: int, most: int, default: int | None = None) -> int:
    value = entry.get(key, default)
    if type(value) is not int or not least <= value <= most:
        raise ConfigError(where, f"{key} {shown(value)}", f"a whole number from {least} to {most}")
    return value


def _groups(content: dict, path: Path) -> list[tuple[str, list]]:
    groups = content.get("groups", {})
    if not isinstance(groups, dict):
        raise ConfigError(f"{path}, groups", f"found {shown(groups)}", '{"name": [[ranks], [ranks]]}')
    return list(groups.items())


def _placed(lists: object, n_rank: int, where: str) -> dict[int, tuple[int, tuple[int, ...]]]:
    """(number of its list, the list) by rank."""
    placed: dict[int, tuple[int, tuple[int, ...]]] = {}
    for number, ranks in enumerate(lists if isinstance(lists, list) else [lists]):
        if not isinstance(ranks, list) or not ranks or any(type(r) is not int or not 0 <= r < n_rank for r in ranks):
            raise ConfigError(where, f"found {shown(ranks)}", f"lists of ranks 0 to {n_rank - 1}")
        for rank in ranks:
            if rank in placed:
                raise ConfigError(where, f"rank {rank} twice", "each rank in one list at most")
            placed[rank] = number, tuple(ranks)
    return placed


def _programs(entries: object, n_rank: int, path: Path) -> list[list]:
    """The nodes of each rank."""
    accepted = '{"rank": null, "nodes": [...]} alone, or one with each rank'
    if not isinstance(entries, list) or not all(
        isinstance(e, dict) and isinstance(e.get("nodes"), list) for e in entries
    ):
        raise ConfigError(f"{path}, programs", f"found {shown(entries)}", accepted)
    if [entry.get("rank") for entry in entries] == [None]:
        return [entries[0]["nodes"]] * n_rank
    found: dict[int, list] = {}
    for entry in entries:
        rank = _whole(entry, "rank", f"{path}, programs", 0, n_rank - 1)
        if rank in found:
            raise ConfigError(f"{path}, programs", f"rank {rank} twice", accepted)
        found[rank] = entry["nodes"]
    missing = next((rank for rank in range(n_rank) if rank not in found), None)
    if missing is not None:
        raise ConfigError(f"{path}, programs", f"none of rank {missing}", accepted)
    return [found[rank] for rank in range(n_rank)]


def _node(builder: GraphBuilder, entry: object, rank: int, place: int, members: dict, where: str) -> TraceNode:
    if not isinstance(entry, dict) or sum(kind in entry for kind in KINDS) != 1:
        raise ConfigError(where, f"found {shown(entry)}", f"a node with one of {', '.join(KINDS)}")
    after = entry.get("after", [])
    if not isinstance(after, list) or any(type(i) is not int or not 0 <= i < 2**63 for i in after):
        raise ConfigError(where, f"after {shown(after)}", "a list of the places of nodes")
    name = str(entry.get("name", ""))[:200]
    if "time_ps" in entry:
        time_ps = _whole(entry, "time_ps", where, 0, MAX_NUMBER)
        lane = _whole(entry, "lane", where, 0, MAX_LANE, 0)
        return TraceNode(place, COMPUTE, name=name, duration_ps=time_ps, lane=lane, after=after)
    group = str(entry.get("group"))
    if rank not in members.get(group, ()):
        raise ConfigError(where, f"group {shown(entry.get('group'))}", f"a group that has rank {rank}")
    number, ranks = members[group][rank]
    if "collective" in entry:
        if entry["collective"] not in COLLECTIVES:
            raise ConfigError(where, f"collective {shown(entry['collective'])}", ", ".join(COLLECTIVES))
        return TraceNode(
            place,
            COLLECTIVE,
            name=name,
            size_bytes=_whole(entry, "bytes", where, 0, MAX_NUMBER),
            operation=COLLECTIVES.index(entry["collective"]),
            communicator=builder.communicator(
                f"{group}.{number}" if len(ranks) < len(members[group]) else group, ranks
            ),
            root=ranks[_whole(entry, "root", where, 0, len(ranks) - 1, 0)],
            after=after,
        )
    kind, key = (SEND, "send") if "send" in entry else (RECEIVE, "receive")
    shift = _whole(entry, "shift", where, 1 - len(ranks), len(ranks) - 1)
    tag = _whole(entry, "tag", where, 0, MAX_NUMBER, 0)
    return TraceNode(
        place,
        kind,
        name=name,
        size_bytes=_whole(entry, key, where, 0, MAX_NUMBER),
        peer=ranks[(ranks.index(rank) + shift) % len(ranks)],
        tag=tag,
        after=after,
    )
