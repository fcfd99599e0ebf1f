"""What each half of fast-forwarding saves, and where: Wormhole's Figure 9, and network partitions over time.

    python bench/wormhole_breakdown.py [--only a,b] [--set key=value ...] [--quick] [--out FOLDER] [--fresh]

(a) Steady skipping alone, the memo alone, and both, against the full run: packet-hops and seconds in the event loop.
(b) Both, with each congestion control: the share of the full run's packet-hops that was skipped, by what spared them.
Jobs are GPT-7B and MoE-8x7B on 64 GPUs, one iteration, without a tolerance for waves (`wormhole.py` has them). Beside
the shares stands how often a flow was frozen, which the paper has as 0.94 (section 7.2), and the mean error of
completion times. Full runs are kept in FOLDER, as those of `wormhole.py`; their seconds are of when they ran.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cases import print_last
from fidelity import event_skip, flow_errors
from models.network.skip.skipped import CAUSES
from pdes.config import load_config
from pdes.errors import ConfigError
from pdes.units import format_count
from plots import Curve, draw
from runs import Finished, compile_ahead, only, simulate_once
from wormhole import CONTROLS, EXAMPLES, FLOW_COLUMNS, percent

MODES = {"periodic": [only("periodic")], "replay": [only("replay")], "both": [only("periodic", "replay")]}
PARTS = ("a", "b")
COMMON = ["simulation.iterations=1"]
SERIES = "output.partitions=true"
Row = dict[str, Any]


def jobs(quick: bool) -> dict[str, tuple[Path, list[str]]]:
    """The jobs by name: a config and what is set in it."""
    if quick:
        small, larger = EXAMPLES / "quickstart.toml", ["workload.model.hidden=4096"]
        experts = ["workload.model.experts=4", "workload.parallel.ep=4"]
        return {"GPT-16": (small, larger), "MoE-16": (small, [*larger, *experts])}
    experts = EXAMPLES / "moe-8x7b-64.toml", []
    return {"GPT-7B/64": (EXAMPLES / "gpt-7b-64.toml", []), "MoE-8x7B/64": experts}


class Runs:
    """Full and fast-forwarded runs of the jobs."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments, self.jobs = arguments, jobs(arguments.quick)

    def full(self, job: str, control: str) -> Finished:
        """In full, kept from an earlier call if there is one."""
        config, sets = self._of(job, control)
        _say(f"{job}, {control}: in full")
        return simulate_once(config, [*sets, "wormhole.mode=off"], self._arguments.out, fresh=self._arguments.fresh)

    def row(self, job: str, control: str, mode: str) -> Row:
        """What is said of a fast-forwarded run; also its `folder`, which the JSON leaves out."""
        full, (config, sets) = self.full(job, control), self._of(job, control)
        _say(f"{job}, {control}: mode {mode}")
        sets = [*sets, "wormhole.mode=exact", *MODES[mode], SERIES]
        compile_ahead(config, sets, self._arguments.out)
        run = simulate_once(config, sets, self._arguments.out / "forwarded", fresh=True)
        return _row(full, run) | {"folder": run.folder}

    def _of(self, job: str, control: str) -> tuple[Path, list[str]]:
        config, sets = self.jobs[job]
        return config, [*COMMON, f"network.congestion_control={control}", *sets, *self._arguments.overrides]


def _row(full: Finished, run: Finished) -> Row:
    result, facts, n_full = run.result, run.result["fast_forward"], full.result["packet_hops"]
    if "why_not" in facts:
        raise ConfigError("--set", f"nothing can be skipped: {facts['why_not']}", "Accepted: what can be skipped")
    loops = full.run["loop_seconds"], run.run["loop_seconds"]
    errors = flow_errors(full.columns("flows", FLOW_COLUMNS), run.columns("flows", FLOW_COLUMNS))
    return {
        "full_packet_hops": n_full, "packet_hops": result["packet_hops"],
        "full_loop_seconds": loops[0], "loop_seconds": loops[1],
        "hop_factor": n_full / max(result["packet_hops"], 1), "loop_factor": loops[0] / max(loops[1], 1e-9),
        "event_skip": event_skip(result["packet_hops"], n_full),
        "skipped_by_cause": {cause: facts["skipped_packet_hops"][cause] / n_full for cause in CAUSES},
        "steady_share_of_flow_time": facts["steady_share_of_flow_time"],
        "freezes_per_flow": facts["flow_freezes"] / max(result["flows"], 1),
        "memo": facts.get("memo"), "looks": facts["looks"], "partitions": facts["partitions"],
        "mean_fct_error": errors["mean_fct"], "same_code": full.code == run.code, "full_is_kept": full.is_kept,
        "exercised": result["skipped_packet_hops"] > 0,
    }  # fmt: skip


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def show_modes(rows: dict[str, dict[str, Row]]) -> None:
    """Figure 9a as a table."""
    print(f"\n{'(a) HPCC':<20}{'packet-hops':>12}{'times less':>11}{'loop, s':>9}{'times faster':>13}"
          f"{'memo: followed, hits, misses':>30}{'mean error':>12}")  # fmt: skip
    for job, by_mode in rows.items():
        first = next(iter(by_mode.values()))
        print(f"{job + ' off':<20}{format_count(first['full_packet_hops']):>12}{'':>11}"
              f"{first['full_loop_seconds']:>9.3g}")  # fmt: skip
        for mode, r in by_mode.items():
            memo = r["memo"]
            found = f"{memo['followed']:,}, {memo['hits']:,}, {memo['misses']:,}" if memo else "-"
            print(f"{job + ' ' + mode:<20}{format_count(r['packet_hops']):>12}{r['hop_factor']:>11.2f}"
                  f"{r['loop_seconds']:>9.3g}{r['loop_factor']:>13.2f}{found:>30}{percent(r['mean_fct_error']):>12}"
                  f"{_note(r)}")  # fmt: skip


def show_controls(rows: dict[str, dict[str, Row]]) -> None:
    """Figure 9b as a table."""
    heads = ("skipped", "steady", "follower", "memo", "steady, time", "freezes/flow", "mean error")
    print(f"\n{'(b) both forecasts':<20}" + "".join(f"{head:>13}" for head in heads))
    for job, by_control in rows.items():
        for control, r in by_control.items():
            by_cause = r["skipped_by_cause"]
            cells = [_fine(r["event_skip"]), *(_fine(by_cause[cause]) for cause in ("steady", "follower", "memo"))]
            cells += [
                _fine(r["steady_share_of_flow_time"]),
                f"{r['freezes_per_flow']:.2f}",
                percent(r["mean_fct_error"]),
            ]
            print(f"{job + ' ' + control:<20}" + "".join(f"{cell:>13}" for cell in cells) + _note(r))


def _fine(share: float) -> str:
    return f"{100 * share:.3f} %"


def _note(row: Row) -> str:
    return ("" if row["exercised"] else "  NOT EXERCISED") + ("" if row["same_code"] else "  (full run: other code)")


def plot(folder: Path, found: dict[str, dict[str, dict[str, Row]]]) -> None:
    """Both halves of the figure, and partitions over time."""
    if "a" in found:
        panels = {
            title: {job: (range(len(MODES)), [r[key] for r in rows.values()]) for job, rows in found["a"].items()}
            for title, key in (("packet-hops", "hop_factor"), ("event loop", "loop_factor"))
        }
        draw(folder / "breakdown_modes.png", "full / fast-forwarded", panels, "", "times", tuple(MODES), True)
        series: dict[str, dict[str, Curve]] = {
            f"{job}, {mode}": _series(rows[mode]["folder"])
            for job, rows in found["a"].items() for mode in ("periodic", "both")
        }  # fmt: skip
        draw(folder / "breakdown_partitions.png", "network partitions over time", series, "ms", "partitions")
    if "b" in found:
        panels = {
            "simulated, of the full run": {
                job: (range(len(rows)), [100 * (1 - r["event_skip"]) for r in rows.values()])
                for job, rows in found["b"].items()
            }
        }
        draw(folder / "breakdown_controls.png", "packet-hops left", panels, "", "%", CONTROLS, True)


def _series(folder: Path) -> dict[str, Curve]:
    """Curves of `partitions.parquet`, at the looks that know how many partitions there are."""
    table = Finished(folder, 0.0, "").columns("partitions", ("time_ps", "partitions", "steady", "replayed"))
    is_known = table["partitions"] >= 0
    time_ms = table["time_ps"][is_known] / 1e9
    return {name: (time_ms, table[name][is_known]) for name in ("partitions", "steady", "replayed")}


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help="of a, b (default: both)")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="TABLE.KEY=VALUE",
                        help="override a key, in all runs; may be repeated")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="examples/quickstart.toml, dense and with experts")
    parser.add_argument("--out", type=Path, default=Path("results/bench-wormhole"), help="folder for runs and figures")
    parser.add_argument("--fresh", action="store_true", help="run in full even if such a run is kept")
    return parser.parse_args(argv)


def main() -> int:
    """Run the parts; print tables and one line of JSON."""
    arguments, found = parse(), {}
    try:
        parts = arguments.only.split(",")
        if unknown := [part for part in parts if part not in PARTS]:
            raise ConfigError("--only", f"found {unknown[0]}", f"Accepted: {', '.join(PARTS)}")
        runs = Runs(arguments)
        for path, sets in runs.jobs.values():
            load_config(path, [*COMMON, *sets, *arguments.overrides])
        if "a" in parts:
            found["a"] = {job: {mode: runs.row(job, "hpcc", mode) for mode in MODES} for job in runs.jobs}
        if "b" in parts:
            found["b"] = {job: {control: runs.row(job, control, "both") for control in CONTROLS} for job in runs.jobs}
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if "a" in found:
        show_modes(found["a"])
    if "b" in found:
        show_controls(found["b"])
    plot(arguments.out, found)
    rows = [row for by_job in found.values() for by_name in by_job.values() for row in by_name.values()]
    for row in rows:
        del row["folder"]
    print_last({"parts": found, "exercised": sum(row["exercised"] for row in rows), "rows": len(rows)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
