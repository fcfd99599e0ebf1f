"""Operations of members whose part in a collective is their own: nodes of a double binary tree, and of a broadcast.

Chunks are pipelined: a member passes chunk i on while chunk i + 1 is on its way to it. Sends do not wait, so one
stream carries both directions of both trees: with each hop, up and down, a member is LAG chunks further behind, so it
never waits for what another one sends in the same turn, and LAG chunks are under way on every hop.
"""

from collections.abc import Callable

from models.workload.nccl.trees import Node, double_tree, tree_steps
from models.workload.operations import Operation, Repeat
from models.workload.program import OP_RECEIVE, OP_SEND

SlotOf = Callable[[str], int]
Body = list[Operation | Repeat]
TREE_CHUNK_BYTES = 256 * 1024
LAG = 4
MAX_CHUNKS = 64  # more would only show the same pipeline again


def n_chunks(size_bytes: int) -> int:
    """Chunks of a pipelined transfer."""
    return max(1, min(MAX_CHUNKS, -(-size_bytes // TREE_CHUNK_BYTES)))


def tree_operations(slot_of: SlotOf, n: int, place: int, share_bytes: int, task: str, tag: str) -> Body:
    """A member's part of an all-reduce of share_bytes over a double tree of n: half of it on each tree."""
    half = -(-share_bytes // 2)
    n_chunk = n_chunks(half)
    chunk = max(1, -(-half // n_chunk))
    parts: list[tuple[int, list[Operation]]] = []
    for i, (tree, steps) in enumerate(zip(double_tree(n), tree_steps(n), strict=True)):
        up, down = (LAG * step for step in steps[place])
        parts.append((up, _up(slot_of, f"tree-{i}", tree[place], chunk, task, tag)))
        parts.append((down, _down(slot_of, f"tree-{i}", tree[place], chunk, task, tag)))
    edges = sorted({lag + at for lag, _ in parts for at in (0, n_chunk)})
    body: Body = []
    for begin, end in zip(edges, edges[1:], strict=False):
        now = [op for lag, ops in parts if lag <= begin < lag + n_chunk for op in ops]
        body += [Repeat(end - begin, tuple(now))] if now else []
    return body


def _up(slot_of: SlotOf, name: str, node: Node, chunk: int, task: str, tag: str) -> list[Operation]:
    """Take a chunk from every child, add its own, pass it to the parent."""
    found = [
        Operation(OP_RECEIVE, slot_of(f"{name}-from-child-{j}"), task=task, task_bytes=chunk)
        for j in range(len(node.children))
    ]
    if node.parent >= 0:
        found.append(Operation(OP_SEND, slot_of(f"{name}-to-parent"), size_bytes=chunk, tag=tag))
    return found


def _down(slot_of: SlotOf, name: str, node: Node, chunk: int, task: str, tag: str) -> list[Operation]:
    """Take the sum from the parent, pass it to every child."""
    found = []
    if node.parent >= 0:
        found.append(Operation(OP_RECEIVE, slot_of(f"{name}-from-parent"), task=task, task_bytes=chunk))
    for j in range(len(node.children)):
        found.append(Operation(OP_SEND, slot_of(f"{name}-to-child-{j}"), size_bytes=chunk, tag=tag))
    return found


def broadcast_operations(slot_of: SlotOf, n: int, place: int, share_bytes: int, task: str, tag: str) -> Body:
    """A member's part of a broadcast of share_bytes along a chain of n servers, in chunks."""
    n_chunk = n_chunks(share_bytes)
    chunk = max(1, -(-share_bytes // n_chunk))
    body: list[Operation] = []
    if place > 0:
        body.append(Operation(OP_RECEIVE, slot_of("rail-previous"), task=task, task_bytes=chunk))
    if place < n - 1:
        body.append(Operation(OP_SEND, slot_of("rail-next"), size_bytes=chunk, tag=tag))
    return [Repeat(n_chunk, tuple(body))]
