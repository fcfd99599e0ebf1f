"""Scenarios of many experiments: what follows from equal tables is found once, and all ways on a topology at once."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from models.topology.base_rtt import path_base_rtt
from models.topology.graph import Topology
from models.topology.paths import Paths
from models.topology.routing import route_pairs
from pdes.config import Config
from pdes.errors import ConfigError
from pdes.scenario import Scenario
from pdes.scenario.build import AlongPaths, Begun, begin, complete, said_of
from pdes.scenario.control import Control, find_control
from pdes.scenario.inputs import build_paths
from pdes.scenario.placing import is_placed_by_runs
from pdes.scenario.topology import build_topology
from pdes.simulation.memory import within_memory
from pdes.simulation.preparation.placing import build_placed

MOST_TOPOLOGIES = 4  # as many as `models.topology.distance` keeps tables of
MOST_PAIRS = 2**16  # whose ways are found at once: what lies between takes 20 MB


def build_all(configs: Sequence[Config]) -> list[Scenario]:
    """Their scenarios; those with the same [topology] share it, and what follows from it alone. Raises ConfigError."""
    if not configs:
        return []
    topologies, controls = Topologies(), Controls()
    with within_memory(configs[0]):
        begun: dict[int, Begun] = {}
        found: dict[int, Scenario] = {}
        for i, config in enumerate(configs):
            if is_placed_by_runs(config):
                found[i] = build_placed(config, topologies)
                continue
            with said_of(config):
                begun[i] = begin(config, controls(config), topologies(config))
        for numbers in _alike(begun):
            ways = _ways([begun[i] for i in numbers])
            for i, (routes, known) in zip(numbers, ways, strict=True):
                with said_of(configs[i]):
                    found[i] = complete(begun[i], _own_routes(begun[i]) if routes is None else routes, known)
    return [found[i] for i in range(len(configs))]


class Topologies:
    """The last few that have been built, by what they follow from. One from a file is built anew."""

    def __init__(self) -> None:
        self._known: dict[Any, Topology] = {}
        self._texts: dict[int, tuple[Config, str]] = {}  # by ids of tables, which the configs keep alive

    def __call__(self, config: Config) -> Topology:
        """That of a config."""
        network, table = config.network, config.topology
        if table.kind == "file":
            return build_topology(config)
        if id(table) not in self._texts:
            self._texts[id(table)] = config, table.model_dump_json()
        key = self._texts[id(table)][1], network.loss, network.switch_latency_ps, network.is_ns3
        if key not in self._known:
            if len(self._known) >= MOST_TOPOLOGIES:
                del self._known[next(iter(self._known))]
            self._known[key] = build_topology(config)
        return self._known[key]


class Controls:
    """Congestion controls of the [network] tables that there were: equal ones are the same object (`_validated`)."""

    def __init__(self) -> None:
        self._known: dict[Any, tuple[Config, Control]] = {}  # a config keeps its table, so that no other has its id

    def __call__(self, config: Config) -> Control:
        """That of a config. Raises ConfigError."""
        key = id(config.network), config.source.parent
        if key not in self._known:
            self._known[key] = config, find_control(config)
        return self._known[key][1]


class _Kind(NamedTuple):
    """What those have in common whose ways are found at once, besides the topology."""

    topology: int  # its id: all topologies are alive
    ecmp_seed: int
    sizes: tuple[int, int]  # of data packets and ACKs on the wire
    payload_bytes: int


def _alike(begun: dict[int, Begun]) -> Iterator[list[int]]:
    """Numbers of those whose ways are found at once. One whose ways are not the rule's alone is by itself."""
    groups: dict[_Kind, list[int]] = {}
    for i, b in begun.items():
        n, t = b.config.network, b.config.topology
        if n.paths_file or b.next_hops or n.path or n.is_ns3 or t.kind == "dragonfly":
            yield [i]
            continue
        sizes = b.control.data_bytes(n), b.control.ack_bytes(n)
        groups.setdefault(_Kind(id(b.topology), n.ecmp_seed, sizes, n.payload_bytes), []).append(i)
    for numbers in groups.values():
        part, n_pair = [], 0
        for i in numbers:
            if part and n_pair + len(begun[i].plan.pair_src) > MOST_PAIRS:
                yield part
                part, n_pair = [], 0
            part.append(i)
            n_pair += len(begun[i].plan.pair_src)
        yield part


def _own_routes(b: Begun) -> Paths:
    return build_paths(b.config, b.topology, b.plan, b.next_hops)


def _ways(all_begun: Sequence[Begun]) -> list[tuple[Paths | None, AlongPaths | None]]:
    """Of each, if they are found at once; else (None, None): it is to find its own, and to say what is wrong."""
    first = all_begun[0]
    alone: list[tuple[Paths | None, AlongPaths | None]] = [(None, None)] * len(all_begun)
    if len(all_begun) == 1:
        return alone
    topology, n, plans = first.topology, first.config.network, [b.plan for b in all_begun]

    def all_of(name: str) -> np.ndarray:
        return np.concatenate([getattr(plan, name) for plan in plans])

    ends = topology.host[all_of("pair_src")], topology.host[all_of("pair_dst")]
    try:
        routes = route_pairs(topology, *ends, all_of("pair_sport"), all_of("pair_dport"), n.ecmp_seed)
        rtt = path_base_rtt(topology, routes, first.control.data_bytes(n), first.control.ack_bytes(n))
    except ConfigError:
        return alone
    hops = _port_hops(all_of("pair_bytes"), routes, plans, topology.n_port, n.payload_bytes)
    found, end = [], np.cumsum([len(plan.pair_src) for plan in plans]).tolist()
    for begin_at, end_at, own_hops in zip([0, *end[:-1]], end, hops, strict=True):
        start = routes.start[2 * begin_at : 2 * end_at + 1]
        paths = Paths(start - start[0], routes.port[start[0] : start[-1]])
        own = rtt[0][begin_at:end_at], rtt[1][begin_at:end_at]
        found.append((paths, AlongPaths(own, own_hops)))
    return found


def _port_hops(pair_bytes: np.ndarray, routes: Paths, plans: Sequence[Any], n_port: int, payload: int) -> np.ndarray:
    """`expected_port_hops` of each, int64[n_plan, n_port]."""
    n_pair = [len(plan.pair_src) for plan in plans]
    lengths = np.diff(routes.start)
    packets = np.repeat(np.repeat(-(-pair_bytes // payload), 2), lengths)
    row = np.repeat(np.repeat(np.arange(len(plans)), 2 * np.array(n_pair)), lengths)
    hops = np.zeros((len(plans), n_port), np.int64)
    np.add.at(hops.reshape(-1), row * n_port + routes.port, packets)
    return hops
