"""htsim connection matrices (`.cm`): who sends how much to whom from when on, or when a trigger says so.

`Nodes n`, `Connections m`, `Triggers k`, then `a->b id i start ps|trigger t size bytes [send_done_trigger t]
[recv_done_trigger t]` and `trigger id t oneshot|barrier`. A trigger fires when the sender has the last acknowledgement
(send_done) or the receiver has all (recv_done); a barrier when all that name it are done. Where another host waits for
it, it goes there as a message of 1 byte and so takes the path's time (design R12); htsim takes none.
"""

from dataclasses import dataclass, field
from pathlib import Path

from models.workload.trace.graph import NOTHING, RECEIVE, SEND, GraphBuilder, Leniency, TraceGraph, TraceNode
from pdes.errors import ConfigError
from pdes.files import read_text, whole_within, why_unreadable

_LARGEST = 2**50
_KEYS = ("id", "start", "trigger", "size", "send_done_trigger", "recv_done_trigger")
MAX_NODES = 2**20
_HEADS = ("Nodes", "Connections", "Triggers")


@dataclass
class _Flow:
    src: int
    dst: int
    where: str
    values: dict[str, int]


@dataclass
class _Trigger:
    kind: str
    sources: list[tuple[int, bool]] = field(default_factory=list)  # (flow, by its receiver)


def read_connections(path: Path, leniency: Leniency) -> TraceGraph:
    """The connections as sends and receives of as many ranks as there are nodes. ConfigError names the line."""
    heads, flows, triggers = _read(path)
    for i, flow in enumerate(flows):
        for key, by_receiver in (("send_done_trigger", False), ("recv_done_trigger", True)):
            if key in flow.values:
                _trigger(triggers, flow, key).sources.append((i, by_receiver))
    ranks: list[list[dict]] = [[] for _ in range(heads["Nodes"])]
    notify: dict[tuple[int, int], int] = {}  # (flow and side that fires, host that waits): tag of the message
    sends, receives = {}, {}
    for i, flow in enumerate(flows):
        sends[i], receives[i] = len(ranks[flow.src]), len(ranks[flow.dst])
        base = {"size_bytes": flow.values["size"], "tag": i, "name": f"connection {flow.values.get('id', i + 1)}"}
        ranks[flow.src].append(base | {"kind": SEND, "peer": flow.dst, "after": []})
        ranks[flow.dst].append(base | {"kind": RECEIVE, "peer": flow.src, "after": []})
    for i, flow in enumerate(flows):
        after = ranks[flow.src][sends[i]]["after"]
        if "trigger" in flow.values:
            for source, by_receiver in _sources(triggers, flow):
                after.append(_arrival(ranks, flows, notify, source, by_receiver, flow.src, (sends, receives)))
        elif flow.values["start"]:
            after.append(len(ranks[flow.src]))
            ranks[flow.src].append({"kind": NOTHING, "name": "start", "duration_ps": flow.values["start"]})
    builder = GraphBuilder(str(path), leniency)
    for nodes in ranks:
        for node_id, values in enumerate(nodes):
            builder.add(TraceNode(node_id, values.pop("kind"), **values))
        builder.end_rank(str(path))
    return builder.finish(waits_for_ack=True, facts={"connections": len(flows), "triggers": len(triggers)})


def n_node(path: Path) -> int:
    """How many there are. ConfigError names the line."""
    return _read(path)[0]["Nodes"]


def _arrival(
    ranks: list[list[dict]],
    flows: list[_Flow],
    notify: dict[tuple[int, int], int],
    source: int,
    by_receiver: bool,
    host: int,
    nodes: tuple[dict[int, int], dict[int, int]],
) -> int:
    """The node of `host` at which it knows that a connection is done: the connection's own, or a message's receive."""
    flow = flows[source]
    at, node = (flow.dst, nodes[1][source]) if by_receiver else (flow.src, nodes[0][source])
    if at == host:
        return node
    key = (2 * source + by_receiver, host)
    if key not in notify:
        tag = len(flows) + len(notify)
        ranks[at].append({"kind": SEND, "peer": host, "tag": tag, "size_bytes": 1, "name": "trigger", "after": [node]})
        notify[key] = len(ranks[host])
        ranks[host].append({"kind": RECEIVE, "peer": at, "tag": tag, "size_bytes": 1, "name": "trigger", "after": []})
    return notify[key]


def _trigger(triggers: dict[int, _Trigger], flow: _Flow, key: str) -> _Trigger:
    number = flow.values[key]
    if number not in triggers:
        raise ConfigError(flow.where, f"{key} {number}", "a trigger that the file lists")
    return triggers[number]


def _sources(triggers: dict[int, _Trigger], flow: _Flow) -> list[tuple[int, bool]]:
    trigger = _trigger(triggers, flow, "trigger")
    if not trigger.sources:
        raise ConfigError(flow.where, f"trigger {flow.values['trigger']}, which no connection fires", "one that fires")
    if trigger.kind == "oneshot" and len(trigger.sources) > 1:
        found = f"trigger {flow.values['trigger']}, a oneshot that {len(trigger.sources)} connections fire"
        raise ConfigError(flow.where, found, "a oneshot with one, or a barrier")
    return trigger.sources


def _read(path: Path) -> tuple[dict[str, int], list[_Flow], dict[int, _Trigger]]:
    try:
        text = read_text(path, "utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), f"cannot be read: {why_unreadable(error)}", "a readable text file") from error
    heads: dict[str, int] = {}
    flows: list[_Flow] = []
    triggers: dict[int, _Trigger] = {}
    number = 0
    for number, line in enumerate(text.splitlines(), 1):
        words, where = line.split("#")[0].split(), f"{path}, line {number}"
        if not words:
            continue
        if words[0] in _HEADS:
            most = MAX_NODES if words[0] == "Nodes" else _LARGEST
            heads[words[0]] = whole_within(words[1] if len(words) > 1 else "", most, where, words[0])
        elif "->" in words[0]:
            flows.append(_flow(where, words, heads))
        elif words[0] == "trigger":
            _add_trigger(where, words, triggers)
        else:
            raise ConfigError(where, f"found {words[0]!r}", f"{', '.join(_HEADS)}, a->b ... or trigger ...")
    if "Nodes" not in heads:
        raise ConfigError(f"{path}, line {max(number, 1)}", "the file ends with no Nodes", "Nodes, with their number")
    for head, count in (("Connections", len(flows)), ("Triggers", len(triggers))):
        if heads.get(head, 0 if head == "Triggers" else None) != count:
            promised = heads.get(head, "none")
            raise ConfigError(f"{path}, line {number}", f"the file ends with {count} of {promised} {head}", "all")
    return heads, flows, triggers


def _flow(where: str, words: list[str], heads: dict[str, int]) -> _Flow:
    src, _, dst = words[0].partition("->")
    ends = _whole(where, src, "source"), _whole(where, dst, "destination")
    n_node = heads.get("Nodes", 0)
    if max(ends) >= n_node or ends[0] == ends[1]:
        raise ConfigError(where, f"a connection {words[0]}", f"two of the {n_node} nodes")
    values = {}
    for key, value in zip(words[1::2], [*words[2::2], ""], strict=False):
        if key not in _KEYS:
            raise ConfigError(where, f"the word {key!r}", ", ".join(_KEYS))
        values[key] = _whole(where, value, key)
    if values.get("size", 0) < 1 or ("start" in values) == ("trigger" in values):
        raise ConfigError(where, f"found {' '.join(words[1:])!r}", "size of at least 1 byte, and start or trigger")
    return _Flow(*ends, where, values)


def _add_trigger(where: str, words: list[str], triggers: dict[int, _Trigger]) -> None:
    if len(words) != 4 or words[1] != "id" or words[3] not in ("oneshot", "barrier"):
        raise ConfigError(where, f"found {' '.join(words)!r}", "trigger id t oneshot|barrier")
    number = _whole(where, words[2], "trigger")
    if number in triggers:
        raise ConfigError(where, f"trigger {number} a second time", "each trigger once")
    triggers[number] = _Trigger(words[3])


def _whole(where: str, word: str, what: str) -> int:
    return whole_within(word, _LARGEST, where, what)
