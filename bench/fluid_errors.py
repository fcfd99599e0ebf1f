"""Flows that share ports, under every congestion control: what flow level skips of them, how far it is off.

    python bench/fluid_errors.py [--quick] [--seeds N] [--controls hpcc,timely] [--kinds port,lone]

Two to eight messages of 1 to 40 MB begin within 100 us and share one port ("port"), a pair of ports ("ports"), or a
pair of ports and their ports with each other's acknowledgements ("acks"). In "lone" a short one and a long one share a
slow port, and the long one is alone then. Each case is run in full, with the forecast "alone", with that and audit = 1
(which says what messages are off by at flow level), and in full with starts up to 50 ns later: what is below that
difference, the floor, no estimate can foretell. --quick: four seeds.
"""

import argparse
from typing import Any, NamedTuple

import numpy as np

from cases import print_last, scenario_of
from models.network.model import LogicalProcesses, NetworkModel
from models.network.skip.make_fast_forward import Wanted, make_fast_forward
from models.network.state.records import FLOW_COLUMNS, PACKET_HOPS
from pdes.engine.exchange import World
from pdes.engine.round import make_loop, run_rounds
from pdes.skipping.audit import Audit

MB, US, NS = 10**6, 10**6, 10**3  # US, NS: in ps
CONTROLS = ("hpcc", "dctcp", "timely", "swift", "dcqcn")
KINDS = ("port", "ports", "acks", "lone")
TOLERANCE = 0.02
FLUID = {"mode": "auto", "tolerance": TOLERANCE, "paper": {"forecasts": ["replay", "similar", "alone"]}}
HOSTS_PER_LEAF, SHAKE_NS = 8, 50
PAIRS_OF_LEAVES = {  # one of which each flow has
    "port": ((0, 1),), "lone": ((0, 1),),
    "ports": ((0, 1), (0, 2), (3, 1)),  # the first shares one port with each of the others
    "acks": ((0, 1), (0, 2), (2, 1)),  # and the others have acknowledgements on each other's ports
}  # fmt: skip


class Case(NamedTuple):
    """Flows on two or three leaves. int64[n_flow] each."""

    kind: str
    src: np.ndarray
    dst: np.ndarray
    size_bytes: np.ndarray
    start_ps: np.ndarray


class Outcome(NamedTuple):
    """Of a run: completion times by flow, packet-hops that were simulated, what the audit says."""

    fct_ps: np.ndarray
    packet_hops: int
    audit: dict[str, Any]


def make_case(kind: str, seed: int) -> Case:
    """Two to eight flows, each from and to hosts of its own; one where it is alone."""
    rng = np.random.default_rng((len(kind), seed))
    n = 2 if kind == "lone" else int(rng.integers(2, HOSTS_PER_LEAF + 1))
    leaves = np.array(PAIRS_OF_LEAVES[kind])[rng.integers(0, len(PAIRS_OF_LEAVES[kind]), n)]
    ends = leaves * HOSTS_PER_LEAF + np.arange(n)[:, None]
    size_bytes, start_ps = rng.integers(1 * MB, 40 * MB, n), rng.integers(0, 100 * US, n)
    if kind == "lone":
        size_bytes = np.array([rng.integers(1 * MB, 4 * MB), rng.integers(10 * MB, 40 * MB)])
    return Case(kind, ends[:, 0], ends[:, 1], size_bytes, start_ps)


def outcome(case: Case, control: str, wormhole: dict[str, Any]) -> Outcome:
    """Run a case on one rank to its end."""
    topology = {
        "kind": "leaf-spine", "leaves": 4, "spines": 1, "hosts_per_leaf": HOSTS_PER_LEAF, "host_rate": "100Gbps",
        "spine_rate": "40Gbps" if case.kind == "lone" else "100Gbps", "host_delay": "1us", "spine_delay": "1us",
    }  # fmt: skip
    s = scenario_of(
        topology, *(c.tolist() for c in case[1:]), network={"congestion_control": control}, wormhole=wormhole
    )
    found: list[np.ndarray] = []

    def sink(flow: np.ndarray, *_: np.ndarray) -> None:
        found.append(flow.copy())

    model = NetworkModel(
        s.topology,
        s.paths,
        s.plan,
        s.max_window_bytes,
        LogicalProcesses(s.lp_of_node, np.zeros(s.n_lp, np.int64), s.lookahead_ps),
        World(),
        s.parameters,
        sink,
    )
    keys = s.config.wormhole
    if keys.mode != "off":
        audit = Audit(keys.audit, s.parameters.seed, s.parameters.payload_bytes) if keys.audit else None
        wanted = Wanted(mode=keys.skips, tolerance=keys.wave_tolerance, audit=audit)
        model.fast_forward = make_fast_forward(
            s.topology, model, s.parameters, World(), s.path_rtt_ps, s.stop_ps, wanted
        )
    run_rounds(model, make_loop(s.lookahead_ps, next_look_ps=model.first_look_ps()), model.exchange)
    model.flush()
    audit = {}
    if model.fast_forward is not None:
        model.fast_forward.settle(model.state)
        audit = model.fast_forward.audit_facts().get("audit", {})
    rows = np.concatenate(found)
    columns = [FLOW_COLUMNS.index(name) for name in ("flow_id", "start_ps", "finish_ps")]
    flow_id, start_ps, finish_ps = rows[np.argsort(rows[:, columns[0]])][:, columns].T
    assert (flow_id == np.arange(len(case.src))).all(), "a flow did not finish"
    return Outcome(finish_ps - start_ps, int(model.state.fabric.counters[PACKET_HOPS]), audit)


def shaken(case: Case, seed: int) -> Case:
    """The same with other starts, by less than a packet's time."""
    late_ps = np.random.default_rng((99, seed)).integers(0, SHAKE_NS * NS, len(case.src))
    return case._replace(start_ps=case.start_ps + late_ps)


def measure(kind: str, control: str, seeds: range) -> dict[str, float | int | None]:
    """Over seeds: errors of completion times, what is skipped, what the audit says."""
    errors, floor, hops, audits = [], [], np.zeros(2, np.int64), []
    for seed in seeds:
        case = make_case(kind, seed)
        full, fast, audited = (
            outcome(case, control, keys) for keys in ({"mode": "off"}, FLUID, FLUID | {"audit": 1.0})
        )
        later = outcome(shaken(case, seed), control, {"mode": "off"})
        assert (audited.fct_ps == full.fct_ps).all(), "what is drawn was not simulated"
        errors.append(np.abs(fast.fct_ps / full.fct_ps - 1))
        floor.append(np.abs(later.fct_ps / full.fct_ps - 1))
        hops += (full.packet_hops, fast.packet_hops)
        audits.append(audited.audit["fluid"])
    each, of_floor = np.concatenate(errors), np.concatenate(floor)
    n_flow = sum(audit["flows"] for audit in audits)
    off = [audit["mean_fct_error"] * audit["flows"] for audit in audits if audit["flows"]]
    return {
        "skipped": float(1 - hops[1] / hops[0]), "mean_fct_error": float(each.mean()),
        "max_fct_error": float(each.max()), "mean_floor": float(of_floor.mean()), "max_floor": float(of_floor.max()),
        "audited_flows": n_flow, "mean_audit_error": sum(off) / n_flow if n_flow else None,
        "max_audit_error": max((audit["max_fct_error"] for audit in audits if audit["flows"]), default=None),
    }  # fmt: skip


def show(kind: str, control: str, f: dict[str, float | int | None]) -> None:
    """A row of the table."""
    names = [name for name in f if name != "audited_flows"]
    texts = ["     -" if f[name] is None else f"{100 * (f[name] or 0.0):6.3g}" for name in names]
    print(f"{kind:6}{control:7}", *texts, f"{f['audited_flows']:5}", flush=True)


def main() -> None:
    """Run, print the table and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="four seeds")
    parser.add_argument("--seeds", type=int, default=30, help="of each kind and control")
    parser.add_argument("--controls", default=",".join(CONTROLS))
    parser.add_argument("--kinds", default=",".join(KINDS))
    arguments = parser.parse_args()
    print("in %: skipped, error of completion times (mean, max), floor (mean, max), audit (mean, max); flows audited")
    found = {}
    for kind in arguments.kinds.split(","):
        for control in arguments.controls.split(","):
            f = measure(kind, control, range(4 if arguments.quick else arguments.seeds))
            show(kind, control, f)
            found[f"{kind} {control}"] = f
    print_last(found)


if __name__ == "__main__":
    main()
