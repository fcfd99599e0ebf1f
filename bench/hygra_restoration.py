"""Train the model of `[wormhole.paper] restoration = "learned"` on traces of full runs, and say how well it predicts.

    python bench/hygra_restoration.py --train [--config FILE ...] [--set key=value ...] [--traces FOLDER ...]
                                      [--model FILE] [--epochs N] [--quick] [--out FOLDER]

Each config is run in full with `[output] sample_interval`, two base round trips, as far apart as looks are, unless
traces are given: folders of results with `samples_ports.parquet`. A fifth of the traces, port by port, is kept from
the training: what the model is off by there stands beside a guess that needs no model, that queues stay as deep as they
were.
Needs PyTorch (`pip install pdes-sim[learned]`). In a config:

    [wormhole.paper]
    restoration = "learned"
    restoration_model = "queues.pt"
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from cases import print_last
from pdes.config import load_config
from pdes.errors import ConfigError
from pdes.skipping.papers.queue_model import QueueModelError, Shape, train, windows
from runs import ROOT, simulate_once

CONFIGS = [ROOT / "examples" / name for name in ("quickstart.toml", "gpt-7b-64.toml")]
MOST_WINDOWS = 40_000


def read_traces(folder: Path) -> list[np.ndarray]:
    """Depths of each port while it was in use: at consecutive instants with a row. ConfigError: there are none."""
    path = folder / "samples_ports.parquet"
    if not path.is_file():
        raise ConfigError("--traces", f"there is no {path}", "Accepted: results of a run with [output] sample_interval")
    table = pq.read_table(path, columns=["time_ps", "port_id", "queue_bytes"])
    time_ps, port, depth = (table[name].to_numpy() for name in table.column_names)
    instant = np.unique(time_ps, return_inverse=True)[1]
    order = np.lexsort((instant, port))
    instant, port, depth = instant[order], port[order], depth[order]
    breaks = np.flatnonzero((np.diff(port) != 0) | (np.diff(instant) != 1)) + 1
    return [part for part in np.split(depth, breaks) if len(part) > 1]


def run_configs(arguments: argparse.Namespace) -> list[Path]:
    """Result folders with samples, one per config."""
    found = []
    for config in arguments.config or (CONFIGS[:1] if arguments.quick else CONFIGS):
        sets = ["simulation.iterations=1", *arguments.overrides, "wormhole.mode=off"]
        load_config(config, sets)
        print(f"{config.stem}: in full, for its base round trip", file=sys.stderr, flush=True)
        rtt_ps = simulate_once(config, [*sets, "simulation.stop_time=1ns"], arguments.out).result["base_rtt_ps"]
        print(f"{config.stem}: in full, with samples", file=sys.stderr, flush=True)
        sampled = [f"output.sample_interval={2 * rtt_ps}ps", 'output.sample=["ports"]', "output.sample_limit=512MB"]
        found.append(simulate_once(config, [*sets, *sampled], arguments.out / "traces").folder)
    return found


def errors(predicted: np.ndarray, target: np.ndarray) -> dict[str, float]:
    """In bytes: of all windows, and of those with a queue."""
    off = np.abs(predicted - target)
    with_queue = target > 0
    return {
        "mean_bytes": float(off.mean()) if len(off) else 0.0,
        "mean_bytes_with_queue": float(off[with_queue].mean()) if with_queue.any() else 0.0,
        "p99_bytes": float(np.percentile(off, 99)) if len(off) else 0.0,
    }


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Make traces, train, save, and compare on what was kept apart."""
    folders = arguments.traces or run_configs(arguments)
    traces = [trace for folder in folders for trace in read_traces(folder)]
    order = np.random.default_rng(1).permutation(len(traces))
    n_kept = max(1, len(traces) // 5)
    kept, shown = ([traces[i] for i in part] for part in (order[:n_kept], order[n_kept:]))
    shape = Shape()
    inputs, targets = windows(shown, shape.n_step, 1, MOST_WINDOWS)
    if len(inputs) == 0:
        raise ConfigError("--traces", f"no queue is there for {2 * shape.n_step} samples", "Accepted: longer traces")
    begin_s = time.perf_counter()
    model = train(inputs, targets, shape, arguments.epochs)
    seconds = time.perf_counter() - begin_s
    arguments.model.parent.mkdir(parents=True, exist_ok=True)
    model.save(arguments.model)
    test, expected = windows(kept, shape.n_step, 2, MOST_WINDOWS)
    return {
        "traces": len(traces), "windows": len(inputs), "windows_kept": len(test), "epochs": arguments.epochs,
        "train_seconds": seconds, "model": str(arguments.model),
        "mean_depth_bytes": float(expected.mean()) if len(expected) else 0.0,
        "learned": errors(model.predict(test), expected), "as_it_was": errors(test[:, -1], expected),
    }  # fmt: skip


def show(found: dict[str, Any]) -> None:
    """The table."""
    print(f"{found['windows']:,} windows of {found['traces']:,} traces, {found['epochs']} epochs in "
          f"{found['train_seconds']:.0f} s; {found['windows_kept']:,} kept apart, mean depth "
          f"{found['mean_depth_bytes']:,.0f} B")  # fmt: skip
    print(f"{'off by, bytes':<16}{'mean':>12}{'with a queue':>14}{'p99':>12}")
    for name in ("learned", "as_it_was"):
        print(
            f"{name:<16}"
            + "{mean_bytes:>12,.0f}{mean_bytes_with_queue:>14,.0f}{p99_bytes:>12,.0f}".format(**found[name])
        )
    print(f"saved: {found['model']}")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", action="store_true", help="what this does, there is nothing else")
    parser.add_argument("--config", type=Path, nargs="*", help="to make traces of (default quickstart, gpt-7b-64)")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="TABLE.KEY=VALUE",
                        help="override a key, in all runs; may be repeated")  # fmt: skip
    parser.add_argument("--traces", type=Path, nargs="*", help="folders of results, instead of runs")
    parser.add_argument("--model", type=Path, default=Path("results/bench-hygra/queues.pt"), help="the file to write")
    parser.add_argument("--epochs", type=int, default=10, help="(default 10)")
    parser.add_argument("--quick", action="store_true", help="only examples/quickstart.toml")
    parser.add_argument("--out", type=Path, default=Path("results/bench-hygra"), help="folder for runs")
    return parser.parse_args(argv)


def main() -> int:
    """Train; print the table and one line of JSON."""
    try:
        found = measure(parse())
    except (ConfigError, QueueModelError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    show(found)
    print_last(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
