"""Which ranks have to hear of an arrival at a group of streams: those that have other members of it."""

import numpy as np

from models.workload.program import Work


def other_ranks(work: Work, rank_of_node: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """(group, rank) of all groups with members here and of the other ranks that have some; sorted, int64[n] each."""
    group = np.repeat(np.arange(len(work.groups)), work.groups["end_member"] - work.groups["first_member"])
    at_rank = rank_of_node[work.streams["node"][work.group_stream]]
    is_shared = np.zeros(len(work.groups), np.bool_)
    is_shared[group[at_rank == rank]] = True
    found = np.unique(np.stack([group, at_rank], axis=1)[is_shared[group] & (at_rank != rank)], axis=0)
    return found[:, 0], found[:, 1]


def with_peers(work: Work, group: np.ndarray, peer: np.ndarray) -> Work:
    """The same with what `other_ranks` says, of the rows of peers; and with room for what they have to hear of.

    A stream arrives once in a round at most: it goes on a lookahead later at the earliest.
    """
    work.groups["first_peer"] = np.searchsorted(group, np.arange(len(work.groups)))
    work.groups["end_peer"] = np.searchsorted(group, np.arange(len(work.groups)), side="right")
    return work._replace(group_peer=peer.astype(np.int32), joined=np.zeros((most_arrivals(work), 2), np.int64))


def most_arrivals(work: Work) -> int:
    """Of this rank's members in a round, at groups of which others have to hear."""
    is_shared = work.groups["end_peer"] > work.groups["first_peer"]
    n_member = work.groups["end_member"] - work.groups["first_member"]
    return int((work.members["is_here"].astype(np.bool_) & np.repeat(is_shared, n_member)).sum())
