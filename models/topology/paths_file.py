"""Paths that another simulator printed, as `paths.txt` beside an ns-3 case: one flow per line,

src dst sport dport data a-b-c ack c-b-a        (node ids)
"""

from pathlib import Path

import numpy as np

from models.topology.graph import Topology
from models.topology.ns3_file import Line, read_lines
from models.topology.routing import Paths
from pdes.errors import ConfigError
from pdes.units import whole_number

LINE = "a line is 'src dst sport dport data a-b-c ack c-b-a', all node ids"


def read_ns3_paths(
    path: str | Path, topology: Topology, src: np.ndarray, dst: np.ndarray, sport: np.ndarray, dport: np.ndarray
) -> Paths:
    """The paths of all pairs, looked up by (src, dst, sport, dport); arguments as for `route_pairs`.

    Of parallel links a path takes the first. Raises ConfigError with the file and the line, or the pair without one.
    """
    path = Path(path)
    lines = read_lines(path)
    try:
        keys = [tuple(map(int, words[:4])) for _, words in lines]
        of_lines = _all_paths([words for _, words in lines], topology)
    except (ValueError, OverflowError, IndexError):
        of_lines = None
    if of_lines is None:
        raise _fault(path, lines, topology)
    line_of = {key: i for i, key in enumerate(keys)}
    wanted = []
    for key in zip(src.tolist(), dst.tolist(), sport.tolist(), dport.tolist(), strict=True):
        if key not in line_of:
            found = f"no path for src {key[0]}, dst {key[1]}, sport {key[2]}, dport {key[3]}"
            raise ConfigError(str(path), found, LINE)
        wanted.append(line_of[key])
    first = 2 * np.array(wanted, np.int64)
    return _rows(of_lines, np.stack([first, first + 1], axis=1).ravel())


def _all_paths(lines: list[list[str]], topology: Topology) -> Paths | None:
    """Of each line two rows; None: a line is not as it should be. ValueError, OverflowError, IndexError: likewise."""
    if any(len(words) != 8 or words[4] != "data" or words[6] != "ack" for words in lines):
        return None
    texts = [text for words in lines for text in (words[5], words[7])]
    length = np.array([text.count("-") for text in texts], np.int64)
    nodes = np.array(list(map(int, "-".join(texts).split("-"))) if texts else [], np.int64)
    if (length < 1).any() or (nodes < 0).any() or (nodes >= topology.n_node).any():
        return None
    ends = topology.port_src.astype(np.int64) * topology.n_node + topology.port_dst
    order = np.argsort(ends, kind="stable")  # so that of parallel links the first is found
    is_last = np.zeros(len(nodes), np.bool_)
    is_last[np.cumsum(length + 1) - 1] = True
    hops = (nodes[:-1] * topology.n_node + nodes[1:])[~is_last[:-1]]
    place = np.minimum(np.searchsorted(ends[order], hops), len(ends) - 1)
    port = order[place]
    return Paths(_starts(length), port.astype(np.int32)) if (ends[port] == hops).all() else None


def _starts(length: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(length)]).astype(np.int64)


def _rows(paths: Paths, row: np.ndarray) -> Paths:
    """Those rows, int64[], in this order."""
    first, start = paths.start[row], _starts((paths.start[1:] - paths.start[:-1])[row])
    return Paths(start, paths.port[np.arange(start[-1]) + np.repeat(first - start[:-1], np.diff(start))])


def _fault(path: Path, lines: list[Line], topology: Topology) -> ConfigError:
    """What is wrong with the first line that is not as it should be."""
    links = set(zip(topology.port_src.tolist(), topology.port_dst.tolist(), strict=True))
    for number, words in lines:
        where = f"{path}, line {number}"
        if len(words) != 8 or words[4] != "data" or words[6] != "ack":
            return ConfigError(where, f"{' '.join(words)!r}", LINE)
        try:
            _ = [whole_number(word) for word in words[:4]]
            ways = [[whole_number(word) for word in words[k].split("-")] for k in (5, 7)]
        except ValueError:
            return ConfigError(where, f"{' '.join(words)!r}", LINE)
        for nodes in ways:
            if len(nodes) < 2:
                return ConfigError(where, "a path of one node", LINE)
            for a, b in zip(nodes, nodes[1:], strict=False):
                if (a, b) not in links:
                    found = f"no link from node {a} to node {b}"
                    return ConfigError(where, found, "Paths run over the topology's links")
    raise AssertionError("a line has a fault")
