"""Why flow mode is off: which of its assumptions does not hold in the run with packets.

    python bench/flow_mode_why.py [--case NAME,..] [--control NAME,..] [--quick] [--out FOLDER]

Cases and controls are those of bench/flow_mode.py. For each, from a run with packets, ports sampled every 2 us:

- error: of the mean completion time, and how much of it comes from messages that have their ways to themselves in flow
  mode (within 5 % of the least time), from those that share, and from the four that are furthest off;
- use: the part of its rate that the busiest port of a switch has while anything goes through it, in windows of 20 us:
  in flow mode a port that messages share has 1, or what was measured of the control, but for the windows at its ends;
- first, median, last: completion times with packets over flow mode's of the same rank: fair shares have all at 1.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from flow_mode import CONTROLS, SMALL

from cases import print_last
from pdes.units import PS_PER_S
from runs import ROOT, Finished, simulate, simulate_once

SAMPLED = ("output.sample_interval=2us", 'output.sample=["ports"]')
WINDOW_PS = 20_000_000
ALONE = 1.05  # of the least time, at most
IDLE = 0.02  # a window with less of a port's rate does not count
N_WORST = 4


def errors(packets: Finished, flow: Finished) -> dict[str, float]:
    """Of completion times: relative to their sum with packets, in parts; and their order."""
    names = ["flow_id", "fct_ps", "ideal_fct_ps"]
    one, other = (run.columns("flows", names) for run in (packets, flow))
    _, mine, theirs = np.intersect1d(one["flow_id"], other["flow_id"], return_indices=True)
    full, fast = one["fct_ps"][mine].astype(float), other["fct_ps"][theirs].astype(float)
    off = (fast - full) / full.sum()
    is_alone = fast <= ALONE * other["ideal_fct_ps"][theirs]
    ranked = np.sort(full) / np.sort(fast)
    return {
        "error": float(off.sum()),
        "alone": float(off[is_alone].sum()),
        "shared": float(off[~is_alone].sum()),
        "worst": float(off[np.argsort(-np.abs(off))[:N_WORST]].sum()),
        "first": float(ranked[0]),
        "median": float(np.median(ranked)),
        "last": float(ranked[-1]),
    }


def use(time_ps: np.ndarray, tx_bytes: np.ndarray, rate_bps: float) -> float:
    """The part of its rate that a port has, mean over windows in which it sends. tx_bytes: since the start."""
    edges = np.arange(0, int(time_ps[-1]) + 1, WINDOW_PS)
    sent = np.diff(np.interp(edges, np.append(0, time_ps), np.append(0, tx_bytes)))
    parts = sent * 8 / WINDOW_PS * PS_PER_S / rate_bps
    return float(parts[parts > IDLE].mean()) if (parts > IDLE).any() else 0.0


def busiest_use(packets: Finished) -> tuple[str, float]:
    """Name and use of the port of a switch that sends most."""
    ports = pq.read_table(packets.folder / "ports.parquet").to_pylist()
    from_switches = [port for port in ports if not port["node"].startswith(("host", "gpu"))]
    busiest = max(from_switches, key=lambda port: port["tx_bytes"])
    samples = packets.columns("samples_ports", ["port_id", "time_ps", "tx_bytes"])
    mine = samples["port_id"] == busiest["port_id"]
    name = f"{busiest['node']} to {busiest['peer']}"
    return name, use(samples["time_ps"][mine], samples["tx_bytes"][mine], busiest["rate_bps"])


def main() -> int:
    """Print a line for each case and control."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default=",".join(SMALL), help="of the examples, without .toml")
    parser.add_argument("--control", default=",".join(CONTROLS))
    parser.add_argument("--quick", action="store_true", help="the incast with DCTCP")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "bench-flow-mode-why")
    asked = parser.parse_args()
    cases, controls = asked.case.split(","), asked.control.split(",")
    if asked.quick:
        cases, controls = ["incast"], ["dctcp"]
    asked.out.mkdir(parents=True, exist_ok=True)
    parts = ("error", "alone", "shared", "worst")
    order = ("first", "median", "last")
    print(f"{'case':16} {'control':8}" + "".join(f"{name:>9}" for name in (*parts, *order, "use")) + "  port")
    rows: list[dict[str, Any]] = []
    for case in cases:
        config = ROOT / "examples" / f"{case}.toml"
        for control in controls:
            sets = [f"network.congestion_control={control}"]
            packets = simulate_once(config, [*sets, *SAMPLED], asked.out)
            flow = simulate(config, [*sets, "wormhole.mode=flow"], asked.out / f"{case}-{control}-flow")
            found, (port, used) = errors(packets, flow), busiest_use(packets)
            rows.append({"case": case, "control": control, "port": port, "use": used} | found)
            text = "".join(f"{found[name]:>9.2%}" for name in parts) + "".join(f"{found[name]:>9.3f}" for name in order)
            print(f"{case:16} {control:8}{text}{used:>9.1%}  {port}", flush=True)
    print_last({"rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
