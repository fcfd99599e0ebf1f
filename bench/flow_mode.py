"""Flow mode beside packets: how far off completion and iteration times are, and how much sooner they are there.

    python bench/flow_mode.py [--case NAME,..] [--control NAME,..] [--hybrid] [--quick] [--out FOLDER]

Every case runs with packets, and in flow mode with the numbers of its congestion control, one after the other on one
rank. Dense training jobs run with packets in mode "exact", whose completion times are 0.015 % off at most
(docs/accuracy.md); all others in mode "off". Runs with packets are kept in the folder for the next time. Errors are
flow mode's, of means over all messages; "each" is the mean over messages of their own relative errors, which chaos
alone makes a few per cent for HPCC. --hybrid: with messages as packets where rates are not sure enough (mode "auto"
with the forecast "fair"), in place of flow mode, and how many went so. --quick: three small cases with DCTCP.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cases import print_last
from pdes.errors import ConfigError
from runs import ROOT, Finished, simulate, simulate_once

CONTROLS = ("dctcp", "hpcc", "dcqcn", "timely", "swift")
SMALL = ("quickstart", "allreduce", "nccl", "incast", "fat-tree-flows")
DENSE = ("gpt-7b-64", "gpt-13b-128", "gpt-22b-256", "gpt-175b-1024")
EXPERTS = ("moe-8x7b-64", "moe-8x13b-128")
CASES = (*SMALL, *DENSE, *EXPERTS)
HOW = {"flow": ["wormhole.mode=flow"], "hybrid": ["wormhole.mode=auto", 'wormhole.paper.forecasts=["fair"]']}
QUICK = ("quickstart", "allreduce", "fat-tree-flows")


def compared(packets: Finished, flow: Finished) -> dict[str, Any]:
    """Errors of flow mode, relative, and seconds in the event loops."""
    columns = [run.columns("flows", ["flow_id", "fct_ps"]) for run in (packets, flow)]
    _, mine, other = np.intersect1d(*(each["flow_id"] for each in columns), return_indices=True)
    full, fast = (each["fct_ps"][rows].astype(float) for each, rows in zip(columns, (mine, other), strict=True))
    times = [np.mean(run.result["iteration_time_ps"] or [0]) for run in (packets, flow)]
    loop_s = [run.run["loop_seconds"] for run in (packets, flow)]
    return {
        "flows": len(full),
        "iteration_error": float(times[1] / times[0] - 1) if times[0] else None,
        "mean_fct_error": float(fast.mean() / full.mean() - 1),
        "p99_fct_error": float(np.percentile(fast, 99) / np.percentile(full, 99) - 1),
        "each_fct_error": float(np.abs(fast / full - 1).mean()),
        "packets_loop_s": loop_s[0],
        "flow_loop_s": loop_s[1],
        "as_packets": flow.result["fast_forward"].get("flow_mode", {}).get("as_packets", 0) / max(1, len(full)),
    }


def rows(cases: list[str], controls: list[str], out: Path, how: str) -> Iterator[dict[str, Any]]:
    """Each case with each control that it is run with. how: "flow" or "hybrid"."""
    for case in cases:
        config = ROOT / "examples" / f"{case}.toml"
        for control in ["hpcc"] if case in DENSE else controls:
            sets = [f"network.congestion_control={control}"]
            mode = "exact" if case in DENSE else "off"
            packets = simulate_once(config, [*sets, f"wormhole.mode={mode}"], out)
            flow = simulate(config, [*sets, *HOW[how]], out / f"{case}-{control}-{how}")
            yield {"case": case, "control": control} | compared(packets, flow)


def percent(error: float | None) -> str:
    """ "0.012 %", "" for none."""
    return "" if error is None else f"{100 * error:.3g} %"


def main() -> int:
    """Print a line as soon as its runs are over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default=",".join(CASES), help="of the examples, without .toml")
    parser.add_argument("--control", default=",".join(CONTROLS), help="for cases that are not dense training jobs")
    parser.add_argument("--hybrid", action="store_true", help="packets where rates are not sure enough")
    parser.add_argument("--quick", action="store_true", help="three small cases with DCTCP")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "bench-flow-mode")
    asked = parser.parse_args()
    cases, controls = asked.case.split(","), asked.control.split(",")
    if asked.quick:
        cases, controls = list(QUICK), ["dctcp"]
    asked.out.mkdir(parents=True, exist_ok=True)
    head = ("case", "control", "iteration", "mean FCT", "p99 FCT", "each", "times faster", "as packets")
    print("{:16} {:8} {:>10} {:>10} {:>10} {:>8} {:>13} {:>10}".format(*head))
    found = []
    try:
        for row in rows(cases, controls, asked.out, "hybrid" if asked.hybrid else "flow"):
            errors = [percent(row[f"{name}_error"]) for name in ("iteration", "mean_fct", "p99_fct", "each_fct")]
            faster = row["packets_loop_s"] / max(row["flow_loop_s"], 1e-9)
            print(f"{row['case']:16} {row['control']:8} {errors[0]:>10} {errors[1]:>10} {errors[2]:>10} {errors[3]:>8} "
                  f"{faster:13,.1f} {percent(row['as_packets']):>10}", flush=True)  # fmt: skip
            found.append(row)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print_last({"rows": found})
    return 0


if __name__ == "__main__":
    sys.exit(main())
