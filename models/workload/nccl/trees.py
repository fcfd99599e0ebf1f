"""The double binary tree of NCCL (trees.cc): two trees over the same members, inner in one and leaf in the other.

Each tree carries half of the data, so that all but two members send and receive about as much (Sanders, Speck and
Träff 2009). The second tree is the first one mirrored for an even number of members, shifted by one for an odd one.
"""

from functools import cache
from typing import NamedTuple


class Node(NamedTuple):
    """A member of a tree. parent -1: the root."""

    parent: int
    children: tuple[int, ...]


def binary_tree(n: int) -> list[Node]:
    """The binary tree over 0 .. n - 1 with root 0 in which odd numbers are leaves (ncclGetBtree)."""
    parents = [-1] * n
    for rank in range(1, n):
        bit = rank & -rank
        up = (rank ^ bit) | (bit << 1)
        parents[rank] = rank ^ bit if up >= n else up
    children: list[list[int]] = [[] for _ in range(n)]
    for rank in range(1, n):
        children[parents[rank]].append(rank)
    return [Node(parents[rank], tuple(children[rank])) for rank in range(n)]


@cache
def double_tree(n: int) -> tuple[list[Node], list[Node]]:
    """Both trees over 0 .. n - 1 (ncclGetDtree). Kept: not to be changed."""
    first = binary_tree(n)

    def moved(rank: int) -> int:
        return n - 1 - rank if n % 2 == 0 else (rank + 1) % n

    second: list[Node] = [Node(-1, ())] * n
    for rank, node in enumerate(first):
        parent = moved(node.parent) if node.parent >= 0 else -1
        second[moved(rank)] = Node(parent, tuple(moved(child) for child in node.children))
    return first, second


@cache
def tree_steps(n: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """For each member of both trees: hops after which it has what comes up to it, and what comes down."""
    first, second = (_steps(tree) for tree in double_tree(n))
    return first, second


def _steps(tree: list[Node]) -> list[tuple[int, int]]:
    order = [i for i, node in enumerate(tree) if node.parent < 0]
    for i in order:
        order += tree[i].children
    up, down = [0] * len(tree), [0] * len(tree)
    for i in reversed(order):
        up[i] = max((1 + up[child] for child in tree[i].children), default=0)
    for i in order:
        down[i] = down[tree[i].parent] + 1 if tree[i].parent >= 0 else up[i]
    return list(zip(up, down, strict=True))
