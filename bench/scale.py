"""The largest fabrics: build, route, place and simulate, with time and memory of every part.

    python bench/scale.py [--quick] [--ranks 1,2] [--only NAME]

Fabrics: a Clos of three tiers, 32,768 GPUs (32 pods of 32 edge switches with 32 hosts each, 1,024 cores); a fat-tree of
k = 60, 54,000 hosts. On each, packet by packet, DCTCP at 100 Gbps:

all-reduce: over all GPUs, a ring at each edge switch, then in each pod between its edges, then between pods, and back:
reduce-scatters, an all-reduce, all-gathers, each behind those before it. A single ring of 54,000 would take 5.8 G
messages. all-to-all: one packet to each peer, in groups of one GPU of every pod (32 or 60); one of all 54,000 would be
2.9 G messages.

build: topology and workload. route: paths, round trips, the load of every port. place: the cut into LPs, and METIS on
the largest rank count. state: the tables of a rank. peak: the largest resident size of the process on one rank. per
rank: its proportional size when the run is over, what ranks share counted in parts; rank 0, which has built it all, and
the largest of the others. again: what of a rank's tables others have as well, per GPU of the fabric; not of pools that
follow what is under way (packets, messages, rows, what is exchanged). digest: the same on every rank count, or the
bench fails.
"""

import argparse
import functools
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cases import print_last
from models.network.model import LogicalProcesses, NetworkModel
from models.network.state.records import PACKET_HOPS
from own_pages import again_bytes, table_pages
from partition.placement import place
from pdes.config import config_from_dict
from pdes.engine.exchange import World, world
from pdes.engine.round import N_ROUND, make_loop, run_rounds
from pdes.scenario import build

Collective = dict[str, Any]
PARTS = {
    "build": ("build_topology", "build_workload"),
    "route": ("build_paths", "find_windows", "network_parameters", "expected_port_hops"),
    "place": ("_cut",),
}
FIGURES: tuple[str, ...] = ("build", "route", "place", "state", "run")
NOTHING = np.zeros(0)
MIX = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)


def fabric_of(name: str, quick: bool) -> tuple[dict[str, Any], tuple[int, int, int]]:
    """([topology], (pods, edges in a pod, hosts at an edge))."""
    if name == "clos":
        n = 8 if quick else 32
        sizes = {"pods": n, "edges_per_pod": n, "aggregations_per_pod": n, "cores": n * n, "hosts_per_edge": n}
        return {"kind": "three-tier", **sizes}, (n, n, n)
    k = 12 if quick else 60
    return {"kind": "fat-tree", "k": k}, (k, k // 2, k // 2)


def collective(name: str, operation: str, gpus: np.ndarray, size_bytes: int, after: list[str]) -> Collective:
    """A table of [[workload.collective]]."""
    size = f"{size_bytes}B"
    return {"name": name, "operation": operation, "gpus": gpus.tolist(), "size": size, "after": after}


def all_reduce(shape: tuple[int, int, int]) -> list[Collective]:
    """Over all hosts, level by level; the last level's chunks have one byte."""
    n_pod, n_edge, n_at_edge = shape
    host = np.arange(n_pod * n_edge * n_at_edge).reshape(shape)
    found, size_bytes = [], host.size
    levels = (  # the rings of a level, and what those of each host are called
        host.reshape(-1, n_at_edge),
        host.transpose(0, 2, 1).reshape(-1, n_edge),
        host.transpose(1, 2, 0).reshape(-1, n_pod),
    )
    steps = [("reduce-scatter", 0), ("reduce-scatter", 1), ("all-reduce", 2), ("all-gather", 1), ("all-gather", 0)]
    sizes_bytes = (size_bytes, size_bytes // n_at_edge, size_bytes // n_at_edge // n_edge)
    behind = np.full(host.size, -1)
    for i_step, (operation, level) in enumerate(steps):
        for i, gpus in enumerate(levels[level]):
            after = [f"{i_step - 1}-{earlier}" for earlier in np.unique(behind[gpus]).tolist() if earlier >= 0]
            found.append(collective(f"{i_step}-{i}", operation, gpus, sizes_bytes[level], after))
        behind[levels[level].ravel()] = np.repeat(np.arange(len(levels[level])), levels[level].shape[1])
    return found


def all_to_all(shape: tuple[int, int, int]) -> list[Collective]:
    """In groups of one host of every pod, a packet to each."""
    groups = np.arange(np.prod(shape)).reshape(shape[0], -1).T
    return [collective(f"{i}", "all-to-all", gpus, 1000 * len(gpus), []) for i, gpus in enumerate(groups)]


WORKLOADS: dict[str, Callable[[tuple[int, int, int]], list[Collective]]] = {
    "all-reduce": all_reduce, "all-to-all": all_to_all,
}  # fmt: skip
CASES = [f"{fabric} {workload}" for fabric in ("clos", "fat-tree") for workload in WORKLOADS]


class Clock:
    """Seconds of named parts."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(FIGURES, 0.0)

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, its time added to a part's."""

        @functools.wraps(function)
        def run(*arguments: Any, **named: Any) -> Any:
            begin_s = time.perf_counter()
            found = function(*arguments, **named)
            self.seconds[part] += time.perf_counter() - begin_s
            return found

        return run


class Digest:
    """Takes finished rows; what it makes of them does not depend on their order."""

    def __init__(self) -> None:
        self.n_flow, self.sum = 0, 0

    def __call__(self, flow: np.ndarray, arrival: np.ndarray, task: np.ndarray, _: np.ndarray) -> None:
        self.n_flow += len(flow)
        for rows in (flow[:, [0, 3, 4]], arrival[:, [0, 1, 1]], task[:, [0, 5, 6]]):
            words = (rows.astype(np.uint64) + np.uint64(1)) * MIX
            mixed = words[:, 0] ^ (words[:, 1] >> np.uint64(7)) ^ (words[:, 2] << np.uint64(9))
            self.sum = (self.sum + int((mixed * MIX[1]).sum(dtype=np.uint64))) % 2**64


def memory_bytes(name: str, key: str) -> int:
    """Of this process, from /proc/self/NAME."""
    lines = Path(f"/proc/self/{name}").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:"))


def run_here(case: str, quick: bool) -> None:
    """A case on the ranks that mpirun started; rank 0 prints a line of JSON."""
    ranks, clock, digest = world(), Clock(), Digest()
    fabric, workload = case.split()
    warm_up(ranks)
    scenario = build_here(fabric, workload, quick, clock) if ranks.rank == 0 else None
    peaks = [memory_bytes("status", "VmHWM")]
    s = ranks.bcast_once(scenario)
    del scenario
    placed = clock.timed("place", place)(s.lp_load(), s.lp_edges(), ranks.size, "metis") if ranks.rank == 0 else None
    rank_of_lp = ranks.bcast(placed)
    model = clock.timed("state", NetworkModel)(
        s.topology, s.paths, s.plan, s.max_window_bytes, s.lp_of_node, rank_of_lp, s.lookahead_ps, ranks, s.parameters,
        digest,
    )  # fmt: skip
    loop = make_loop(s.lookahead_ps)
    ranks.barrier()
    begin_s = time.perf_counter()
    run_rounds(model, loop, model.exchange)
    ranks.barrier()
    clock.seconds["run"] = time.perf_counter() - begin_s
    model.flush()
    n_flow, hops = (sum(ranks.allgather(n)) for n in (digest.n_flow, int(model.state.fabric.counters[PACKET_HOPS])))
    assert n_flow == s.plan.n_flow and hops >= int(s.port_hops.sum()), "faster because wrong"
    own = (memory_bytes("smaps_rollup", "Pss"), memory_bytes("status", "VmHWM"))
    sizes = ranks.allgather(own)
    fabric_tables, nic, state = model.state.fabric, model.state.nic, model.state
    fabric_tables = fabric_tables._replace(packets=NOTHING, packet_words=NOTHING, label=NOTHING, extra=NOTHING)
    tables = (fabric_tables, nic._replace(messages=NOTHING), state.work, state.buffers, state.routing, model.control)
    again = again_bytes(ranks.allgather(table_pages(tables)))
    total = sum(ranks.allgather(digest.sum)) % 2**64
    if ranks.rank == 0:
        facts = {
            "gpus": s.topology.n_host, "queue_pairs": len(s.plan.pair_src), "lps": s.n_lp, "messages": n_flow,
            "packet_hops": hops, "rounds": int(loop[N_ROUND]), "digest": f"{total:016x}", "build_peak": peaks[0],
            "peak": max(peak for _, peak in sizes), "per_rank": [size for size, _ in sizes], "again": again,
        }  # fmt: skip
        print(json.dumps(clock.seconds | facts), flush=True)


def build_here(fabric: str, workload: str, quick: bool, clock: Clock) -> build.Scenario:
    """The scenario, its parts timed."""
    topology, shape = fabric_of(fabric, quick)
    table = {"kind": "collectives", "collective": WORKLOADS[workload](shape)}
    config = config_from_dict({"topology": topology, "workload": table}, Path("scale.toml"))
    for part, names in PARTS.items():
        for name in names:
            setattr(build, name, clock.timed(part, getattr(build, name)))
    return build.build_scenario(config)


def warm_up(ranks: World) -> None:
    """Have the kernels compiled, or loaded, before anything is timed."""
    table = {"kind": "collectives", "collective": all_to_all((2, 2, 2))}
    s = build.build_scenario(config_from_dict({"topology": {"kind": "fat-tree", "k": 4}, "workload": table}, Path("x")))
    for rank in range(ranks.size):  # the others find what the first has compiled
        if rank == ranks.rank:
            place_all = np.zeros(s.n_lp, np.int64)
            model = NetworkModel(
                s.topology,
                s.paths,
                s.plan,
                s.max_window_bytes,
                LogicalProcesses(s.lp_of_node, place_all, s.lookahead_ps),
                World(),
                s.parameters,
                lambda *_: None,
            )
            run_rounds(model, make_loop(s.lookahead_ps), model.exchange)
        ranks.barrier()


def start(case: str, n_rank: int, quick: bool) -> dict[str, Any]:
    """The figures of one mpirun."""
    command = [sys.executable, __file__, "--here", case, *(["--quick"] if quick else [])]
    if n_rank > 1:
        command = [str(Path(sys.executable).parent / "mpirun"), "-n", str(n_rank), *command]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Every case on every rank count, and last the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="512 and 432 hosts")
    parser.add_argument("--ranks", default="1,2", help="rank counts, comma separated (default %(default)s)")
    parser.add_argument("--only", choices=CASES, help="this case alone")
    parser.add_argument("--here", choices=CASES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        run_here(arguments.here, arguments.quick)
        return
    found: dict[str, Any] = {}
    print(
        f"{'':19} ranks "
        + " ".join(f"{name:>6}" for name in FIGURES)
        + "  M hops   M hops/s  peak GB  GB per rank  KB again"
    )
    for case in [arguments.only] if arguments.only else CASES:
        digests = set()
        for n_rank in map(int, arguments.ranks.split(",")):
            run = found[f"{case}, {n_rank}"] = start(case, n_rank, arguments.quick)
            run["packet_hops_per_second"] = run["packet_hops"] / run["run"]
            digests.add(run["digest"])
            seconds = " ".join(f"{run[name]:>6.2f}" for name in FIGURES)
            sizes = [f"{size / 1e9:.2f}" for size in (run["per_rank"][0], max(run["per_rank"][1:], default=0))]
            print(
                f"{case:19} {n_rank:>5} {seconds} {run['packet_hops'] / 1e6:>7.1f} "
                f"{run['packet_hops_per_second'] / 1e6:>10.2f} {run['peak'] / 1e9:>8.2f}  "
                f"{', '.join(sizes[: min(n_rank, 2)]):>11} {run['again'] / run['gpus'] / 1e3:>9.2f}",
                flush=True,
            )
        assert len(digests) == 1, f"{case}: rank counts differ: {digests}"
    for case in (key for key in found if key.endswith(", 1")):
        run = found[case]
        print(f"{case[:-3]}: {run['gpus']:,} GPUs, {run['queue_pairs']:,} queue pairs, {run['messages']:,} messages")
    print_last({"cases": found})


if __name__ == "__main__":
    main()
