"""Two training jobs on one fabric: what each costs the other, by where they are and what the fabric is.

python examples/studies/neighbours/study.py [--quick] [--out FOLDER] [--publish]
"""

import sys
import tomllib
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import pdes

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gallery import Row, Study, label_panel, study

HERE = Path(__file__).parent
PLACEMENTS = ("packed", "spread", "random")
FABRICS = {"1:1": (1.0, "ecmp"), "1:1, sprayed": (1.0, "spray"), "2:1": (2.0, "ecmp"), "2:1, sprayed": (2.0, "spray")}
MODES = {"packets": "off", "flow": "flow"}


def tables_of(placement: str, fabric: str, mode: str) -> dict[str, Any]:
    """The config, changed."""
    tables = tomllib.loads((HERE / "config.toml").read_text())
    tables["topology"]["oversubscription"], policy = FABRICS[fabric]
    tables["network"]["routing"] = {"policy": policy}
    if policy == "spray":  # which changes the order of packets
        tables["network"]["transport"] = {"recovery": "selective-repeat"}
    tables["wormhole"] = {"mode": MODES[mode]}
    for job in tables["job"]:
        job["placement"] = placement
    return tables


def last_ms(job: dict[str, Any]) -> float:
    """A job's last iteration."""
    return job["iteration_time_ps"][-1] / 1e9


def measure(asked: Study, placement: str, fabric: str, mode: str) -> dict[str, dict[str, Any]]:
    """Both jobs together, then each alone on the GPUs that it had: what `pdes-sim config.toml --alone` does."""
    tables = tables_of(placement, fabric, mode)
    label, found = f"{placement}-{fabric.replace(':', '-').replace(', ', '-')}-{mode}", {}
    both = pdes.simulate(tables, asked.out / label).summary["jobs"]
    for job, facts in zip(tables["job"], both, strict=True):
        only = {key: value for key, value in job.items() if key != "placement"} | {"gpus": facts["gpus"]}
        alone = pdes.simulate(tables | {"job": [only]}, asked.out / f"{label}-{job['name']}").summary["jobs"][0]
        found[job["name"]] = {
            "ms": last_ms(facts), "alone": last_ms(alone), "shared": facts["shared_ports"], "ports": facts["ports"],
        }  # fmt: skip
    return found


def rows_of(asked: Study, placement: str, fabric: str) -> list[Row]:
    """A row for each job."""
    found = {mode: measure(asked, placement, fabric, mode) for mode in MODES}
    rows = []
    for name, one in found["packets"].items():
        flow = found["flow"][name]
        rows.append({
            "placement": placement,
            "fabric": fabric,
            "job": name,
            "ports shared": f"{one['shared']} of {one['ports']}",
            "alone, ms": f"{one['alone']:.2f}",
            "together, ms": f"{one['ms']:.2f}",
            "slowdown": f"{one['ms'] / one['alone']:.3f}",
            "slowdown, flow mode": f"{flow['ms'] / flow['alone']:.3f}",
        })  # fmt: skip
    return rows


def draw(asked: Study, rows: Sequence[Row]) -> None:
    """Slowdown by placement and spine links; a mark for what flow mode says."""

    def paint(axes: Any) -> None:
        for axis, name in zip(axes, ("dense", "experts"), strict=True):
            for i, placement in enumerate(PLACEMENTS):
                own = [row for row in rows if row["job"] == name and row["placement"] == placement]
                at = np.arange(len(own)) + 0.27 * (i - 1)
                axis.bar(at, [float(row["slowdown"]) for row in own], width=0.25, label=placement)
                axis.plot(at, [float(row["slowdown, flow mode"]) for row in own], "k_", markersize=9)
            axis.set_xticks(range(len(FABRICS)), [name.replace(", ", "\n") for name in FABRICS])
            axis.set_ylim(0.9)
            axis.legend()
            label_panel(axis, f'The job "{name}"', "", "times as long as alone")
            axis.grid(axis="x", visible=False)

    asked.draw("slowdown", 2, paint)


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Run the sweep, tell and draw it; its table."""
    asked = study("neighbours", __doc__, arguments)
    cases = product(PLACEMENTS[:2], ("2:1",)) if asked.is_quick else product(PLACEMENTS, FABRICS)
    rows = [row for placement, fabric in cases for row in rows_of(asked, placement, fabric)]
    asked.tell(rows)
    if not asked.is_quick:
        draw(asked, rows)
    return rows


if __name__ == "__main__":
    main()
