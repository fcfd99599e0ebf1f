"""Where the time of a fast-forwarded run's loop goes: packets, and what is spent on not simulating them.

    python bench/wormhole_profile.py [--config FILE] [--set TABLE.KEY=VALUE] [--quick] [--pairs 3] [--out FOLDER]

On one rank, by turns as it is, in a process of its own, and here with clocks around the parts: calls of them are timed
from outside, so the program itself has none. A part's time is without that of the parts that it calls. "Packets" are
the compiled rounds, as in a full simulation; all but them and the exchange between ranks is bookkeeping, which a full
simulation of the same config would not do. What looks that find nothing take, within the compiled code, is not told
from the calls into it. The rounds count their own time, so the share of bookkeeping is known without clocks, too: in
the loop, and in the process from its start to its results.
"""

import argparse
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import models.network.skip.fast_forward as network
import pdes.engine.round as engine
import pdes.skipping.controller as wormhole
import pdes.skipping.look.looks as looks
import pdes.skipping.periodic as periodic
from cases import print_last, spread
from models.network.model import NetworkModel
from models.network.skip.credits import Credits
from models.network.skip.memo_states import MemoStates
from models.network.skip.replays import Replays
from models.network.skip.suspend.suspension import Suspension
from pdes.engine.round import COMPUTE_NS, EXCHANGE_NS, N_ROUND, WAIT_NS
from pdes.errors import ConfigError
from pdes.simulation.compile import compile_kernels
from pdes.simulation.job import Run
from pdes.simulation.loop import run_to_end
from pdes.skipping.replay.memo import Memo
from runs import ROOT, compile_ahead, discarded_run
from runs import simulate as simulate_process

PACKETS, EXCHANGE, REST = "packets", "ranks: waiting, exchange", "all else"
CALLS = "rounds: calls, looks that find nothing"
PARTS: dict[str, Sequence[tuple[Any, str]]] = {  # what is timed: functions by the name under which they are called
    CALLS: [(NetworkModel, "run_rounds"), (NetworkModel, "relieve")],
    "looks: calls, arrivals of others": [(engine, "_look"), (NetworkModel, "_take_in")],
    "sampling": [(network, "sample_all")],
    "partitions": [(looks.Looks, "look"), (periodic, "canonical"), (periodic.Periodic, "_own_ports")],
    "criterion": [],  # of the run's own criterion: see `clocks_of`
    "decisions": [(wormhole.Controller, name) for name in ("decide", "ends", "due")],
    "memo: keys and states": [(MemoStates, name) for name in ("states", "keys", "form", "put")],
    "memo: episodes": [(Replays, "look"), (Memo, "begin"), (wormhole.Controller, "over")],
    "freeze and thaw": [(Suspension, name) for name in ("freeze", "thaw", "show")] + [(Credits, "note")],
}
CRITERION = ("add", "judge", "thawed", "frozen")


class Clocks:
    """Time of each part without that of the parts that it calls, and how often it was called."""

    def __init__(self) -> None:
        self.own_ns: defaultdict[str, int] = defaultdict(int)
        self.calls: defaultdict[str, int] = defaultdict(int)
        self._inner_ns = [0]  # of the calls that are under way: what the timed calls in them took

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, with its time counted."""

        def call(*arguments: Any, **keys: Any) -> Any:
            self._inner_ns.append(0)
            begin_ns = perf_counter_ns()
            try:
                return function(*arguments, **keys)
            finally:
                took_ns = perf_counter_ns() - begin_ns
                self.own_ns[part] += took_ns - self._inner_ns.pop()
                self.calls[part] += 1
                self._inner_ns[-1] += took_ns

        return call


@contextmanager
def clocks_of(run: Run) -> Iterator[Clocks]:
    """Clocks around the parts of a run while it lasts."""
    clocks, before = Clocks(), []
    fast = run.model.fast_forward
    criterion = [] if fast is None else [(type(fast._controller.criterion), name) for name in CRITERION]
    for part, functions in (PARTS | {"criterion": criterion}).items():
        for owner, name in functions:
            before.append((owner, name, getattr(owner, name)))
            setattr(owner, name, clocks.timed(part, getattr(owner, name)))
    try:
        yield clocks
    finally:
        for owner, name, function in before:
            setattr(owner, name, function)


def simulate(config: Path, overrides: list[str], folder: Path) -> dict[str, Any]:
    """Run the loop of a config; its seconds, and those of each part."""
    with discarded_run(config, overrides, folder) as run:
        compile_kernels(run)
        with clocks_of(run) as clocks:
            loop_s = run_to_end(run, quiet=True).seconds
        return {"loop_seconds": loop_s, **parts_of(run, loop_s, clocks)}


def simulate_whole(config: Path, overrides: list[str], folder: Path) -> dict[str, float]:
    """Run a config in a process of its own; seconds of it and of its loop, and the shares of bookkeeping in both."""
    done = simulate_process(config, overrides, folder)
    facts, wall_s = done.run, done.start_to_result_s
    spent_s = facts["loop_seconds"] - sum(facts[f"{name}_seconds"][0] for name in ("compute", "wait", "exchange"))
    shares = {"share": spent_s / facts["loop_seconds"], "share_of_run": spent_s / wall_s}
    return {"loop_seconds": facts["loop_seconds"], "wall_seconds": wall_s} | shares


def parts_of(run: Run, loop_s: float, clocks: Clocks) -> dict[str, Any]:
    """Seconds of each part, which add up to the loop's, and what they were spent on."""
    seconds = {part: clocks.own_ns[part] / 1e9 for part in PARTS}
    compute_s, exchange_s = run.loop[COMPUTE_NS] / 1e9, (run.loop[WAIT_NS] + run.loop[EXCHANGE_NS]) / 1e9
    seconds[CALLS] -= compute_s + exchange_s  # the calls are timed as a whole, what happens in them by the rounds
    seconds |= {PACKETS: compute_s, EXCHANGE: exchange_s}
    seconds[REST] = loop_s - sum(seconds.values())
    counts = {} if run.model.fast_forward is None else vars(run.model.fast_forward.counters)
    share = 1 - (compute_s + exchange_s) / loop_s
    return {"seconds": seconds, "share": share, "rounds": int(run.loop[N_ROUND]), "calls": dict(clocks.calls), **counts}


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run a config by turns with clocks and without; the parts of the timed run whose loop took the median."""
    config = arguments.config or ROOT / "examples" / ("quickstart.toml" if arguments.quick else "gpt-22b-256.toml")
    overrides = [*(["wormhole.mode=exact"] if arguments.quick and not arguments.config else []), *arguments.overrides]
    n_pair = 1 if arguments.quick else arguments.pairs
    plain, timed = [], []
    compile_ahead(config, overrides, arguments.out)
    for _ in range(n_pair):
        plain.append(simulate_whole(config, overrides, arguments.out / "whole"))
        timed.append(simulate(config, overrides, arguments.out))
    timed.sort(key=lambda found: found["loop_seconds"])
    parts = timed[(n_pair - 1) // 2]
    loops, shares, walls, of_run = (
        [run[name] for run in plain] for name in ("loop_seconds", "share", "wall_seconds", "share_of_run")
    )
    return parts | {
        "config": str(config), "set": overrides, "loop_seconds": statistics.median(loops), "loop_seconds_all": loops,
        "timed_loop_seconds": parts["loop_seconds"], "bookkeeping_share": statistics.median(shares),
        "bookkeeping_share_all": shares, "timed_bookkeeping_share": parts["share"],
        "wall_seconds": statistics.median(walls), "bookkeeping_share_of_run": statistics.median(of_run),
    }  # fmt: skip


def show(figures: dict[str, Any]) -> None:
    """A line for each part, the longest first."""
    f = figures
    loop = f"{spread(f['loop_seconds_all'])} s in the loop, {f['timed_loop_seconds']:.3g} s with clocks"
    print(f"{Path(f['config']).stem}: {loop}; {f['rounds']:,} rounds, {f.get('looks', 0):,} looks")
    for part, seconds in sorted(f["seconds"].items(), key=lambda item: -item[1]):
        print(f"{part:<40} {1e3 * seconds:>10.1f} ms {100 * seconds / f['timed_loop_seconds']:>6.1f} %")
    print(f"{'all but packets, exchange: bookkeeping':<40} {'':>13} {100 * f['timed_bookkeeping_share']:>6.1f} %")
    print(f"{'  without clocks':<40} {'':>13} {100 * f['bookkeeping_share']:>6.1f} %")
    whole = f"  of the process, start to result: {f['wall_seconds']:.3g} s"
    print(f"{whole:<40} {'':>13} {100 * f['bookkeeping_share_of_run']:>6.1f} %")


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, help="what to run (default examples/gpt-22b-256.toml)")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="TABLE.KEY=VALUE",
                        help="override a key; may be repeated")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="examples/quickstart.toml, one pair of runs")
    parser.add_argument("--pairs", type=int, default=3, help="runs of each kind (default 3)")
    parser.add_argument("--out", type=Path, default=Path("results/bench-wormhole-profile"), help="folder of the runs")
    return parser.parse_args(argv)


def main() -> int:
    """Run, print the table and one line of JSON."""
    arguments = parse()
    if arguments.pairs < 1:
        print("error: --pairs: found a number below 1. Accepted: 1 or more", file=sys.stderr)
        return 2
    try:
        figures = measure(arguments)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    show(figures)
    print_last(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
