"""What the audit of flow level says by the share that is simulated, and how far that puts the run itself off.

    python bench/fluid_audit.py [--config FILE] [--controls hpcc,dctcp] [--shares 0,0.1,0.2] [--seeds 1,2] [--out DIR]

A config (examples/gpt-7b-64.toml) runs in full, and with the forecast "alone", a tolerance of 0.02, and each share for
each seed.
Beside what the audit says stands what is so: how far completion times are off those in full, over all messages.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from cases import print_last
from pdes.config import load_config
from pdes.config.wormhole.table import FORECASTS
from pdes.errors import ConfigError
from runs import ROOT, Finished, only, simulate_once

FLUID = ["wormhole.mode=auto", "wormhole.tolerance=0.02", only(*FORECASTS[:-1])]
SAID = ("audited", "void", "flows", "mean_fct_error", "standard_error", "max_fct_error")


def figures(full: Finished, run: Finished) -> dict[str, Any]:
    """How far a run is off, what it simulated, what its audit says."""
    fct_ps = [each.columns("flows", ["fct_ps"])["fct_ps"] for each in (full, run)]
    off = np.abs(fct_ps[1] / fct_ps[0] - 1)
    audit = run.result["fast_forward"].get("audit", {})
    said = {"said": {key: audit["fluid"][key] for key in SAID}} if "fluid" in audit else {}
    return {
        "mean_fct_error": float(off.mean()), "max_fct_error": float(off.max()),
        "packet_hops": run.result["packet_hops"], **said,
    }  # fmt: skip


def show(control: str, share: str, seed: str, f: dict[str, Any]) -> None:
    """A row of the table."""
    texts = [f"{100 * f[name]:8.2g}" for name in ("mean_fct_error", "max_fct_error")]
    said = f.get("said")
    texts += ["     -"] * 2 if said is None else [f"{said['flows']:6}", f"{said['void']:6}"]
    values = [None] * 3 if said is None else [said[name] for name in SAID[3:]]
    texts += ["       -" if value is None else f"{100 * value:8.2g}" for value in values]
    print(f"{control:6}{share:>5}{seed:>5}{f['packet_hops'] / 1e6:9.4g}", *texts, flush=True)


def main() -> int:
    """Run, print the table and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=ROOT / "examples" / "gpt-7b-64.toml")
    parser.add_argument("--controls", default="hpcc,dctcp")
    parser.add_argument("--shares", default="0,0.1,0.2,0.5,1")
    parser.add_argument("--seeds", default="1", help="of the draws, and of all else that is drawn")
    parser.add_argument("--out", type=Path, default=Path("results/bench-fluid-audit"), help="folder of the runs")
    arguments = parser.parse_args()
    try:
        load_config(arguments.config, FLUID)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("control, share, seed, M packet-hops; in %: completion times off, mean and largest; of flow level:")
    print("compared, void; in %: mean error that is said, standard error, largest")
    found = {}
    for control in arguments.controls.split(","):
        for seed in arguments.seeds.split(","):
            keys = [f'network.congestion_control="{control}"', f"simulation.seed={seed}"]
            full = simulate_once(arguments.config, [*keys, 'wormhole.mode="off"'], arguments.out)
            for share in arguments.shares.split(","):
                run = simulate_once(arguments.config, [*keys, *FLUID, f"wormhole.audit={share}"], arguments.out)
                found[f"{control} {share} {seed}"] = f = figures(full, run)
                show(control, share, seed, f)
    print_last(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
