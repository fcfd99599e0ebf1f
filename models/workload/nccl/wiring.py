"""Queue pairs and groups of a communicator: made for the keys that its programs use, once for each member.

Keys: "server": the members in one server, "self": a GPU alone, "ring-next" and "ring-previous": around all members,
"edge-next" and "edge-previous": of these only what joins servers, "rail-next" and "rail-previous": around a rail,
"turn-next" and "turn-previous": around the servers, from rail to rail,
"all-out" and "all-in": to every other member, "remote-out" and "remote-in": to every member in another server,
"rail-out" and "rail-in": those on the same rail, "tree-N-...": of the N-th double tree on a rail, "met-N-next" and
"met-N-previous": on a rail, 2^N places further on and back.
"""

from collections.abc import Callable, Sequence

from models.workload.nccl.layout import Layout
from models.workload.nccl.trees import Node, double_tree
from models.workload.plan import SLOT_GROUP, SLOT_PAIR, PlanBuilder, Slot

Table = dict[int, dict[str, list[Slot]]]
PARTNER = {
    "ring-previous": "ring-next", "edge-previous": "edge-next", "rail-previous": "rail-next",
    "turn-previous": "turn-next", "all-in": "all-out", "remote-in": "remote-out", "rail-in": "rail-out",
}  # fmt: skip


def wire(builder: PlanBuilder, layout: Layout, prefix: str, keys: set[str]) -> Table:
    """Per GPU: prefix + key -> its slots."""
    table: Table = {gpu: {} for group in layout.groups for gpu in group}

    def put(gpu: int, key: str, slots: list[Slot]) -> None:
        if key in keys:
            table[gpu][prefix + key] = slots

    wanted = {PARTNER.get(key, key.split("-")[0] if key.startswith(("tree", "met")) else key) for key in keys}
    for i_group in range(len(layout.groups)):
        for key in WIRES:
            if key in wanted:
                WIRES[key](builder, layout, i_group, put)
    return table


Put = Callable[[int, str, list[Slot]], None]


def _server(builder: PlanBuilder, layout: Layout, i_group: int, put: Put) -> None:
    for members in layout.servers[i_group]:
        group = builder.group()
        for gpu in members:
            put(gpu, "server", [(SLOT_GROUP, group)])


def _self(builder: PlanBuilder, layout: Layout, i_group: int, put: Put) -> None:
    for gpu in layout.groups[i_group]:
        put(gpu, "self", [(SLOT_GROUP, builder.group())])


def _around(builder: PlanBuilder, gpus: Sequence[int], name: str, put: Put, further: int = 1) -> None:
    pairs = [builder.pair(gpu, gpus[(i + further) % len(gpus)]) for i, gpu in enumerate(gpus)]
    for i, gpu in enumerate(gpus):
        put(gpu, f"{name}-next", [(SLOT_PAIR, pairs[i])])
        put(gpu, f"{name}-previous", [(SLOT_PAIR, pairs[i - further])])


def _ring(builder: PlanBuilder, layout: Layout, i_group: int, put: Put) -> None:
    _around(builder, layout.groups[i_group], "ring", put)


def _edge(builder: PlanBuilder, layout: Layout, i_group: int, put: Put) -> None:
    gpus = layout.groups[i_group]
    for i, gpu in enumerate(gpus):
        after = gpus[(i + 1) % len(gpus)]
        if layout.edges[gpu][0]:
            pair = builder.pair(gpu, after)
            put(gpu, "edge-next", [(SLOT_PAIR, pair)])
            put(after, "edge-previous", [(SLOT_PAIR, pair)])


def _rail(builder: PlanBuilder, layout: Layout, i_group: int, put: Put) -> None:
    for gpus in layout.rails(i_group):
        _around(builder, gpus, "rail", put)


def _met(builder: PlanBuilder, layout: Layout, i_group: int, put: Put) -> None:
    for gpus in layout.rails(i_group):
        for i in range((len(gpus) - 1).bit_length()):
            _around(builder, gpus, f"met-{i}", put, 2**i)


def _turn(builder: PlanBuilder, layout: Layout, i_group: int, put: Put) -> None:
    """What comes in on a rail goes through all members of the server, the last of which is on the rail before."""
    rails = layout.rails(i_group)
    n = len(rails[0])
    for i, gpus in enumerate(rails):
        following = rails[(i + 1) % len(rails)]
        for j, gpu in enumerate(gpus):
            peer = following[(j + 1) % n]
            pair = builder.pair(gpu, peer)
            put(gpu, "turn-next", [(SLOT_PAIR, pair)])
            put(peer, "turn-previous", [(SLOT_PAIR, pair)])


def peer_orders(offsets: Sequence[Sequence[int]]) -> tuple[list[list[int]], list[list[int]]]:
    """(whom each member sends to, from whom each takes in), by places in a group, each in its order."""
    n = len(offsets)
    to = [[(i + offset) % n for offset in offsets[i]] for i in range(n)]
    sources: list[list[int]] = [[] for _ in to]
    for step in range(max(map(len, to))):
        for i in range(n):
            if step < len(to[i]):
                sources[to[i][step]].append(i)
    return to, sources


def remote_offsets(n: int, k: int) -> list[list[int]]:
    """How far behind each of n members, k in each server, those in other servers are."""
    return [[d for d in range(1, n) if (i + d) % n // k != i // k] for i in range(n)]


def _peers(builder: PlanBuilder, gpus: Sequence[int], offsets: Sequence[Sequence[int]], name: str, put: Put) -> None:
    """A pair from each GPU i to those at (i + offset), in the order of the offsets; the other way round for what it
    takes in: the i-th message that it waits for comes from the GPU whose i-th it is.
    """
    to, sources = peer_orders(offsets)
    pair = {(i, j): builder.pair(gpus[i], gpus[j]) for i in range(len(gpus)) for j in to[i]}
    for i, gpu in enumerate(gpus):
        put(gpu, f"{name}-out", [(SLOT_PAIR, pair[i, j]) for j in to[i]])
        put(gpu, f"{name}-in", [(SLOT_PAIR, pair[j, i]) for j in sources[i]])


def _all(builder: PlanBuilder, layout: Layout, i_group: int, put: Put) -> None:
    gpus = layout.groups[i_group]
    _peers(builder, gpus, [range(1, len(gpus))] * len(gpus), "all", put)


def _rail_peers(builder: PlanBuilder, layout: Layout, i_group: int, put: Put) -> None:
    for gpus in layout.rails(i_group):
        _peers(builder, gpus, [range(1, len(gpus))] * len(gpus), "rail", put)


def _remote(builder: PlanBuilder, layout: Layout, i_group: int, put: Put) -> None:
    gpus = [gpu for members in layout.servers[i_group] for gpu in members]
    _peers(builder, gpus, remote_offsets(len(gpus), layout.per_server), "remote", put)


def _tree(builder: PlanBuilder, layout: Layout, i_group: int, put: Put) -> None:
    for gpus in layout.rails(i_group):
        for i_tree, tree in enumerate(double_tree(len(gpus))):
            _one_tree(builder, gpus, tree, f"tree-{i_tree}", put)


def _one_tree(builder: PlanBuilder, gpus: list[int], tree: list[Node], name: str, put: Put) -> None:
    up = {i: builder.pair(gpus[i], gpus[node.parent]) for i, node in enumerate(tree) if node.parent >= 0}
    down = {i: builder.pair(gpus[node.parent], gpus[i]) for i, node in enumerate(tree) if node.parent >= 0}
    for i, node in enumerate(tree):
        if node.parent >= 0:
            put(gpus[i], f"{name}-to-parent", [(SLOT_PAIR, up[i])])
            put(gpus[i], f"{name}-from-parent", [(SLOT_PAIR, down[i])])
        for j, child in enumerate(node.children):
            put(gpus[i], f"{name}-to-child-{j}", [(SLOT_PAIR, down[child])])
            put(gpus[i], f"{name}-from-child-{j}", [(SLOT_PAIR, up[child])])


WIRES: dict[str, Callable[[PlanBuilder, Layout, int, Put], None]] = {
    "server": _server, "self": _self, "ring-next": _ring, "edge-next": _edge, "rail-next": _rail, "turn-next": _turn,
    "all-out": _all, "rail-out": _rail_peers, "remote-out": _remote, "tree": _tree,
    "met": _met,
}  # fmt: skip
