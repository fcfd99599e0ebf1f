"""`pdes-sim compare A.toml B.toml --seeds 10`: which of two clusters or policies is better, and how sure that is."""

import argparse
import csv
import json
import sys
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from pdes.commands.parser import new_parser

Pair = tuple[dict[str, Any], dict[str, Any]]


def make_parser() -> argparse.ArgumentParser:
    """Its arguments."""
    text = (
        "Run two configs with [cluster] over the same seeds, and say which is better: means, 95 % intervals, verdicts."
    )
    parser = new_parser("pdes-sim compare", text, compare)
    parser.add_argument("a", metavar="A.toml", help="a config with [cluster]")
    parser.add_argument("b", metavar="B.toml", nargs="?", help="another one; without it, A's with --set-b")
    text = "how many, from the configs' own seed on (default: 10); each has the same jobs and failures in A and B"
    parser.add_argument("--seeds", metavar="N", type=int, default=10, help=text)
    overrides = {"metavar": "TABLE.KEY=VALUE", "action": "append", "default": []}
    parser.add_argument("--set", dest="overrides", help="override a key of both; may be repeated", **overrides)
    parser.add_argument("--set-b", dest="overrides_b", help="override a key of B alone; may be repeated", **overrides)
    parser.add_argument("--processes", metavar="N", type=int, default=1, help="runs at a time (default: 1)")
    parser.add_argument("--out", metavar="FILE.csv", help="also write the figures of each seed there")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    return parser


def compare(arguments: argparse.Namespace) -> int:
    """Run, and print. Raises SimError."""
    from pdes.cluster.paired import FIGURES, lines, verdict
    from pdes.sweeps.paired import paired, quantile

    quantile(2)  # says so at once if SciPy is missing
    runs, seeds = _runs(arguments)
    results = list(_pairs(arguments, runs))
    if arguments.out is not None:
        with Path(arguments.out).open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(["seed", *(f"{figure.name} {name}" for figure in FIGURES for name in "AB")])
            for seed, pair in zip(seeds, results, strict=True):
                rows.writerow([seed, *(figure.value(result) for figure in FIGURES for result in pair)])
    if arguments.json:
        found = {}
        for figure in FIGURES:
            one = paired([figure.value(a) for a, _ in results], [figure.value(b) for _, b in results])
            found["_".join(figure.path)] = one._asdict() | {"verdict": verdict(figure, one)}
        print(json.dumps({"seeds": list(seeds)} | found))
        return 0
    for name, loaded, own in zip("AB", runs[0], ([], arguments.overrides_b), strict=True):
        with_own = f", with {', '.join(own)}" if own else ""
        print(f"{name}  {loaded.source}, {loaded.run.cluster.scheduler}, {loaded.run.cluster.placement}{with_own}")
    print(f"{len(seeds)} seeds, {seeds[0]} to {seeds[-1]}; each has the same jobs and failures in A and B")
    for name, k in (("A", 0), ("B", 1)):
        n_done, n_job = (sum(pair[k][key] for pair in results) for key in ("jobs_done", "jobs"))
        if n_done < n_job:
            print(f"{n_done:,} of {n_job:,} jobs of {name} are done when it stops; completions are of these alone")
    print("\n".join(["", *lines(results)]))
    return 0


def _runs(arguments: argparse.Namespace) -> tuple[list[Any], range]:
    """(A, B) as loaded, of each seed. ConfigError: something is wrong, or nothing is drawn."""
    from pdes.config.cluster.load import load_cluster
    from pdes.errors import ConfigError

    for name, least, most in (("seeds", 2, 10_000), ("processes", 1, 1024)):
        value = getattr(arguments, name)
        if not least <= value <= most:
            raise ConfigError(f"--{name}", f"found {value}", f"{least} to {most:,}")
    if arguments.b is None and not arguments.overrides_b:
        raise ConfigError("compare", "found one config", "two configs, or one with --set-b KEY=VALUE")
    files = arguments.a, arguments.b or arguments.a
    overrides = arguments.overrides, [*arguments.overrides, *arguments.overrides_b]
    first = load_cluster(files[0], overrides[0])
    for file, own in zip(files, overrides, strict=True):
        config = load_cluster(file, own).run.cluster
        if config.arrivals is None and not config.failure:
            accepted = (
                "jobs that are drawn, or failures: else one run of each says all, and `pdes-sim diff` compares them"
            )
            raise ConfigError(file, "nothing is drawn, so all seeds are the same", accepted)
    seeds = range(first.run.cluster.seed, first.run.cluster.seed + arguments.seeds)
    return [
        tuple(load_cluster(file, [*own, f"cluster.seed={seed}"]) for file, own in zip(files, overrides, strict=True))
        for seed in seeds
    ], seeds


def _outcome(loaded: Any) -> dict[str, Any]:
    """Of one run. A ConfigError cannot go from process to process: `fault` has its parts."""
    from pdes.cluster.outcome import outcome
    from pdes.errors import ConfigError

    try:
        return outcome(loaded)
    except ConfigError as error:
        return {"fault": (error.where, error.found, error.accepted)}


def _pairs(arguments: argparse.Namespace, runs: list[Any]) -> Iterator[Pair]:
    """Results by seed, with a line on the terminal."""
    from pdes.errors import ConfigError
    from pdes.workers import at_a_time

    flat, began_s = list(chain.from_iterable(runs)), time.perf_counter()
    with at_a_time(min(arguments.processes, len(flat))) as run_all:
        found = run_all(_outcome, flat)
        for k, (a, b) in enumerate(zip(found, found, strict=True)):
            for result in (a, b):
                if "fault" in result:
                    raise ConfigError(*result["fault"])
            if sys.stderr.isatty() and time.perf_counter() - began_s > 2:
                print(f"\r\033[Kpdes-sim: {k + 1} of {len(runs)} seeds", end="", file=sys.stderr, flush=True)
            yield a, b
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
