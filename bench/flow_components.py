"""How many flows are connected with each other over links that they share, for `bench/flow_level.py`."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from pdes.convert.flow_case import Flow
from pdes.convert.flows import nodes_of

N_TIME = 20  # at which components are looked at


def component_sizes(ways: Sequence[Sequence[int]]) -> list[int]:
    """How many ways each one is connected with, itself among them: by links that ways share. ways: their links."""
    above = list(range(len(ways)))

    def root(i: int) -> int:
        while above[i] != i:
            above[i] = i = above[above[i]]
        return i

    first: dict[int, int] = {}
    for i, links in enumerate(ways):
        for link in links:
            above[root(i)] = root(first.setdefault(link, i))
    roots = [root(i) for i in range(len(ways))]
    n = Counter(roots)
    return [n[i] for i in roots]


def component(flows: Sequence[Flow], k: int, start_us: np.ndarray, end_us: np.ndarray) -> float:
    """The component of a flow, mean over flows under way and over times that lie evenly between first and last end."""
    nodes = [nodes_of(flow, k) for flow in flows]
    links = [[a * 10**6 + b for a, b in zip(way, way[1:], strict=False)] for way in nodes]
    times = np.linspace(start_us.min(), end_us.max(), N_TIME + 2)[1:-1]
    sizes = []
    for now_us in times:
        sizes += component_sizes([links[i] for i in np.flatnonzero((start_us <= now_us) & (now_us < end_us))])
    return float(np.mean(sizes)) if sizes else 0.0
