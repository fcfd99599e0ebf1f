"""Runs of several jobs on one cluster: configs, and what came of them."""

import json
from pathlib import Path
from typing import Any

import numpy as np

import pdes

FABRIC = {"kind": "leaf-spine", "leaves": 4, "spines": 2, "hosts_per_leaf": 4, "host_rate": "100Gbps",
          "spine_rate": "100Gbps", "host_delay": "1us", "spine_delay": "1us"}  # fmt: skip
US = 10**6


def collective(size: str = "1MB", operation: str = "all-reduce", gpus: list[int] | str = "all") -> dict[str, Any]:
    """A workload of one collective."""
    row = {"name": operation, "operation": operation, "size": size, "gpus": gpus}
    return {"kind": "collectives", "collective": [row]}


def training(tp: int, dp: int, pp: int = 1, **more: Any) -> dict[str, Any]:
    """Iterations of a small model."""
    model = {"layers": 4, "hidden": 512, "heads": 8, "vocabulary": 1024, "sequence": 256}
    return {"kind": "training", "model": model, "parallel": {"tp": tp, "dp": dp, "pp": pp}, **more}


def jobs_config(folder: Path, *jobs: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A config of [[job]] tables on FABRIC."""
    return {"topology": FABRIC, "network": {"congestion_control": "dctcp"}, "job": list(jobs),
            "output": {"dir": str(folder)}, **more}  # fmt: skip


class Ran:
    """What a run has left: tables as arrays."""

    def __init__(self, config: dict[str, Any]) -> None:
        result = pdes.simulate(config)
        self.result, self.jobs = result.summary, {job["name"]: job for job in result.summary.get("jobs", [])}
        self._result = result

    def table(self, name: str, job: str | None = None) -> dict[str, np.ndarray]:
        """Columns of a table, of one job if it is named."""
        found = {key: np.array(column) for key, column in self._result.table(name).to_pydict().items()}
        kept = found["job"] == job if job is not None else slice(None)
        return {key: column[kept] for key, column in found.items()}


def toml_of(config: dict[str, Any]) -> str:
    """The config as a file has it: JSON's inline values are TOML's, but for tables."""
    lines = []
    for name, value in config.items():
        if name == "job":
            lines.append(f"job = [{', '.join(map(_inline, value))}]")
    for name, value in config.items():
        if name != "job":
            lines += [f"[{name}]", *(f"{key} = {_inline(inner)}" for key, inner in value.items())]
    return "\n".join([*lines, ""])


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_inline(inner)}" for key, inner in value.items()) + "}"
    return f"[{', '.join(map(_inline, value))}]" if isinstance(value, list) else json.dumps(value)
