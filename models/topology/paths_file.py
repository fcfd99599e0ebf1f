"""Paths that another simulator printed, as `paths.txt` beside an ns-3 case: one flow per line,

src dst sport dport data a-b-c ack c-b-a        (node ids)
"""

from pathlib import Path

import numpy as np

from models.topology.graph import Topology
from models.topology.ns3_file import read_lines
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
    known: dict[tuple[int, ...], tuple[list[int], list[int]]] = {}
    port_between: dict[tuple[int, int], int] = {}
    for port in range(topology.n_port - 1, -1, -1):
        port_between[int(topology.port_src[port]), int(topology.port_dst[port])] = port
    for number, words in read_lines(path):
        where = f"{path}, line {number}"
        if len(words) != 8 or words[4] != "data" or words[6] != "ack":
            raise ConfigError(where, f"{' '.join(words)!r}", LINE)
        try:
            key = tuple(whole_number(w) for w in words[:4])
            hops = [[whole_number(w) for w in words[k].split("-")] for k in (5, 7)]
        except ValueError:
            raise ConfigError(where, f"{' '.join(words)!r}", LINE) from None
        both = [_ports(where, nodes, port_between) for nodes in hops]
        known[key] = both[0], both[1]
    rows: list[list[int]] = []
    for key in zip(src.tolist(), dst.tolist(), sport.tolist(), dport.tolist(), strict=True):
        if key not in known:
            raise ConfigError(
                str(path), f"no path for src {key[0]}, dst {key[1]}, sport {key[2]}, dport {key[3]}", LINE
            )
        rows.extend(known[key])
    start = np.cumsum([0] + [len(row) for row in rows]).astype(np.int64)
    return Paths(start, np.array([port for row in rows for port in row], np.int32))


def _ports(where: str, nodes: list[int], port_between: dict[tuple[int, int], int]) -> list[int]:
    ports = []
    for a, b in zip(nodes, nodes[1:], strict=False):
        if (a, b) not in port_between:
            raise ConfigError(where, f"no link from node {a} to node {b}", "Paths run over the topology's links")
        ports.append(port_between[a, b])
    if not ports:
        raise ConfigError(where, "a path of one node", LINE)
    return ports
