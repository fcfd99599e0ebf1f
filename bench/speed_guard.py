"""Whether this version is slower than it was: beside an older commit, by turns, so that it does not depend on the hour.

    python bench/speed_guard.py [--quick] [--against COMMIT] [--ranks N] [--cases A,B] [--sets N] [--large] [--accept]

The working tree and each older commit (--against, once or several times) run in a process of their own and take turns,
run by run. A pair is a run of each next to each other, a set 3 pairs of the same processes: two processes of the same
version differ by up to 4 % for as long as they live, so that more pairs of the same say no more. The ratio, this
version's packet-hops per second by the older one's, is the median over sets of their medians; low and high are what the
true one lies between with 95 %, by order statistics, or the least and the largest set where there are too few for that;
least and largest are pairs. Compiling and set-up are not counted. On one rank time is the process's own on its core; on
several it is wall time, as ranks that wait take processor time, too: nothing else should run then. What others do to
caches and memory does not slow all versions alike: the load average is printed, and kept.

bench/speed_guard.json has the ratios that were accepted last, by machine: what memory costs is not the same on all, and
of two versions one may be 1.04 times as fast as the other here and 1.26 times there. A case has lost where high is more
than 2 % below the accepted low of this machine; the exit status is 1 then. Where versions did not do the same
packet-hops, as what is simulated has changed since, the table says "other work". "--against this" runs this version
against itself: what comes out is noise.

Cases: permutations of 4 MB flows on a k=8 fat-tree (ns-3's case h), 1 MB on k=16, with --large 100 kB on k=32, with
DCTCP; k=8 with HPCC, and with a shared buffer, PFC and 8 classes besides; examples/gpt-7b-64.toml, packet by packet,
120 ms of simulated time (its all-reduce begins at about 110). 8bde7ce knows no HPCC; 8bd2fe1 does.
"""

import argparse
import datetime
import json
import math
import os
import signal
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cases import permutation, print_last, write_flows
from pdes.engine.jit import cache_folder
from speed_versions import Version, commit_of, git, older_tree

ROOT = Path(__file__).resolve().parent.parent
ACCEPTED = ROOT / "bench" / "speed_guard.json"
DEFAULT = "8bde7ce"
THIS = "this"
LOSS_FRAC = 0.02
WARM_UP_PS = 20 * 10**9  # all of a permutation, and the first messages of a training iteration
STOP_PS = 120 * 10**9  # of training
# The lowest of 8 strict classes waits for more than the 1 ms after which a sender gives its packets up for lost.
CLASSES = '[network.buffer]\nsize = "auto"\n[network.transport]\ntimeout = "64ms"\n'
HPCC = '[network]\ncongestion_control = "hpcc"\n'
GPT = "examples/gpt-7b-64.toml"
Run = tuple[int, float]  # packet-hops, seconds
SPREAD = ("ratio", "least", "low", "high", "largest")


@dataclass(frozen=True)
class Case:
    """config: absolute, or of each version's own tree. n_pair: runs of each version in a set."""

    name: str
    config: str
    overrides: tuple[str, ...] = ()
    stop_ps: int | None = None
    n_pair: int = 3


def write_permutation(folder: Path, k: int, size_bytes: int, n_class: int = 1, network: str = "") -> str:
    """A config of `cases.fat_tree_permutation`, for versions whose own differs; its path."""
    folder.mkdir(parents=True)
    src = list(range(k**3 // 4))
    priority = [host % n_class for host in src] if n_class > 1 else None
    write_flows(folder / "flows.csv", src, permutation(k).tolist(), [size_bytes] * len(src), None, priority)
    config = folder / "config.toml"
    config.write_text(
        f'[topology]\nkind = "fat-tree"\nk = {k}\n[workload]\nkind = "flows"\nfile = "flows.csv"\n{network}'
    )
    return str(config)


def make_cases(folder: Path, is_quick: bool, is_large: bool) -> list[Case]:
    """All cases, their configs written into the folder. is_quick: 10 kB a flow and 20 ms."""

    def flows(name: str, k: int, size_bytes: int, n_class: int = 1, network: str = "") -> Case:
        size_bytes = 10_000 if is_quick else size_bytes
        return Case(name, write_permutation(folder / name, k, size_bytes, n_class, network))

    stop_ps = WARM_UP_PS if is_quick else STOP_PS
    return [
        flows("k8", 8, 4_000_000),
        flows("k16", 16, 1_000_000),
        *([flows("k32", 32, 100_000)] if is_large else []),
        flows("k8-hpcc", 8, 4_000_000, network=HPCC),
        flows("k8-hpcc-pfc-8", 8, 4_000_000, 8, HPCC + CLASSES),
        *(
            Case(f"gpt7b-{law}", GPT, ("wormhole.mode=off", f"network.congestion_control={law}"), stop_ps)
            for law in ("hpcc", "dctcp")
        ),
    ]


def median_bounds(values: Sequence[float]) -> tuple[float, float]:
    """What the median of the distribution lies between with 95 %, whatever it is; least and largest for few values."""
    ordered, n = sorted(values), len(values)
    n_left_out, tail = 0, 2 ** -float(n)
    while n_left_out + 1 < n / 2:
        tail += math.comb(n, n_left_out + 1) * 2 ** -float(n)
        if 2 * tail > 0.05:
            break
        n_left_out += 1
    return ordered[n_left_out], ordered[n - 1 - n_left_out]


def run_pairs(case: Case, this: Version, others: Sequence[Version]) -> dict[str, list[Run]]:
    """Runs of each version by its name, without those that cannot run the case. SystemExit if this version cannot."""
    running = [v for v in (this, *others) if "cannot" not in v.ask(case.config, case.overrides, WARM_UP_PS)]
    if this not in running:
        raise SystemExit(f"error: this version cannot run {case.name}: {why_not(case, this)}")
    runs: dict[str, list[Run]] = {version.name: [] for version in running}
    for i_pair in range(case.n_pair if len(running) > 1 else 0):
        for version in running if i_pair % 2 == 0 else reversed(running):  # whatever drifts favours neither
            answer = version.ask(case.config, case.overrides, case.stop_ps)
            runs[version.name].append((answer["hops"], answer["seconds"]))
    assert all(len({hops for hops, _ in found}) <= 1 for found in runs.values()), "two runs of a version differ"
    return runs


def why_not(case: Case, version: Version) -> str:
    """The first fault that a version finds in a case's config."""
    lines = version.ask(case.config, case.overrides, WARM_UP_PS)["cannot"].splitlines()
    return lines[min(1, len(lines) - 1)].replace(case.config, case.name).strip()  # several: the first line counts them


def compare(this: Sequence[Sequence[Run]], older: Sequence[Sequence[Run]]) -> dict[str, Any]:
    """Ratio of two versions' rates with its spread. this, older: runs by set and pair."""
    rates = [[[hops / seconds for hops, seconds in pairs] for pairs in sets] for sets in (this, older)]
    ratios = [[a / b for a, b in zip(*pairs, strict=True)] for pairs in zip(*rates, strict=True)]
    medians, every = [statistics.median(pairs) for pairs in ratios], sum(ratios, [])
    found = (statistics.median(medians), min(every), *median_bounds(medians), max(every))
    middle = [round(statistics.median(sum(sets, []))) for sets in rates]
    return {
        **{name: round(value, 4) for name, value in zip(SPREAD, found, strict=True)},
        "this_per_s": middle[0], "older_per_s": middle[1], "pairs": len(every), "sets": len(medians),
        "hops": this[0][0][0], "same_work": this[0][0][0] == older[0][0][0],
    }  # fmt: skip


def has_lost(row: dict[str, Any], accepted: dict[str, Any]) -> bool:
    """Whether a ratio is lower than the accepted one by more than LOSS_FRAC and what both may be off."""
    return row["high"] < (1 - LOSS_FRAC) * accepted["low"]


def print_row(name: str, older: str, row: dict[str, Any], accepted: dict[str, Any] | None) -> None:
    """A line of the table."""
    head = f"{name:<14} {older:<8}"
    if "cannot" in row:
        print(f"{head} the older version cannot run it: {row['cannot']}")
        return
    said = [] if row["same_work"] else ["other work"]
    if accepted and has_lost(row, accepted):
        said.append("LOST")
    spread = "".join(f" {row[key]:>7.3f}" for key in SPREAD)
    was = f"{accepted['ratio']:>9.3f}" if accepted else f"{'-':>9}"
    rates = f"{row['this_per_s'] / 1e6:>8.2f} {row['older_per_s'] / 1e6:>9.2f}"
    print(f"{head} {rates}{spread} {was} {row['hops']:>12,} {row['pairs']:>5}  {', '.join(said)}".rstrip())


def machine() -> dict[str, Any]:
    """What the ratios were measured on, and the load of the last 5 minutes, this program's own 1 among it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
    return {"machine": model, "cores": len(os.sched_getaffinity(0)), "load": round(os.getloadavg()[1], 1)}


def place_of(facts: dict[str, Any]) -> str:
    """The machine, in words."""
    return "{machine}, {cores} cores".format(**facts)


def origin(accepted: dict[str, Any]) -> str:
    """Where an accepted ratio is from."""
    return "{version}, {date}, {machine}, {cores} cores, load {load}".format(**accepted)


def read_accepted(path: Path) -> dict[str, Any]:
    """{machine: {older commit: {ranks: {case: row}}}}"""
    return json.loads(path.read_text()) if path.exists() else {}


def accept(path: Path, found: dict[str, Any], ranks: str, facts: dict[str, Any]) -> None:
    """Put what was measured into the file, each ratio with the facts; others stay."""
    accepted = read_accepted(path)
    for older, rows in found.items():
        measured = {name: row | facts for name, row in rows.items() if "cannot" not in row}
        here = accepted.setdefault(place_of(facts), {})
        here.setdefault(older, {}).setdefault(ranks, {}).update(measured)
    path.write_text(json.dumps(accepted, indent=1, sort_keys=True) + "\n")


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line, checked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="10 kB flows, one set, against this version itself")
    parser.add_argument(
        "--against", action="append", metavar="COMMIT", help=f'an older commit, or "this" (default {DEFAULT})'
    )
    parser.add_argument("--ranks", type=int, default=1, help="ranks of each version; wall time if several (default 1)")
    parser.add_argument("--cases", help="names of cases, comma separated (default: all)")
    parser.add_argument("--sets", type=int, help="sets of 3 pairs, each of new processes (default 9)")
    parser.add_argument("--large", action="store_true", help="k=32, 8,192 hosts, as well")
    parser.add_argument("--accept", action="store_true", help=f"write the ratios to {ACCEPTED.relative_to(ROOT)}")
    arguments = parser.parse_args(words)
    arguments.against = arguments.against or [THIS if arguments.quick else DEFAULT]
    n_core = len(os.sched_getaffinity(0))
    if not 1 <= arguments.ranks <= n_core:
        parser.error(f"--ranks: found {arguments.ranks}. Accepted: 1 to {n_core}, as there are {n_core} cores")
    arguments.sets = (1 if arguments.quick else 9) if arguments.sets is None else arguments.sets
    if arguments.sets < 1:
        parser.error(f"--sets: found {arguments.sets}. Accepted: 1 or more")
    if arguments.quick and arguments.accept:
        parser.error("--accept: not with --quick, whose ratios say nothing")
    return arguments


def chosen(cases: Sequence[Case], names: str | None) -> list[Case]:
    """The named cases. SystemExit if there is none of a name."""
    wanted = names.split(",") if names else [case.name for case in cases]
    unknown = [name for name in wanted if name not in {case.name for case in cases}]
    if unknown:
        known = ", ".join(case.name for case in cases)
        raise SystemExit(f"error: --cases: found {', '.join(unknown)}. Accepted: {known} (k32 with --large)")
    return [case for case in cases if case.name in wanted]


def run(arguments: argparse.Namespace) -> dict[str, dict[str, dict[str, Any]]]:
    """All cases against all older versions: {older commit: {case: row}}. A row may be "cannot", why, alone."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cases = chosen(make_cases(folder / "cases", arguments.quick, arguments.large), arguments.cases)
        trees = {"working tree": ROOT}
        for name in dict.fromkeys(arguments.against):
            if name == THIS:
                trees[THIS] = ROOT
                continue
            commit = commit_of(ROOT, name)
            trees[commit[:7]] = stack.enter_context(older_tree(ROOT, commit, cache_folder().parent / "older"))
        runs: dict[str, list[dict[str, list[Run]]]] = {case.name: [] for case in cases}
        cannot: dict[tuple[str, str], str] = {}
        for i_set in range(arguments.sets):
            with ExitStack() as processes:
                versions = []
                for i, (name, tree) in enumerate(trees.items()):
                    versions.append(Version(name, tree, folder / f"set{i_set}-{i}", arguments.ranks))
                    processes.callback(versions[-1].end)
                print(f"set {i_set + 1} of {arguments.sets}", file=sys.stderr, flush=True)
                for case in cases:
                    runs[case.name].append(run_pairs(case, versions[0], versions[1:]))
                    for version in versions:
                        if i_set == 0 and version.name not in runs[case.name][0]:
                            cannot[version.name, case.name] = why_not(case, version)
    rows: dict[str, dict[str, dict[str, Any]]] = {older: {} for older in list(trees)[1:]}
    for older in rows:
        for name, sets in runs.items():
            if (older, name) in cannot:
                rows[older][name] = {"cannot": cannot[older, name]}
            else:
                rows[older][name] = compare([s["working tree"] for s in sets], [s[older] for s in sets])
    return rows


def main() -> int:
    """Measure, print a table and a line of JSON, compare or accept; 1 if a case has lost."""
    arguments = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that all is cleaned up
    ranks = str(arguments.ranks)
    kept = {} if arguments.quick or arguments.accept else read_accepted(ACCEPTED)
    accepted = {older: by_ranks.get(ranks, {}) for older, by_ranks in kept.get(place_of(machine()), {}).items()}
    version = git(ROOT, "describe", "--always", "--dirty", "--abbrev=7", "--exclude=*").decode().strip()
    try:
        found = run(arguments)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    facts = {"version": version, "date": datetime.date.today().isoformat(), **machine()}
    clock = "processor time of one rank" if arguments.ranks == 1 else f"wall time of {ranks} ranks"
    print("{version} on {machine}, {cores} cores, load {load}; packet-hops per second of".format(**facts), f"{clock}\n")
    spread = "".join(f" {name:>7}" for name in SPREAD)
    print(f"{'case':<14} {'against':<8} M/s this M/s older{spread}  accepted {'hops':>12} pairs")
    lost, origins = [], set()
    for older, rows in found.items():
        for name, row in rows.items():
            before = accepted.get(older, {}).get(name)
            print_row(name, older, row, before)
            if before and "cannot" not in row:
                origins.add(origin(before))
                lost += [f"{name} against {older}"] if has_lost(row, before) else []
    print(*("", *(f"accepted: {text}" for text in sorted(origins))), sep="\n")
    if kept and place_of(facts) not in kept:
        print(f"accepted: nothing on {place_of(facts)}; there are ratios of {'; '.join(sorted(kept))}")
    if arguments.accept:
        accept(ACCEPTED, found, ranks, facts)
        print(f"accepted now: {ACCEPTED.relative_to(ROOT)}")
    print("lost: " + ("; ".join(lost) or "none"))
    print_last({"against": found, "lost": lost, "ranks": arguments.ranks, "accepted": arguments.accept, **facts})
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
