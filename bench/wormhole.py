"""Fast-forwarding against full simulation: what it skips, what that saves, and how far the results are off.

    python bench/wormhole.py --config FILE [--set key=value ...] [--mode M] [--quick] [--out FOLDER] [--no-full]
    python bench/wormhole.py --suite [--cases gpt-7b-64-hpcc,...] [--quick] [--out FOLDER]

A config is run three times: in full, with fast-forwarding as it says, and in full again with starts that are up to
50 ns later. How far apart the two full runs are is the chaos of the network itself: nothing that predicts one of them
can be closer to the other, so it stands beside every error. Flows are matched by id, packets of flow 0 by their first
byte. Full runs are kept in FOLDER by a hash of what determines them; their times are of when they ran.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cases import print_last
from fidelity import event_skip, flow_errors, iteration_error, relative, rtt_errors
from pdes.config import load_config
from pdes.config.wormhole.table import FORECASTS
from pdes.errors import ConfigError
from pdes.units import PS_PER_NS, exact_duration, format_count
from plots import draw
from runs import ROOT, Finished, compile_ahead, only, simulate_once

EXAMPLES = ROOT / "examples"
CHAOS_PS = 50 * PS_PER_NS
RTT_FLOW, EXACT = "output.rtt_of_flow=0", "wormhole.mode=exact"
FLOW_COLUMNS, RTT_COLUMNS = ("flow_id", "finish_ps", "fct_ps"), ("sequence", "rtt_ps")
CONTROLS = ("hpcc", "dcqcn", "timely", "dctcp")
WAVES, AT_SHARES = [only(*FORECASTS[:3])], [only(*FORECASTS)]
Case = tuple[Path, list[str]]
"""A config and what is set in it."""

ROWS: dict[str, tuple[str, str]] = {  # name in `differences` -> (text, name in the JSON of the fast-forwarded run)
    "mean_fct": ("completion times, mean", "mean_fct_error"),
    "p99_fct": ("completion times, 99th percentile", "p99_fct_error"),
    "max_fct": ("completion times, largest", "max_fct_error"),
    "last_end": ("end of the last flow", "last_end_error"),
    "distribution": ("distribution, worst of 1/10/50/90/99 %", "distribution_error"),
    "ks_distance": ("distribution, Kolmogorov-Smirnov", "ks_distance"),
    "iteration": ("iteration time", "iteration_error"),
    "simulated_time": ("simulated time", "simulated_time_error"),
    "rtt_nrmse": ("round-trip times of flow 0, NRMSE", "rtt_nrmse"),
    "flow_coverage": ("flows compared", "flow_coverage"),
    "rtt_coverage": ("packets of flow 0 compared", "rtt_coverage"),
}
CHAOS_NAMES = {"mean_fct": "chaos_floor", "p99_fct": "chaos_p99"}


def differences(full: Finished, other: Finished) -> dict[str, float | None]:
    """How far a run is from the full one, see `fidelity`; keys of ROWS and more."""
    result, other_result = full.result, other.result
    flows = [run.columns("flows", FLOW_COLUMNS) for run in (full, other)]
    packets = [run.columns("rtt", RTT_COLUMNS) for run in (full, other)] if "rtt" in result else None
    return {
        **flow_errors(*flows),
        **(rtt_errors(*packets) if packets else {"rtt_nrmse": None, "rtt_coverage": None}),
        "iteration": iteration_error(result["iteration_time_ps"], other_result["iteration_time_ps"]),
        "simulated_time": relative(result["simulated_time_ps"], other_result["simulated_time_ps"]),
    }


def measure(case: Case, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run a case; what the JSON says of it."""
    config, overrides, out = case[0], [*case[1], *arguments.overrides], arguments.out
    if load_config(config, overrides).network.routing.queue_pairs_per_flow == 1:
        overrides = [RTT_FLOW, *overrides]
    skipping = [*overrides, *([f"wormhole.mode={arguments.mode}"] if arguments.mode else [])]
    loaded = load_config(config, skipping)
    compile_ahead(config, skipping, out)
    _say(f"{config.stem}: fast-forwarding, mode {loaded.wormhole.mode}")
    quick = simulate_once(config, skipping, out / "forwarded", arguments.ranks, fresh=True)
    figures = {
        "config": str(config), "set": skipping, "mode": loaded.wormhole.mode, "ranks": arguments.ranks,
        "congestion_control": loaded.network.congestion_control, **_facts(quick),
    }  # fmt: skip
    if arguments.no_full:
        whole = figures["packet_hops"] + figures["skipped_packet_hops"]
        return _add_skip(figures, whole) | dict.fromkeys((*(row[1] for row in ROWS.values()), *CHAOS_NAMES.values()))
    in_full, n = [*overrides, "wormhole.mode=off"], arguments.full_runs
    full, moved, others = _full("in full", config, in_full, arguments), [], [quick]
    for most_ps in (CHAOS_PS * (n - i) // n for i in range(n - 1)):  # in proportion: every start moves by less
        late = f"workload.start_jitter={exact_duration(loaded.workload.start_jitter_ps + most_ps)}"
        moved.append(_full(f"in full, starts moved by up to {most_ps} ps", config, [*in_full, late], arguments))
        if n > 2:
            _say(f"{config.stem}: fast-forwarding, starts moved by up to {most_ps} ps")
            others.append(simulate_once(config, [*skipping, late], out / "forwarded", arguments.ranks, fresh=True))
    return figures | _compare(figures, full, quick, moved[0]) | (_spread(others, [full, *moved]) if n > 2 else {})


def _spread(forwarded: list[Finished], in_full: list[Finished]) -> dict[str, Any]:
    """One run is one draw: of each fast-forwarded run the mean error of completion times against all full ones, and its
    packet-hops; the same mean of each pair of full runs."""
    flows, own = ([run.columns("flows", FLOW_COLUMNS) for run in runs] for runs in (in_full, forwarded))
    pairs = [flow_errors(a, b)["mean_fct"] for i, a in enumerate(flows) for b in flows[i + 1 :]]
    errors = [sum(flow_errors(each, mine)["mean_fct"] for each in flows) / len(flows) for mine in own]
    return {
        "mean_fct_errors": errors, "chaos_floors": pairs,
        "packet_hops_forwarded": [run.result["packet_hops"] for run in forwarded],
    }  # fmt: skip


def _full(how: str, config: Path, overrides: list[str], arguments: argparse.Namespace) -> Finished:
    _say(f"{config.stem}: {how}")
    found = simulate_once(config, overrides, arguments.out, arguments.ranks, arguments.fresh)
    if found.is_kept:
        _say(f"  kept from an earlier run, {found.folder}; --fresh runs it again")
    return found


def _facts(run: Finished) -> dict[str, Any]:
    result = run.result
    return {
        "packet_hops": result["packet_hops"],
        "skipped_packet_hops": result["skipped_packet_hops"],
        "loop_seconds": run.run["loop_seconds"],
        "start_to_result_seconds": run.start_to_result_s,
        "fast_forward": result.get("fast_forward", {}),
    }


def _add_skip(figures: dict[str, Any], full_packet_hops: int) -> dict[str, Any]:
    skip = event_skip(figures["packet_hops"], full_packet_hops)
    is_skipping = figures["mode"] != "off" and (skip > 0 or figures["skipped_packet_hops"] > 0)
    return figures | {"full_packet_hops": full_packet_hops, "event_skip": skip, "exercised": is_skipping}


def _compare(figures: dict[str, Any], full: Finished, quick: Finished, moved: Finished) -> dict[str, Any]:
    facts, errors, chaos = _facts(full), differences(full, quick), differences(full, moved)
    out = _add_skip(figures, facts["packet_hops"])
    for name in ("loop_seconds", "start_to_result_seconds"):
        out[f"full_{name}"] = facts[name]
    out["wall_speedup"] = facts["loop_seconds"] / max(figures["loop_seconds"], 1e-9)
    out["start_to_result_speedup"] = facts["start_to_result_seconds"] / figures["start_to_result_seconds"]
    out |= {json_name: errors[name] for name, (_, json_name) in ROWS.items()}
    out |= {json_name: chaos[name] for name, json_name in CHAOS_NAMES.items()}
    return out | {
        "errors": errors, "chaos": chaos,
        "same_code": full.code == quick.code == moved.code, "full_is_kept": full.is_kept,
    }  # fmt: skip


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def percent(value: float | None) -> str:
    """A share for people."""
    return "-" if value is None else f"{100 * value:.3g} %" if value else "0"


def show(figures: dict[str, Any]) -> None:
    """The tables of one case."""
    f = figures
    head = f"{Path(f['config']).stem}, {f['congestion_control']}, mode {f['mode']}"
    print(f"\n{head:<44} {'in full':>12} {'forwarded':>12}")
    for text, name, form in (
        ("packet-hops simulated", "packet_hops", format_count),
        ("seconds in the event loop", "loop_seconds", "{:.3g}".format),
        ("seconds from start to results", "start_to_result_seconds", "{:.3g}".format),
    ):
        full = f.get(f"full_{name}")
        print(f"{text:<44} {'-' if full is None else form(full):>12} {form(f[name]):>12}")
    print(f"{'packet-hops left':<44} {'':>12} {percent(1 - f['event_skip']):>12}")
    if "errors" in f:
        factors = f"{f['wall_speedup']:.2f}", f"{f['start_to_result_speedup']:.2f}"
        print(f"{'times faster: loop; start to results':<44} {factors[0]:>12} {factors[1]:>12}")
        print(f"\n{'difference from the full run':<44} {'forwarded':>12} {'50 ns later':>12}")
        for name, (text, _) in ROWS.items():
            print(f"{text:<44} {percent(f['errors'][name]):>12} {percent(f['chaos'][name]):>12}")
    for text, name, form in (
        ("mean, {} forwarded runs, each with all full", "mean_fct_errors", percent),
        ("packet-hops that these simulated", "packet_hops_forwarded", format_count),
        ("mean, {} pairs of full runs", "chaos_floors", percent),
    ):
        if each := f.get(name):
            mean, least, most = map(form, (sum(each) / len(each), min(each), max(each)))
            print(f"{text.format(len(each)):<44} {mean:>12} {least:>12} to {most}")
    for line in lines_of(f["fast_forward"]):
        print(f"fast-forwarding, {line}")
    if not f["exercised"]:
        print("NOT EXERCISED: nothing was skipped, so nothing here says how good fast-forwarding is")
    if not f.get("same_code", True):
        print("NOTE: a full run is of another version of the code; --fresh runs it again")


def lines_of(value: Any, name: str = "") -> list[str]:
    """Whatever nested counts hold, a line each."""
    if isinstance(value, dict):
        return [line for key, inner in value.items() for line in lines_of(inner, f"{name}.{key}" if name else str(key))]
    if isinstance(value, list) and len(value) > 8:
        return [f"{name}: {len(value)} values, {value[:4]} .."]
    return [f"{name}: {value:,}" if isinstance(value, int) else f"{name}: {value}"]


def suite(quick: bool) -> dict[str, Case]:
    """The cases of --suite by name. Mixtures of experts without waves, with them as the examples have them, and at flow
    level."""
    first = EXAMPLES / ("quickstart.toml" if quick else "gpt-7b-64.toml")
    found = {f"{first.stem}-{control}": (first, [f"network.congestion_control={control}"]) for control in CONTROLS}
    if quick:
        return found
    dense = {name: (EXAMPLES / f"{name}.toml", []) for name in ("gpt-13b-128", "gpt-22b-256")}
    mixtures = {name: EXAMPLES / f"{name}.toml" for name in ("moe-8x7b-64", "moe-8x13b-128", "moe-8x22b-256")}
    first = mixtures["moe-8x7b-64"]
    for control in CONTROLS:
        found[f"moe-8x7b-64-{control}"] = (first, [f"network.congestion_control={control}", EXACT])
    larger = {f"{name}-hpcc": (path, [EXACT]) for name, path in mixtures.items() if path != first}
    waves = {f"{name}-waves": (path, WAVES) for name, path in mixtures.items()}
    for name, path in mixtures.items():
        for control in CONTROLS if path == first else ("hpcc", "dctcp"):
            waves[f"{name}-{control}-shares"] = (path, [f"network.congestion_control={control}", *AT_SHARES])
    return found | dense | larger | waves


def show_suite(found: dict[str, dict[str, Any]]) -> None:
    """One line per case."""
    names = ("hops left", "loop x", "total x", "mean", "chaos", "p99", "chaos", "iteration", "NRMSE")
    print(f"\n{'case':<24}" + " ".join(f"{name:>10}" for name in names))
    for case, f in found.items():
        factors = [f"{f[name]:.2f}" if name in f else "-" for name in ("wall_speedup", "start_to_result_speedup")]
        shares = ("mean_fct_error", "chaos_floor", "p99_fct_error", "chaos_p99", "iteration_error", "rtt_nrmse")
        cells = [percent(1 - f["event_skip"]), *factors, *(percent(f[name]) for name in shares)]
        note = "" if f["exercised"] else "  not exercised"
        print(f"{case:<24}" + " ".join(f"{cell:>10}" for cell in cells) + note)


def plot(folder: Path, found: dict[str, dict[str, Any]]) -> None:
    """Errors beside the chaos, and how many times faster."""
    at, ticks = range(len(found)), list(found)

    def curve(value: Callable[[dict[str, Any]], Any]) -> tuple[Any, list[float]]:
        return at, [float("nan") if not (v := value(f)) else v for f in found.values()]

    errors = {
        "mean, fast-forwarded": curve(lambda f: 100 * (f["mean_fct_error"] or 0)),
        "mean, starts 50 ns later": curve(lambda f: 100 * (f["chaos_floor"] or 0)),
        "99th percentile, fast-forwarded": curve(lambda f: 100 * (f["p99_fct_error"] or 0)),
        "99th percentile, 50 ns later": curve(lambda f: 100 * (f["chaos_p99"] or 0)),
    }
    draw(folder / "wormhole_errors.png", "fast-forwarding: error and chaos", {"completion times": errors}, "",
         "difference from the full run, %", ticks, True)  # fmt: skip
    factors = {
        "packet-hops": curve(lambda f: 1 / max(1 - f["event_skip"], 1e-9)),
        "event loop": curve(lambda f: f.get("wall_speedup")),
        "start to results": curve(lambda f: f.get("start_to_result_speedup")),
    }
    draw(folder / "wormhole_speed.png", "fast-forwarding: times less", {"full / fast-forwarded": factors}, "", "times",
         ticks, True)  # fmt: skip


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, help="what to run (default examples/gpt-7b-64.toml)")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="TABLE.KEY=VALUE",
                        help="override a key, in all runs; may be repeated")  # fmt: skip
    parser.add_argument("--mode", help="of [wormhole], instead of the config's")
    parser.add_argument(
        "--suite",
        action="store_true",
        help="GPT and mixtures of experts on 64 GPUs with four controls, and larger jobs",
    )
    parser.add_argument("--cases", help="of the suite, comma separated (default: all)")
    parser.add_argument("--quick", action="store_true", help="examples/quickstart.toml instead of larger jobs")
    parser.add_argument("--out", type=Path, default=Path("results/bench-wormhole"), help="folder for runs and figures")
    parser.add_argument("--no-full", action="store_true", help="only the fast-forwarded run: no errors, no speed-ups")
    parser.add_argument("--fresh", action="store_true", help="run in full even if such a run is kept")
    parser.add_argument(
        "--full-runs", type=int, default=2, help="and as many forwarded, each with other starts: the spread"
    )
    parser.add_argument("--ranks", type=int, default=1, help="(default 1)")
    return parser.parse_args(argv)


def main() -> int:
    """Run one case or the suite; print tables and one line of JSON."""
    arguments = parse()
    try:
        if not arguments.suite:
            config = arguments.config or EXAMPLES / ("quickstart.toml" if arguments.quick else "gpt-7b-64.toml")
            figures = measure((config, []), arguments)
            show(figures)
            print_last(figures)
            return 0
        cases = suite(arguments.quick)
        names = arguments.cases.split(",") if arguments.cases else list(cases)
        if unknown := [name for name in names if name not in cases]:
            raise ConfigError("--cases", f"found {unknown[0]}", f"Accepted: {', '.join(cases)}")
        found = {}
        for name in names:
            found[name] = measure(cases[name], arguments)
            show(found[name])
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    show_suite(found)
    plot(arguments.out, found)
    print_last({"cases": found, "exercised": sum(f["exercised"] for f in found.values())})
    return 0


if __name__ == "__main__":
    sys.exit(main())
