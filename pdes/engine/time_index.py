"""Next event time of every entity of a rank, in a min-tree: the least is at the root, and finding all entities
below a bound costs in proportion to how many there are.

`tree` is int64[2 * size], size a power of two; entity i is the leaf size + i, tree[1] is the least time, NEVER an
entity without events.
"""

import numpy as np

from pdes.engine.jit import loop_kernel

NEVER = 2**62


def make_time_index(n_entity: int) -> np.ndarray:
    """An empty tree for n_entity entities: int64[2 * size]."""
    size = 1
    while size < n_entity:
        size *= 2
    return np.full(2 * size, NEVER, np.int64)


def set_all_times(tree: np.ndarray, time_ps: np.ndarray) -> None:
    """Set the next event times of all entities, int64[n_entity]."""
    size = len(tree) // 2
    tree[size : size + len(time_ps)] = time_ps
    while size > 1:
        size //= 2
        np.minimum(tree[2 * size : 4 * size : 2], tree[2 * size + 1 : 4 * size : 2], out=tree[size : 2 * size])


@loop_kernel
def set_time(tree, i_entity, time_ps):
    """Set the next event time of an entity; O(log n), less if the least of its neighbourhood stays."""
    i = np.uint64((tree.size >> 1) + i_entity)
    tree[i] = time_ps
    while i > np.uint64(1):
        other = tree[i ^ np.uint64(1)]
        if other < time_ps:
            time_ps = other
        i >>= np.uint64(1)
        if tree[i] == time_ps:
            break
        tree[i] = time_ps


@loop_kernel
def collect_before(tree, limit_ps, found):
    """Write the entities with a time below limit_ps into found, ascending; return how many."""
    size = tree.size >> 1
    n_found = 0
    i = 1
    while True:
        if tree[np.uint64(i)] < limit_ps:
            if i < size:
                i <<= 1
                continue
            found[np.uint64(n_found)] = i - size
            n_found += 1
        while i & 1:
            i >>= 1
        if i == 0:
            return n_found
        i += 1
