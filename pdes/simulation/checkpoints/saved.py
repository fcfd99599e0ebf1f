"""What is in a checkpoint of a run, and how it is taken up again, on any number of ranks.

Every rank saves what its nodes own; rank 0 also the scenario, which has all that was read from files, and what all
ranks decide alike.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from models.network.checkpoint import saved_fast_forward
from models.network.checkpoint.saved_chains import pairs_of_messages
from models.network.checkpoint.saved_state import load_network, save_network
from models.network.state.records import EVENTS, PACKET_HOPS
from pdes.engine.checkpoint_folder import open_file
from pdes.engine.round import HORIZON, LEAST, LIMIT, N_ROUND, NEXT_LOOK, NOW
from pdes.errors import ConfigError
from pdes.simulation.checkpoints.files import ALIKE, own_file, read_part
from pdes.simulation.checkpoints.saved_assembly import hidden_head, load_observers, save_alike_of, save_observers
from pdes.simulation.job import Run

LOOP_WORDS = [NOW, HORIZON, N_ROUND, NEXT_LOOK, LIMIT]


def save_own(job: Run) -> dict[str, Any]:
    """What this rank has."""
    model, is_here = job.model, job.model.rank_of_node == job.world.rank
    return {
        "network": save_network(job.scenario.topology, model.state, is_here, hidden_head(model)),
        **job.rows.save_counts(),
        **save_observers(job.assembly),
        "fast": None if model.fast_forward is None else saved_fast_forward.save_own(model.fast_forward),
    }


def save_alike(job: Run) -> dict[str, Any]:
    """What all ranks have alike, and what rank 0 alone knows."""
    return save_alike_of(job.assembly) | {
        "loop": job.loop[LOOP_WORDS],
        "memo": None if job.memo is None else job.memo.save(),
        "queue_model": job.queue_model_digest,
    }


def take_up(job: Run) -> None:
    """Go on from a checkpoint, if there is one to go on from. After compiling, which empties some memory."""
    if job.resumed is None or job.is_asleep:
        return
    path, facts = job.resumed.path, job.resumed.facts
    _restore(job, path, facts)
    job.world.barrier()
    if job.world.rank == 0:
        print(f"pdes-sim: resumed from round {facts['round']:,} of {path}", file=sys.stderr, flush=True)


def _restore(job: Run, path: Path, facts: dict[str, Any]) -> None:
    """Bring a run that nothing has happened in to where a checkpoint was taken."""
    is_first, n_rank = job.world.rank == 0, facts["ranks"]
    owns, alike = [read_part(path, own_file(i)) for i in range(n_rank)], read_part(path, ALIKE)
    load(job, owns, alike, np.array(facts["rank_of_lp"]))
    if is_first:
        _load_rows(job, path, owns)
    counters = job.model.state.fabric.counters
    job.restored = {
        "rounds": facts["round"], "hops": int(counters[PACKET_HOPS]), "events": int(counters[EVENTS]),
    }  # fmt: skip
    if is_first and alike["queue_model"] != job.queue_model_digest:
        found = f"[wormhole.paper] restoration_model has sha256 {job.queue_model_digest}, not {alike['queue_model']}"
        raise ConfigError(f"--resume {path}", found, "the file that the run began with")


def load(job: Run, owns: list[dict[str, Any]], alike: dict[str, Any], was_rank_of_lp: np.ndarray) -> None:
    """Bring networks that nothing has happened in to where others were, of other ranks; rows of results aside.

    owns: `save_own` of each of those, with LPs as was_rank_of_lp says. alike: `save_alike` of one.
    """
    s, model, is_first = job.scenario, job.model, job.world.rank == 0
    was_rank_of_node = was_rank_of_lp[s.lp_of_node]
    is_here, networks = model.rank_of_node == job.world.rank, [own["network"] for own in owns]
    nodes = [was_rank_of_node == i for i in range(len(owns))]
    model.state = load_network(s.topology, model.state, networks, nodes, is_here, is_first, hidden_head(model))
    job.loop[LOOP_WORDS], job.loop[LEAST] = alike["loop"], -1
    load_observers(job.assembly, owns, alike, pairs_of_messages(networks), is_here)
    if model.fast_forward is not None:
        fast = [own["fast"] for own in owns]
        held = [own["held"] for own in fast]
        saved_fast_forward.load_fast_forward(model.fast_forward, alike["fast"], fast, held, is_first)
    if job.memo is not None:
        job.memo.load(alike["memo"], model.fast_forward)


def _load_rows(job: Run, path: Path, owns: list[dict[str, Any]]) -> None:
    """Rows of all ranks, and what was counted of them, into rank 0's."""
    job.rows.load_counts(owns)
    for name, spool in job.rows.spools.items():
        for i in range(len(owns)):
            with open_file(path, f"{name}{i}") as stream:
                spool.load(stream)
