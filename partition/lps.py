"""Cut a network into logical processes by propagation delay (Arcadia, NSDI'26, section 6.4).

Nodes joined by a link with less delay than the threshold are one LP, and so are the nodes of one server. Nodes may act
on each other without a link, after a while: such a tie is like a link with that delay. What is left between LPs has at
least the threshold as delay: the lookahead. The cut knows nothing of ranks.
"""

from typing import NamedTuple

import numpy as np

NO_LOOKAHEAD_PS = 2**62
"""Lookahead of a cut that joins nothing: larger than any time of a simulation."""


class Ties(NamedTuple):
    """Pairs of nodes that act on each other without a link, delay_ps later at the earliest. int64[n_tie] each."""

    a: np.ndarray
    b: np.ndarray
    delay_ps: np.ndarray


NO_TIES = Ties(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))


def cut_by_delay(
    n_node: int,
    port_src: np.ndarray,
    port_dst: np.ndarray,
    port_delay_ps: np.ndarray,
    server: np.ndarray,
    threshold_ps: int,
    ties: Ties = NO_TIES,
) -> np.ndarray:
    """LP of every node, int64[n_node]; LPs are numbered by their least node.

    port_src, port_dst, port_delay_ps: int64[n_port]. server: int64[n_node], nodes of the same server >= 0 stay
    together. Raises ValueError for a threshold that is not above zero: a link without delay cannot be cut.
    """
    if threshold_ps <= 0:
        raise ValueError(f"a delay threshold of {threshold_ps} ps cannot cut: it is to be above 0 ps")
    near, tied = port_delay_ps < threshold_ps, ties.delay_ps < threshold_ps
    of_server = np.flatnonzero(server >= 0)
    if not (len(of_server) or near.any() or tied.any()):
        return np.arange(n_node)
    ends = [(port_src[near], port_dst[near]), (ties.a[tied], ties.b[tied])]
    if len(of_server):
        _, first, i_server = np.unique(server[of_server], return_index=True, return_inverse=True)
        ends.append((of_server, of_server[first[i_server.reshape(-1)]]))
    root = _union(n_node, *(np.concatenate(end) for end in zip(*ends, strict=True)))
    number = np.cumsum(root == np.arange(n_node)) - 1  # of a set, at its least node
    return number[root].astype(np.int64)


def lookahead_ps(
    port_src: np.ndarray, port_dst: np.ndarray, port_delay_ps: np.ndarray, lp_of_node: np.ndarray, ties: Ties = NO_TIES
) -> int:
    """The least delay of a link or a tie that joins two LPs; NO_LOOKAHEAD_PS if none does."""
    links = port_delay_ps[lp_of_node[port_src] != lp_of_node[port_dst]]
    return min(int(links.min(initial=NO_LOOKAHEAD_PS)), ties_lookahead_ps(lp_of_node, ties))


def ties_lookahead_ps(lp_of_node: np.ndarray, ties: Ties) -> int:
    """The least delay of a tie that joins two LPs; NO_LOOKAHEAD_PS if none does."""
    if not len(ties.delay_ps):
        return NO_LOOKAHEAD_PS
    return int(ties.delay_ps[lp_of_node[ties.a] != lp_of_node[ties.b]].min(initial=NO_LOOKAHEAD_PS))


def _union(n_node: int, end_a: np.ndarray, end_b: np.ndarray) -> np.ndarray:
    """The least node of each node's set, int64[n_node], when the two ends of each pair are in one set.

    Union-find on whole arrays (Shiloach and Vishkin 1982): every root hooks onto the least root that a pair joins it
    to, then all paths are halved until they are flat; again until no pair joins two roots.
    """
    root, root_a, root_b = np.arange(n_node), end_a, end_b
    while (root_a != root_b).any():
        least = np.minimum(root_a, root_b)
        np.minimum.at(root, root_a, least)
        np.minimum.at(root, root_b, least)
        above = root[root]
        while (above != root).any():
            root, above = above, above[above]
        root_a, root_b = root[end_a], root[end_b]
    return root
