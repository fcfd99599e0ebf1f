"""One version of the program in a process of its own, which runs cases as `speed_guard.py` asks for them.

Not for people: `python -P speed_worker.py FOLDER N_RANK`, by mpirun where there are several ranks, with that version's
tree as PYTHONPATH and working folder. It uses only names that older versions have, too. Each rank reads its requests, a
line of JSON each, from FOLDER/requests.<rank>, where waiting for the next one takes no processor time, which waiting in
MPI would; rank 0 answers on stdout, a line of JSON each.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pdes
from cases import make_model
from pdes.config import load_config
from pdes.engine.exchange import World, world
from pdes.engine.round import STOP, run_rounds
from pdes.errors import ConfigError
from pdes.scenario import Scenario, build_scenario

try:
    from models.network.state.records import PACKET_HOPS
except ModuleNotFoundError:  # a version whose network has no rooms
    from models.network.state import PACKET_HOPS  # pyright: ignore[reportAttributeAccessIssue]


def run(scenario: Scenario, ranks: World, stop_ps: int | None) -> dict[str, Any]:
    """Packet-hops of all ranks, and what they took: processor time of one rank, wall time of several."""
    model, loop = make_model(scenario, ranks)
    if stop_ps is not None:
        loop[STOP] = stop_ps
    clock = time.process_time if ranks.size == 1 else time.perf_counter
    ranks.barrier()
    begin_s = clock()
    run_rounds(model, loop, model.exchange)
    ranks.barrier()
    seconds = clock() - begin_s
    return {"seconds": seconds, "hops": sum(ranks.allgather(int(model.state.fabric.counters[PACKET_HOPS])))}


def main() -> None:
    """Answer until the requests end."""
    folder, n_rank = Path(sys.argv[1]), int(sys.argv[2])
    here = Path.cwd()
    assert Path(pdes.__file__).is_relative_to(here), f"{pdes.__file__} is not of {here}"
    ranks = world() if n_rank > 1 else World()
    assert ranks.size == n_rank, f"{n_rank} processes that are no {n_rank} ranks: is mpirun of another MPI library?"
    scenarios: dict[str, Scenario] = {}
    with open(folder / f"requests.{ranks.rank}") as requests:
        for line in requests:
            request = json.loads(line)
            key = json.dumps([request["config"], request["overrides"]])
            try:
                if key not in scenarios:
                    config = load_config(os.path.join(here, request["config"]), request["overrides"])
                    scenarios[key] = build_scenario(config)
                answer = run(scenarios[key], ranks, request["stop_ps"])
            except ConfigError as error:
                answer = {"cannot": str(error)}
            if ranks.rank == 0:
                print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
