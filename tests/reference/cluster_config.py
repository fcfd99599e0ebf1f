"""A config of the cluster level for tests, and what a run of it comes to."""

import json
from pathlib import Path

from pdes.cli import main

CONFIG = """
[cluster]
scheduler = "backfill"

[[cluster.pool]]
gpu = "H100"
servers = 8

[cluster.arrivals]
jobs = 300
per_hour = 20
gpus = { 1 = 5, 8 = 3, 24 = 1 }
duration = { distribution = "lognormal", median = "40min", sigma = 1 }
tenants = { research = 2, product = 1 }
priorities = { 0 = 3, 1 = 1 }

[cluster.checkpoint]
interval = "daly"
write = "1min"
restart = "5min"

[[cluster.failure]]
component = "GPU"
per = "gpu"
gap = { distribution = "exponential", mean = "20d" }
detection = "5min"
repair = { distribution = "weibull", mean = "4h", shape = 1.5 }
"""


def run(config: Path, out: Path, *more: str) -> dict:
    """result.json of a run of the file."""
    assert main([str(config), "--out", str(out), "--quiet", *more]) == 0
    return json.loads((out / "result.json").read_text())
