"""How much fast-forwarding depends on its criterion: metric, theta, l and topology, as in Wormhole's Figures 12 and 13.

    python bench/wormhole_sensitivity.py [--config FILE] [--set key=value ...] [--quick] [--only metric,theta]
                                         [--out FOLDER]

Each sweep changes one thing of the paper's criterion; the rest stays at theta = 5 % and the l of the run (equation 24).
Beside it stand the other criteria. Figure 13's topologies carry the same job: the config's own, a fat-tree and a Clos
network of two tiers, all with full bisection. What is skipped is the share of the full run's packet-hops that is not
simulated; the error is the mean of the flows' relative errors in completion time, beside that of a full run with starts
up to 50 ns later. Full runs are kept in FOLDER, as those of `wormhole.py`.

The claims are the paper's (section 7.3). Its text says that the criterion is more readily satisfied "as l increases or
theta decreases"; by its equation 6 it is the other way round, and that is the claim here.
"""

import argparse
import sys
import tomllib
from pathlib import Path
from typing import Any

from cases import print_last
from fidelity import event_skip
from models.topology.graph import LinkKind, Topology
from models.topology.leaf_spine import leaf_spine
from models.topology.three_tier import three_tier
from pdes.config import load_config
from pdes.convert.toml_text import Tables, toml_text
from pdes.errors import ConfigError
from pdes.units import exact_duration, exact_rate
from plots import draw
from runs import Finished, compile_ahead, only, simulate_once
from wormhole import CHAOS_PS, EXAMPLES, differences, percent

QUICK = ["simulation.iterations=1"]
RATE_BPS, HOST_DELAY_PS, FABRIC_DELAY_PS = 100 * 10**9, 500_000, 1_500_000
THETAS, FEW_THETAS = (0.01, 0.02, 0.05, 0.1, 0.2), (0.01, 0.05, 0.2)
SAMPLES, FEW_SAMPLES = (4, 8, 16, 32, 64, 128), (8, 64)
STEADY = ["wormhole.mode=exact", only("periodic")]
SWEEPS = ("metric", "theta", "samples", "topology")
MOST_ERROR, MOST_SPREAD = 0.01, 0.13  # of section 7.3; of R, I and Q it says "closely aligned"
Point = dict[str, Any]


class Runs:
    """Runs of one job on several topologies, each of them once."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._points: dict[tuple[str, str], Point] = {}
        self._full: dict[str, tuple[Finished, Finished]] = {}
        self.base = arguments.config or EXAMPLES / ("quickstart.toml" if arguments.quick else "gpt-7b-64.toml")
        self._sets = [*(QUICK if arguments.quick else []), "network.congestion_control=hpcc", *arguments.overrides]
        self.configs = {"ROFT": self.base}

    def add_topologies(self) -> None:
        """Have the same job on a fat-tree and on a Clos network, as topology files that say what a server is."""
        topology = load_config(self.base, self._sets).topology
        n_gpu, per_server = topology.n_host, getattr(topology, "gpus_per_server", 1)
        if n_gpu is None or n_gpu % 16 or n_gpu & (n_gpu - 1):
            raise ConfigError("--config", f"has {n_gpu} GPUs", "Accepted: 16, 32, 64, ... for the topologies")
        for name, graph in (("fat-tree", _fat_tree(n_gpu)), ("Clos", _clos(n_gpu))):
            self.configs[name] = _write(self._arguments.out, self.base, name, graph, per_server)

    def compile(self) -> None:
        """Leave nothing to compile to the runs."""
        for criterion in ("default", "hygra"):
            sets = [*self._sets, *STEADY, f"wormhole.paper.criterion={criterion}"]
            compile_ahead(self.base, sets, self._arguments.out)

    def point(self, *criterion: str, on: str = "ROFT") -> Point:
        """Figures of a run with these keys of [wormhole.paper]."""
        sets = [*STEADY, *(f"wormhole.paper.{text}" for text in criterion)]
        key = (on, load_config(self.configs[on], [*self._sets, *sets]).wormhole.model_dump_json())
        if key not in self._points:
            print(f"{on}: {', '.join(criterion)}", file=sys.stderr, flush=True)
            self._points[key] = self._compare(self._run(on, sets, fresh=True), *self._in_full(on))
        return self._points[key]

    def _in_full(self, on: str) -> tuple[Finished, Finished]:
        """In full, and in full with starts moved."""
        if on not in self._full:
            print(f"{on}: in full, twice unless it is kept", file=sys.stderr, flush=True)
            late_ps = load_config(self.configs[on], self._sets).workload.start_jitter_ps + CHAOS_PS
            off = "wormhole.mode=off"
            moved = [off, f"workload.start_jitter={exact_duration(late_ps)}"]
            self._full[on] = self._run(on, [off]), self._run(on, moved)
        return self._full[on]

    def _run(self, on: str, sets: list[str], fresh: bool = False) -> Finished:
        out = self._arguments.out / ("forwarded" if fresh else "")
        return simulate_once(self.configs[on], [*self._sets, *sets], out, 1, fresh or self._arguments.fresh)

    @staticmethod
    def _compare(quick: Finished, full: Finished, moved: Finished) -> Point:
        errors, facts = differences(full, quick), quick.result["fast_forward"]
        return {
            "skipped": event_skip(quick.result["packet_hops"], full.result["packet_hops"]),
            "mean_fct_error": errors["mean_fct"], "p99_fct_error": errors["p99_fct"],
            "last_end_error": errors["last_end"], "chaos_floor": differences(full, moved)["mean_fct"],
            "loop_seconds": quick.run["loop_seconds"], "full_loop_seconds": full.run["loop_seconds"],
            "freezes": facts["freezes"], "interrupted": facts["thaws_interrupted"], "criterion": facts["criterion"],
            "same_code": quick.code == full.code == moved.code,
        }  # fmt: skip


def _fat_tree(n_host: int) -> Topology:
    """Pods of h edge and h aggregation switches with h hosts per edge switch, at least four pods."""
    h = 1
    while n_host >= 4 * (2 * h) ** 2:
        h *= 2
    return three_tier(
        n_host // h**2, h, h, h * h, h, LinkKind(RATE_BPS, HOST_DELAY_PS), LinkKind(RATE_BPS, FABRIC_DELAY_PS)
    )


def _clos(n_host: int) -> Topology:
    """Leaves of h hosts and h spines."""
    h = 4 if n_host < 64 else 8
    return leaf_spine(n_host // h, h, h, RATE_BPS, RATE_BPS, HOST_DELAY_PS, FABRIC_DELAY_PS)


def _write(folder: Path, base: Path, name: str, graph: Topology, per_server: int) -> Path:
    """A config like base on another topology, whose file is beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    switches = graph.is_switch.nonzero()[0].tolist()
    once = [port for port in range(graph.n_port) if port < graph.port_peer[port]]
    lines = [f"{graph.n_node} {len(switches)} {len(once)}", " ".join(map(str, switches))]
    for port in once:
        speed = f"{exact_rate(int(graph.port_rate_bps[port]))} {exact_duration(int(graph.port_delay_ps[port]))}"
        lines.append(f"{graph.port_src[port]} {graph.port_dst[port]} {speed} 0")
    file = folder / f"{name}-{graph.n_host}.txt"
    file.write_text("\n".join(lines) + "\n")
    tables = _flat(tomllib.loads(base.read_text()))
    tables["topology"] = {"kind": "file", "file": file.name, "gpus_per_server": per_server}
    config = folder / f"{base.stem}-{name}.toml"
    config.write_text(toml_text(f"{base.stem} on a {name}", tables))
    return config


def _flat(data: dict[str, Any], prefix: str = "") -> Tables:
    """Tables by their full names, each with plain values alone."""
    tables: Tables = {}
    for name, content in data.items():
        plain = {key: value for key, value in content.items() if not _has_tables(value)}
        inner = {key: value for key, value in content.items() if _has_tables(value)}
        tables[prefix + name] = plain
        tables |= {f"{prefix}{name}.{key}": value for key, value in inner.items() if isinstance(value, list)}
        tables |= _flat({key: value for key, value in inner.items() if isinstance(value, dict)}, f"{prefix}{name}.")
    return tables


def _has_tables(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(row, dict) for row in value))


def sweep(runs: Runs, name: str, quick: bool) -> dict[str, Point]:
    """The points of one panel, by what stands below them."""
    paper = "criterion=paper"
    if name == "metric":
        points = {metric: runs.point(paper, f"metric={metric}") for metric in ("R", "I", "Q")}
        return points | {other: runs.point(f"criterion={other}") for other in ("default", "hygra")}
    if name == "theta":
        thetas = FEW_THETAS if quick else THETAS
        return {f"{theta:.0%}": runs.point(paper, f"theta={theta}") for theta in thetas}
    if name == "samples":
        found = runs.point(paper, "metric=R")
        points = {n: runs.point(paper, f"samples={n}") for n in (FEW_SAMPLES if quick else SAMPLES)}
        points.setdefault(found["criterion"]["samples"], found)
        return {str(n): points[n] for n in sorted(points)}
    runs.add_topologies()
    return {on: runs.point(paper, "metric=R", on=on) for on in runs.configs}


def claims(found: dict[str, dict[str, Point]]) -> dict[str, bool]:
    """What section 7.3 says of the figures, as far as they are there."""
    out = {}
    if points := found.get("metric"):
        three = [points[metric] for metric in "RIQ"]
        out["R, I and Q differ in speed-up (packet-hops) by 13 % at most"] = _are_alike(three)
        out["mean error below 1 % with each of them"] = _are_accurate(three)
    if points := found.get("theta"):
        skips = [point["skipped"] for point in points.values()]
        out["a larger theta skips no less"] = all(a <= b for a, b in zip(skips, skips[1:], strict=False))
    if points := found.get("samples"):
        skips = [point["skipped"] for point in points.values()]
        out["a larger l skips no more"] = all(a >= b for a, b in zip(skips, skips[1:], strict=False))
    if points := found.get("topology"):
        out["topologies differ in speed-up (packet-hops) by 13 % at most"] = _are_alike(list(points.values()))
        out["mean error below 1 % on every topology"] = _are_accurate(list(points.values()))
    return out


def _are_alike(points: list[Point]) -> bool:
    left = [1 - point["skipped"] for point in points]
    return max(left) <= (1 + MOST_SPREAD) * min(left)


def _are_accurate(points: list[Point]) -> bool:
    return all(point["mean_fct_error"] is not None and point["mean_fct_error"] < MOST_ERROR for point in points)


def show(name: str, points: dict[str, Point]) -> None:
    """The table of one sweep."""
    heads = ("skipped", "mean error", "50 ns later", "p99 error", "freezes", "cut short")
    print(f"\n{name:<12} " + " ".join(f"{head:>11}" for head in heads))
    for label, p in points.items():
        cells = [percent(p[key]) for key in ("skipped", "mean_fct_error", "chaos_floor", "p99_fct_error")]
        cells += [f"{p['freezes']:,}", f"{p['interrupted']:,}"]
        print(f"{label:<12} " + " ".join(f"{cell:>11}" for cell in cells))
    if not all(p["same_code"] for p in points.values()):
        print("NOTE: a full run is of another version of the code; --fresh runs it again")


def plot(folder: Path, name: str, points: dict[str, Point]) -> None:
    """One figure per sweep, in per cent."""
    at, keys = range(len(points)), {"packet-hops skipped": "skipped", "mean error": "mean_fct_error"}
    curves = {
        label: (at, [100 * (p[key] or 0) or float("nan") for p in points.values()])
        for label, key in (keys | {"starts 50 ns later": "chaos_floor"}).items()
    }
    title = f"Wormhole's criterion: {name}"
    draw(folder / f"sensitivity_{name}.png", title, {"": curves}, "", "%", list(points), True)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, help="a job on a rail-optimised fat-tree (default gpt-7b-64.toml)")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="TABLE.KEY=VALUE",
                        help="override a key, in all runs; may be repeated")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="an iteration of examples/quickstart.toml, fewer points")
    parser.add_argument("--only", default=",".join(SWEEPS), help=f"of {', '.join(SWEEPS)}, comma separated")
    parser.add_argument("--out", type=Path, default=Path("results/bench-wormhole"), help="folder for runs and figures")
    parser.add_argument("--fresh", action="store_true", help="run in full even if such a run is kept")
    return parser.parse_args()


def main() -> int:
    """Run the sweeps; print tables, claims and one line of JSON."""
    arguments = parse()
    found = {}
    try:
        names = arguments.only.split(",")
        if unknown := [name for name in names if name not in SWEEPS]:
            raise ConfigError("--only", f"found {unknown[0]}", f"Accepted: {', '.join(SWEEPS)}")
        runs = Runs(arguments)
        runs.compile()
        for name in names:
            found[name] = sweep(runs, name, arguments.quick)
            show(name, found[name])
            plot(arguments.out, name, found[name])
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    verdicts = claims(found)
    for claim, holds in verdicts.items():
        print(f"{'holds' if holds else 'DOES NOT HOLD'}: {claim}")
    print_last({"config": str(runs.base), "sweeps": found, "claims": verdicts})
    return 0


if __name__ == "__main__":
    sys.exit(main())
