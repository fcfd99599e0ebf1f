"""Flow mode against SimGrid: the same flows on the same ways of a fat-tree, at max-min fair rates in both.

    python bench/flow_level.py [--quick] [--case FOLDER] [--flows 2000] [--all] [--ranks 1,2] [--turns 3]
        [--only-sweep] [--out FOLDER]

FOLDER has a CSV as `pdes-sim convert flows` takes it; without --case one is made: 20,000 flows at 60 % load of a k = 16
fat-tree, of 4 MB in the mean. If it has a file *result*.csv, too, with the columns flow and fct_us, completion times of
all flows are compared with that as well. The first --flows flows run in both programs, and with --all all of them, for
which SimGrid takes some minutes. bench/flow_level.cpp is built for that, if there are g++ and libsimgrid (Debian:
libsimgrid-dev): without them only this program runs. Then 4,000 flows each of several loads and fat-trees, and 20,000,
which SimGrid is not given, show what an instant, at which flows begin or end, takes by how many flows are connected:
the component of a flow is all flows that one comes to over links that flows share, here the mean over flows and over
times, in CPU time. --out keeps a figure of it, for which --only-sweep does without the rest.

Loop: seconds in the event loop, of SimGrid in `Engine::run`; wall: of the whole process; CPU: of all its ranks, which
others on the machine do not make longer. Errors: of completion times, relative to SimGrid's. Every run must have had
all flows. --quick: small cases.
"""

import argparse
import csv
import json
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cases import print_last, spread
from flow_components import component
from pdes.config import load_config
from pdes.convert.flow_case import Flow, find_case, read_case
from pdes.convert.flows import convert, nodes_of
from pdes.units import PS_PER_S, PS_PER_US
from plots import draw
from runs import compile_ahead, simulate

SOURCE = Path(__file__).with_suffix(".cpp")
BYTES_PER_S, LINK_DELAY_PS = 12.5e9, PS_PER_US  # of converted cases
K, N_FLOW, LOAD, MEAN_BYTES = 16, 20_000, 0.6, 4_000_000
FEW, MANY = 4000, 20_000  # flows
SWEEP = (
    *((8, 0.1, FEW), (8, 0.3, FEW), (8, 0.6, FEW), (8, 0.8, FEW)),
    *((16, 0.05, FEW), (16, 0.1, FEW), (16, 0.2, FEW), (16, 0.3, MANY), (16, 0.6, MANY), (16, 0.8, MANY)),
    *((24, 0.1, FEW), (24, 0.3, MANY), (24, 0.6, MANY)),
)  # k, load, flows
QUICK_K, QUICK_N, QUICK_FIRST, QUICK_SWEEP = 4, 400, 200, ((4, 0.3, 300), (4, 0.6, 300))
NO_SIMGRID = f"no SimGrid: {SOURCE.name} cannot be built (needs g++ and libsimgrid; Debian: libsimgrid-dev)"


class Ran(NamedTuple):
    """Runs of one case in one program. fct_us: float64[n_flow]; facts: of the last run, beside times."""

    loop_s: list[float]
    wall_s: list[float]
    cpu_s: list[float]
    fct_us: np.ndarray
    facts: dict[str, Any]

    @property
    def flows_per_s(self) -> float:
        """In the loop, in the median."""
        return len(self.fct_us) / statistics.median(self.loop_s)

    @property
    def loop_cpu_s(self) -> float:
        """In the loop, without the time that others on the machine had, in the median. Of a run on one rank."""
        shares = [min(1.0, cpu / wall) for cpu, wall in zip(self.cpu_s, self.wall_s, strict=True)]
        return statistics.median(loop * share for loop, share in zip(self.loop_s, shares, strict=True))

    def figures(self) -> dict[str, Any]:
        """For the last line."""
        return {
            "loop_s": self.loop_s, "wall_s": self.wall_s, "cpu_s": self.cpu_s, "flows_per_s": self.flows_per_s,
            **self.facts,
        }  # fmt: skip


def write_case(path: Path, k: int, n_flow: int, load: float, seed: int) -> None:
    """Poisson arrivals between random hosts, exponential sizes, random ways."""
    rng, n_host, half, now_s = random.Random(seed), k**3 // 4, k // 2, 0.0
    lines = ["start_s,src,dst,bytes,agg,core"]
    for _ in range(n_flow):
        now_s += rng.expovariate(load * n_host * BYTES_PER_S / MEAN_BYTES)
        src, dst = rng.sample(range(n_host), 2)
        size_bytes = max(1, round(rng.expovariate(1 / MEAN_BYTES)))
        lines.append(f"{now_s:.9f},{src},{dst},{size_bytes},{rng.randrange(half)},{rng.randrange(half)}")
    path.write_text("\n".join(lines) + "\n")


def first_flows(case: Path, n_flow: int, folder: Path) -> Path:
    """The config of the first flows of a case, converted into a folder of their own."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = case.read_text().splitlines()[: 1 + n_flow]
    (folder / "flows.csv").write_text("\n".join(lines) + "\n")
    convert(folder / "flows.csv", folder / "case.toml")
    return folder / "case.toml"


def cpu_s() -> float:
    """Of all processes that have been started from here and are over."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_ours(config: Path, n_flow: int, n_rank: int, n_turn: int) -> Ran:
    """This program, as a user runs it."""
    loop_s, wall_s, used_s, done = [], [], [cpu_s()], None
    for _ in range(n_turn):
        done = simulate(config, [], config.parent / f"ranks-{n_rank}", n_rank)
        loop_s.append(done.run["loop_seconds"])
        wall_s.append(done.start_to_result_s)
        used_s.append(cpu_s())
    assert done is not None
    columns, facts = done.columns("flows", ["flow_id", "fct_ps"]), done.result["fast_forward"]["flow_mode"]
    assert facts["messages"] == n_flow == len(columns["fct_ps"]), "faster because wrong"
    return Ran(
        loop_s, wall_s, np.diff(used_s).tolist(), columns["fct_ps"][np.argsort(columns["flow_id"])] / PS_PER_US, facts
    )


def build_simgrid(folder: Path) -> Path | None:
    """The program; None: it cannot be built here."""
    program = folder / SOURCE.stem
    if shutil.which("g++") is None:
        return None
    done = subprocess.run(["g++", "-O2", SOURCE, "-lsimgrid", "-o", program], capture_output=True, text=True)
    return program if done.returncode == 0 else None


def write_for_simgrid(flows: Sequence[Flow], k: int, path: Path) -> np.ndarray:
    """Write what bench/flow_level.cpp reads; when flows start, int64[n_flow] ps."""
    link_of: dict[tuple[int, int], int] = {}
    pair_of: dict[tuple[int, int], int] = {}
    pairs, lines, n_hop = [], [], []
    for flow in flows:
        key = flow.src, flow.dst
        if key not in pair_of:
            pair_of[key] = len(pair_of)
            nodes = nodes_of(flow, k)
            links = [link_of.setdefault(hop, len(link_of)) for hop in zip(nodes, nodes[1:], strict=False)]
            n_hop.append(len(links))
            pairs.append(" ".join(map(str, (*key, len(links), *links))))
        begin_ps = flow.start_ps + n_hop[pair_of[key]] * LINK_DELAY_PS
        lines.append(f"{begin_ps // PS_PER_S}.{begin_ps % PS_PER_S:012d} {pair_of[key]} {flow.size_bytes}")
    path.write_text("\n".join([f"{len(link_of)} {len(pairs)} {len(lines)}", *pairs, *lines]) + "\n")
    return np.array([flow.start_ps for flow in flows], np.int64)


def run_simgrid(program: Path, config: Path, n_turn: int) -> Ran:
    """SimGrid with a converted case. SystemExit: it fails."""
    flows = read_case(config.parent / "flows.csv").flows
    topology: Any = load_config(config).topology
    files = config.parent / "simgrid.txt", config.parent / "simgrid-ends.txt"
    start_ps = write_for_simgrid(flows, topology.k, files[0])
    loop_s, wall_s, used_s, facts = [], [], [cpu_s()], {}
    for _ in range(n_turn):
        begin_s = time.perf_counter()
        done = subprocess.run([program, *files], capture_output=True, text=True)
        wall_s.append(time.perf_counter() - begin_s)
        used_s.append(cpu_s())
        if done.returncode != 0:
            raise SystemExit(f"SimGrid: {done.stderr[-2000:]}")
        facts = json.loads(done.stdout)
        loop_s.append(facts.pop("loop_s"))
    fct_us = np.loadtxt(files[1], ndmin=1) * 1e6 - start_ps / PS_PER_US
    assert len(fct_us) == len(flows), "faster because wrong"
    return Ran(loop_s, wall_s, np.diff(used_s).tolist(), fct_us, facts)


def errors(ours: np.ndarray, theirs: np.ndarray) -> dict[str, float]:
    """Of completion times, relative to theirs; apart_ns: the most that two differ by."""
    relative = np.abs(ours / theirs - 1)
    return {
        "median": float(np.median(relative)),
        "most": float(relative.max()),
        "mean_signed": float((ours / theirs - 1).mean()),
        "apart_ns": float(np.abs(ours - theirs).max() * 1000),
    }


def show_errors(what: str, found: dict[str, float]) -> None:
    """One line."""
    shown = f"median {found['median']:.1e}, most {found['most']:.1e}, at most {found['apart_ns']:.1f} ns apart"
    print(f"  completion times against {what}: {shown}", flush=True)


def show(program: str, ran: Ran) -> None:
    """One line of the table."""
    times = f"{spread(ran.loop_s):>26} {spread(ran.wall_s):>24} {spread(ran.cpu_s):>24}"
    print(f"  {program:<18} {times} {ran.flows_per_s:>9,.0f}", flush=True)


def compare(config: Path, program: Path | None, n_flow: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """One case in both programs; program: None: only in ours. What was found, and the completion times of ours."""
    print(f"{f'{n_flow:,} flows':<20} {'loop, s':>26} {'wall, s':>24} {'CPU, s':>24} {'flows/s':>9}")
    ours = {n: run_ours(config, n_flow, n, arguments.turns) for n in arguments.ranks}
    for n, ran in ours.items():
        show(f"pdes-sim, {n} rank{'s' * (n > 1)}", ran)
    one = next(iter(ours.values()))
    found: dict[str, Any] = {"flows": n_flow, "ranks": {n: ran.figures() for n, ran in ours.items()}}
    found["same_on_ranks"] = all(np.array_equal(ran.fct_us, one.fct_us) for ran in ours.values())
    if program is not None:
        theirs = run_simgrid(program, config, 1 if n_flow > arguments.flows else arguments.turns)
        show("SimGrid", theirs)
        ratio = one.flows_per_s / theirs.flows_per_s
        found |= {"simgrid": theirs.figures(), "ratio": ratio, "errors": errors(one.fct_us, theirs.fct_us)}
        print(f"  {ratio:.1f} times as many flows per second as SimGrid, in the loop")
        show_errors("SimGrid's", found["errors"])
    return found | {"fct_us": one.fct_us}


def kept_answer(folder: Path | None, n_flow: int) -> np.ndarray | None:
    """Completion times of *result*.csv, us by flow; None: there is no such file, or it has others."""
    for path in sorted(folder.glob("*result*.csv")) if folder is not None and folder.is_dir() else ():
        with path.open() as file:
            rows = list(csv.DictReader(file))
        if rows and {"flow", "fct_us"} <= set(rows[0]) and len(rows) == n_flow:
            fct_us = np.zeros(n_flow)
            fct_us[[int(row["flow"]) for row in rows]] = [float(row["fct_us"]) for row in rows]
            return fct_us
    return None


def sweep(folder: Path, program: Path | None, is_quick: bool, n_turn: int) -> list[dict[str, Any]]:
    """What an instant takes, by how many flows are under way, and how many of them are connected."""
    head = f"{'fat-tree':<10} {'load':>5} {'under way':>10} {'component':>10} {'solved':>8} {'us/instant':>11}"
    print(f"{head} {'flows/s':>9} {'SimGrid us':>11} {'flows/s':>9} {'most off':>9}")
    rows = []
    write_case(folder / "few.csv", QUICK_K, 10, LOAD, 1)
    compile_ahead(first_flows(folder / "few.csv", 10, folder / "few-swept"), [], folder)
    for k, load, n_flow in QUICK_SWEEP if is_quick else SWEEP:
        place = folder / f"k{k}-{load}"
        place.mkdir()
        write_case(place / "all.csv", k, n_flow, load, 1)
        config = first_flows(place / "all.csv", n_flow, place / "first")
        ours = run_ours(config, n_flow, 1, n_turn if n_flow <= FEW else 1)
        flows = read_case(place / "all.csv").flows
        start_us = np.array([flow.start_ps for flow in flows]) / PS_PER_US
        instants, end_us = ours.facts["instants"], float((start_us + ours.fct_us).max())
        row: dict[str, Any] = {
            "k": k, "load": load, "under_way": float(ours.fct_us.sum() / end_us), "instants": instants,
            "solved": ours.facts["rates_solved"] / instants, "us": ours.loop_cpu_s / instants * 1e6,
            "flows_per_s": ours.flows_per_s, "component": component(flows, k, start_us, start_us + ours.fct_us),
        }  # fmt: skip
        text = f"k = {k:<6} {load:>5.0%} {row['under_way']:>10.0f} {row['component']:>10.0f} {row['solved']:>8.1f}"
        text += f" {row['us']:>11.1f}"
        text += f" {row['flows_per_s']:>9,.0f}"
        if program is not None and n_flow <= FEW:
            theirs = run_simgrid(program, config, 1)
            row["simgrid_us"], row["simgrid_flows_per_s"] = theirs.loop_s[0] / instants * 1e6, theirs.flows_per_s
            row["errors"] = errors(ours.fct_us, theirs.fct_us)
            text += f" {row['simgrid_us']:>11.1f} {theirs.flows_per_s:>9,.0f} {row['errors']['most']:>9.1e}"
        print(text, flush=True)
        rows.append(row)
    return rows


def draw_sweep(rows: list[dict[str, Any]], path: Path) -> None:
    """Time of an instant by the flows that are connected with it."""
    at = sorted(rows, key=lambda row: row["component"])
    x = [row["component"] for row in at]
    curves: dict[str, Any] = {"pdes-sim": (x, [row["us"] for row in at])}
    theirs = [(row["component"], row["simgrid_us"]) for row in at if "simgrid_us" in row]
    if theirs:
        curves["SimGrid"] = tuple(zip(*theirs, strict=True))
    title = "An instant at which flows begin or end"
    label = "flows in a flow's connected component, mean"
    draw(path, title, {"one rank": curves}, label, "us", log_y=True, points=list(curves), log_x=True)


def machine() -> str:
    """Cores and processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(models)} x {models[0]}" if models else "unknown"


def compare_case(folder: Path, program: Path | None, arguments: argparse.Namespace) -> dict[str, Any]:
    """The first flows of the case that was asked for, or of one that is made, and all of them."""
    case = find_case(arguments.case) if arguments.case else folder / "made.csv"
    if arguments.case is None:
        write_case(case, QUICK_K if arguments.quick else K, QUICK_N if arguments.quick else N_FLOW, LOAD, 1)
    n_all = len(read_case(case).flows)
    compile_ahead(first_flows(case, min(10, n_all), folder / "few"), [], folder)
    n_first = min(arguments.flows, n_all)
    found = {"first": compare(first_flows(case, n_first, folder / "first"), program, n_first, arguments)}
    if n_first < n_all:
        config = first_flows(case, n_all, folder / "all")
        found["all"] = compare(config, program if arguments.all else None, n_all, arguments)
        answer = kept_answer(arguments.case, n_all)
        if answer is not None:
            found["all"]["kept_answer_errors"] = errors(found["all"]["fct_us"], answer)
            show_errors("the folder's answer", found["all"]["kept_answer_errors"])
    return found


def main() -> int:
    """Compare, and sweep; a table and one line of JSON. Exit status 1: ranks differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small cases")
    parser.add_argument("--case", type=Path, help="folder with flows, and with what they should take")
    parser.add_argument("--flows", type=int, help="run the first N first (default 2000)")
    parser.add_argument("--all", action="store_true", help="run all flows in SimGrid, too")
    parser.add_argument("--ranks", default="1,2", type=lambda text: [*map(int, text.split(","))], help="default 1,2")
    parser.add_argument("--turns", type=int, default=3, help="runs of each, the median counts (default 3)")
    parser.add_argument("--no-sweep", action="store_true", help="no cases of several loads")
    parser.add_argument("--only-sweep", action="store_true", help="no case but these")
    parser.add_argument("--out", type=Path, help="folder for flow-level.svg (default: no figure)")
    arguments = parser.parse_args()
    if arguments.only_sweep and (arguments.no_sweep or arguments.case):
        parser.error("--only-sweep is without --case and --no-sweep")
    arguments.flows = arguments.flows or (QUICK_FIRST if arguments.quick else 2000)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        program = build_simgrid(folder)
        print(f"{machine()}; {'SimGrid is there' if program else NO_SIMGRID}")
        found = {} if arguments.only_sweep else compare_case(folder, program, arguments)
        rows = [] if arguments.no_sweep else sweep(folder, program, arguments.quick, arguments.turns)
        if rows and arguments.out is not None:
            draw_sweep(rows, arguments.out / "flow-level.svg")
    for figures in found.values():
        del figures["fct_us"]
    is_same = all(figures["same_on_ranks"] for figures in found.values())
    print_last({"machine": machine(), **found, "sweep": rows, "same_on_ranks": is_same})
    return int(not is_same)


if __name__ == "__main__":
    sys.exit(main())
