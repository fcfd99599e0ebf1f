"""Why packet-hops are simulated although fast-forwarding is on: what kept their network partitions from being skipped.

    python bench/wormhole_refusals.py [--config FILE] [--set TABLE.KEY=VALUE] [--quick] [--out FOLDER]

At every look each network partition that is not frozen is given the first reason below that holds for any of its flows,
and what its flows get done until the next look is counted under it. What begins and ends between two looks is "all
else". The run is on one rank, and every look goes through Python: its time says nothing.

The first two rows are what no criterion avoids that goes by samples: rates are known from the third on. They bound what
can be had with such a criterion, were nothing else simulated; only what stands for several (`memo`) goes beyond.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from cases import print_last
from models.network.skip.fast_forward import FastForward
from models.network.state.records import PACKET_HOPS
from pdes.engine.jit import kernel
from pdes.errors import ConfigError
from pdes.simulation.compile import compile_kernels
from pdes.simulation.job import Run
from pdes.simulation.loop import run_to_end
from pdes.skipping import history as h
from pdes.skipping.controller import Controller
from pdes.skipping.frozen import FrozenSet
from pdes.skipping.look.survey import N_JUDGED
from pdes.skipping.steady import Steadiness
from pdes.skipping.windows import N_WINDOW, Limits, Memory, _is_settled, rate_of
from runs import ROOT, discarded_run

REASONS = (
    "a message begins, or something is sent again",
    "fewer than three samples since flows or messages changed",
    "a message ends within ten sample intervals",
    "windows differ by more than criteria allow",
    "the control's rate, window or averages move",
    "rates never seen before, fewer than nine samples",
    "the drift, or what enters queues, allows no skip",
)
BEGINS, CHANGED, ENDS, MOVES, CONTROL, UNKNOWN, BOUNDED = range(len(REASONS))
REST = "all else: between looks, until the first"
SIZES = (1, 4, 15)  # largest numbers of flows of a column


@kernel
def why(memory: Memory, limits: Limits, row):
    """Why a flow's samples on the shortest scale do not let it be skipped. row: its last one."""
    flow = row[h.FLOW]
    kept, last = memory.kept[0, flow], memory.count[0, flow] - 1
    if last < 2:
        return CHANGED
    n_window = N_WINDOW if last >= N_WINDOW else (4 if last >= 4 else 2)
    first = last - n_window
    low = high = rate_of(kept, first, first + 1)
    for k in range(first, last):
        low, high = min(low, rate_of(kept, k, k + 1)), max(high, rate_of(kept, k, k + 1))
    if high - low > limits.spread * rate_of(kept, first, last):
        return MOVES
    if not _is_settled(kept, memory.floats[0, flow], memory.n_kept[0], first, last):
        return CONTROL
    return BOUNDED if n_window == N_WINDOW else UNKNOWN


class Watch:
    """Counts packet-hops by the reasons of the looks before them."""

    def __init__(self, run: Run, criterion: Steadiness) -> None:
        fast = run.model.fast_forward
        assert fast is not None
        self._run, self._criterion = run, criterion
        self._n_port, self._packet_bytes = np.diff(fast.ways[0]), criterion.settings.packet_bytes
        self._since: dict[int, tuple[bytes, int]] = {}  # by label: flows and messages, and since when they are the same
        self._before: dict[int, tuple[int, tuple[int, int]]] = {}  # by flow: bytes acknowledged, and what they count as
        self.hops: defaultdict[tuple[int, int], int] = defaultdict(int)  # by reason and column

    def count(self, rows: np.ndarray) -> None:
        """At the beginning of a look: what flows have got done since the last."""
        for flow, done in zip(rows[:, h.FLOW].tolist(), rows[:, h.DONE].tolist(), strict=True):
            if flow in self._before:
                done_before, where = self._before[flow]
                self.hops[where] += (done - done_before) // self._packet_bytes * int(self._n_port[flow])
        self._before.clear()

    def freeze(self, flows: np.ndarray) -> None:
        """What these get done now is not simulated."""
        for flow in flows.tolist():
            self._before.pop(flow, None)

    def explain(self, controller: Controller, now_ps: int, rows: np.ndarray) -> None:
        """At a look's end: why each network partition goes on."""
        partitions, s = controller._partitions, controller.looks.survey
        labels = partitions.label_of_flow[rows[:, h.FLOW]]
        is_judged = np.zeros(len(rows), np.bool_)
        is_judged[s.judged[: s.found[N_JUDGED]]] = True
        for label in np.unique(labels).tolist():
            at = np.flatnonzero(labels == label)
            mine, every_ps = rows[at], int(s.look_ps[rows[at, h.FLOW]].max())
            state = mine[:, [h.FLOW, h.MESSAGE_END]].tobytes()
            if self._since.get(label, (b"", 0))[0] != state:
                self._since[label] = state, now_ps
            if not mine[:, h.IS_PLAIN].all():
                reason = BEGINS
            elif now_ps - self._since[label][1] < 2 * every_ps:
                reason = CHANGED
            elif not is_judged[at].all():
                reason = ENDS
            else:
                reason = min(why(self._criterion.memory, self._criterion.limits, row) for row in mine)
            column = int(np.searchsorted(SIZES, len(mine)))
            for flow, done in zip(mine[:, h.FLOW].tolist(), mine[:, h.DONE].tolist(), strict=True):
                self._before[flow] = done, (reason, column)


@contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """Have every look watched."""
    decide, hold = Controller.decide, FrozenSet.hold

    def watched_decide(self: Controller, now_ps: int, rows: np.ndarray, *others: Any) -> Any:
        watch.count(rows)
        found = decide(self, now_ps, rows, *others)
        watch.explain(self, now_ps, rows)
        for freeze in found:
            watch.freeze(freeze.pairs)
        return found

    def watched_hold(self: FrozenSet, new: Sequence[Any]) -> None:
        hold(self, new)
        for freeze in new:
            watch.freeze(freeze.pairs)

    looks = patch.object(FastForward, "round_looks", lambda *_: None)
    with looks, patch.object(Controller, "decide", watched_decide), patch.object(FrozenSet, "hold", watched_hold):
        yield


def measure(config: Path, overrides: list[str], folder: Path) -> dict[str, Any]:
    """Run a config; its packet-hops by reason and by the size of the network partition."""
    with discarded_run(config, overrides, folder) as run:
        fast = run.model.fast_forward
        criterion = None if fast is None else fast._controller.criterion
        if fast is None or not isinstance(criterion, Steadiness):
            raise ConfigError(f"{config}: [wormhole]", "found another criterion, or none", "the default criterion")
        if fast.fluid is not None:
            raise ConfigError(f"{config}: [wormhole]", 'found the forecast "alone"', 'mode = "exact"')
        compile_kernels(run)
        watch = Watch(run, criterion)
        with watched(watch):
            run_to_end(run, quiet=True)
        hops, skipped = int(run.model.state.fabric.counters[PACKET_HOPS]), fast.skipped.packet_hops
        table = [[watch.hops[reason, column] for column in range(len(SIZES) + 1)] for reason in range(len(REASONS))]
        least = sum(table[BEGINS]) + sum(table[CHANGED])
        return {
            "config": str(config), "set": overrides, "packet_hops": hops, "skipped_packet_hops": skipped,
            "factor": (hops + skipped) / hops, "reasons": dict(zip(REASONS, table, strict=True)),
            "all_else": hops - sum(map(sum, table)), "bound": (hops + skipped) / least if least else None,
        }  # fmt: skip


def show(figures: dict[str, Any]) -> None:
    """A line for each reason."""
    f, n = figures, figures["packet_hops"]
    print(f"{Path(f['config']).stem}: {n:,} packet-hops simulated, {f['factor']:.3g} times fewer than there are")
    names = ["1 flow", *(f"to {size}" for size in SIZES[1:]), "more"]
    print(f"{'millions, in network partitions of':<58} {'all':>8} {'':>6} " + "".join(f"{name:>9}" for name in names))
    for reason, hops in f["reasons"].items():
        cells = "".join(f"{each / 1e6:>9.2f}" for each in hops)
        print(f"{reason:<58} {sum(hops) / 1e6:>8.2f} {100 * sum(hops) / n:>5.1f}% {cells}")
    print(f"{REST:<58} {f['all_else'] / 1e6:>8.2f} {100 * f['all_else'] / n:>5.1f}%")
    if f["bound"] is not None:
        print(f"the first two alone: at most {f['bound']:.3g} times fewer")


def main() -> int:
    """Run, print the table and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, help="what to run (default examples/gpt-22b-256.toml)")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="TABLE.KEY=VALUE",
                        help="override a key; may be repeated")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="examples/quickstart.toml")
    parser.add_argument("--out", type=Path, default=Path("results/bench-wormhole-refusals"), help="folder of the run")
    arguments = parser.parse_args()
    config = arguments.config or ROOT / "examples" / ("quickstart.toml" if arguments.quick else "gpt-22b-256.toml")
    overrides = [*(["wormhole.mode=exact"] if arguments.quick and not arguments.config else []), *arguments.overrides]
    try:
        figures = measure(config, overrides, arguments.out)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    show(figures)
    print_last(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
