"""HyGra's tables with this engine: errors and throughput by parallel strategy, mixed jobs, restoration, and two ranks.

    python bench/hygra_tables.py [--only I,II,III,IV,V] [--scales 64,256,1024] [--mixed 128,512] [--control NAME]
                                 [--set key=value ...] [--quick] [--out FOLDER] [--fresh]

I: errors of completion times, largest and mean over messages, and of the job's, with pipeline, tensor or data
parallelism alone. II: throughput of the links between servers. III: time and errors of jobs with several of them, a
mixture of experts (as DeepSeek-V3's) and a dense one (as Qwen2.5's). IV: their largest error with and without what lay
in queues before a skip. V: how much sooner one core is there that skips, and two ranks with packets alone.

Every job runs with all its packets (mode "off"), and by three ways of leaving packets out: "auto", the default;
"hybrid", which is "auto" with the forecast "fair"; and "flow". IV has mode "exact" with the forecast "periodic", as
only single skips restore anything. Errors are relative to the run with packets, of messages that finished in both.
Times are of the event loop, on one rank; whatever is compiled has been before. The network is a rail-optimised fat-tree
with 8 GPUs to a server and links of 200 Gbps between servers. Jobs have one iteration, and are small: see `job`. Runs
with packets are kept in FOLDER for the next time. A row with nothing left out says nothing of skipping.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cases import print_last
from fidelity import event_skip, flow_errors, relative
from hygra import MIXED, STRATEGIES, relative_float, tables_of
from pdes.convert.toml_text import Tables, toml_text
from pdes.errors import ConfigError
from runs import ROOT, Finished, compile_ahead, only, simulate, simulate_once
from wormhole import FLOW_COLUMNS, percent

TABLES = ("I", "II", "III", "IV", "V")
WAYS = {"auto": ["wormhole.mode=auto"], "hybrid": ["wormhole.mode=auto", only("fair")], "flow": ["wormhole.mode=flow"]}
RESTORATIONS = ("none", "snapshot")
LINK_BPS = 200 * 10**9  # between servers; NVLink has another rate
WIDTH = {"PP": 2048, "TP": 4096, "DP": 2048, "DeepSeek-like": 1024, "Qwen-like": 2048}
Row = dict[str, Any]


def job(kind: str, n_gpu: int) -> Tables:
    """The config of a job: that of `hygra.tables_of` at the paper's rate, no longer than packets can be simulated.

    Sequences have 2048 tokens, 1024 above 256 GPUs; layers are as wide as WIDTH says. A pipeline has one layer per
    GPU and two microbatches, tensor parallelism one layer in all, the others two or four. As messages are a tenth of
    the paper's or less, so are the links' delays: those of the examples.
    """
    tables: dict[str, Any] = {name: dict(table) for name, table in tables_of(kind, n_gpu).items()}
    tables["workload.model"] |= {"sequence": 2048 if n_gpu <= 256 or kind == "PP" else 1024, "hidden": WIDTH[kind]}
    tables["topology"] |= {"nic_rate": "200Gbps", "spine_rate": "200Gbps", "nic_delay": "500ns", "spine_delay": "1.5us"}
    if kind == "PP":
        tables["workload"]["microbatches"] = 2
    if kind == "TP":
        tables["workload.model"]["layers"] = 1
    return tables


class Jobs:
    """Runs of the jobs, with all packets and without."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._out: Path = arguments.out
        self._is_fresh: bool = arguments.fresh
        self._sets = [
            "simulation.iterations=1",
            f"network.congestion_control={arguments.control}",
            *arguments.overrides,
        ]
        if arguments.quick:
            self._sets.append("workload.model.sequence=64")

    def config(self, kind: str, n_gpu: int) -> Path:
        """The file of a job."""
        path = self._out / "configs" / f"{kind.lower()}-{n_gpu}.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(toml_text(f"{kind} on {n_gpu} GPUs", job(kind, n_gpu)))
        return path

    def packets(self, kind: str, n_gpu: int, n_rank: int = 1) -> Finished:
        """All packets; kept from an earlier call if it is there."""
        config, sets = self.config(kind, n_gpu), [*self._sets, "wormhole.mode=off"]
        say(f"{kind}, {n_gpu} GPUs: packets on {n_rank} rank(s)")
        compile_ahead(config, sets, self._out)
        return simulate_once(config, sets, self._out, n_rank, fresh=self._is_fresh)

    def way(self, kind: str, n_gpu: int, way: str) -> Finished:
        """One of WAYS."""
        return self._run(kind, n_gpu, way, WAYS[way])

    def restored(self, kind: str, n_gpu: int, restoration: str) -> Finished:
        """Single skips of what repeats, with one of RESTORATIONS."""
        sets = ["wormhole.mode=exact", only("periodic"), f"wormhole.paper.restoration={restoration}"]
        return self._run(kind, n_gpu, restoration, sets)

    def _run(self, kind: str, n_gpu: int, name: str, sets: Sequence[str]) -> Finished:
        config, sets = self.config(kind, n_gpu), [*self._sets, *sets]
        say(f"{kind}, {n_gpu} GPUs: {name}")
        compile_ahead(config, sets, self._out)
        return simulate(config, sets, self._out / "ways" / f"{config.stem}-{name}")


def say(text: str) -> None:
    """What is being done, for who waits."""
    print(text, file=sys.stderr, flush=True)


def throughput_gbps(run: Finished) -> float:
    """Mean over the links between servers that carried anything: bytes by the time of the job."""
    ports = run.columns("ports", ["rate_bps", "tx_bytes"])
    sent_bytes = ports["tx_bytes"][(ports["rate_bps"] == LINK_BPS) & (ports["tx_bytes"] > 0)]
    return float(sent_bytes.mean()) * 8000 / run.result["simulated_time_ps"] if len(sent_bytes) else 0.0


def compare(full: Finished, run: Finished) -> Row:
    """Errors of a run, and the time it took, beside that with packets."""
    errors = flow_errors(*(finished.columns("flows", FLOW_COLUMNS) for finished in (full, run)))
    rates = [throughput_gbps(finished) for finished in (full, run)]
    hops = [finished.result["packet_hops"] for finished in (full, run)]
    seconds = [finished.run["loop_seconds"] for finished in (full, run)]
    return {
        "max_error": errors["max_fct"], "mean_error": errors["mean_fct"], "flows": errors["flows_matched"],
        "job_error": relative(full.result["simulated_time_ps"], run.result["simulated_time_ps"]),
        "full_gbps": rates[0], "gbps": rates[1], "throughput_error": relative_float(*rates),
        "full_s": seconds[0], "seconds": seconds[1], "factor": seconds[0] / max(seconds[1], 1e-9),
        "full_packet_hops": hops[0], "packet_hops": hops[1], "left_out": event_skip(hops[1], hops[0]),
    }  # fmt: skip


def by_ways(jobs: Jobs, kinds: Sequence[str], scales: Sequence[int]) -> dict[str, Row]:
    """Tables I to III: a row for each job and way."""
    found = {}
    for n_gpu in scales:
        for kind in kinds:
            full = jobs.packets(kind, n_gpu)
            for way in WAYS:
                found[f"{kind}, {n_gpu}, {way}"] = compare(full, jobs.way(kind, n_gpu, way))
    return found


def by_restorations(jobs: Jobs, scales: Sequence[int]) -> dict[str, Row]:
    """Table IV."""
    found = {}
    for n_gpu in scales:
        for kind in MIXED:
            full = jobs.packets(kind, n_gpu)
            for restoration in RESTORATIONS:
                run = jobs.restored(kind, n_gpu, restoration)
                freezes = run.result["fast_forward"].get("freezes", 0)
                found[f"{kind}, {n_gpu}, {restoration}"] = compare(full, run) | {"freezes": freezes}
    return found


def by_cores(jobs: Jobs, scales: Sequence[int]) -> dict[str, Row]:
    """Table V: the loop's seconds of the mixture of experts."""
    found = {}
    for n_gpu in scales:
        one, two = (jobs.packets(MIXED[0], n_gpu, n_rank) for n_rank in (1, 2))
        seconds = {"packets, 1 rank": one.run["loop_seconds"], "packets, 2 ranks": two.run["loop_seconds"]}
        for way in WAYS:
            seconds[f"{way}, 1 rank"] = jobs.way(MIXED[0], n_gpu, way).run["loop_seconds"]
        for name, each in seconds.items():
            found[f"{n_gpu}, {name}"] = {"seconds": each, "factor": one.run["loop_seconds"] / max(each, 1e-9)}
    return found


def show(title: str, heads: Sequence[str], rows: dict[str, Row], cells: Sequence[str]) -> None:
    """A table. cells: keys of the rows, with what formats them: "key %" a share, "key .2f" any other."""
    print(f"\n{title:<32}" + "".join(f"{head:>15}" for head in heads))
    for name, row in rows.items():
        pairs = [cell.split() for cell in cells]
        texts = [percent(row[key]) if how == "%" else format(row[key], how) for key, how in pairs]
        print(f"{name:<32}" + "".join(f"{text:>15}" for text in texts), flush=True)


ERRORS = (("FCT largest", "FCT mean", "job's time"), ("max_error %", "mean_error %", "job_error %"))
RATES = (("packets, Gbps", "Gbps", "difference"), ("full_gbps .3f", "gbps .3f", "throughput_error %"))
TIMES = (("packets, s", "seconds", "times faster", "packet-hops", "left out"),
         ("full_s .2f", "seconds .2f", "factor .2f", "full_packet_hops ,", "left_out %"))  # fmt: skip


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(TABLES), help=f"of {', '.join(TABLES)}, comma separated")
    parser.add_argument("--scales", help="GPUs of jobs with one strategy, powers of two (default 64,256,1024)")
    parser.add_argument("--mixed", help="GPUs of jobs with several, powers of two (default 128,512)")
    parser.add_argument("--control", default="hpcc", help="congestion control (default hpcc)")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="TABLE.KEY=VALUE",
                        help="override a key, in all runs; may be repeated")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="16 GPUs and sequences of 64 tokens only")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "bench-hygra-tables", help="folder for runs")
    parser.add_argument("--fresh", action="store_true", help="run with packets even if such a run is kept")
    return parser.parse_args(argv)


def scales_of(option: str, text: str) -> list[int]:
    """Numbers of GPUs. ConfigError: not powers of two from 16 on."""
    scales = [int(part) if part.isdecimal() else 0 for part in text.split(",")]
    if any(n < 16 or n & (n - 1) for n in scales):
        raise ConfigError(option, f"found {text}", "Accepted: powers of two from 16 on, comma separated")
    return scales


def measure(arguments: argparse.Namespace) -> dict[str, dict[str, Row]]:
    """Rows by table and name; each table is printed as soon as it is there."""
    names = arguments.only.split(",")
    if unknown := [name for name in names if name not in TABLES]:
        raise ConfigError("--only", f"found {unknown[0]}", f"Accepted: {', '.join(TABLES)}")
    small = "16" if arguments.quick else None
    scales = scales_of("--scales", arguments.scales or small or "64,256,1024")
    mixed = scales_of("--mixed", arguments.mixed or small or "128,512")
    jobs, found = Jobs(arguments), {}
    if {"I", "II"} & set(names):
        rows = by_ways(jobs, STRATEGIES, scales)
        if "I" in names:
            found["I"] = rows
            show("I: one strategy", [*ERRORS[0], *TIMES[0]], rows, [*ERRORS[1], *TIMES[1]])
        if "II" in names:
            found["II"] = rows
            show("II: links between servers", RATES[0], rows, RATES[1])
    if "III" in names:
        found["III"] = by_ways(jobs, MIXED, mixed)
        heads, cells = ([*ERRORS[i], *RATES[i], *TIMES[i]] for i in (0, 1))
        show("III: several strategies", heads, found["III"], cells)
    if "IV" in names:
        found["IV"] = by_restorations(jobs, mixed)
        show("IV: restoration", [*ERRORS[0], "skips", "left out"], found["IV"], [*ERRORS[1], "freezes ,", "left_out %"])
    if "V" in names:
        found["V"] = by_cores(jobs, mixed)
        show("V: cores, " + MIXED[0], ("seconds", "times faster"), found["V"], ("seconds .2f", "factor .2f"))
    return found


def main() -> int:
    """Run the tables; print them and one line of JSON."""
    try:
        found = measure(parse())
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print_last({"tables": found, "rows": sum(map(len, found.values()))})
    return 0


if __name__ == "__main__":
    sys.exit(main())
