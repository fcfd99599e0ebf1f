"""Why packet-hops are simulated although messages may go at flow level: what their flows waited for.

    python bench/fluid_left.py [--config FILE] [--set TABLE.KEY=VALUE] [--quick] [--out FOLDER]

At every look of flow level each flow that goes packet by packet is given the first reason below that holds for it, and
what it sends until the next look is counted under that, the hops of its acknowledgements, too. Columns are by flows
that share ports. What is simulated from a network partition's thaw to the next look is "all else", less the hops that
packets in flight still had before them when their flow was taken to flow level: they are counted when sent, and "all
else" is below 0 where there is nothing but these. The run is on one
rank; unless keys are set it has the forecast "alone", a tolerance of 0.02 and no shares.
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
from models.network.build.arrays import NetworkState
from models.network.skip.fluid_states import FluidStates
from models.network.state.records import PACKET_HOPS
from pdes.config.wormhole.table import FORECASTS
from pdes.errors import ConfigError
from pdes.simulation.compile import compile_kernels
from pdes.simulation.job import Run
from pdes.simulation.loop import run_to_end
from pdes.skipping import history as h
from pdes.skipping.fluid.fluid import Fluid
from pdes.skipping.fluid.seen import SETTLED_ROUND_TRIPS
from pdes.skipping.frozen import FrozenSet
from runs import ROOT, discarded_run, only

REASONS = (
    "no packet of it was under way at the look before",
    "it was at flow level at the look before, and went on packet by packet",
    "alone, how long it takes is not known",
    "alone and known, but not at that rate, or at flow level just before",
    "with others, as they are for less than eight round trips",
    "with others, how fast each goes on is not known",
    "with others, not all of them under way, or who meet flow level or frozen ports",
)
NEW, OVER, UNKNOWN, SLOWER, CHANGED, UNEVEN, MIXED = range(len(REASONS))
SIZES = (1, 2, 4)  # largest numbers of flows of a column


class Watch:
    """Counts packet-hops by the reasons of the looks before them."""

    def __init__(self, run: Run) -> None:
        fast = run.model.fast_forward
        assert fast is not None and fast.fluid is not None
        self._n_port, self._packet_bytes = np.diff(fast.ways[0]), fast._controller.criterion.settings.packet_bytes
        n_flow = len(self._n_port)
        self._sent = np.zeros(n_flow, np.int64)  # packets, at the last look
        self._reason, self._column = np.zeros(n_flow, np.int64), np.zeros(n_flow, np.int64)
        self._is_skipped, self._run = np.zeros(n_flow, np.bool_), run
        self.hops: defaultdict[tuple[int, int], int] = defaultdict(int)  # by reason and column

    def count(self, flows: np.ndarray) -> None:
        """What flows have sent since the last look."""
        sent = self._packets(self._run.model.state) - self._sent
        for flow in flows[(sent[flows] != 0) & ~self._is_skipped[flows]].tolist():
            where = int(self._reason[flow]), int(self._column[flow])
            self.hops[where] += int(sent[flow]) * int(self._n_port[flow])

    def count_all(self) -> None:
        """The same of all flows, when there is a look."""
        self.count(np.arange(len(self._n_port)))

    def freeze(self, flows: np.ndarray) -> None:
        """What these send from now on is not simulated."""
        self.count(flows)
        self._is_skipped[flows] = True

    def explain(self, state: NetworkState, fluid: Fluid, now_ps: int) -> None:
        """At a look's end: why each flow goes on."""
        nic, seen, rows = state.nic, fluid._seen, fluid._rows
        memory, flows, is_alone = seen._memory, rows[:, h.FLOW], seen.is_alone
        self._sent, self._is_skipped = self._packets(state), nic.is_frozen != 0
        self._reason[:], self._column[:] = NEW, 0
        is_known = fluid._rates_alone(rows, fluid._was_loaded) > 0
        part = memory.part[: len(rows)]
        size = memory.count[part]
        is_new = now_ps < memory.since_ps[flows] + SETTLED_ROUND_TRIPS * fluid._rtt_ps
        shared = np.where(memory.n_bad[part] > 0, MIXED, np.where(is_new, CHANGED, UNEVEN))
        shared = np.where(size < 2, MIXED, shared)
        self._reason[flows] = np.where(is_alone, np.where(is_known, SLOWER, UNKNOWN), shared)
        self._column[flows] = np.searchsorted(SIZES, size)
        is_withdrawn = nic.fluid["n_withdrawn"] > 0
        self._reason[is_withdrawn], self._column[is_withdrawn] = OVER, 0

    def _packets(self, state: NetworkState) -> np.ndarray:
        """int64[n_qp]: packets that each has sent, but for those of messages at flow level."""
        return state.nic.queue_pairs["sent_bytes"] // self._packet_bytes - state.nic.fluid["packets"]


@contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """Have every look of flow level watched."""
    look, hold = FluidStates.look, FrozenSet.hold

    def watched_look(self: FluidStates, state: NetworkState, rows: np.ndarray, now_ps: int, *others: Any) -> Any:
        watch.count_all()
        found = look(self, state, rows, now_ps, *others)
        watch.explain(found[0], self.fluid, now_ps)
        return found

    def watched_hold(self: FrozenSet, new: Sequence[Any]) -> None:
        hold(self, new)
        for freeze in new:
            watch.freeze(freeze.pairs)

    with patch.object(FluidStates, "look", watched_look), patch.object(FrozenSet, "hold", watched_hold):
        yield


def measure(config: Path, overrides: list[str], folder: Path) -> dict[str, Any]:
    """Run a config; its packet-hops by reason and by how many flows share ports."""
    with discarded_run(config, overrides, folder) as run:
        fast = run.model.fast_forward
        if fast is None or fast.fluid is None:
            raise ConfigError(f"{config}: [wormhole]", 'found no "alone"', 'mode = "auto" with the forecast "alone"')
        compile_kernels(run)
        watch = Watch(run)
        with watched(watch):
            run_to_end(run, quiet=True)
        hops = int(run.model.state.fabric.counters[PACKET_HOPS])
        table = [[watch.hops[reason, column] for column in range(len(SIZES) + 1)] for reason in range(len(REASONS))]
        return {
            "config": str(config), "set": overrides, "packet_hops": hops,
            "reasons": dict(zip(REASONS, table, strict=True)), "all_else": hops - sum(map(sum, table)),
        }  # fmt: skip


def show(figures: dict[str, Any]) -> None:
    """A line for each reason."""
    f, n = figures, figures["packet_hops"]
    print(f"{Path(f['config']).stem}: {n:,} packet-hops simulated")
    names = ["1 flow", *(f"to {size}" for size in SIZES[1:]), "more"]
    print(f"{'millions':<80} {'all':>8} {'':>6} " + "".join(f"{name:>9}" for name in names))
    for reason, hops in [*f["reasons"].items(), ("all else: from thaws, to the next looks", [f["all_else"]])]:
        cells = "".join(f"{each / 1e6:>9.2f}" for each in hops) if len(hops) > 1 else ""
        print(f"{reason:<80} {sum(hops) / 1e6:>8.2f} {100 * sum(hops) / n:>5.1f}% {cells}")


def main() -> int:
    """Run, print the table and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, help="what to run (default examples/gpt-175b-1024.toml)")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="TABLE.KEY=VALUE",
                        help="override a key; may be repeated")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="examples/quickstart.toml")
    parser.add_argument("--out", type=Path, default=Path("results/bench-fluid-left"), help="folder of the run")
    arguments = parser.parse_args()
    name = "quickstart.toml" if arguments.quick else "gpt-175b-1024.toml"
    config = arguments.config or ROOT / "examples" / name
    keys = ["wormhole.mode=auto", "wormhole.tolerance=0.02", only(*FORECASTS[:-1])]
    try:
        figures = measure(config, [*keys, *arguments.overrides], arguments.out)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    show(figures)
    print_last(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
