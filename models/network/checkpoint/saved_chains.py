"""Chains of packets, messages and ranges as tables that name no place in a pool: what a checkpoint has of them.

A chain is saved as its row (a port, a queue, a queue pair) and its records in order, so that whoever reads it may put
them where there is room. No result depends on places in pools.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from models.network.build.arrays import NetworkState, grow_messages, grow_packets
from models.network.build.nic import grow_ranges
from models.network.state.owners import Owners, is_at_managed_switch
from models.network.state.pair_records import MESSAGE
from models.network.state.records import (
    FREE_MESSAGE,
    FREE_PACKET,
    FREE_RANGE,
    N_FREE_MESSAGE,
    N_FREE_PACKET,
    N_FREE_RANGE,
)
from models.topology.graph import Topology
from pdes.engine.jit import kernel

PACKETS, MESSAGES, RANGES = "packets", "messages", "ranges"
Arrays = dict[str, np.ndarray]


class Chains(NamedTuple):
    """Chains of one kind. heads, tails: places in the pool, -1: none; tails None: nobody keeps them."""

    name: str
    pool: str
    heads: np.ndarray
    tails: np.ndarray | None
    owner: np.ndarray  # int64[n]  node of each, -1: what stands there is no chain


def chains_of(
    topology: Topology, state: NetworkState, owners: Owners, hidden_head: np.ndarray | None
) -> list[Chains]:  # fmt: skip
    """All chains of a network. hidden_head: `Hidden.link_head`, if anything can be frozen."""
    ports, table = state.fabric.ports, state.nic.queue_pairs
    has_data = np.where(is_at_managed_switch(topology, state), -1, owners.sends)
    found = [
        Chains("link", PACKETS, ports["link_head"], ports["link_tail"], owners.receives),
        Chains("first", PACKETS, ports["ack_head"], ports["ack_tail"], owners.sends),  # a managed switch: PFC frames
        Chains("data", PACKETS, ports["data_head"], ports["data_tail"], has_data),
        Chains("messages", MESSAGES, table["first_message"], table["last_message"], owners.pair_sends),
        Chains("sacked", RANGES, table["sacked_range"], None, owners.pair_sends),
        Chains("held", RANGES, state.nic.receivers["held_range"], None, owners.receivers),
        Chains("early", RANGES, state.nic.receivers["early_end"], None, owners.receivers),
    ]
    if len(owners.queue):
        queues = state.buffers.queues
        found.append(Chains("queue", PACKETS, queues["head"], queues["tail"], owners.queue))
    if hidden_head is not None:
        is_frozen = np.where(state.nic.frozen_port == 1, owners.receives, -1)  # else it is a chain that was
        found.append(Chains("hidden", PACKETS, hidden_head, None, is_frozen))
    return found


@kernel
def _follow(following, heads, lengths, places):
    """Write the places of chains, one behind the other, and their lengths; how many places that are."""
    n = 0
    for i in range(heads.size):
        at = heads[i]
        while at >= 0:
            places[n] = at
            n += 1
            lengths[i] += 1
            at = following[at]
    return n


def _pool(state: NetworkState, name: str) -> np.ndarray:
    pools = {PACKETS: state.fabric.packets, MESSAGES: state.nic.messages, RANGES: state.nic.ranges}
    return pools[name]


def save_chains(state: NetworkState, chains: Sequence[Chains], is_here: np.ndarray) -> Arrays:
    """The chains of this rank's nodes. is_here: bool[n_node]."""
    found: Arrays = {}
    following = {name: _pool(state, name)["next"].astype(np.int64) for name in (PACKETS, MESSAGES, RANGES)}
    for chain in chains:
        pool, name = _pool(state, chain.pool), f"chain.{chain.name}"
        rows = np.flatnonzero((chain.owner >= 0) & is_here[chain.owner] & (chain.heads >= 0))
        lengths, places = np.zeros(len(rows), np.int64), np.zeros(len(pool), np.int64)
        n = int(_follow(following[chain.pool], chain.heads[rows].astype(np.int64), lengths, places))
        places = places[:n]
        found |= {f"{name}.rows": rows, f"{name}.lengths": lengths, f"{name}.records": _bytes(pool[places])}
        if chain.pool == PACKETS:
            found |= {f"{name}.label": state.fabric.label[places], f"{name}.extra": state.fabric.extra[places]}
        if chain.pool == MESSAGES:
            found[f"{name}.sending"] = _place_in_chain(state, rows, lengths, places)
    return found


def _bytes(records: np.ndarray) -> np.ndarray:
    """uint8[n, width]: records as they lie in memory."""
    plain = np.ascontiguousarray(records).view(np.ndarray)
    return plain.view(np.uint8).reshape(len(plain), plain.dtype.itemsize)


def _place_in_chain(state: NetworkState, rows: np.ndarray, lengths: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Which message of its chain each queue pair is sending, -1: none."""
    sending, found = state.nic.queue_pairs["sending_message"][rows], np.full(len(rows), -1, np.int64)
    chain = np.repeat(np.arange(len(rows)), lengths)
    at = np.flatnonzero(places == sending[chain])
    found[chain[at]] = at - (np.cumsum(lengths) - lengths)[chain[at]]
    return found


def load_chains(
    topology: Topology, state: NetworkState, parts: Sequence[Arrays], is_here: np.ndarray,
    hidden_head: np.ndarray | None,
) -> NetworkState:  # fmt: skip
    """Put the chains of this rank's nodes into pools in which nothing is in use; the state with pools large enough."""
    owners = Owners.of(topology, state)
    kept: dict[str, Arrays] = {}
    for chain in chains_of(topology, state, owners, hidden_head):
        mine = [_of_nodes(part, chain, is_here) for part in parts]
        kept[chain.name] = {key: np.concatenate([one[key] for one in mine]) for key in mine[0]}
    counts = {pool: 0 for pool in (PACKETS, MESSAGES, RANGES)}
    for chain in chains_of(topology, state, owners, hidden_head):
        counts[chain.pool] += len(kept[chain.name]["records"])
    state = _with_room(state, counts)
    used = dict.fromkeys(counts, 0)
    for chain in chains_of(topology, state, owners, hidden_head):
        used[chain.pool] = _put(state, chain, kept[chain.name], used[chain.pool])
    _free_the_rest(state, used)
    return state


def _of_nodes(part: Arrays, chain: Chains, is_here: np.ndarray) -> Arrays:
    """Of a saved kind of chains those of some nodes."""
    prefix = f"chain.{chain.name}."
    saved = {key.removeprefix(prefix): array for key, array in part.items() if key.startswith(prefix)}
    keeps = is_here[chain.owner[saved["rows"]]]
    keeps_record = np.repeat(keeps, saved["lengths"])
    by_chain = ("rows", "lengths", "sending")
    return {key: array[keeps if key in by_chain else keeps_record] for key, array in saved.items()}


def _with_room(state: NetworkState, counts: dict[str, int]) -> NetworkState:
    fabric, nic = state.fabric, state.nic
    if 2 * counts[PACKETS] > len(fabric.packets):
        fabric = grow_packets(fabric, 2 * counts[PACKETS])
    if 2 * counts[MESSAGES] > len(nic.messages):
        nic = grow_messages(nic, fabric.counters, len(nic.messages) + 2 * counts[MESSAGES])
    if 2 * counts[RANGES] > len(nic.ranges):
        nic = grow_ranges(nic, fabric.counters, len(nic.ranges) + 2 * counts[RANGES])
    return state._replace(fabric=fabric, nic=nic)


def _put(state: NetworkState, chain: Chains, saved: Arrays, first: int) -> int:
    """Put chains into a pool from a place on; the first place behind them."""
    rows, lengths, pool = saved["rows"], saved["lengths"], _pool(state, chain.pool)
    end = first + len(saved["records"])
    plain: Any = pool[first:end].view(np.ndarray)
    plain.view(np.uint8).reshape(len(plain), plain.dtype.itemsize)[:] = saved["records"]
    begin = first + np.cumsum(lengths) - lengths
    last = begin + lengths - 1
    plain["next"] = np.arange(first + 1, end + 1)
    plain["next"][last - first] = -1
    chain.heads[rows] = begin
    if chain.tails is not None:
        chain.tails[rows] = last
    if chain.pool == PACKETS:
        state.fabric.label[first:end], state.fabric.extra[first:end] = saved["label"], saved["extra"]
    if chain.pool == MESSAGES:
        sending = saved["sending"]
        state.nic.queue_pairs["sending_message"][rows] = np.where(sending >= 0, begin + sending, -1)
    return end


def _free_the_rest(state: NetworkState, used: dict[str, int]) -> None:
    counters = state.fabric.counters
    for name, free, n_free in (
        (PACKETS, FREE_PACKET, N_FREE_PACKET),
        (MESSAGES, FREE_MESSAGE, N_FREE_MESSAGE),
        (RANGES, FREE_RANGE, N_FREE_RANGE),
    ):
        pool, first = _pool(state, name), used[name]
        pool["next"][first:] = np.arange(first + 1, len(pool) + 1)
        pool["next"][len(pool) - 1] = -1
        counters[free], counters[n_free] = first, len(pool) - first


def pairs_of_messages(parts: Sequence[Arrays]) -> tuple[np.ndarray, np.ndarray]:
    """(flow ids, queue pairs that have messages of them), of all ranks' saved chains."""
    flows, pairs = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for part in parts:
        records = np.ascontiguousarray(part["chain.messages.records"])
        flows.append(records.view(MESSAGE)["flow_id"].ravel().astype(np.int64))
        pairs.append(np.repeat(part["chain.messages.rows"], part["chain.messages.lengths"]))
    return np.concatenate(flows), np.concatenate(pairs)
