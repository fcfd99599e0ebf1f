"""The cases that the benchmarks share, as configs and flow files that a user could have written."""

import json
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from models.network.model import LogicalProcesses, NetworkModel
from partition.placement import place
from pdes.config import config_from_dict
from pdes.engine.exchange import World
from pdes.engine.round import make_loop
from pdes.scenario import Scenario, build_scenario

HERE = Path(__file__).resolve().parent
CASE_H_DESTINATIONS = HERE / "case_h_destinations.txt"


def write_flows(
    path: Path,
    src: Sequence[int],
    dst: Sequence[int],
    size_bytes: Sequence[int],
    start_ps: Sequence[int] | None = None,
    priority: Sequence[int] | None = None,
) -> None:
    """A CSV flow list; by default all flows start at 0."""
    columns = {"src": src, "dst": dst, "size_bytes": size_bytes, "start_ps": start_ps or [0] * len(src)}
    if priority is not None:
        columns["priority"] = priority
    rows = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join([",".join(columns), *rows]) + "\n")


def derangement(n: int, seed: int) -> np.ndarray:
    """A random permutation of n hosts in which nobody sends to itself."""
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(n)
        if not (order == np.arange(n)).any():
            return order


def permutation(k: int) -> np.ndarray:
    """Whom each host of a fat-tree sends to; k = 8: as in ns-3's case h."""
    return np.loadtxt(CASE_H_DESTINATIONS, dtype=int) if k == 8 else derangement(k**3 // 4, 1)


def scenario_of(
    topology: dict[str, Any], src: Any, dst: Any, size_bytes: Any, start_ps: Any = None, priority: Any = None,
    **tables: Any,
) -> Scenario:  # fmt: skip
    """A scenario of a flow list on a topology. tables: of the config, by name."""
    with tempfile.TemporaryDirectory() as folder:
        write_flows(Path(folder) / "flows.csv", src, dst, size_bytes, start_ps, priority)
        workload = {"kind": "flows", "file": "flows.csv"}
        config = config_from_dict({"topology": topology, "workload": workload, **tables}, Path(folder) / "bench.toml")
        return build_scenario(config)


def fat_tree_permutation(
    k: int, size_bytes: int, n_flow: int | None = None, n_priority: int = 1, **tables: Any
) -> Scenario:
    """Every host of a fat-tree, 100 Gbps and 1 us links, sends to another; k = 8: the flows of ns-3's case h.

    n_priority: classes over which the flows are spread. tables: of the config, by name.
    """
    n_host, dst = k**3 // 4, permutation(k)
    src = np.arange(n_host)
    if n_flow is not None:
        src = np.sort(np.random.default_rng(2).permutation(n_host)[:n_flow])
    priority = (src % n_priority).tolist() if n_priority > 1 else None
    return scenario_of({"kind": "fat-tree", "k": k}, src, dst[src], [size_bytes] * len(src), None, priority, **tables)


def mixed_delays(size_bytes: int, n_server: int = 16) -> Scenario:
    """ROFT of 8 GPUs per server: each GPU sends over NVLink to the next GPU of its server, and to another server.

    NVLink as packets at 25 ns, rails 500 ns, spines 1.5 us.
    """
    n_gpu, rng = 8 * n_server, np.random.default_rng(1)
    gpu = np.arange(n_gpu)
    shift, rail = rng.integers(1, n_server, 8), rng.permutation(8)
    inside = gpu // 8 * 8 + (gpu + 1) % 8
    outside = (gpu // 8 + shift[gpu % 8]) % n_server * 8 + rail[gpu % 8]
    topology = {"kind": "roft", "gpus": n_gpu, "nvlink": "packets", "nvlink_rate": "1.6Tbps", "spine_rate": "400Gbps"}
    src, dst = np.concatenate([gpu, gpu]), np.concatenate([inside, outside])
    return scenario_of(topology, src, dst, [size_bytes] * len(src))


def make_model(scenario: Scenario, world: World, placement: Any = "metis") -> tuple[NetworkModel, np.ndarray]:
    """(this rank's model, its round loop), without result tables."""
    s = scenario
    rank_of_lp = place(s.lp_load(), s.lp_edges(), world.size, placement)
    model = NetworkModel(
        s.topology,
        s.paths,
        s.plan,
        s.max_window_bytes,
        LogicalProcesses(s.lp_of_node, rank_of_lp, s.lookahead_ps),
        world,
        s.parameters,
        lambda *_: None,
    )
    if world.size > 1 and s.longest_round_ps:
        model.know_outputs(s.lp_of_node, s.lookahead_ps, s.longest_round_ps)
    return model, make_loop(s.lookahead_ps, may_run_on=True)


def spread(values: Sequence[float]) -> str:
    """Median with the least and the largest."""
    return f"{statistics.median(values):.3g} ({min(values):.3g} .. {max(values):.3g})"


def print_last(figures: dict[str, Any]) -> None:
    """The line of JSON that every benchmark ends with."""
    print(json.dumps(figures, sort_keys=True))
