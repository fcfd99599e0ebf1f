"""HyGra's tables, scaled down: errors by parallel strategy and scale, throughput, and what restoring queues is worth.

    python bench/hygra.py [--only I,II,IV] [--scales 16,32,64] [--set key=value ...] [--model FILE] [--quick]
                          [--out FOLDER]

I: errors of completion times, largest and mean, of jobs with pipeline, tensor or data parallelism alone. II: what their
flows get through, all bytes over the sum of all completion times, in full and fast-forwarded. IV: errors of jobs with
all of them, a mixture of experts (as DeepSeek's) and a dense one (as Qwen's), with each `[wormhole.paper] restoration`:
`none`, `learned` and `snapshot`. Each by HyGra's criterion and by ours.

Errors are relative, of the flows that finished in both runs. Beside each stands `chaos`: the same between two full runs
whose starts differ by up to 50 ns. Nothing that predicts one of them can be closer. A row in which nothing was skipped
says "not exercised" and counts for nothing. Jobs have one iteration, on 100 Gbps rails with 8 GPUs to a server; the
paper's have 64 to 16 k nodes, 200 Gbps and 10 us links. `learned` needs PyTorch and a model: --model, or one that is
trained here on full runs of the first scale (`hygra_restoration.py`). Full runs are kept in FOLDER.
"""

import argparse
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hygra_restoration
from cases import print_last
from fidelity import flow_errors, relative
from pdes.config import load_config
from pdes.convert.toml_text import Tables, toml_text
from pdes.errors import ConfigError
from pdes.units import exact_duration
from plots import draw
from runs import Finished, compile_ahead, only, simulate_once
from wormhole import CHAOS_PS, FLOW_COLUMNS, percent

TABLES = ("I", "II", "IV")
STRATEGIES, MIXED = ("PP", "TP", "DP"), ("DeepSeek-like", "Qwen-like")
CRITERIA, RESTORATIONS = ("default", "hygra"), ("none", "learned", "snapshot")
Row = dict[str, Any]


def tables_of(kind: str, n_gpu: int) -> Tables:
    """The config of a job. Sizes are those at which messages last long enough for skips, and full runs seconds."""
    model: dict[str, Any] = {"layers": 2, "hidden": 2048, "vocabulary": 2048, "sequence": 2048}
    parallel: dict[str, Any] = {"tp": 1, "dp": 1, "pp": 1}
    workload: dict[str, Any] = {"kind": "training"}
    if kind == "PP":
        parallel["pp"] = n_gpu
        model |= {"layers": n_gpu, "hidden": 4096}
        workload["microbatches"] = 4
    elif kind == "TP":
        parallel["tp"] = n_gpu
        model |= {"hidden": 8192}
        workload |= {"tp": "packets"}
    elif kind == "DP":
        parallel["dp"] = n_gpu
        model |= {"hidden": 1024}
    elif kind == "Qwen-like":
        parallel = {"tp": 8, "dp": n_gpu // 16, "pp": 2}
        model |= {"layers": 4, "hidden": 4096}
        if n_gpu == 16:
            parallel = {"tp": 4, "dp": 2, "pp": 2}
    else:
        parallel = {"tp": 2, "dp": n_gpu // 4, "pp": 2, "ep": min(8, n_gpu // 4)}
        model |= {"layers": 4, "experts": 8}
    topology: dict[str, Any] = {"kind": "roft", "gpus": n_gpu}
    if kind in ("TP", "DP"):  # rings of all GPUs: inside servers by NVLink, so that few links are shared
        topology["nvlink"] = "packets"
    return {
        "topology": topology,
        "network": {"congestion_control": "hpcc"},
        "workload": workload,
        "workload.model": model,
        "workload.parallel": parallel,
    }


class Runs:
    """Full and fast-forwarded runs of the jobs."""

    def __init__(self, arguments: argparse.Namespace, scales: list[int]) -> None:
        self._arguments, self._scales = arguments, scales
        self._model: Path | None = arguments.model
        self._sets = ["simulation.iterations=1", *arguments.overrides]

    def config(self, kind: str, n_gpu: int) -> Path:
        """The file of a job."""
        path = self._arguments.out / "configs" / f"{kind.lower()}-{n_gpu}.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(toml_text(f"{kind} on {n_gpu} GPUs", tables_of(kind, n_gpu)))
        return path

    def full(self, kind: str, n_gpu: int) -> tuple[Finished, Finished]:
        """In full, and with starts moved; kept from an earlier call if they are there."""
        config = self.config(kind, n_gpu)
        late = exact_duration(load_config(config, self._sets).workload.start_jitter_ps + CHAOS_PS)
        found = []
        for sets in ([], [f"workload.start_jitter={late}"]):
            _say(f"{kind}, {n_gpu} GPUs: in full {' '.join(sets)}")
            sets = [*self._sets, "wormhole.mode=off", *sets]
            found.append(simulate_once(config, sets, self._arguments.out, fresh=self._arguments.fresh))
        return found[0], found[1]

    def row(self, kind: str, n_gpu: int, criterion: str, restoration: str = "snapshot") -> Row:
        """What is said of a fast-forwarded run."""
        full, moved = self.full(kind, n_gpu)
        sets = [*self._sets, "wormhole.mode=exact", only("periodic"), f"wormhole.paper.criterion={criterion}"]
        sets.append(f"wormhole.paper.restoration={restoration}")
        if restoration == "learned":
            sets.append(f'wormhole.paper.restoration_model="{self._model_file().resolve()}"')
        _say(f"{kind}, {n_gpu} GPUs: {criterion}, {restoration}")
        config = self.config(kind, n_gpu)
        compile_ahead(config, sets, self._arguments.out)
        return compare(full, moved, simulate_once(config, sets, self._arguments.out / "forwarded", fresh=True))

    @property
    def restorations(self) -> tuple[str, ...]:
        """Those that can be run here."""
        return RESTORATIONS if importlib.util.find_spec("torch") else tuple(r for r in RESTORATIONS if r != "learned")

    def _model_file(self) -> Path:
        if self._model is None:
            self._model = self._arguments.out / "queues.pt"
            configs = [self.config(kind, self._scales[0]) for kind in (*MIXED, "DP")]
            overrides = [word for text in self._arguments.overrides for word in ("--set", text)]
            words = ["--config", *map(str, configs), "--model", str(self._model), "--out", str(self._arguments.out)]
            _say("training the model")
            hygra_restoration.show(hygra_restoration.measure(hygra_restoration.parse([*words, *overrides])))
        return self._model


def compare(full: Finished, moved: Finished, run: Finished) -> Row:
    """Errors of completion times, the chaos beside them, and throughputs."""
    flows = [finished.columns("flows", (*FLOW_COLUMNS, "size_bytes")) for finished in (full, moved, run)]
    errors, chaos = flow_errors(flows[0], flows[2]), flow_errors(flows[0], flows[1])
    rates = [throughput_gbps(columns) for columns in (flows[0], flows[2])]
    facts, hops = run.result["fast_forward"], [f.result["packet_hops"] for f in (full, run)]
    return {
        "max_error": errors["max_fct"], "mean_error": errors["mean_fct"], "chaos_max": chaos["max_fct"],
        "chaos_mean": chaos["mean_fct"], "full_gbps": rates[0], "gbps": rates[1],
        "throughput_error": relative_float(*rates), "iteration_error": relative(
            full.result["simulated_time_ps"], run.result["simulated_time_ps"]),
        "flows": len(flows[0]["fct_ps"]), "packet_hops": hops[1], "full_packet_hops": hops[0],
        "skipped_share": facts.get("skipped_share", 0.0), "freezes": facts.get("freezes", 0),
        "thaws": facts.get("thaws_planned", 0) + facts.get("thaws_interrupted", 0),
        "loop_factor": full.run["loop_seconds"] / max(run.run["loop_seconds"], 1e-9),
        "exercised": run.result["skipped_packet_hops"] > 0, "same_code": full.code == moved.code == run.code,
    }  # fmt: skip


def throughput_gbps(flows: Any) -> float:
    """Bytes of all flows that finished over the sum of their times."""
    is_done = flows["fct_ps"] > 0
    return float(8000 * flows["size_bytes"][is_done].sum() / max(flows["fct_ps"][is_done].sum(), 1))


def relative_float(full: float, other: float) -> float:
    """|other - full| / full."""
    return abs(other - full) / full if full else 0.0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def show_errors(rows: dict[str, Row]) -> None:
    """Table I."""
    print(f"\n{'I: completion times':<28}" + "".join(f"{head:>12}" for head in
          ("largest", "chaos", "mean", "chaos", "skipped", "loop faster")))  # fmt: skip
    for name, r in rows.items():
        cells = [percent(r[key]) for key in ("max_error", "chaos_max", "mean_error", "chaos_mean", "skipped_share")]
        print(f"{name:<28}" + "".join(f"{cell:>12}" for cell in (*cells, f"{r['loop_factor']:.2f}")) + _note(r))


def show_throughput(rows: dict[str, Row]) -> None:
    """Table II."""
    print(f"\n{'II: throughput, Gbps':<28}{'in full':>12}{'forwarded':>12}{'difference':>12}")
    for name, r in rows.items():
        print(f"{name:<28}{r['full_gbps']:>12.3f}{r['gbps']:>12.3f}{percent(r['throughput_error']):>12}" + _note(r))


def show_restorations(rows: dict[str, Row]) -> None:
    """Table IV."""
    print(f"\n{'IV: restoration':<40}" + "".join(f"{head:>12}" for head in
          ("largest", "chaos", "mean", "chaos", "thaws", "skipped")))  # fmt: skip
    for name, r in rows.items():
        cells = [percent(r[key]) for key in ("max_error", "chaos_max", "mean_error", "chaos_mean")]
        cells += [f"{r['thaws']:,}", percent(r["skipped_share"])]
        print(f"{name:<40}" + "".join(f"{cell:>12}" for cell in cells) + _note(r))


def _note(row: Row) -> str:
    return ("" if row["exercised"] else "  not exercised") + ("" if row["same_code"] else "  (full: other code)")


def plot(folder: Path, found: dict[str, dict[str, Row]]) -> None:
    """Table IV's means beside the chaos, and Table I's."""
    for name, rows in found.items():
        if name == "II":
            continue
        used = {key: row for key, row in rows.items() if row["exercised"]}
        curves = {
            label: (range(len(used)), [100 * (row[key] or 0) or float("nan") for row in used.values()])
            for label, key in (("largest", "max_error"), ("mean", "mean_error"), ("mean, 50 ns later", "chaos_mean"))
        }
        title = f"HyGra's Table {name}: errors of completion times"
        draw(folder / f"hygra_{name}.png", title, {"": curves}, "", "%", list(used), True)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(TABLES), help=f"of {', '.join(TABLES)}, comma separated")
    parser.add_argument("--scales", help="numbers of GPUs, powers of two from 16 on (default 16,32,64)")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="TABLE.KEY=VALUE",
                        help="override a key, in all runs; may be repeated")  # fmt: skip
    parser.add_argument("--model", type=Path, help="for restoration = learned (default: one is trained)")
    parser.add_argument("--quick", action="store_true", help="16 GPUs only")
    parser.add_argument("--out", type=Path, default=Path("results/bench-hygra"), help="folder for runs and figures")
    parser.add_argument("--fresh", action="store_true", help="run in full even if such a run is kept")
    return parser.parse_args(argv)


def _scales(text: str) -> list[int]:
    try:
        scales = [int(part) for part in text.split(",")]
    except ValueError:
        scales = [0]
    if any(n < 16 or n & (n - 1) for n in scales):
        raise ConfigError("--scales", f"found {text}", "Accepted: powers of two from 16 on, comma separated")
    return scales


def measure(arguments: argparse.Namespace) -> tuple[dict[str, dict[str, Row]], tuple[str, ...]]:
    """Rows by table and name; what restorations were run."""
    names = arguments.only.split(",")
    if unknown := [name for name in names if name not in TABLES]:
        raise ConfigError("--only", f"found {unknown[0]}", f"Accepted: {', '.join(TABLES)}")
    scales = _scales(arguments.scales or ("16" if arguments.quick else "16,32,64"))
    runs, found = Runs(arguments, scales), {}
    if {"I", "II"} & set(names):
        rows = {
            f"{kind}, {n} GPUs, {criterion}": runs.row(kind, n, criterion)
            for n in scales for kind in STRATEGIES for criterion in CRITERIA
        }  # fmt: skip
        found |= {name: rows for name in ("I", "II") if name in names}
    if "IV" in names:
        found["IV"] = {
            f"{kind}, {n} GPUs, {criterion}, {restoration}": runs.row(kind, n, criterion, restoration)
            for n in scales for kind in MIXED for criterion in CRITERIA for restoration in runs.restorations
        }  # fmt: skip
    return found, runs.restorations


def main() -> int:
    """Run the tables; print them and one line of JSON."""
    arguments = parse()
    try:
        found, restorations = measure(arguments)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for name, rows in found.items():
        {"I": show_errors, "II": show_throughput, "IV": show_restorations}[name](rows)
    if "IV" in found and "learned" not in restorations:
        print("no row for `learned`: PyTorch is missing (pip install pdes-sim[learned])")
    plot(arguments.out, found)
    rows = [row for by_name in found.values() for row in by_name.values()]
    print_last({"tables": found, "rows": len(rows), "exercised": sum(row["exercised"] for row in rows)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
