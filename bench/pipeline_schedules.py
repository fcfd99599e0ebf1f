"""Pipeline schedules: against the closed forms of ideal pipelines, and against measured ones (Qi et al. 2024).

Every line is a run of `pdes-sim` with [workload.compute] pass_times: what one microbatch takes on a stage, forward,
backward for inputs and for weights. Ideal ones are (m + p - 1)(F + B + W) for 1F1B and GPipe, and (m + (p - 1) / v) of
it interleaved; DualPipe's is that of its paper, where the three passes take as long. --rows FILE.csv has measured
passes, messages and throughputs of the same runs, in the columns of zero_bubble_schedules.csv. Links have the latency
and the rates that explain best what messages took, inside servers and between them. A throughput is of many iterations,
so the second one counts. It holds more than its passes: the overhead is printed by schedule, and how far rows are from
it. Interleaved schedules run twice: messages go beside computing, or stages exchange with both neighbours at once and
wait.
"""

import argparse
import csv
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.optimize import nnls

from pdes.convert.toml_text import toml_text
from runs import simulate

PASS_MS, EQUAL_MS = (10.0, 9.0, 6.0), (8.0, 8.0, 8.0)
SCHEDULES = {"ZB-2p": "zero-bubble-2p", "ZB-1p": "zero-bubble-1p", "1F1B": "1f1b", "1F1B-I": "1f1b"}


class Links(NamedTuple):
    """What messages took: a latency, and rates inside servers and between them."""

    latency_s: float
    inside_bps: float
    between_bps: float

    def keys(self) -> dict[str, str]:
        """Of [topology]. A message goes over two links, and what it takes ends when the receiver has said so."""
        delay, between = f"{round(self.latency_s * 1e9 / 4)}ns", f"{round(self.between_bps / 1e6)}Mbps"
        return {
            "nvlink_rate": f"{round(self.inside_bps / 1e6)}Mbps", "nvlink_delay": delay, "nic_rate": between,
            "spine_rate": between, "nic_delay": delay,
        }  # fmt: skip


FAST = Links(1e-6, 3.6e12, 2e11)


def predict_s(
    out: Path, name: str, pp: int, m: int, schedule: str, pass_ms: tuple[float, ...], vpp: int = 1, layers: int = 0,
    hidden: int = 256, heads: int = 8, sequence: int = 256, microbatch: int = 1,
    links: Links = FAST, iterations: int = 1, waits: bool = False,
) -> float:  # fmt: skip
    """Time of the last iteration of a pipeline of one GPU per stage.

    waits: stages exchange with both neighbours at once and wait (`overlap_pipeline = false`).
    """
    tables = {
        "simulation": {"iterations": iterations},
        "topology": {"kind": "roft", "gpus": max(8, pp), "nvlink": "packets"} | links.keys(),
        "network": {"payload": "4096B"},
        "workload": {"kind": "training", "microbatches": m, "microbatch": microbatch, "schedule": schedule,
                     "overlap_pipeline": not waits, "flash_attention": False},
        "workload.model": {"layers": layers or pp * vpp, "hidden": hidden, "heads": heads, "sequence": sequence,
                           "vocabulary": 8, "tied_embeddings": False},
        "workload.parallel": {"tp": 1, "dp": max(1, 8 // pp), "pp": pp, "vpp": vpp},
        "workload.compute": {"gpu": "a100-80g", "pass_times": [f"{one}ms" for one in pass_ms]},
        "workload.memory": {"check": "off"},
        "wormhole": {"mode": "exact"},
        "output": {"tasks": False, "flows": False},
    }  # fmt: skip
    config = out / f"{name}.toml"
    config.write_text(toml_text(name, tables))
    return simulate(config, (), out / name).result["iteration_time_ps"][-1] / 1e12


def ideal(out: Path, quick: bool, console: Console) -> float:
    """Runs against closed forms; the largest error."""
    table = Table(box=None, title="Ideal pipelines", title_justify="left")
    for heading in ("schedule", "stages", "chunks", "microbatches", "closed form", "simulated", "error"):
        table.add_column(heading, justify="right")
    worst = 0.0
    cases = [("1f1b", 4, 1, 8), ("gpipe", 4, 1, 8), ("1f1b", 4, 4, 8), ("1f1b", 8, 1, 32), ("1f1b", 8, 2, 32),
             ("1f1b", 16, 1, 64), ("zero-bubble-2p", 8, 1, 24), ("dualpipe", 8, 1, 24)]  # fmt: skip
    for schedule, pp, vpp, m in cases[: 3 if quick else None]:
        pass_ms = EQUAL_MS if schedule == "dualpipe" else PASS_MS
        total_s = sum(pass_ms) / 1e3
        expected = total_s * (m + (pp - 1) / vpp)
        if schedule == "zero-bubble-2p":  # no bubble on any stage; the last one begins p - 1 forward passes late
            expected = total_s * m + (pp - 1) * PASS_MS[0] / 1e3
        if schedule == "dualpipe":  # (p / 2 - 1) (F&B + B - 3 W)
            expected = total_s * m + (pp // 2 - 1) * (total_s + (pass_ms[1] - 2 * pass_ms[2]) / 1e3)
        found = predict_s(out, f"ideal-{schedule}-{pp}-{vpp}-{m}", pp, m, schedule, pass_ms, vpp)
        error = found / expected - 1
        worst = max(worst, abs(error))
        table.add_row(
            schedule, str(pp), str(vpp), str(m), f"{expected:.4f} s", f"{found:.4f} s", f"{100 * error:+.2f} %"
        )
    console.print(table)
    return worst


def boundary_bytes(row: dict[str, str]) -> int:
    """Of a message between two stages: activations in fp16."""
    return 2 * int(row["hidden"]) * int(row["seq"]) * int(row["mbs"])


def links_of(rows: list[dict[str, str]]) -> Links:
    """By least squares over all rows: a message takes alpha + bytes / beta, with one beta for each kind of link.

    A row's time is the mean over the links between its stages, of which one leads to each further server.
    """
    parts, times_s = [], []
    for row in rows:
        n_link, n_between, bits = int(row["pp"]) - 1, int(row["nodes"]) - 1, 8 * boundary_bytes(row)
        parts.append([1, bits * (n_link - n_between) / n_link, bits * n_between / n_link])
        times_s.append(float(row["T_comm_ms"]) / 1e3)
    matrix = np.array(parts)
    scale = matrix.max(axis=0)
    scale[scale == 0] = 1
    found, _ = nnls(matrix / scale, np.array(times_s))
    alpha, inside, between = found / scale
    return Links(float(alpha), 1 / inside, 1 / between if between else 1 / inside)


def measured(path: Path, out: Path, quick: bool, console: Console) -> dict[str, float]:
    """Measured iterations over simulated ones, by schedule."""
    table = Table(box=None, title="Measured pipelines (Qi et al. 2024)", title_justify="left")
    for heading in ("model", "schedule", "stages", "microbatches", "measured", "simulated", "overhead"):
        table.add_column(heading, justify="right")
    overheads: dict[str, list[float]] = {}
    with path.open() as file:
        rows = sorted(csv.DictReader(file), key=lambda row: int(row["pp"]) * int(row["microbatches"]))
    links = links_of(rows)
    console.print(
        f"messages take {links.latency_s * 1e6:.0f} us, and {links.inside_bps / 1e9:.0f} Gbps inside servers, "
        f"{links.between_bps / 1e9:.0f} Gbps between them"
    )
    for i, row in enumerate(rows[: 4 if quick else None]):
        pp, layers = int(row["pp"]), int(row["layers"])
        vpp = (layers + 2) // pp if row["schedule"] == "1F1B-I" else 1
        pass_ms = tuple(float(row[key]) for key in ("T_F_ms", "T_B_ms", "T_W_ms"))
        for waits in (False, True) if vpp > 1 else (False,):
            found = predict_s(
                out, f"measured-{i}", pp, int(row["microbatches"]), SCHEDULES[row["schedule"]], pass_ms, vpp, layers,
                int(row["hidden"]), int(row["heads"]), int(row["seq"]), int(row["mbs"]), links, 2, waits,
            )  # fmt: skip
            overhead = float(row["iter_s"]) / found - 1
            schedule = row["schedule"] + ", waits" * waits
            overheads.setdefault(schedule, []).append(overhead)
            table.add_row(row["model"], schedule, row["pp"], row["microbatches"], f"{float(row['iter_s']):.3f} s",
                          f"{found:.3f} s", f"{100 * overhead:+.1f} %")  # fmt: skip
    console.print(table)
    found = {}
    for schedule, values in overheads.items():
        mean, off = float(np.mean(values)), float(np.abs(np.array(values) - np.mean(values)).mean())
        console.print(f"{schedule}: measured takes {100 * mean:+.1f} %, and rows are {100 * off:.1f} % from that")
        found[schedule] = mean
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, help="CSV of measured schedules")
    parser.add_argument("--out", type=Path, default=Path("results/pipeline-schedules"))
    parser.add_argument("--quick", action="store_true", help="three ideal pipelines, four rows")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    console = Console(width=110, highlight=False)
    worst = ideal(arguments.out, arguments.quick, console)
    overhead = measured(arguments.rows, arguments.out, arguments.quick, console) if arguments.rows else {}
    print(json.dumps({"worst_error": worst, "overhead_by_schedule": overhead}))


if __name__ == "__main__":
    main()
