"""Queue pairs per message, 1 to 64, against collisions of ECMP: one all-reduce, and two that share servers.

python examples/studies/queue-pairs/study.py [--quick] [--out FOLDER] [--publish]
"""

import sys
import tomllib
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

import pdes

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gallery import Row, Study, label_panel, study

QUEUE_PAIRS = (1, 2, 4, 8, 16, 32, 64)
CONTROLS = ("dcqcn", "dctcp")
SHARED = (0, 1, 8)  # servers on which both jobs have four GPUs each
SEEDS = 5  # of the hash
SERVERS, GPUS = 8, 8  # of a job; of a server
RING_MS = 2 * (SERVERS - 1) / SERVERS * 8e6 * (4096 + 48) / 4096 * 8 / 200e9 * 1e3  # 8 MB around a ring at 200 Gbps
ONE = -1  # stands for one job on all GPUs: the config as it is
Runs = dict[tuple[int, str, int], list[pdes.Result]]
"""(servers shared, control, queue pairs) -> a run for each seed."""


def rings(job: str, servers: Iterable[int], gpus: Iterable[int], start: str = "0s") -> list[dict[str, Any]]:
    """One ring for each of these GPUs of the servers."""
    common = {"operation": "all-reduce", "size": "8MB", "start": start}
    ways = [(gpu, [GPUS * server + gpu for server in servers]) for gpu in gpus]
    return [{"name": f"{job}-{gpu}", "gpus": members, **common} for gpu, members in ways]


def tables_of(shared: int) -> dict[str, Any]:
    """The config's tables; with two jobs as many leaves as the servers of both, and job b begins 20 us late."""
    tables = tomllib.loads((Path(__file__).parent / "config.toml").read_text())
    if shared != ONE:
        tables["topology"]["leaves"] = 2 * SERVERS - shared
        second = range(SERVERS - shared, 2 * SERVERS - shared)
        tables["workload"]["collective"] = rings("a", range(SERVERS), range(4)) + rings(
            "b", second, range(4, 8), "20us"
        )
    return tables


def inflation(result: pdes.Result) -> float:
    """Time of job a's slowest ring over that of a ring that is alone at line rate."""
    rows = result.flows.to_pylist()
    return max(row["delivered_ps"] for row in rows if row["tag"].startswith("a")) / 1e9 / RING_MS


def busiest_link(result: pdes.Result) -> float:
    """Bytes on the busiest link from a leaf to a spine, over the mean of those links."""
    sent = [
        row["tx_bytes"] for row in result.ports.to_pylist() if row["node"][:4] == "leaf" and row["peer"][:5] == "spine"
    ]
    return max(sent) / mean(sent)


def busiest_by_chance(queue_pairs: int) -> float:
    """The same if all streams were thrown at links by dice: mean of 2000 throws."""
    dice = np.random.default_rng(1)
    into = dice.multinomial(GPUS * queue_pairs, [1 / 4] * 4, size=(2000, SERVERS))
    return float((into.max(axis=(1, 2)) / (2 * queue_pairs)).mean())


def make_rows(runs: Runs, queue_pairs: Sequence[int]) -> list[Row]:
    """A row for each number of queue pairs."""
    rows = []
    for n in queue_pairs:
        one = runs[ONE, "dcqcn", n]
        rows.append(
            {
                "queue pairs": n,
                "busiest link": f"{mean(map(busiest_link, one)):.2f}",
                "by dice": f"{busiest_by_chance(n):.2f}",
                **{f"one job, {name}": f"{mean(map(inflation, runs[ONE, name, n])):.2f}" for name in CONTROLS},
                **{
                    f"two, {shared} shared": f"{mean(map(inflation, runs[shared, 'dcqcn', n])):.2f}"
                    for shared in SHARED
                },
            }
        )
    return rows


def draw(asked: Study, runs: Runs, rows: Sequence[Row]) -> None:
    """Inflation of one job beside the busiest link; of two jobs, each seed a point."""
    numbers = [row["queue pairs"] for row in rows]
    names = [str(n) for n in numbers]

    def paint(axes: Any) -> None:
        for name in CONTROLS:
            axes[0].plot(names, [float(row[f"one job, {name}"]) for row in rows], marker="o", label=name)
        axes[0].plot(names, [float(row["busiest link"]) for row in rows], "--", label="busiest link / mean link")
        axes[0].plot(names, [float(row["by dice"]) for row in rows], ":", label="the same, by dice")
        for i, shared in enumerate(SHARED):
            key = f"two, {shared} shared"
            axes[1].plot(names, [float(row[key]) for row in rows], marker="o", color=f"C{i}", label=f"{shared} shared")
            for name, n in zip(names, numbers, strict=True):
                found = [inflation(result) for result in runs[shared, "dcqcn", n]]
                axes[1].plot([name] * len(found), found, ".", color=f"C{i}", alpha=0.5, markersize=3)
        for axis, title in zip(
            axes, ("One job, mean of 5 seeds", "Two jobs with DCQCN, by servers shared"), strict=True
        ):
            axis.legend()
            label_panel(axis, title, "queue pairs per message", "time / ring at line rate")

    asked.draw("time", 2, paint)


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Run the sweep, tell and draw it; the table."""
    asked = study("queue-pairs", __doc__, arguments)
    queue_pairs, seeds = ((1, 16), 1) if asked.is_quick else (QUEUE_PAIRS, SEEDS)
    runs: Runs = {}
    cases = [*product([ONE], CONTROLS, queue_pairs), *product(SHARED, ["dcqcn"], queue_pairs)]
    for shared, control, n in cases:
        runs[shared, control, n] = []
        for seed in range(seeds):
            tables = tables_of(shared)
            tables["network"] |= {"congestion_control": control, "ecmp_seed": seed}
            tables["network"]["routing"] = {"queue_pairs_per_flow": n}
            label = f"{shared}-{control}-{n}-{seed}"
            runs[shared, control, n].append(pdes.simulate(pdes.make_config(tables), asked.out / label))
    rows = make_rows(runs, queue_pairs)
    asked.tell(rows)
    draw(asked, runs, rows)
    return rows


if __name__ == "__main__":
    main()
