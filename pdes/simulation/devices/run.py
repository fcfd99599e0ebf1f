"""Runs on the window engine: from assembled networks to what another engine would have left for their results."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from models.network.windows.engine import CpuEngine, rows_of, run_networks
from models.network.windows.make import Network
from pdes.beginning import Beginning
from pdes.config import Config
from pdes.config.values import make_config
from pdes.engine.exchange import World
from pdes.errors import ConfigError
from pdes.result import Result
from pdes.simulation.devices import Device
from pdes.simulation.job import Run
from pdes.simulation.loop import Ended
from pdes.simulation.outcome.finish import finish
from pdes.simulation.preparation.prepare import prepare

ROWS_AT_ONCE = 2**16


def make_engine(device: Device) -> Any:
    """What runs windows."""
    if device == "cuda":
        from models.network.windows.cuda import CudaEngine

        return CudaEngine()
    return CpuEngine(n_thread=1)


def network_of(job: Run) -> Network:
    """A job's part of the engine's state."""
    return Network(job.model.topology, job.model.state, job.model.control, job.scenario.parameters)


def run_on_device(jobs: Sequence[Run], device: Device, beginning: Beginning) -> Ended:
    """Run the flows of one or more experiments to their ends, all of them at once."""
    begin_s = time.monotonic()
    beginning.end()
    found = run_networks([network_of(job) for job in jobs], make_engine(device))
    for job, flows in zip(jobs, found, strict=True):
        _take(job, flows)
    return Ended(time.monotonic() - begin_s, 0, {}, {}, {}, [])


def _take(job: Run, flows: np.ndarray) -> None:
    """Rows of a job's flows, on their way to its results."""
    finished, delivered = rows_of(flows)
    none = np.zeros((0, 8), np.int64)
    for first in range(0, max(len(finished), len(delivered)), ROWS_AT_ONCE):
        rows = slice(first, first + ROWS_AT_ONCE)
        job.rows.take(finished[rows], delivered[rows], none, none)
    job.rows.truncate(job.assembly)


def simulate_together(
    configs: Sequence[Config | Mapping[str, Any]], outs: Sequence[str | Path], device: Device = "cuda"
) -> list[Result]:
    """Simulate experiments with one congestion control in the same windows; each one's results are as of a run alone.

    outs: their result folders. Raises SimError.
    """
    jobs: list[Run] = []
    prepared = []
    try:
        for config, out in zip(configs, outs, strict=True):
            checked = config if isinstance(config, Config) else make_config(config)
            prepared.append(prepare(checked.written_to(out), quiet=True, device=device))
            jobs.append(Run(prepared[-1], World()))
        names = sorted({job.scenario.parameters.law.name for job in jobs})
        if len(names) > 1:
            raise ConfigError("[network] congestion_control", f"{', '.join(names)} together", "one for all experiments")
        ended = run_on_device(jobs, device, Beginning())
        for job in jobs:
            finish(job, 0.0, ended, quiet=True)
    finally:
        for job in jobs:
            job.rows.close()
        for one in prepared:
            one.folder.abandon()
    return [Result(out) for out in outs]
