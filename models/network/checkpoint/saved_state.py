"""The network's part of a checkpoint: each rank saves what its nodes own, any number of ranks takes it up again.

Saved at a round's end, when nothing is on its way between ranks and no row waits to be written. Reading needs a model
that was built as for a new run; what follows from the scenario alone is not saved.
"""

from collections.abc import Sequence

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.checkpoint.saved_chains import Arrays, chains_of, load_chains, pairs_of_messages, save_chains
from models.network.host.visits import set_of
from models.network.state.owners import Owners, owned_tables
from models.network.state.records import (
    EVENTS,
    IS_FLOW_MODE,
    LAST_EVENT_PS,
    MARKER_COLUMN,
    N_ARRIVAL_ROW,
    N_CROWDED,
    N_DEPARTED,
    N_FLOW_ROW,
    N_FLUID,
    N_FROZEN_PORT,
    N_INTERRUPT,
    N_POSTED,
    N_RTT_ROW,
    N_SPENT_ROW,
    N_STOPPED,
    N_TASK_ROW,
    N_TIMEOUT,
    N_UNSEEN,
    PACKET_HOPS,
    RTT_FLOW,
)
from models.topology.graph import Topology
from models.workload.program import N_JOINED, N_STREAM_DONE

ADDED = (PACKET_HOPS, EVENTS, N_TIMEOUT, N_POSTED)  # counters: ranks' parts add up
NETWORK_ADDED = ("added", "dropped", "drops", "iteration_tasks", "streams_done")  # parts of what is saved: the same
NOTHING_LEFT = (
    N_FLOW_ROW, N_ARRIVAL_ROW, N_TASK_ROW, N_SPENT_ROW, N_DEPARTED, N_INTERRUPT, N_STOPPED, N_CROWDED,
)  # fmt: skip


def save_network(
    topology: Topology, state: NetworkState, is_here: np.ndarray, hidden_head: np.ndarray | None
) -> Arrays:  # fmt: skip
    """What this rank's nodes own, and its part of what adds up. is_here: bool[n_node]."""
    fabric, nic, work = state.fabric, state.nic, state.work
    assert not fabric.counters[list(NOTHING_LEFT)].any(), "a checkpoint in the middle of something"
    assert work.totals[N_JOINED] == 0
    owners = Owners.of(topology, state)
    found: Arrays = {}
    for name, rows, owner in owned_tables(topology, state, owners):
        found[name] = np.ascontiguousarray(rows[_rows_of(owner, is_here)]).view(np.ndarray)
    found |= save_chains(state, chains_of(topology, state, owners, hidden_head), is_here)
    return found | {
        "added": fabric.counters[list(ADDED)],
        "last_event_ps": fabric.counters[[LAST_EVENT_PS]],
        "n_frozen_port": fabric.counters[[N_FROZEN_PORT]],
        "n_fluid": fabric.counters[[N_FLUID]],
        "fluid_port": nic.fluid_port,
        "frozen_port": nic.frozen_port,
        "is_frozen": nic.is_frozen,
        "dropped": fabric.dropped,
        "drops": state.buffers.drops,
        "iteration_end_ps": work.iteration_end_ps,
        "iteration_tasks": work.iteration_tasks,
        "streams_done": work.totals[[N_STREAM_DONE]],
        "rtt": state.rows.rtt[: fabric.counters[N_RTT_ROW]],
    }


def _rows_of(owner: np.ndarray, is_here: np.ndarray) -> np.ndarray:
    return np.flatnonzero((owner >= 0) & is_here[owner])


def load_network(
    topology: Topology, state: NetworkState, parts: Sequence[Arrays], nodes: Sequence[np.ndarray],
    is_here: np.ndarray, is_first: bool, hidden_head: np.ndarray | None,
) -> NetworkState:  # fmt: skip
    """Bring a state that nothing has happened to where a saved one was. hidden_head is written.

    parts: what was saved; nodes: bool[n_node] each, of which nodes. is_first: this rank takes what adds up.
    """
    owners = Owners.of(topology, state)
    for name, rows, owner in owned_tables(topology, state, owners):
        for part, was_there in zip(parts, nodes, strict=True):
            saved = _rows_of(owner, was_there)
            mine = is_here[owner[saved]]
            rows[saved[mine]] = part[name].view(rows.dtype)[mine]
    state.nic.frozen_port[:], is_frozen = parts[0]["frozen_port"], parts[0]["is_frozen"]
    state.nic.is_frozen[is_frozen != 0], state.nic.frozen[:] = 1, set_of(is_frozen != 0)
    state.nic.active[:] = set_of(np.ones(len(state.nic.queue_pairs), np.bool_))  # the first look finds out
    if state.fabric.constants[MARKER_COLUMN] >= 0 and not state.fabric.constants[IS_FLOW_MODE]:
        state.nic.withdrawn[:] = set_of(state.nic.fluid["n_withdrawn"] > 0)
        state.nic.unseen[:] = set_of(state.nic.fluid["n_unseen"] > 0)
        state.fabric.counters[N_UNSEEN] = state.nic.fluid["n_unseen"].sum()
    state.nic.fluid_port[:] = parts[0]["fluid_port"]
    state = load_chains(topology, state, parts, is_here, hidden_head)
    _load_counts(state, parts, is_first)
    _load_rtt(topology, state, parts, is_here, is_first)
    _rebuild_time_index(state.fabric.node_time)
    return state


def _load_counts(state: NetworkState, parts: Sequence[Arrays], is_first: bool) -> None:
    fabric, work = state.fabric, state.work
    fabric.counters[LAST_EVENT_PS] = max(int(part["last_event_ps"][0]) for part in parts)
    fabric.counters[N_FROZEN_PORT] = parts[0]["n_frozen_port"][0]
    fabric.counters[[N_FLUID]] = parts[0]["n_fluid"]
    work.iteration_end_ps[:] = np.max([part["iteration_end_ps"] for part in parts], axis=0)
    if is_first:
        fabric.counters[list(ADDED)] = np.sum([part["added"] for part in parts], axis=0)
        work.totals[N_STREAM_DONE] = sum(int(part["streams_done"][0]) for part in parts)
        for name, array in (
            ("dropped", fabric.dropped),
            ("drops", state.buffers.drops),
            ("iteration_tasks", work.iteration_tasks),
        ):
            array[:] = np.sum([part[name] for part in parts], axis=0)


def _load_rtt(
    topology: Topology, state: NetworkState, parts: Sequence[Arrays], is_here: np.ndarray, is_first: bool
) -> None:  # fmt: skip
    """Rows of round-trip times, to the rank that goes on with them: that of the flow's source, if it still sends."""
    flows, pairs = pairs_of_messages(parts)
    found = pairs[flows == state.fabric.constants[RTT_FLOW]]
    is_mine = bool(is_here[state.nic.facts["node"][found[0]]]) if len(found) else is_first
    rows = np.concatenate([part["rtt"] for part in parts])
    if is_mine and len(rows):
        state.rows.rtt[: len(rows)] = rows
        state.fabric.counters[N_RTT_ROW] = len(rows)


def _rebuild_time_index(tree: np.ndarray) -> None:
    """Work out the least times above the leaves."""
    end = len(tree)
    while end > 2:
        half = end // 2
        tree[half // 2 : half] = np.minimum(tree[half:end:2], tree[half + 1 : end : 2])
        end = half
