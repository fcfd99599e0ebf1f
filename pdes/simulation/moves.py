"""LPs that change ranks: what a checkpoint saves, sent from rank to rank, and taken up by a model made anew.

Only what belongs to nodes that move is sent. What adds up over ranks stays where it was counted.
"""

from typing import Any

import numpy as np

from models.network.checkpoint.saved_chains import Arrays, pairs_of_messages
from models.network.checkpoint.saved_fast_forward import load_fast_forward, save_own
from models.network.checkpoint.saved_state import NETWORK_ADDED, load_network, save_network
from pdes.engine import pickled
from pdes.engine.round import LEAST
from pdes.simulation.checkpoints.saved_assembly import hidden_head, load_observers, save_alike_of, save_observers
from pdes.simulation.job import Run


def move(job: Run, rank_of_lp: np.ndarray) -> None:
    """Place LPs anew, at a round's end that all ranks have. On every rank, with the same placement."""
    s, world, old = job.scenario, job.world, job.model
    old.flush()
    to_rank = rank_of_lp[s.lp_of_node]
    parts, nodes = _exchange(job, to_rank)
    messages = _messages_of_all(job, parts)
    observed = world.allgather(save_observers(job.assembly))
    alike = pickled.copied(save_alike_of(job.assembly))
    fast, held = None, []
    if old.fast_forward is not None:
        fast = save_own(old.fast_forward)
        held = world.allgather(fast["held"])
    del old  # its memory goes before there is another
    job.take_apart()
    job.assemble(rank_of_lp)
    model, is_here = job.model, to_rank == world.rank
    model.state = load_network(s.topology, model.state, parts, nodes, is_here, True, hidden_head(model))
    load_observers(job.assembly, observed, alike, messages, is_here)
    if model.fast_forward is not None and fast is not None:
        load_fast_forward(model.fast_forward, alike["fast"], [fast], held, True)
        if job.memo is not None:
            job.memo.load(job.memo.save(), model.fast_forward)
    job.loop[LEAST] = -1  # neighbours, and what is pending here, are others


def _exchange(job: Run, to_rank: np.ndarray) -> tuple[list[Arrays], list[np.ndarray]]:
    """(what this rank keeps and gets, bool[n_node] each: of which nodes), what it keeps first."""
    s, world, state, at_rank = job.scenario, job.world, job.model.state, job.model.rank_of_node
    head, sent = hidden_head(job.model), []
    own = save_network(s.topology, state, (at_rank == world.rank) & (to_rank == world.rank), head)
    for rank in range(world.size):
        leaves = (at_rank == world.rank) & (to_rank == rank)
        is_sent = rank != world.rank and bool(leaves.any())
        sent.append(_part(job, save_network(s.topology, state, leaves, head), own) if is_sent else None)
    parts, nodes = [own], [(at_rank == world.rank) & (to_rank == world.rank)]
    for rank, part in enumerate(world.alltoall(sent)):
        if part is not None:
            parts.append(part)
            nodes.append((at_rank == rank) & (to_rank == world.rank))
    return parts, nodes


def _part(job: Run, part: Arrays, own: Arrays) -> Arrays:
    """A part to send: nothing that adds up, and the round-trip times if it has the flow's source, not `own` then."""
    for name in NETWORK_ADDED:
        part[name] = np.zeros_like(part[name])
    goes = bool((pairs_of_messages([part])[0] == job.scenario.parameters.rtt_flow).any())
    (own if goes else part)["rtt"] = part["rtt"][:0]
    return part


def _messages_of_all(job: Run, parts: list[Arrays]) -> tuple[np.ndarray, np.ndarray]:
    """`pairs_of_messages` of all ranks, where somebody asks."""
    if job.assembly.parts is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    found: Any = job.world.allgather(pairs_of_messages(parts))
    return np.concatenate([f for f, _ in found]), np.concatenate([p for _, p in found])
