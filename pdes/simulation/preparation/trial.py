"""A short run in flow mode before the run itself, from which a placement follows."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pdes.config import Config
from pdes.config.tables.sections import CheckpointConfig, OutputConfig
from pdes.config.wormhole.table import WormholeConfig
from pdes.engine.exchange import World
from pdes.results.folder import ResultFolder
from pdes.scenario import Scenario
from pdes.simulation.compile import compile_kernels
from pdes.simulation.job import Run
from pdes.simulation.loop import run_to_end
from pdes.simulation.preparation.prepared import Prepared

MOST_ITERATIONS = 2


def in_flow_mode(config: Config) -> Config:
    """A few iterations without packets, and without anything that is written."""
    given, n_iteration = config.wormhole, min(MOST_ITERATIONS, config.simulation.iterations)
    return config.with_tables(
        simulation=config.simulation.model_copy(update={"iterations": n_iteration, "stop_time_ps": None}),
        wormhole=WormholeConfig(mode="flow", flow=given.flow, microbatch_repeats=given.microbatch_repeats),
        output=OutputConfig(flows=False, tasks=False),
        checkpoint=CheckpointConfig(),
    )


@contextmanager
def run_to_its_end(scenario: Scenario) -> Iterator[Run]:
    """The run when all of it is done; nothing of it stays."""
    with tempfile.TemporaryDirectory(prefix="pdes-placement-") as folder:
        ran = Run(Prepared(scenario, ResultFolder(Path(folder) / "run")), World())
        try:
            compile_kernels(ran)
            run_to_end(ran, quiet=True)
            yield ran
        finally:
            ran.rows.close()
