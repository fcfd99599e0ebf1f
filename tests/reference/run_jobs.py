"""A cluster whose jobs' iteration times come from runs: two models, six jobs, eight small servers."""

from pathlib import Path
from typing import Any

WORKLOAD = """
kind = "training"
microbatches = 2
model = {{ layers = 2, hidden = 1024, heads = 8, vocabulary = 1024, sequence = 256 }}
parallel = {{ tp = 1, pp = {pp} }}
compute = {{ gpu = "h100" }}
"""
CONFIG = """
[cluster]
jobs = "jobs.csv"
[[cluster.pool]]
gpu = "h100"
servers = 8
gpus_per_server = 2
servers_per_rack = 2
[cluster.runs]
memo = "times.jsonl"
fabric = {{ nic_rate = "100Gbps", oversubscription = 2.0 }}
[[cluster.runs.kind]]
kind = "dense"
[cluster.runs.kind.workload]
{dense}
[[cluster.runs.kind]]
kind = "deep"
[cluster.runs.kind.workload]
{deep}
[output]
dir = "{out}"
"""
JOBS = """job,submit_s,gpus,duration_s,kind
a,0,6,1000,dense
b,0,4,1000,dense
c,100,6,1000,deep
d,200,2,500,other
e,300,8,1500,dense
f,5000,4,1000,deep
"""


def write(folder: Path, jobs: str = JOBS, **changes: str) -> Path:
    """The config and its jobs."""
    folder.mkdir(exist_ok=True)
    (folder / "jobs.csv").write_text(jobs)
    words = {"dense": WORKLOAD.format(pp=1), "deep": WORKLOAD.format(pp=2), "out": str(folder / "out")} | changes
    (folder / "config.toml").write_text(CONFIG.format(**words))
    return folder / "config.toml"


def training_job(name: str, gpus: list[int], pp: int, iterations: int) -> dict[str, Any]:
    """A [[job]] of these small models, written by hand."""
    model = {"layers": 2, "hidden": 1024, "heads": 8, "vocabulary": 1024, "sequence": 256}
    workload = {
        "kind": "training", "microbatches": 2, "model": model, "compute": {"gpu": "h100"},
        "parallel": {"tp": 1, "pp": pp, "dp": len(gpus) // pp},
    }  # fmt: skip
    return {"name": name, "gpus": gpus, "iterations": iterations, "workload": workload}
