"""Runs every congestion control, routing policy and kind of trouble on however many ranks it is started on.

    mpirun -n 3 python tests/mpi/network_matrix.py      prints, for each case, a digest of all that the engine found

One process group for all cases, so that nothing but the simulation itself takes time. The tests compare the lines.
"""

import hashlib
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from models.network.model import LogicalProcesses, NetworkModel
from models.network.state.records import N_TIMEOUT, PACKET_HOPS
from models.network.watch.results import port_columns
from partition.placement import place
from pdes.config import config_from_dict
from pdes.engine.exchange import World, world
from pdes.engine.round import make_loop, run_rounds
from pdes.scenario import Scenario, build_scenario

LAWS = ("dctcp", "dcqcn", "hpcc", "hpcc-pint", "timely", "swift", "fixed-window", "none", "nscc")
MARKED = ("dctcp", "dcqcn", "nscc")
POLICIES = ("ecmp", "weighted", "spray", "flowlet", "adaptive")
TOPOLOGY = {
    "kind": "leaf-spine", "leaves": 3, "spines": 2, "hosts_per_leaf": 3, "spine_rate": "40Gbps", "host_delay": "300ns",
    "spine_delay": "1us",
}  # fmt: skip
DOWN = {"time": "8us", "link": ["leaf0", "spine1"], "state": "down"}
UP = {"time": "90us", "link": ["leaf0", "spine1"], "state": "up", "rate": "10Gbps", "loss": 0.02}
SELECTIVE = {"recovery": "selective-repeat", "timeout": "50us", "max_timeout": "1ms"}


def cases() -> dict[str, dict[str, Any]]:
    """[network] of every case."""
    found: dict[str, dict[str, Any]] = {}
    for law in LAWS:
        own = {"congestion_control": law, "window": "20kB" if law == "fixed-window" else "auto"}
        if law in MARKED:
            own |= {"ecn_kmin": "5kB", "ecn_kmax": "50kB", "ecn_pmax": 0.5}
        found[f"{law}, PFC"] = own | {"buffer": {"size": "260kB", "alpha": 0.1}}
        lossy = {"loss": {"probability": 0.01}, "transport": {"timeout": "50us", "max_timeout": "1ms"}}
        found[f"{law}, loss"] = own | lossy | {"buffer": {"size": "60kB", "reserve": "0B"}, "pfc": {"enabled": False}}
    for policy in POLICIES:
        routing = {"policy": policy, "convergence": "20us", "flowlet_gap": "2us", "queue_pairs_per_flow": 2}
        found[f"{policy}, a link fails"] = {
            "congestion_control": "hpcc", "routing": routing, "link_event": [DOWN, UP], "transport": SELECTIVE,
        }  # fmt: skip
    weighted = {"scheduler": {"kind": "weighted", "weights": {"5": 3}}, "buffer": {"size": "400kB", "alpha": 0.1}}
    found["weighted queues"] = {"congestion_control": "dcqcn"} | weighted
    return found


def scenario_of(network: dict[str, Any]) -> Scenario:
    """60 flows of three priorities, a third of them into one host."""
    draw = random.Random(11)
    lines = ["src,dst,size_bytes,start_ps,priority"]
    for i in range(60):
        dst = 0 if i % 3 == 0 else draw.randrange(9)
        src = draw.choice([host for host in range(9) if host != dst])
        lines.append(f"{src},{dst},{draw.randrange(2, 30_000)},{draw.choice((0, 5_000_000))},{draw.choice((3, 5, 0))}")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "flows.csv").write_text("\n".join(lines) + "\n")
        tables = {"topology": TOPOLOGY, "network": network, "workload": {"kind": "flows", "file": "flows.csv"}}
        tables["partition"] = {"delay_threshold": "300ns"}
        return build_scenario(config_from_dict(tables, Path(folder) / "case.toml"))


def digest(network: dict[str, Any], world: World) -> str:
    """What one case gives, the same on every rank: counts for people, and a hash of every row."""
    s = scenario_of(network)
    rank_of_lp = place(s.lp_load(), s.lp_edges(), world.size, "round-robin")
    rows: list[np.ndarray] = []
    model = NetworkModel(
        s.topology,
        s.paths,
        s.plan,
        s.max_window_bytes,
        LogicalProcesses(s.lp_of_node, rank_of_lp, s.lookahead_ps),
        world,
        s.parameters,
        lambda flow, arrival, _task, _spent: rows.append(np.concatenate([flow.copy(), _wide(arrival)])),
    )
    run_rounds(model, make_loop(s.lookahead_ps, may_run_on=True), model.exchange)
    model.flush()
    ports = port_columns(model.state, s.topology, model.rank_of_node, world.rank)
    counters = model.state.fabric.counters
    own = (np.concatenate(rows), ports, int(counters[PACKET_HOPS]), int(counters[N_TIMEOUT]))
    parts = world.allgather(own)
    table = np.concatenate([part[0] for part in parts])
    table = table[np.lexsort(table.T[::-1])]
    columns = {name: np.sum([part[1][name] for part in parts], axis=0) for name in ports}
    text = hashlib.sha256(table.tobytes())
    for name in sorted(columns):
        text.update(name.encode() + columns[name].tobytes())
    counted = {name: int(columns[name].sum()) for name in ("ecn_marks", "pause_frames", "drops")}
    hops, timeouts = sum(part[2] for part in parts), sum(part[3] for part in parts)
    return f"{len(table)} rows, {hops} hops, {timeouts} timeouts, {counted}, {text.hexdigest()[:16]}"


def _wide(arrival: np.ndarray) -> np.ndarray:
    """Arrival rows as wide as flow rows, marked by -1."""
    return np.pad(arrival, ((0, 0), (0, 6)), constant_values=-1)


def main() -> None:
    """Print a line per case, on rank 0."""
    ranks = world()
    for name, network in cases().items():
        found = digest(network, ranks)
        if ranks.rank == 0:
            print(f"{name}: {found}", flush=True)


if __name__ == "__main__":
    main()
