"""The figure-level claims of HPCC's paper (Li et al. 2019, sections 5.2 to 5.4) on this engine, a verdict for each.

    python bench/hpcc_claims.py [--quick] [--controls hpcc,dcqcn] [--out FOLDER]

incast: 16 hosts send to one through a switch, 100 Gbps and 1 us links; queue before the receiver over time, and the
use of its link. fairness: 4 long flows to one host join one after the other, a phase apart; Jain's index of their
goodput in the second half of each phase. HPCC's step is that of its section 3.3, (1 - 0.95) / 4 of the line rate per
round trip; the default of its repository suits about 125 flows, and is too small to make 4 equal: a row of its own
shows it. pauses: 60 hosts behind 4 edge switches send 1 MB each to one behind a fifth, all at once, with 32 MB of
shared buffer and PFC at 11 % of what is free. --out gets the figures.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cases import make_model, print_last, scenario_of
from models.network.model import NetworkModel
from models.network.state.records import FLOW_COLUMNS
from models.network.watch.results import port_columns
from pdes.engine.exchange import World
from pdes.engine.round import NOW, run_rounds
from pdes.scenario import Scenario
from plots import draw

PS_PER_US, BITS_PER_BYTE = 10**6, 8
RATE_BPS = 100 * 10**9
BASE_RTT_US = 4.2  # of a full packet over two hops and its ACK
BDP_BYTES = 52_000
SETTLED_US = 100 * BASE_RTT_US  # after the burst that comes before any feedback: 16 windows take 17 of them to drain
DEFAULT_STEP = "hpcc, default step"


@dataclass
class Samples:
    """What was seen at the end of rounds. queue: bytes waiting before the receiver; acked: bytes of every flow."""

    time_us: np.ndarray
    queue_bytes: np.ndarray
    acked_bytes: np.ndarray  # int64[n_sample, n_flow]
    finish_us: np.ndarray  # of every flow
    ports: dict[str, np.ndarray]
    bottleneck: int
    payload_frac: float  # of a packet

    def goodput_gbps(self, begin_us: float, end_us: float) -> np.ndarray:
        """Of every flow, between two instants."""
        first, last = np.searchsorted(self.time_us, (begin_us, end_us))
        last = min(last, len(self.time_us) - 1)
        span_us = self.time_us[last] - self.time_us[first]
        return (self.acked_bytes[last] - self.acked_bytes[first]) * BITS_PER_BYTE / span_us / 1e3


def star(n_host: int) -> dict[str, Any]:
    """One switch; the spine has nothing to do."""
    return {"kind": "leaf-spine", "leaves": 1, "spines": 1, "hosts_per_leaf": n_host}


def observe(scenario: Scenario, receiver: int, every_us: float) -> Samples:
    """Run a flow list, each flow with a queue pair of its own, and sample it."""
    finish_us = np.zeros(scenario.plan.n_flow)
    model, loop = make_model(scenario, World())
    assert isinstance(model, NetworkModel)
    columns = [FLOW_COLUMNS.index(name) for name in ("flow_id", "finish_ps")]

    def take_rows(flow: np.ndarray, arrival: np.ndarray, task: np.ndarray, _spent: np.ndarray) -> None:
        finish_us[flow[:, columns[0]]] = flow[:, columns[1]] / PS_PER_US

    model.sink = take_rows
    topology = scenario.topology
    bottleneck = int(np.flatnonzero(topology.port_dst == topology.host[receiver])[0])
    pair_of_flow = scenario.plan.slots[np.argsort(scenario.plan.operations["flow"])]
    row_of_pair = np.argsort(model.pairs.pair_of_row)
    rows = row_of_pair[pair_of_flow]
    rows_seen: list[tuple[float, int, np.ndarray]] = []

    def sample() -> None:
        now_us = loop[NOW] / PS_PER_US
        if not rows_seen or now_us >= rows_seen[-1][0] + every_us:
            fabric, nic = model.state.fabric, model.state.nic
            queued = int(fabric.ports["queued_bytes"][bottleneck])
            rows_seen.append((now_us, queued, nic.queue_pairs["acked_byte"][rows].copy()))

    model.compile()
    run_rounds(model, loop, model.exchange, sample, pause_every_s=0)
    model.flush()
    assert (finish_us > 0).all(), "a flow did not finish"
    time_us, queue_bytes, acked_bytes = (np.array(column) for column in zip(*rows_seen, strict=True))
    p = scenario.parameters
    return Samples(
        time_us, queue_bytes, acked_bytes, finish_us, port_columns(model.state, topology, model.rank_of_node, 0),
        bottleneck, p.payload_bytes / (p.payload_bytes + p.header_bytes),
    )  # fmt: skip


def scenario(topology: dict[str, Any], flows: list[tuple[int, int, int, int]], network: dict[str, Any]) -> Scenario:
    """Flows (src, dst, bytes, start in us)."""
    src, dst, size_bytes, start_us = zip(*flows, strict=True)
    start_ps = [start * PS_PER_US for start in start_us]
    return scenario_of(topology, src, dst, size_bytes, start_ps, network=network)


def incast(control: str, quick: bool) -> tuple[dict[str, float], Samples]:
    """16 to 1."""
    size_bytes = 2_000_000 if quick else 4_000_000
    flows = [(src, 16, size_bytes, 0) for src in range(16)]
    samples = observe(scenario(star(17), flows, {"congestion_control": control}), 16, 1)
    busy = (samples.time_us > SETTLED_US) & (samples.time_us < 0.9 * samples.finish_us.min())
    queue_bytes = samples.queue_bytes[busy]
    begin_us, end_us = samples.time_us[busy][[0, -1]]
    used = float(samples.goodput_gbps(begin_us, end_us).sum()) / samples.payload_frac * 1e9 / RATE_BPS
    return {
        "jain": jain(samples.goodput_gbps(begin_us, end_us)),
        "peak_kb": float(samples.queue_bytes.max() / 1e3),
        "mean_kb": float(queue_bytes.mean() / 1e3),
        "median_kb": float(np.median(queue_bytes) / 1e3),
        "p99_kb": float(np.percentile(queue_bytes, 99) / 1e3),
        "used": used,
        "last_finish_us": float(samples.finish_us.max()),
        "first_finish_us": float(samples.finish_us.min()),
    }, samples


def jain(rates: np.ndarray) -> float:
    """Jain's fairness index: 1 if all are equal, 1 / n if one has everything."""
    return float(rates.sum() ** 2 / (len(rates) * (rates**2).sum()))


def fairness(control: str, quick: bool) -> tuple[dict[str, float], Samples]:
    """4 flows join, a phase apart; sizes are such that fair shares would let them leave in the order of joining."""
    n_flow, phase_us = 4, 2_000 if quick else 10_000
    share = _fair_phases(n_flow)
    goodput = RATE_BPS / BITS_PER_BYTE / 1e6 * 0.9  # bytes per us, with headers and headroom taken off
    flows = [(src, n_flow, int(goodput * phase_us * share[src]), src * phase_us) for src in range(n_flow)]
    network: dict[str, Any] = {"congestion_control": "hpcc" if control == DEFAULT_STEP else control}
    if control == "hpcc":
        network["hpcc"] = {"rate_increase": f"{round(RATE_BPS * 0.05 / n_flow / 1e6)}Mbps"}
    samples = observe(scenario(star(n_flow + 1), flows, network), n_flow, 20)
    index, used = [], []
    for i in range(1, n_flow):  # the second half of a phase in which i + 1 flows are there
        rates = samples.goodput_gbps((i + 0.5) * phase_us, (i + 0.95) * phase_us)[: i + 1]
        index.append(jain(rates))
        used.append(float(rates.sum()) / samples.payload_frac * 1e9 / RATE_BPS)
    return {"least_jain": min(index), "jain_of_4": index[-1], "least_used": min(used)}, samples


def _fair_phases(n_flow: int) -> list[float]:
    """Phases of a whole link that each flow gets at fair shares, if flow i is there from phase i to n_flow + i."""
    present = [[f for f in range(n_flow) if f <= phase < n_flow + f] for phase in range(2 * n_flow)]
    return [sum(1 / len(flows) for flows in present if f in flows) for f in range(n_flow)]


def pauses(control: str, quick: bool) -> tuple[dict[str, float], Samples]:
    """60 to 1 with PFC, through 400 Gbps links, each of which brings a quarter of it to the last switch."""
    flows = [(src, 64, 400_000 if quick else 1_000_000, 0) for src in range(60)]
    network = {"congestion_control": control, "buffer": {"size": "32MB", "alpha": 0.11}}
    topology = {"kind": "leaf-spine", "leaves": 5, "spines": 4, "hosts_per_leaf": 16, "spine_rate": "400Gbps"}
    samples = observe(scenario(topology, flows, network), 64, 1)
    ports = samples.ports
    assert ports["drops"].sum() == 0, "PFC is to prevent loss"
    return {
        "pause_frames": float(ports["pause_frames"].sum()),
        "paused_ms": float(ports["paused_ps"].sum() / 1e9),
        "max_queue_mb": float(ports["max_queue_bytes"][samples.bottleneck] / 1e6),
        "last_finish_us": float(samples.finish_us.max()),
    }, samples


CASES: dict[str, Callable[[str, bool], tuple[dict[str, float], Samples]]] = {
    "incast": incast, "fairness": fairness, "pauses": pauses,
}  # fmt: skip


def verdicts(found: dict[str, dict[str, dict[str, float]]]) -> dict[str, bool]:
    """The paper's claims, as far as both controls were run."""
    if not {"hpcc", "dcqcn"} <= set(found["incast"]):
        return {}
    hpcc, dcqcn = ({case: found[case][control] for case in CASES} for control in ("hpcc", "dcqcn"))
    bdp_kb = BDP_BYTES / 1e3
    return {
        f"incast: HPCC's queue is near zero after the first round trips (median below 5 % of {bdp_kb:.0f} kB, the "
        "bandwidth-delay product)": hpcc["incast"]["median_kb"] < 0.05 * bdp_kb,
        "incast: DCQCN's queue is not (mean above the product)": dcqcn["incast"]["mean_kb"] > bdp_kb,
        "incast: HPCC uses the link to 95 %, its target, within 3 %": abs(hpcc["incast"]["used"] - 0.95) < 0.03,
        "fairness: HPCC's flows that join get equal shares (index above 0.95)": hpcc["fairness"]["least_jain"] > 0.95,
        "pauses: an incast of 60 makes DCQCN's switch pause its senders": dcqcn["pauses"]["pause_frames"] > 0,
        "pauses: none under HPCC": hpcc["pauses"]["pause_frames"] == 0,
    }


def plot(folder: Path, seen: dict[str, dict[str, Samples]]) -> None:
    """Queue of the incasts, and goodput of the flows that join."""
    for case, title in (("incast", "16-to-1 incast"), ("pauses", "60-to-1 incast, PFC")):
        curves = {control: (s.time_us / 1e3, s.queue_bytes / 1e3) for control, s in seen[case].items()}
        draw(folder / f"hpcc_{case}.png", title, {"queue before the receiver": curves}, "ms", "kB")
    panels = {}
    for control, s in seen["fairness"].items():
        step = max(1, len(s.time_us) // 300)
        time_us, acked = s.time_us[::step], s.acked_bytes[::step]
        rates = np.diff(acked, axis=0) * BITS_PER_BYTE / np.diff(time_us)[:, None] / 1e3
        panels[control] = {f"flow {i}": (time_us[1:] / 1e3, rates[:, i]) for i in range(rates.shape[1])}
    draw(folder / "hpcc_fairness.png", "flows that join one after the other", panels, "ms", "goodput, Gbps")


def main() -> None:
    """Run all; print tables, verdicts and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="shorter flows")
    parser.add_argument("--controls", default="hpcc,dcqcn", help="comma separated (default hpcc,dcqcn)")
    parser.add_argument("--out", type=Path, help="folder for the figures (default: none are drawn)")
    arguments = parser.parse_args()
    found: dict[str, dict[str, dict[str, float]]] = {}
    seen: dict[str, dict[str, Samples]] = {}
    for case, run in CASES.items():
        found[case], seen[case] = {}, {}
        controls = arguments.controls.split(",")
        if case == "fairness" and "hpcc" in controls:
            controls.append(DEFAULT_STEP)
        for control in controls:
            found[case][control], seen[case][control] = run(control, arguments.quick)
        names = list(next(iter(found[case].values())))
        print(f"\n{case:<20}" + " ".join(f"{name:>16}" for name in names))
        for control, figures in found[case].items():
            print(f"{control:<20}" + " ".join(f"{figures[name]:>16.4g}" for name in names))
    claims = verdicts(found)
    print()
    for claim, holds in claims.items():
        print(f"{'holds' if holds else 'DOES NOT HOLD'}: {claim}")
    if arguments.out:
        plot(arguments.out, seen)
    print_last({"figures": found, "claims": claims})


if __name__ == "__main__":
    main()
