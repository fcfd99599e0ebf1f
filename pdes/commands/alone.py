"""`pdes-sim config.toml --alone`: after the run of several jobs, each of them by itself, and what sharing cost."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pdes.files import read_json
from pdes.results.jobs import read_alone
from pdes.results.summary import print_jobs

if TYPE_CHECKING:
    from pdes.engine.exchange import World
    from pdes.scenario import Scenario


def run_alone(scenario: "Scenario", comm: "World", quiet: bool) -> None:
    """On every rank, after the run of all jobs. Raises SimError; the results of that run stay as they are."""
    from pdes import simulation
    from pdes.simulation.alone import alone_configs, write_alone

    is_first = comm.rank == 0
    for name, config in alone_configs(scenario):
        if is_first and not quiet:
            print(f"pdes-sim: {name} alone", file=sys.stderr, flush=True)
        prepared = simulation.prepare(config, True, comm.size, comm.n_rank_here()) if is_first else None
        shared = comm.bcast_once(prepared)
        if prepared is not None:  # rank 0 keeps what only it has
            prepared.scenario, shared = shared.scenario, prepared
        simulation.run(shared, comm, quiet=True)
    if is_first:
        write_alone(scenario)
        if not quiet:
            folder = Path(scenario.config.output.dir)
            print_jobs(read_json(folder / "result.json"), read_alone(folder))
