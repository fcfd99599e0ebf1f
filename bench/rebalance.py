"""What moving LPs between ranks gains: the same runs without it and with it, and the same bytes.

    python bench/rebalance.py [--quick] [--ranks 2]

skewed: a permutation on a fat-tree whose first rank has 7 of 8 LPs to begin with. turns: two halves of a fat-tree take
turns at sending, each a rank's to begin with: by all that there is to do they are even. skipped: on one half long
flows, which [wormhole] skips; on the other random traffic, which it does not.

Runs with and without take turns, best of three each: a machine that others use too delays both ranks. Beside the time
of the loop stands what the busiest rank of every interval was busy for, which does not count waiting.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from cases import derangement, print_last, write_flows
from partition.rebalance import Advice, advise

ROOT = Path(__file__).resolve().parent.parent
K, N_HOST = 8, 128
HALF = N_HOST // 2
FILES = ("result.json", "flows.parquet", "ports.parquet", "tasks.parquet")
FAT_TREE = f'[topology]\nkind = "fat-tree"\nk = {K}\nlink_delay = "5us"\nhost_delay = "5us"\n'
FLOWS = '[workload]\nkind = "flows"\nfile = "flows.csv"\n'
N_TURN = 6


def skewed(folder: Path, size_bytes: int) -> str:
    """All hosts send to another, at once."""
    write_flows(folder / "flows.csv", range(N_HOST), derangement(N_HOST, 1), [size_bytes] * N_HOST)
    return FAT_TREE + FLOWS


def turns(folder: Path, size_bytes: int) -> str:
    """The hosts of one half send to each other, then those of the other."""
    src, dst, start_ps = [], [], []
    each_bytes = 2 * size_bytes // N_TURN
    turn_ps = int(each_bytes * 8 * 10 * 3)  # 100 Gbps; some ways are shared by three
    for turn in range(N_TURN):
        first, order = (turn % 2) * HALF, derangement(HALF, 1 + turn)
        src += [first + i for i in range(HALF)]
        dst += [first + int(i) for i in order]
        start_ps += [turn * turn_ps] * HALF
    write_flows(folder / "flows.csv", src, dst, [each_bytes] * len(src), start_ps)
    return FAT_TREE + FLOWS


def skipped(folder: Path, size_bytes: int) -> str:
    """Long flows between neighbours on one half, which is as much work as what the other half does: short flows."""
    draw, short_bytes = np.random.default_rng(1), 500_000
    n_short, long_bytes = size_bytes // short_bytes, 3 * size_bytes
    src, dst, start_ps = list(range(HALF)), [i ^ 1 for i in range(HALF)], [0] * HALF
    for i in range(HALF):
        src += [HALF + i] * n_short
        dst += (HALF + (i + draw.integers(1, HALF, n_short)) % HALF).tolist()
        start_ps += np.sort(draw.integers(0, long_bytes * 8 * 10, n_short)).tolist()
    sizes = [long_bytes] * HALF + [short_bytes] * (len(src) - HALF)
    write_flows(folder / "flows.csv", src, dst, sizes, start_ps)
    return FAT_TREE + FLOWS + '[network]\ncongestion_control = "dcqcn"\n' + SKIPPING


SKIPPING = '[wormhole]\nmode = "exact"\n[wormhole.paper]\nforecasts = ["periodic"]\n'
CASES = {"skewed": skewed, "turns": turns, "skipped": skipped}


def most_on_the_first(load: np.ndarray, edges: object, n_rank: int, method: str) -> np.ndarray:
    """A placement of 7 of 8 LPs on the first rank."""
    lp = np.arange(len(load))
    return np.where(lp % 8 < 7, 0, 1 + lp // 8 % max(1, n_rank - 1))


def side_by_side(load: np.ndarray, edges: object, n_rank: int, method: str) -> np.ndarray:
    """A placement of the fat-tree's hosts, and its switches of each kind, in their order."""
    return np.concatenate([np.arange(n) * n_rank // n for n in (N_HOST, K * K // 2, K * K // 2, K * K // 4)])


PLACEMENTS = {"skewed": most_on_the_first, "turns": side_by_side}


def run_here(case: str, words: list[str], moves: bool) -> int:
    """The program, on the ranks that mpirun started. moves: else ranks look how they fare and leave it at that."""
    from pdes import cli

    def stay(*arguments: Any) -> Advice:
        return advise(*arguments)._replace(rank_of_lp=None)

    with ExitStack() as stack:
        if case in PLACEMENTS:
            stack.enter_context(mock.patch("pdes.simulation.job.place", PLACEMENTS[case]))
        if not moves:
            stack.enter_context(mock.patch("pdes.simulation.balance.advise", stay))
        return cli.main(words)


def start(name: str, config: Path, out: Path, n_rank: int, moves: bool, interval: str) -> dict:
    """`run.json` of a run."""
    command = [str(Path(sys.executable).parent / "mpirun"), "-n", str(n_rank), sys.executable, __file__]
    command += ["--here", name, *(["--moves"] if moves else []), "--"]
    command += [str(config), "--quiet", "--out", str(out), "--set", f"partition.rebalance_interval={interval}"]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return json.loads((out / "run.json").read_text())


def measure(name: str, size_bytes: int, n_rank: int, n_turn: int, interval: str) -> dict:
    """Best of the turns without and with moves, and whether the files are the same bytes."""
    found: dict[bool, list[dict]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "config.toml").write_text(CASES[name](folder, size_bytes))
        for _ in range(n_turn):
            for moves in found:
                run = start(name, folder / "config.toml", folder / str(moves), n_rank, moves, interval)
                found[moves].append(run)
            for file in FILES:
                one, other = ((folder / str(moves) / file).read_bytes() for moves in found)
                assert one == other, f"{name}: {file} differs"
    without, with_moves = (min(found[moves], key=lambda run: run["loop_seconds"]) for moves in (False, True))
    made = with_moves["rebalance"]["moves"]
    return {
        "without_seconds": without["loop_seconds"],
        "with_seconds": with_moves["loop_seconds"],
        "gain": without["loop_seconds"] / with_moves["loop_seconds"],
        "busy_gain": least_busy(found[False]) / least_busy(found[True]),
        "busy_without": without["compute_seconds"],
        "busy_with": with_moves["compute_seconds"],
        "moves": len(made),
        "move_seconds": float(np.mean([move["seconds"] for move in made])) if made else 0.0,
    }


def least_busy(runs: list[dict]) -> float:
    """Seconds that the busiest rank of every interval was busy for, of the best run."""
    return min(run["rebalance"]["busiest_seconds"] for run in runs)


def main() -> None:
    """Print a row per case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer bytes, once each")
    parser.add_argument("--ranks", type=int, default=2, help="ranks (default 2)")
    parser.add_argument("--here", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--moves", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    arguments, words = parser.parse_known_args()
    if arguments.here:
        sys.exit(run_here(arguments.here, arguments.words + words, arguments.moves))
    size_bytes, n_turn, interval = (40_000_000, 1, "100ms") if arguments.quick else (60_000_000, 3, "100ms")
    found = {}
    print(
        "case      without       with   gain  busiest  moves  ms each   busy without            busy with (s per rank)"
    )
    for name in CASES:
        row = found[name] = measure(name, size_bytes, arguments.ranks, n_turn, interval)
        busy = ["  ".join(f"{s:.2f}" for s in row[key]) for key in ("busy_without", "busy_with")]
        times = f"{row['without_seconds']:>7.2f} s {row['with_seconds']:>8.2f} s {row['gain']:>6.2f}"
        moves = f"{row['busy_gain']:>8.2f} {row['moves']:>6} {1000 * row['move_seconds']:>8.1f}"
        print(f"{name:<8} {times} {moves}  {busy[0]:<22} {busy[1]}", flush=True)
    gains = {key: {name: row[key] for name, row in found.items()} for key in ("gain", "busy_gain")}
    print_last(gains | {"ranks": arguments.ranks})


if __name__ == "__main__":
    main()
