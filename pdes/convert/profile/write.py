"""Profiles of ranks to a config and the programs beside it, which `models.workload.importers.profile` reads."""

import json
from pathlib import Path

from pdes.convert.profile.groups import all_groups
from pdes.convert.profile.nodes import Node, nodes_of
from pdes.convert.profile.seen import RECEIVE, SEND, Communication, RankProfile
from pdes.convert.servers import Fabric, topology_table
from pdes.convert.toml_text import toml_text, write_whole
from pdes.errors import ConfigError

FORM = 1


class _Groups:
    """Groups by name as the file has them."""

    def __init__(self, n_rank: int, is_for_all: bool) -> None:
        self.lists: dict[str, list[list[int]]] = {}
        self._n_rank, self._is_for_all = n_rank, is_for_all
        self._name: dict[tuple[str, tuple[int, ...]], str] = {}

    def name_of(self, one: Communication, rank: int, where: str) -> str:
        key = one.group_name, one.group
        if key not in self._name:
            if rank not in one.group:
                raise ConfigError(where, f"a group without rank {rank}", "groups that the traced rank is in")
            if max(one.group) >= self._n_rank:
                raise ConfigError(where, f"rank {max(one.group)} of {self._n_rank} ranks", "ranks of the job")
            self._name[key] = self._place(one, where)
        return self._name[key]

    def _place(self, one: Communication, where: str) -> str:
        mine = all_groups(one.group, self._n_rank, where) if self._is_for_all else [list(one.group)]
        name = one.group_name or "ranks"
        for k in range(len(self._name) + 1):
            tried = name if k == 0 else f"{name}-{k}"
            taken = {rank for ranks in self.lists.get(tried, ()) for rank in ranks}
            if not taken or (not self._is_for_all and taken.isdisjoint(one.group)):
                self.lists.setdefault(tried, []).extend(mine)
                return tried
        raise AssertionError


def content_of(profiles: list[RankProfile]) -> tuple[dict, list[list[Node]]]:
    """What the file holds, and its programs. One profile stands for all ranks."""
    n_rank, is_for_all = profiles[0].n_rank, len(profiles) == 1
    groups = _Groups(n_rank, is_for_all)
    programs, all_nodes = [], []
    for profile in profiles:
        nodes = nodes_of(profile)
        entries = [_entry(node, groups, profile.rank) for node in nodes]
        if is_for_all:
            _check_shifts(nodes, entries, groups, profile)
        programs.append({"rank": None if is_for_all else profile.rank, "nodes": entries})
        all_nodes.append(nodes)
    return {"form": FORM, "ranks": n_rank, "groups": groups.lists, "programs": programs}, all_nodes


def _entry(node: Node, groups: _Groups, rank: int) -> dict:
    entry: dict = {"name": node.name}
    one = node.communication
    if one is None:
        entry |= {"lane": node.lane, "time_ps": node.time_ps}
    else:
        name = groups.name_of(one, rank, node.where)
        if one.operation in (SEND, RECEIVE):
            assert one.peer is not None
            shift = (one.group.index(one.peer) - one.group.index(rank)) % len(one.group)
            tag = list(groups.lists).index(name)
            entry |= {one.operation: one.size_bytes, "group": name, "shift": shift, "tag": tag}
        else:
            entry |= {"collective": one.operation, "bytes": one.size_bytes, "group": name}
            if one.root is not None:
                entry["root"] = one.group.index(one.root)
    return entry | ({"after": node.after} if node.after else {})


def _check_shifts(nodes: list[Node], entries: list[dict], groups: _Groups, profile: RankProfile) -> None:
    """Whether every rank can do what the traced one does: its sends are then what the others receive.

    The k-th receive from d places back is another rank's k-th send to d places on, at the same place in its program.
    """
    sends: dict[tuple[str, int], list[int]] = {}
    receives: dict[tuple[str, int], list[int]] = {}
    for number, entry in enumerate(entries):
        if SEND in entry:
            sends.setdefault((entry["group"], entry["shift"]), []).append(number)
        if RECEIVE in entry:
            n = len(groups.lists[entry["group"]][0])
            receives.setdefault((entry["group"], -entry["shift"] % n), []).append(number)
    accepted = "ranks that all do the same; of a pipeline, a folder with one trace per rank"
    waits = [list(node.after) for node in nodes]
    for key in sends.keys() | receives.keys():
        to, back = sends.get(key, []), receives.get(key, [])
        sizes = [[entries[n][kind] for n in found] for kind, found in ((SEND, to), (RECEIVE, back))]
        if sizes[0] != sizes[1]:
            found = f"{len(to)} sends {key[1]} places on in group {key[0]}, {len(back)} receives from as far back"
            raise ConfigError(nodes[(to or back)[0]].where, f"{found}, or of other sizes", accepted)
        for send, receive in zip(to, back, strict=True):
            waits[receive].append(send)
    if _has_circle(waits):
        raise ConfigError(profile.path, "receives that every rank would wait for before it sends", accepted)


def _has_circle(waits: list[list[int]]) -> bool:
    unmet = [len(found) for found in waits]
    followers: list[list[int]] = [[] for _ in waits]
    for number, found in enumerate(waits):
        for one in found:
            followers[one].append(number)
    ready = [number for number, count in enumerate(unmet) if count == 0]
    n_done = 0
    while ready:
        n_done += 1
        for number in followers[ready.pop()]:
            unmet[number] -= 1
            if unmet[number] == 0:
                ready.append(number)
    return n_done < len(waits)


def write_profiles(profiles: list[RankProfile], output: Path, fabric: Fabric, source: str) -> None:
    """Write the programs and the config. ConfigError: they cannot be everyone's, or be written."""
    content, _ = content_of(profiles)
    beside = output.with_name(f"{output.stem}.profile.json")
    write_whole(beside, _text(content))
    tables = {
        "topology": topology_table(profiles[0].n_rank, fabric),
        "workload": {"kind": "trace", "format": "profile", "file": beside.name},
    }
    write_whole(output, toml_text(f"Made by `pdes-sim convert {source}`: {profiles[0].iteration}.", tables))


def _text(content: dict) -> str:
    """JSON, a line for each node."""
    programs = [
        f'{{"rank": {json.dumps(program["rank"])}, "nodes": [\n'
        + ",\n".join(json.dumps(node, ensure_ascii=False) for node in program["nodes"])
        + "\n]}"
        for program in content["programs"]
    ]
    head = json.dumps({key: value for key, value in content.items() if key != "programs"}, ensure_ascii=False)
    return f'{head[:-1]}, "programs": [\n' + ",\n".join(programs) + "\n]}\n"
