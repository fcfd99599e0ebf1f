"""Speed on several ranks against one, with the time split up.

    python bench/scaling.py [--quick] [--ranks 1,2,4] [--k 8] [--case permutation,..] [--law hpcc,dctcp]
                            [--mode auto,exact] [--beside]

permutation: on a k=8 fat-tree, ns-3's case h. incast: there, in every group of 16 hosts 15 send to one. gpt-7b,
gpt-13b, gpt-22b: an iteration of these examples on 64, 128 and 256 GPUs, every packet of it (quick: its first 10 ms),
with each law of --law. gpt-22b-skipping, gpt-175b-skipping: these examples as they are, on 256 and 1024 GPUs, in each
mode of fast-forwarding of --mode. Those of GPT are runs of the program, whose loop is timed.

Every rank count runs in its own mpirun, the counts in turn, best of several turns (--turns): a machine that others use
too delays both ranks whenever it takes one core away. compute: running events and packing; wait: in the reduction,
until the slowest rank is there; exchange: with the neighbours. In every turn of the first two cases as many runs of one
rank, which know nothing of each other, run at the same time: how much longer these take than one alone is what the
machine takes away, and no program with these ranks is faster than the ranks over that.

--beside: all of it beside a process at nice 19 that never rests.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from cases import fat_tree_permutation, make_model, print_last, scenario_of
from models.network.state.records import PACKET_HOPS
from pdes.engine.exchange import world
from pdes.engine.round import COMPUTE_NS, EXCHANGE_NS, N_ROUND, WAIT_NS, run_rounds
from pdes.scenario import Scenario
from runs import simulate

N_TURN = 5
QUICK_STOP = "10ms"
EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
TRAINING = {
    "gpt-7b": "gpt-7b-64.toml", "gpt-13b": "gpt-13b-128.toml", "gpt-22b": "gpt-22b-256.toml",
}  # fmt: skip
SKIPPING = {"gpt-22b-skipping": "gpt-22b-256.toml", "gpt-175b-skipping": "gpt-175b-1024.toml"}
EXAMPLE_OF = TRAINING | SKIPPING
MODES = ("auto", "exact")
CASES = ("permutation", "incast", *EXAMPLE_OF)
BURNER = "while True: pass"


def incast(k: int, size_bytes: int) -> Scenario:
    """In every group of 16 hosts 15 send to one, a quarter of the bytes each."""
    src = [host for host in range(k**3 // 4) if host % 16]
    return scenario_of({"kind": "fat-tree", "k": k}, src, [i // 16 * 16 for i in src], [size_bytes // 4] * len(src))


def run_here(case: str, k: int, size_bytes: int) -> None:
    """Run the case on the ranks that mpirun started; rank 0 prints a line of JSON."""
    ranks = world()
    warm_up, loop = make_model(fat_tree_permutation(4, 10_000), ranks)
    run_rounds(warm_up, loop, warm_up.exchange)
    scenario = (fat_tree_permutation if case == "permutation" else incast)(k, size_bytes)
    best = None
    for _ in range(3):
        model, loop = make_model(scenario, ranks)
        ranks.barrier()
        begin_s = time.perf_counter()
        run_rounds(model, loop, model.exchange)
        ranks.barrier()
        seconds = time.perf_counter() - begin_s
        own = [int(loop[i]) / 1e9 for i in (COMPUTE_NS, WAIT_NS, EXCHANGE_NS)]
        parts, hops = ranks.allgather(own), sum(ranks.allgather(int(model.state.fabric.counters[PACKET_HOPS])))
        assert hops == int(scenario.port_hops.sum()), "faster because wrong"
        if best is None or seconds < best["seconds"]:
            best = {"seconds": seconds, "hops": hops, "rounds": int(loop[N_ROUND]), "parts": parts}
    if ranks.rank == 0:
        print(json.dumps(best), flush=True)


def start_program(case: str, way: str, n_rank: int, is_quick: bool) -> dict:
    """The same figures of a run of the program. way: its congestion control, or its mode if it skips."""
    if case in SKIPPING:
        sets = [f"wormhole.mode={way}"]
    else:
        sets = [f"network.congestion_control={way}", "wormhole.mode=off"]
        sets += [f"simulation.stop_time={QUICK_STOP}"] if is_quick else []
    with tempfile.TemporaryDirectory() as out:
        done = simulate(EXAMPLES / EXAMPLE_OF[case], sets, Path(out), n_rank)
        run, result = done.run, done.result
    parts = zip(*(run[f"{name}_seconds"] for name in ("compute", "wait", "exchange")), strict=True)
    return {
        "seconds": run["loop_seconds"], "hops": result["packet_hops"], "rounds": run["rounds"],
        "parts": [list(part) for part in parts],
    }  # fmt: skip


def start(case: str, n_rank: int, k: int, size_bytes: int, n_beside: int = 1) -> dict:
    """The figures of one mpirun; of n_beside of them at the same time, those of the slowest."""
    command = [sys.executable, __file__, "--here", "--case", case, "--k", str(k), "--bytes", str(size_bytes)]
    if n_rank > 1:
        command = [str(Path(sys.executable).parent / "mpirun"), "-n", str(n_rank), *command]
    runs = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(n_beside)
    ]
    found = []
    for process in runs:
        said, error = process.communicate()
        if process.returncode:
            raise SystemExit(error)
        found.append(json.loads(said.splitlines()[-1]))
    return max(found, key=lambda run: run["seconds"])


def measure(case: str, way: str, counts: list[int], arguments: argparse.Namespace) -> dict:
    """Run every rank count in turn, print the best turn of each, and return what they come to.

    way: see `start_program`; "" where there is none.
    """
    size_bytes = 2_000_000 if arguments.quick else arguments.bytes
    turns: dict[int, list[dict]] = {n: [] for n in counts}
    at_once: list[dict] = []
    for _ in range(arguments.turns or (2 if arguments.quick else N_TURN)):
        for n_rank in counts:
            if case in EXAMPLE_OF:
                turns[n_rank].append(start_program(case, way, n_rank, arguments.quick))
            else:
                turns[n_rank].append(start(case, n_rank, arguments.k, size_bytes))
            print(f"{case}: {turns[n_rank][-1]['seconds']:.3f} s on {n_rank}", file=sys.stderr, flush=True)
        if case not in EXAMPLE_OF and 1 in counts and counts[-1] > 1:
            at_once.append(start(case, 1, arguments.k, size_bytes, counts[-1]))
    best = {n: min(found, key=lambda run: run["seconds"]) for n, found in turns.items()}
    beside = ", beside a process at nice 19" if arguments.beside else ""
    said = f" with {way}" if case in TRAINING else f" in mode {way}" if case in SKIPPING else ""
    print(f"{case}{said}, {len(os.sched_getaffinity(0))} cores{beside}")
    print("ranks  seconds  M packet-hops/s  speedup    compute       wait   exchange  (seconds of the slowest rank)")
    for n_rank, run in best.items():
        speedup = best[counts[0]]["seconds"] * counts[0] / run["seconds"]
        parts = " ".join(f"{max(part[i] for part in run['parts']):>10.3f}" for i in range(3))
        rate = run["hops"] / run["seconds"] / 1e6
        print(f"{n_rank:>5} {run['seconds']:>8.3f} {rate:>16.1f} {speedup:>8.2f} {parts}")
    last = best[counts[-1]]
    speedup = best[counts[0]]["seconds"] * counts[0] / last["seconds"]
    facts = {"case": case, "speedup": speedup, "ranks": counts[-1], "rounds": last["rounds"], "parts": last["parts"]}
    facts["seconds"] = [run["seconds"] for run in best.values()]
    if way:
        facts["law" if case in TRAINING else "mode"] = way
    if case in SKIPPING and len(counts) > 1:
        ratio = last["seconds"] / best[counts[0]]["seconds"]
        print(f"the loop on {counts[-1]} ranks takes {ratio:.2f} times as long as on {counts[0]}")
    if len(counts) > 1:
        pairs = zip(turns[counts[0]], turns[counts[-1]], strict=True)
        each = sorted(one["seconds"] * counts[0] / many["seconds"] for one, many in pairs)
        print(f"speedup of {counts[-1]} ranks turn by turn: " + " ".join(f"{ratio:.2f}" for ratio in each))
        facts["by_turn"] = each
    if at_once:
        alone_s, at_once_s = (min(run["seconds"] for run in runs) for runs in (turns[1], at_once))
        most = counts[-1] * alone_s / at_once_s
        print(f"{counts[-1]} runs of one rank beside each other: {at_once_s / alone_s:.2f} times as long as one alone,")
        print(f"so {counts[-1]} ranks can gain {most:.2f} at most here; {speedup / most:.0%} of that is had")
        facts["most"] = most
    return facts


def _list_of(accepted: tuple[str, ...]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        names = text.split(",")
        if unknown := [name for name in names if name not in accepted]:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(accepted)}")
        return names

    return parse


def main() -> None:
    """Measure each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the bytes, two turns")
    parser.add_argument("--ranks", help="rank counts, comma separated (default: 1, 2, 4 .. cores)")
    parser.add_argument("--k", type=int, default=8, help="size of the fat-tree (default 8)")
    parser.add_argument("--case", type=_list_of(CASES), default=[CASES[0]], help=f"of {', '.join(CASES)}")
    parser.add_argument("--law", default="hpcc,dctcp", help="congestion control of GPT's cases (default hpcc,dctcp)")
    parser.add_argument("--mode", type=_list_of(MODES), default=[*MODES], help="of skipping cases (default auto,exact)")
    parser.add_argument("--turns", type=int, help=f"(default {N_TURN})")
    parser.add_argument("--beside", action="store_true", help="beside a process at nice 19 that never rests")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--bytes", type=int, default=20_000_000, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        run_here(arguments.case[0], arguments.k, arguments.bytes)
        return
    counts = [1 << i for i in range(10) if 1 << i <= len(os.sched_getaffinity(0))]
    if arguments.ranks:
        counts = [int(n) for n in arguments.ranks.split(",")]
    nice = [sys.executable, "-c", f"import os; os.nice(19)\n{BURNER}"]
    burner = subprocess.Popen(nice) if arguments.beside else None
    try:
        facts = [
            measure(case, way, counts, arguments)
            for case in arguments.case
            for way in (arguments.law.split(",") if case in TRAINING else arguments.mode if case in SKIPPING else [""])
        ]
    finally:
        if burner is not None:
            burner.kill()
    print_last(facts[0] if len(facts) == 1 else {"cases": facts})


if __name__ == "__main__":
    main()
