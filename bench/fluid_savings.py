"""What flow level saves in a job that is too large to be simulated in full, and how far it puts that off.

    python bench/fluid_savings.py [--config FILE] [--set TABLE.KEY=VALUE] [--tolerance 0.02] [--quick] [--out FOLDER]

Four runs of a config, a process each (default: examples/gpt-175b-1024.toml): with fast-forwarding and no tolerance,
which is what the others are compared with; the same with starts up to 50 ns later, which says how far the network's
own chaos puts it off; with the forecast "alone"; with "alone" and "shares". The first two are kept in FOLDER for the
next time.

Why packets are simulated all the same: `bench/fluid_left.py`.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from cases import print_last
from fidelity import flow_errors, iteration_error
from pdes.config import load_config
from pdes.config.wormhole.table import FORECASTS
from pdes.errors import ConfigError
from pdes.units import exact_duration
from runs import ROOT, Finished, compile_ahead, only, simulate_once

CHAOS_PS = 50_000
COLUMNS = ["flow_id", "finish_ps", "fct_ps"]


def measure(config: Path, overrides: list[str], tolerance: float, out: Path) -> dict[str, Any]:
    """All runs; what the JSON says of them."""
    exact = [*overrides, "wormhole.mode=exact", "output.flows=true"]
    loaded = load_config(config, exact)
    late = f"workload.start_jitter={exact_duration(loaded.workload.start_jitter_ps + CHAOS_PS)}"
    auto = [*overrides, "wormhole.mode=auto", f"wormhole.tolerance={tolerance}", "output.flows=true"]
    kinds = {
        "no tolerance": exact, "starts 50 ns later": [*exact, late],
        "alone": [*auto, only(*FORECASTS[:-1])], "alone and shares": [*auto, only(*FORECASTS)],
    }  # fmt: skip
    reference, runs = None, {}
    for name, keys in kinds.items():
        is_new = name.startswith("alone")
        compile_ahead(config, keys, out)
        print(f"{config.stem}: {name}", file=sys.stderr, flush=True)
        run = simulate_once(config, keys, out, fresh=is_new)
        reference = reference or run
        runs[name] = _facts(run) | _errors(reference, run)
    return {
        "config": str(config), "set": overrides, "tolerance": tolerance,
        "congestion_control": loaded.network.congestion_control, "runs": runs,
    }  # fmt: skip


def _facts(run: Finished) -> dict[str, Any]:
    result = run.result
    simulated = result["packet_hops"]
    return {
        "packet_hops": simulated, "factor": (simulated + result["skipped_packet_hops"]) / simulated,
        "loop_seconds": run.run["loop_seconds"],
    }  # fmt: skip


def _errors(reference: Finished, run: Finished) -> dict[str, Any]:
    off = flow_errors(reference.columns("flows", COLUMNS), run.columns("flows", COLUMNS))
    times_ps = [each.result["iteration_time_ps"] for each in (reference, run)]
    return {name: off[name] for name in ("mean_fct", "p99_fct")} | {"iteration": iteration_error(*times_ps)}


def show(figures: dict[str, Any]) -> None:
    """A line for each run."""
    names = ("M hops", "times fewer", "loop s", "mean FCT", "p99 FCT", "iteration")
    print(f"{Path(figures['config']).stem}, {figures['congestion_control']}, tolerance {figures['tolerance']:g}")
    print(f"{'':<20}" + "".join(f"{name:>13}" for name in names))
    for name, f in figures["runs"].items():
        cells = [
            f"{f['packet_hops'] / 1e6:.3g}", f"{f['factor']:.0f}", f"{f['loop_seconds']:.3g}",
            *(_percent(f[key]) for key in ("mean_fct", "p99_fct", "iteration")),
        ]  # fmt: skip
        print(f"{name:<20}" + "".join(f"{cell:>13}" for cell in cells))


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.2g} %"


def main() -> int:
    """Run, print the table and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, help="what to run (default examples/gpt-175b-1024.toml)")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="TABLE.KEY=VALUE",
                        help="override a key; may be repeated")  # fmt: skip
    parser.add_argument("--tolerance", type=float, default=0.02, help="of the runs at flow level (default 0.02)")
    parser.add_argument("--quick", action="store_true", help="examples/quickstart.toml")
    parser.add_argument("--out", type=Path, default=Path("results/bench-fluid-savings"), help="folder of the runs")
    arguments = parser.parse_args()
    name = "quickstart.toml" if arguments.quick else "gpt-175b-1024.toml"
    config = arguments.config or ROOT / "examples" / name
    try:
        figures = measure(config, arguments.overrides, arguments.tolerance, arguments.out)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    show(figures)
    print_last(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
