"""How many spare servers a job on 16,384 GPUs is worth: goodput of all GPUs that are there, spares among them.

python examples/studies/spares/study.py [--quick] [--out FOLDER] [--publish]
"""

import math
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gallery import Row, Study, label_panel, legend_below, study

SERVERS, GAP_H = 2048, 3692
REPAIRS = {"4 h": "4h", "1 d": "1d"}  # medians
SPARES = {"4 h": (0, 2, 4, 6, 8, 10, 12, 16, 24), "1 d": (0, 8, 16, 20, 24, 28, 32, 40, 56)}
QUICK = {"hot": (4, 16), "cold": (16,)}
SEEDS = 3
Runs = dict[tuple[str, str, int], list[dict[str, Any]]]
"""(median of the repair, kind of spares, how many) -> result.json for each seed."""


def in_repair(repair: str) -> float:
    """Servers in repair on average: failures times the mean of a lognormal duration with sigma 1."""
    hours = {"4 h": 4, "1 d": 24}[repair] * math.exp(0.5)
    return SERVERS * hours / (GAP_H + hours)


def above(mean_number: float, n: int) -> float:
    """How likely a Poisson number is above n: the number in repair is one, whatever repairs are like (M/G/infinity)."""
    return 1 - sum(math.exp(k * math.log(mean_number) - mean_number - math.lgamma(k + 1)) for k in range(n + 1))


def goodput(results: Sequence[dict[str, Any]], n_spare: int) -> float:
    """Work that was kept, of all that the servers and the spares could have done."""
    hours = mean(result["gpu_hours"]["productive"] for result in results)
    return hours / ((SERVERS + n_spare) * 8 * mean(result["end_s"] for result in results) / 3600)


def make_rows(runs: Runs) -> list[Row]:
    """A row for each number of spares."""
    rows = []
    for (repair, kind, n_spare), results in runs.items():
        held = mean(result["gpu_hours"]["held"] for result in results)
        rows.append({
            "repair": repair,
            "spares": kind,
            "how many": n_spare,
            "job stands still": f"{mean(result['mean_waiting_jobs'] for result in results):.2%}",
            "more in repair than spares": f"{above(in_repair(repair), n_spare):.2%}",
            "lost work and detection": f"{mean(result['gpu_hours']['lost'] for result in results) / held:.2%}",
            "start-up and checkpoints": f"{mean(result['gpu_hours']['overhead'] for result in results) / held:.2%}",
            "goodput, spares counted": f"{goodput(results, n_spare):.2%}",
        })  # fmt: skip
    return rows


def draw(asked: Study, runs: Runs) -> None:
    """Goodput by spares."""

    def curves(axes: Any) -> None:
        for axis, repair in zip(axes, dict.fromkeys(median for median, _, _ in runs), strict=False):
            for kind in ("hot", "cold"):
                spares = [n for median, own, n in runs if (median, own) == (repair, kind)]
                values = [100 * goodput(runs[repair, kind, n], n) for n in spares]
                axis.plot(spares, values, marker="o", label=f"{kind} spares")
            label_panel(axis, f"Goodput of all GPUs, %; repairs of {repair}", "spare servers", "")
        legend_below(axes[0])

    asked.draw("goodput", 2, curves)


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Run the sweep, tell and draw it; the table."""
    asked = study("spares", __doc__, arguments)
    seeds, days = (1, 20) if asked.is_quick else (SEEDS, 60)
    runs: Runs = {}
    for repair, kind in product(["4 h"] if asked.is_quick else REPAIRS, ("hot", "cold")):
        for n_spare in QUICK[kind] if asked.is_quick else SPARES[repair]:
            overrides = (
                f"cluster.stop={days}d", f'cluster.failure.0.repair.median="{REPAIRS[repair]}"',
                f"cluster.pool.0.hot_spares={n_spare if kind == 'hot' else 0}",
                f"cluster.pool.0.cold_spares={n_spare if kind == 'cold' else 0}",
            )  # fmt: skip
            runs[repair, kind, n_spare] = [asked.outcome(f"cluster.seed={k + 1}", *overrides) for k in range(seeds)]
    rows = make_rows(runs)
    asked.tell(rows)
    draw(asked, runs)
    return rows


if __name__ == "__main__":
    main()
