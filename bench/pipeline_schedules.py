"""Pipeline schedules: against the closed forms of ideal pipelines, and against measured ones (Qi et al. 2024).

Every line is a run of `pdes-sim` with [workload.compute] pass_times: what one microbatch takes on a stage, forward,
backward for inputs and for weights. Ideal ones are (m + p - 1)(F + B + W) for 1F1B and GPipe, and (m + (p - 1) / v) of
it interleaved; DualPipe's is that of its paper, where the three passes take as long. --rows FILE.csv has measured
passes, messages and throughputs of the same runs, in the columns of zero_bubble_schedules.csv. Links have the rates
that the messages took: those of runs on one server are the rate inside servers, and what is left of the mean over all
links in larger runs is that of links between servers. A throughput is of many iterations, so the second one counts. It
holds more than its passes: the overhead is printed by schedule, and how far rows are from it.
"""

import argparse
import csv
import json
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from pdes.convert.toml_text import toml_text
from runs import simulate

PASS_MS, EQUAL_MS = (10.0, 9.0, 6.0), (8.0, 8.0, 8.0)
SCHEDULES = {"ZB-2p": "zero-bubble-2p", "ZB-1p": "zero-bubble-1p", "1F1B": "1f1b", "1F1B-I": "1f1b"}


def predict_s(
    out: Path, name: str, pp: int, m: int, schedule: str, pass_ms: tuple[float, ...], vpp: int = 1, layers: int = 0,
    hidden: int = 256, heads: int = 8, sequence: int = 256, microbatch: int = 1,
    rates: tuple[str, str] = ("3.6Tbps", "200Gbps"), iterations: int = 1,
) -> float:  # fmt: skip
    """Time of the last iteration of a pipeline of one GPU per stage. rates: inside servers, and between them."""
    inside, between = rates
    tables = {
        "simulation": {"iterations": iterations},
        "topology": {"kind": "roft", "gpus": max(8, pp), "nic_rate": between, "spine_rate": between,
                     "nvlink": "packets", "nvlink_rate": inside},
        "network": {"payload": "4096B"},
        "workload": {"kind": "training", "microbatches": m, "microbatch": microbatch, "schedule": schedule,
                     "flash_attention": False},
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


def link_rates(rows: list[dict[str, str]]) -> dict[int, tuple[str, str]]:
    """Rates inside and between servers by the number of stages, of all rows with as many."""
    one_server = [8 * boundary_bytes(row) / (float(row["T_comm_ms"]) / 1e3) for row in rows if row["nodes"] == "1"]
    inside_bps = float(np.mean(one_server)) if one_server else 3.6e12
    found = {}
    for pp in {int(row["pp"]) for row in rows}:
        own = [row for row in rows if int(row["pp"]) == pp]
        n_link, n_between = pp - 1, int(own[0]["nodes"]) - 1
        bits = [8 * boundary_bytes(row) for row in own]
        total_s = float(np.mean([float(row["T_comm_ms"]) / 1e3 for row in own])) * n_link
        between_bps = inside_bps
        if n_between:
            between_bps = (
                float(np.mean(bits)) * n_between / (total_s - (n_link - n_between) * np.mean(bits) / inside_bps)
            )
        found[pp] = (f"{round(inside_bps / 1e6)}Mbps", f"{round(between_bps / 1e6)}Mbps")
    return found


def measured(path: Path, out: Path, quick: bool, console: Console) -> dict[str, float]:
    """Measured iterations over simulated ones, by schedule."""
    table = Table(box=None, title="Measured pipelines (Qi et al. 2024)", title_justify="left")
    for heading in ("model", "schedule", "stages", "microbatches", "measured", "simulated", "overhead"):
        table.add_column(heading, justify="right")
    overheads: dict[str, list[float]] = {}
    with path.open() as file:
        rows = sorted(csv.DictReader(file), key=lambda row: int(row["pp"]) * int(row["microbatches"]))
    rates = link_rates(rows)
    for pp, (inside, between) in sorted(rates.items()):
        console.print(f"{pp} stages: links of {inside} inside servers, {between} between them")
    for i, row in enumerate(rows[: 4 if quick else None]):
        pp, layers = int(row["pp"]), int(row["layers"])
        vpp = (layers + 2) // pp if row["schedule"] == "1F1B-I" else 1
        pass_ms = tuple(float(row[key]) for key in ("T_F_ms", "T_B_ms", "T_W_ms"))
        found = predict_s(
            out, f"measured-{i}", pp, int(row["microbatches"]), SCHEDULES[row["schedule"]], pass_ms, vpp, layers,
            int(row["hidden"]), int(row["heads"]), int(row["seq"]), int(row["mbs"]), rates[pp], 2,
        )  # fmt: skip
        overhead = float(row["iter_s"]) / found - 1
        overheads.setdefault(row["schedule"], []).append(overhead)
        table.add_row(row["model"], row["schedule"], row["pp"], row["microbatches"], f"{float(row['iter_s']):.3f} s",
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
