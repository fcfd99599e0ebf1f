"""What is kept of flows that share ports max-min fairly, and of the ports. See `solve` for what is done with it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pdes.engine.jit import aligned_zeros, record
from pdes.engine.time_index import NEVER, make_time_index

NOTHING = -1
ENDLESS = 1e18  # bytes of a flow that does not end by itself
Ways = tuple[np.ndarray, np.ndarray, np.ndarray]
"""(int64[n_flow + 1], int32[n_place], float32[n_place]): the ports of flow f are the second's from the first's f-th to
its next, none of them twice; the third says which part of the flow goes over each."""

FLOW = record(  # one cache line; a flow's level is its rate, in bytes per ps, for a weight of 1
    [
        ("level", np.float64),  # 0: it is not under way
        ("weight", np.float64),  # above 0: it gets so many times what one of weight 1 gets beside it
        ("new_level", np.float64),  # of a member of what is solved
        ("left", np.float64),  # bytes that were left
        ("since_ps", np.int64),  # at this instant
        ("end_ps", np.int64),  # when nothing is left if no rate changes, NEVER: it is not under way
        ("mark", np.int64),  # words[MARK] of the last time that it was a member; its negative: its level is found
        ("limit", np.int32),  # the port that it cannot go faster for
        ("place", np.int32),  # where it lies in the heap of ends, NOTHING
    ]
)
# A place on a flow's way is a node of its port's doubly linked list of flows, so that nothing is allocated.
PLACE = record(
    [("flow", np.int32), ("usage", np.float32), ("after", np.int32), ("port", np.int32), ("before", np.int32)]
)
PORT = record(  # two cache lines: what water filling comes to again and again is in the first
    [
        ("left", np.float64),  # what members have that have no level yet
        ("weight", np.float64),  # of these
        ("key", np.float64),  # by which it lies in the heap
        ("top", np.float64),  # level of a member on it, at most
        ("level", np.float64),  # at which it limits members, UNKNOWN: it limits none
        ("n_open", np.int32),  # members that have no level yet
        ("n_member", np.int32),
        ("n_flow", np.int32),  # flows under way that use it
        ("first", np.int32),  # the first place of their list, NOTHING
        ("mark", np.int64),  # as of a flow; left to n_member and the last four are known of members' ports alone
        ("byte_per_ps", np.float64),  # its rate
        ("back_rate", np.float64),  # what of flows comes back here
        ("reserved", np.float64),  # what flows cannot have of it for that
        ("n_back", np.int32),  # flows under way of which something comes back here
        ("has_moved", np.int32),  # 1: back_rate is far from what is reserved
        ("members_weight", np.float64),
        ("others_rate", np.float64),  # what those have together that are no members, UNKNOWN: not added up yet
        ("others_most", np.float64),  # none of them has a higher level
        ("bound_least", np.float64),  # none of them that this port limits has a lower one; NOBODY: it limits none
    ]
)
UNKNOWN, NOBODY = -1.0, np.inf
CONTENTION = record(  # of a port, see `contention`; one cache line
    [
        ("offered", np.float64),  # what its flows' senders would send over it
        ("senders", np.float64),  # and what these could send, each over its own port, bytes per ps
        ("use", np.float64),  # share of its rate that flows have together
        ("since_ps", np.int64),  # if it is contended: counts as that since then
        ("forgotten_ps", np.int64),  # if it is no more: that it was counts until then
        ("is_on", np.int32),  # 1: it is contended
        ("is_touched", np.int32),  # 1: it is among MaxMin.touched
        ("is_sender", np.int32),  # 1: it is to offer anew
        ("n_sent", np.int32),  # flows under way of which it is the first port
        ("_", np.int64),
    ]
)
OFFER = record([("part", np.float64), ("whole", np.float64)])
"""Of a flow: its part of what its sender can send, and all of that, as its ports have been told."""

# Words.
N_END, MARK, N_MEMBER, N_PORT, N_MOVED, N_SOLVED, N_TOUCHED = range(7)
N_WORD = 8
# Facts.
(
    BACK_SHARE,  # of a flow's rate, so much comes back
    ALONE_FRAC,  # of a port's rate, so much one flow can have that has it alone,
    SHARED_FRAC,  # and so much all flows together that share it
) = range(3)
N_FACT = 3


class MaxMin(NamedTuple):
    """Flows under way, at the rates that are max-min fair."""

    flows: np.ndarray  # FLOW[n_flow]
    ports: np.ndarray  # PORT[n_port]
    places: np.ndarray  # PLACE[]
    place_of: np.ndarray  # int64[n_flow, 4]  of each flow: its places, first and end; those of what comes back
    ends: np.ndarray  # int32[n_flow]  heap of flows under way, by end_ps and number: the first words[N_END] of it
    member: np.ndarray  # int32[n_flow]  those of which rates are solved
    found: np.ndarray  # int32[n_port]  and their ports
    heap: np.ndarray  # int32[n_port]  scratch
    back_port: np.ndarray  # int32[]  ports by which something comes back, acknowledgements
    moved: np.ndarray  # int32[n_port]  scratch: ports with has_moved
    ended_back: np.ndarray  # float64[n_port], or none  back_rate of flows that have an end, if somebody asks for it
    contention: np.ndarray  # CONTENTION[n_port]; none if `use` is empty, as the next four
    offers: np.ndarray  # OFFER[n_flow]
    phases: np.ndarray  # int64[2 * size]  tree (`time_index`) of contended ports, by when another share is used
    touched: np.ndarray  # int32[n_port]  scratch: ports that offer, or are offered, something else than before
    due: np.ndarray  # int64[n_port]  scratch
    use: np.ndarray  # float64[n]  share of its rate that flows have of a contended port,
    reach: np.ndarray  # float64[n]  and at most so many times what senders could send together,
    use_from_ps: np.ndarray  # int64[n]  once it is contended for so long; the first is 0
    facts: np.ndarray  # float64[N_FACT]
    words: np.ndarray  # int64[N_WORD]


class Use(NamedTuple):
    """How much of a contended port is used, see MaxMin; empty: all of it, always."""

    use: tuple[float, ...] = ()
    reach: tuple[float, ...] = ()
    from_ps: tuple[int, ...] = ()


WHOLE = Use()


def make_max_min(
    ways: Sequence[Ways], byte_per_ps: np.ndarray, back_ways: Sequence[Ways] = (), back_share: float = 0.0,
    fracs: tuple[float, float] = (1.0, 1.0), has_endless: bool = False, use: Use = WHOLE,
) -> MaxMin:  # fmt: skip
    """Nothing is under way, and flows have the first of their ways.

    ways: all that flows may have, one set after the other. byte_per_ps: float64[n_port]. back_ways: of what comes back,
    back_share of a flow's rate; (): nothing does. fracs: ALONE_FRAC, SHARED_FRAC.
    has_endless: there may be ENDLESS flows, and MaxMin.ended_back is kept.
    """
    n_flow, n_port = len(ways[0][0]) - 1, len(byte_per_ps)
    flows, ports = aligned_zeros(n_flow, FLOW), aligned_zeros(n_port, PORT)
    places = aligned_zeros(sum(len(port) for _, port, _ in ways), PLACE)
    flows["weight"], flows["end_ps"], flows["limit"], flows["place"] = 1.0, NEVER, NOTHING, NOTHING
    ports["byte_per_ps"], ports["first"] = byte_per_ps, NOTHING
    places["flow"] = np.concatenate([np.repeat(np.arange(n_flow), np.diff(start)) for start, _, _ in ways])
    places["port"], places["usage"] = (np.concatenate([way[k] for way in ways]) for k in (1, 2))
    back = [way[1] for way in back_ways]
    place_of = places_of(ways, back_ways, 0)
    ends, member = np.zeros(n_flow, np.int32), np.zeros(n_flow, np.int32)
    found, heap = np.zeros(n_port, np.int32), np.zeros(n_port, np.int32)
    n_seen = n_port if use.use else 0
    contention = aligned_zeros(n_seen, CONTENTION)
    contention["use"] = 1.0
    facts = np.zeros(N_FACT)
    facts[[BACK_SHARE, ALONE_FRAC, SHARED_FRAC]] = back_share, *fracs
    return MaxMin(
        flows, ports, places, place_of, ends, member, found, heap, np.concatenate([np.zeros(0, np.int32), *back]),
        np.zeros_like(found), np.zeros(n_port if has_endless else 0), contention,
        aligned_zeros(n_flow if n_seen else 0, OFFER), make_time_index(n_seen),
        np.zeros(n_seen, np.int32), np.zeros(n_seen, np.int64), np.array(use.use), np.array(use.reach),
        np.array(use.from_ps, np.int64), facts, np.zeros(N_WORD, np.int64),
    )  # fmt: skip


def places_of(ways: Sequence[Ways], back_ways: Sequence[Ways], which: int) -> np.ndarray:
    """int64[n_flow, 4]: MaxMin.place_of with the which-th of the ways."""
    found = np.zeros((len(ways[0][0]) - 1, 4), np.int64)
    for column, some in ((0, ways), (2, back_ways)):
        if some:
            start = some[which][0] + sum(len(port) for _, port, _ in some[:which])
            found[:, column], found[:, column + 1] = start[:-1], start[1:]
    return found
