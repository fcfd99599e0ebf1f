"""Incasts that look steady before they are: what the default criterion skips of them, how far rates are off.

    python bench/false_steadiness.py [--quick] [--controls hpcc,timely] [--size MB]

Two, four and eight hosts, on three leaves, send 60 MB each to one host. HPCC's shares drift for 10 ms and more while
every short window is flat, TIMELY's rates stand still while a queue fills, DCQCN's swing. Each case is run in full,
with steady skips, with `audit = 1`, which simulates what would be skipped and says what its rates were off by, and in
full with starts up to 50 ns later (the floor). A case of which nothing is skipped has no errors. --quick: 6 MB.
"""

import argparse
from typing import Any

import numpy as np

from cases import print_last
from fluid_errors import HOSTS_PER_LEAF, MB, Case, outcome, shaken

CONTROLS = ("hpcc", "dctcp", "dcqcn", "timely", "swift")
N_SENDERS = (2, 4, 8)
LEAVES = (0, 2, 3)  # of senders; the receiver is the first host of leaf 1
STEADY = {"mode": "exact", "paper": {"forecasts": ["periodic"]}}


def incast(n: int, size_bytes: int) -> Case:
    """n hosts send to one at once."""
    src = np.array([LEAVES[i % len(LEAVES)] * HOSTS_PER_LEAF + i // len(LEAVES) for i in range(n)])
    return Case("port", src, np.full(n, HOSTS_PER_LEAF), np.full(n, size_bytes), np.zeros(n, np.int64))


def measure(n: int, control: str, size_bytes: int) -> dict[str, Any]:
    """What is skipped of an incast, and how far it is off."""
    case = incast(n, size_bytes)
    full, fast, audited = (outcome(case, control, keys) for keys in ({"mode": "off"}, STEADY, STEADY | {"audit": 1.0}))
    assert (audited.fct_ps == full.fct_ps).all(), "what is audited was not simulated"
    off, floor = (
        np.abs(other.fct_ps / full.fct_ps - 1) for other in (fast, outcome(shaken(case, 1), control, {"mode": "off"}))
    )
    return {
        "skipped": 1 - fast.packet_hops / full.packet_hops, "mean_rate_error": audited.audit["mean_rate_error"],
        "max_rate_error": audited.audit["max_rate_error"], "mean_fct_error": float(off.mean()),
        "max_fct_error": float(off.max()), "mean_floor": float(floor.mean()), "max_floor": float(floor.max()),
    }  # fmt: skip


def main() -> None:
    """Run, print the table and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="6 MB instead of 60")
    parser.add_argument("--size", type=int, default=60, metavar="MB", help="of each message (default 60)")
    parser.add_argument("--controls", default=",".join(CONTROLS))
    arguments = parser.parse_args()
    size_bytes = (6 if arguments.quick else arguments.size) * MB
    print("in %: packet-hops skipped; mean and max of: error of skipped rates by the audit, of completion times, floor")
    found = {}
    for control in arguments.controls.split(","):
        for n in N_SENDERS:
            f = found[f"{control} {n}"] = measure(n, control, size_bytes)
            texts = ["      -" if value is None else f"{100 * value:7.3g}" for value in f.values()]
            print(f"{control:7} incast-{n}", *texts, flush=True)
    print_last(found)


if __name__ == "__main__":
    main()
