"""ns-3's cases on the engine: is it the twin, flow by flow; how far is it from ns-3; how far does a tie rule go?

    python bench/ns3_cases.py --cases FOLDER [--quick] [--native]        FOLDER holds <case>/<cc>/

Each case goes through `pdes-sim convert ns3` and runs in ns-3 compatibility. It is exact if every flow's completion
time, every switch's drops, and every port's losses, pauses and marks are those of the plain twin with the engine's rule
for simultaneous events (tests/reference/ns3_twin). With ns-3's rule the twin is to equal fct.txt; what lies between the
two is the tie rule's doing (for DCQCN also that of other random numbers). Errors are relative, over the flows of a
case; a flow that is unfinished in one of two and not in the other counts as 100 %, and is named. A flow of which
fct.txt has no row is unfinished in ns-3. Twin results are kept: see --cache.
"""

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import models  # noqa: F401  else tests/models stands for it, where the package is installed in editable mode
from pdes.errors import SimError

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from reference.ns3_runs import (  # noqa: E402
    UNFINISHED,
    Outcome,
    answers_of,
    find_cases,
    run_engine,
    run_twin,
    work_of,
)

CACHE = Path.home() / ".cache" / "pdes-sim" / "twin"
FEW = 8  # flows that a line names
QUICK_WORK = 120_000_000  # bytes times hops; above, the plain twin takes more than some seconds


@dataclass(frozen=True)
class Difference:
    """Of two lists of completion times: relative, over the flows, and of their means."""

    mean: float
    largest: float
    of_means: float
    ends_here_alone: list[int]  # flows, by number
    ends_there_alone: list[int]

    def text(self) -> str:
        """For the table."""
        return f"{100 * self.mean:8.3f} {100 * self.largest:8.2f}"

    def ends(self) -> list[str]:
        """Which flows ended in one and not in the other, for people."""
        places = (("here", self.ends_here_alone), ("in ns-3", self.ends_there_alone))
        return [f"{_who_ends(flows)} {where} alone" for where, flows in places if flows]


def difference(found_ns: list[int], true_ns: list[int]) -> Difference:
    """How far one run's completion times are from another's."""
    each = [_relative(a, b) for a, b in zip(found_ns, true_ns, strict=True)]
    both = [(a, b) for a, b in zip(found_ns, true_ns, strict=True) if UNFINISHED not in (a, b)]
    sums = sum(a for a, _ in both), sum(b for _, b in both)
    here = [i for i, a in enumerate(found_ns) if a != UNFINISHED == true_ns[i]]
    there = [i for i, a in enumerate(found_ns) if a == UNFINISHED != true_ns[i]]
    of_means = abs(sums[0] - sums[1]) / sums[1] if sums[1] else 0.0
    return Difference(sum(each) / len(each), max(each), of_means, here, there)


def _who_ends(flows: list[int]) -> str:
    if len(flows) == 1:
        return f"flow {flows[0]} ends"
    more = f" and {len(flows) - FEW} more" if len(flows) > FEW else ""
    return f"flows {', '.join(map(str, flows[:FEW]))}{more} end"


def _relative(found_ns: int, true_ns: int) -> float:
    if UNFINISHED in (found_ns, true_ns):
        return float(found_ns != true_ns)
    return abs(found_ns - true_ns) / true_ns


def faults(engine: Outcome, twin: Outcome) -> list[str]:
    """What of the engine's results is not the twin's: "fct 3" stands for three flows."""
    found = []
    for name in ("fct_ns", "dropped", "lost", "pauses", "marked"):
        n_wrong = sum(a != b for a, b in zip(getattr(engine, name), getattr(twin, name), strict=True))
        if n_wrong:
            found.append(f"{name.removesuffix('_ns')} {n_wrong}")
    return found


@dataclass
class Row:
    """One case. None: there is no twin, or no answer, to compare with."""

    is_exact: bool | None
    error: Difference | None
    native: Difference | None


def measure(case: Path, arguments: argparse.Namespace) -> Row:
    """Run one case and print its line."""
    name = f"{case.parent.name}/{case.name}"
    try:
        engine, n_hop = run_engine(case)
    except SimError as error:
        print(f"{name:<36} does not run: {error}", flush=True)
        return Row(False, None, None)
    truth = arguments.answers[case]
    try:
        ours, theirs = (run_twin(case, tie, arguments.cache) for tie in ("engine", "ns3"))
    except (ValueError, KeyError, OSError) as error:
        ours, theirs, reason = None, None, f"no twin: {type(error).__name__} {error}"
    wrong = [] if ours is None else faults(engine, ours)
    verdict = reason if ours is None else ", ".join(wrong) or "exact"
    truth = truth if truth is not None or theirs is None else theirs.fct_ns
    error = None if truth is None else difference(engine.fct_ns, truth)
    verdict = ", ".join([verdict, *(error.ends() if error else [])])
    tie = None if ours is None or theirs is None else difference(ours.fct_ns, theirs.fct_ns)
    is_ns3 = theirs is not None and truth is not None and theirs.fct_ns == truth
    native = None
    if arguments.native and truth is not None:
        native = difference(run_engine(case, is_native=True)[0].fct_ns, truth)
    none = f"{'-':>8} {'-':>8}"
    cells = [
        f"{name:<36} {len(engine.fct_ns):>5} {engine.fct_ns.count(UNFINISHED):>5}",
        error.text() if error else none,
        (tie.text() + f" {100 * tie.of_means:8.3f}") if tie else none + f" {'-':>8}",
        *([native.text() if native else none] if arguments.native else []),
        f"{'=' if is_ns3 else '-':>4} {engine.seconds:8.2f} {ours.seconds if ours else 0:8.1f} {n_hop:>11,}  {verdict}",
    ]
    print(" ".join(cells), flush=True)
    return Row(None if ours is None else not wrong, error, native)


def head(is_native: bool) -> str:
    """Two lines above the table."""
    columns = [("error %", 17), ("tie rule moves %", 26), *([("native %", 17)] if is_native else [])]
    first = f"{'':<48} " + " ".join(f"{name:>{width}}" for name, width in columns) + f" {'ns-3':>4} {'seconds':>17}"
    pair = f"{'mean':>8} {'max':>8}"
    cells = [f"{'case':<36} {'flows':>5} {'unfin':>5}", pair, f"{pair} {'of mean':>8}", *([pair] if is_native else [])]
    return first + "\n" + " ".join([*cells, f"{'twin':>4} {'engine':>8} {'twin':>8} {'hops':>11}  engine = twin"])


def main() -> None:
    """Run all cases and print a table and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=Path, required=True, metavar="FOLDER", help="holds <case>/<cc>/")
    parser.add_argument("--quick", action="store_true", help="leave out the largest cases, by bytes times hops")
    parser.add_argument("--native", action="store_true", help="run the default rules too, and print how far they are")
    parser.add_argument("--cache", type=Path, default=CACHE, metavar="FOLDER", help=f"of twin results; default {CACHE}")
    arguments = parser.parse_args()
    cases = find_cases(arguments.cases)
    if not cases:
        parser.error(f"{arguments.cases} holds no <case>/<cc>/ with config.txt and flow.txt")
    try:
        arguments.answers = {case: answers_of(case) for case in cases}
    except SimError as error:
        parser.error(str(error))
    work = {case: work_of(case) for case in cases}
    left_out = [case for case in cases if arguments.quick and work[case] > QUICK_WORK]
    print(head(arguments.native))
    rows = [measure(case, arguments) for case in cases if case not in left_out]
    if left_out:
        print(f"left out: {', '.join(f'{case.parent.name}/{case.name}' for case in left_out)}")
    errors = [row.error for row in rows if row.error is not None]
    figures: dict[str, object] = {
        "cases": len(rows),
        "exact_with_twin": sum(row.is_exact is True for row in rows),
        "mean_fct_error": sum(e.mean for e in errors) / len(errors) if errors else None,
        "max_fct_error": max((e.largest for e in errors), default=None),
    }
    figures["finished_in_one"] = sum(len(e.ends_here_alone) + len(e.ends_there_alone) for e in errors)
    native = [row.native for row in rows if row.native is not None]
    if native:
        figures["native_mean_fct_error"] = sum(e.mean for e in native) / len(native)
    print(json.dumps(figures, sort_keys=True))


if __name__ == "__main__":
    main()
