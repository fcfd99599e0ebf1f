"""States of network partitions for the memo: words that all ranks agree on, keys, and putting words in place."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from models.network.build import NetworkState
from models.network.freeze import Hidden
from models.network.parameters import NetworkParameters
from models.network.snapshot import (
    HEADER_WORDS,
    LINK,
    empty,
    leave_out_counts,
    load,
    number,
    store,
    store_ends,
    words_needed,
)
from models.network.state import IS_SELECTIVE, N_FREE_PACKET, N_QUEUE
from models.network.state_words import HOP_COUNT, INSTANT, PACKET_WORDS, PATH, PLACE, RAW, Numbering
from models.topology.graph import Topology
from pdes.engine.exchange import World

Member = tuple[np.ndarray, np.ndarray, np.ndarray]  # queue pairs, ports, bytes acknowledged
Found = tuple[np.ndarray, int, np.ndarray]  # words, random numbers drawn so far, bytes that ports have sent so far


def why_no_memo(parameters: NetworkParameters, constants: np.ndarray) -> str:
    """Why what one network partition does says nothing of another, "" if it does."""
    if parameters.buffer is not None:
        return "switches share their buffers among network partitions"
    if parameters.loss_probability is not None and bool((parameters.loss_probability > 0).any()):
        return "losses are drawn"
    return "selective repeat" if constants[IS_SELECTIVE] else ""


class MemoStates:
    """One rank's part of the states of network partitions."""

    def __init__(
        self, topology: Topology, parameters: NetworkParameters, world: World, hidden: Hidden,
        ways: tuple[np.ndarray, np.ndarray],
    ) -> None:  # fmt: skip
        """ways: the ports of queue pair p are ways[1][ways[0][p] : ways[0][p + 1]]."""
        self._topology, self._world, self._hidden, self._ways = topology, world, hidden, ways
        self._sends_here = hidden.here[topology.port_src] != 0
        n_pair = len(ways[0]) - 1
        kinds, hops = parameters.law.word_kinds
        names = {"raw": RAW, "instant": INSTANT, "place": PLACE, "hop": HOP_COUNT, "path": PATH}
        self._scratch = (
            np.zeros(topology.n_port, np.int32), np.zeros(n_pair, np.int32),
            np.array([names[kind] for kind in kinds], np.int64), np.array(hops, np.int64),
        )  # fmt: skip
        self._out = np.zeros(0, np.int64)
        self._forms: dict[bytes, Any] = {}

    def compile(self, state: NetworkState) -> None:
        """Compile what moves states, or load it from the cache, without talking to other ranks."""
        none = np.zeros(0, np.int64)
        words = self._store(state, (none, none, none), none, 0)
        leave_out_counts(words)
        self._put(state, (none, none, none), none, 0, words, lambda: state)

    def _numbering(self, member: Member, base_tx: np.ndarray, base_ps: int) -> Numbering:
        numbering = Numbering(*member, np.array([base_ps], np.int64), base_tx, *self._scratch)
        number(numbering)
        return numbering

    def sent(self, state: NetworkState, members: Sequence[Member]) -> list[np.ndarray]:
        """What the ports of network partitions have sent, on all ranks."""
        own = [np.where(self._sends_here[m[1]], state.fabric.ports["tx_bytes"][m[1]], 0) for m in members]
        return [np.sum(each, axis=0) for each in zip(*self._world.allgather(own), strict=True)] if own else []

    def _store(self, state: NetworkState, member: Member, base_tx: np.ndarray, now_ps: int) -> np.ndarray:
        """This rank's blocks of a network partition."""
        fabric, nic = state.fabric, state.nic
        numbering = self._numbering(member, base_tx, now_ps)
        n_word = int(words_needed(fabric, nic, numbering, int(fabric.constants[N_QUEUE])))
        if len(self._out) < n_word:
            self._out = np.zeros(2 * n_word, np.int64)
        n = store(fabric, state.buffers, nic, self._hidden, numbering, self._out)
        return self._out[:n].copy()

    def states(self, state: NetworkState, members: Sequence[Member], now_ps: int) -> list[Found]:
        """What there is of each network partition, the same on every rank."""
        draws = state.fabric.port_info["ecn_draws"]
        sent = self.sent(state, members)
        own = [(self._store(state, m, tx, now_ps), int(draws[m[1]].sum())) for m, tx in zip(members, sent, strict=True)]
        parts = self._world.allgather(own) if own else []
        if len(parts) == 1:
            return [(*part, tx) for part, tx in zip(parts[0], sent, strict=True)]
        return [
            (in_order(np.concatenate([part[i][0] for part in parts])), sum(part[i][1] for part in parts), sent[i])
            for i in range(len(own))
        ]

    def compile_ends(self, state: NetworkState) -> None:
        """Compile `ends`, or load it from the cache, without talking to other ranks."""
        none = np.zeros(0, np.int64)
        store_ends(state.fabric, state.nic, self._hidden, self._numbering((none, none, none), none, 0), self._out)

    def ends(self, state: NetworkState, members: Sequence[Member], now_ps: int) -> list[np.ndarray]:
        """Of each network partition the words of queue pairs alone, the same on every rank."""
        own = []
        for member, tx in zip(members, self.sent(state, members), strict=True):
            numbering = self._numbering(member, tx, now_ps)
            n_word = int(words_needed(state.fabric, state.nic, numbering, int(state.fabric.constants[N_QUEUE])))
            out = np.zeros(n_word, np.int64)
            own.append(out[: store_ends(state.fabric, state.nic, self._hidden, numbering, out)].copy())
        parts = self._world.allgather(own) if own else []
        return [in_order(np.concatenate(each)) for each in zip(*parts, strict=True)]

    def load_ends(self, state: NetworkState, member: Member, now_ps: int, words: np.ndarray) -> None:
        """Put words of `ends` in the place of a frozen network partition's queue pairs."""
        numbering = self._numbering(member, self.sent(state, [member])[0], now_ps)
        load(state.fabric, state.buffers, state.nic, self._hidden, numbering, words)

    def key(self, state: NetworkState, member: Member, words: np.ndarray) -> bytes:
        """What a network partition is, ways and constants included, and what is in it."""
        digest, state_words = self._digest(state, member).copy(), words.copy()
        leave_out_counts(state_words)
        digest.update(state_words.tobytes())
        return digest.digest()

    def form(self, state: NetworkState, member: Member) -> bytes:
        """What a network partition is, without what is in it."""
        return self._digest(state, member).digest()

    def _digest(self, state: NetworkState, member: Member) -> Any:
        name = member[0].tobytes()
        if name not in self._forms:
            self._forms[name] = self._form(state, member[0], member[1])
        return self._forms[name]

    def _form(self, state: NetworkState, pairs: np.ndarray, ports: np.ndarray) -> Any:
        """The digest of what does not change: ways within the partition, and its ports' constants."""
        start, port_of = self._ways
        t, fabric = self._topology, state.fabric
        ends = np.stack([t.port_src[ports], t.port_dst[ports]])
        nodes = np.unique(ends)
        ways = [np.searchsorted(ports, port_of[start[p] : start[p + 1]]) for p in pairs.tolist()]
        parts = [
            np.array([len(pairs), len(ports), len(nodes)]), *(np.array([len(way), *way]) for way in ways),
            np.searchsorted(nodes, ends), t.is_switch[nodes], fabric.ports["delay_ps"][ports],
            fabric.ports["ecn_min_bytes"][ports],
        ]  # fmt: skip
        parts += [fabric.port_info[n][ports] for n in ("rate_bps", "ecn_max_bytes", "ecn_max_probability")]
        digest = hashlib.blake2b(digest_size=32)
        for part in parts:
            digest.update(np.ascontiguousarray(part).view(np.uint8).tobytes())
        return digest

    def put(
        self, state: NetworkState, member: Member, now_ps: int, words: np.ndarray,
        grow: Callable[[], NetworkState],
    ) -> NetworkState:  # fmt: skip
        """Put words in the place of a frozen network partition's state; the network's, in case its pool has grown."""
        return self._put(state, member, self.sent(state, [member])[0], now_ps, words, grow)

    def _put(
        self, state: NetworkState, member: Member, base_tx: np.ndarray, now_ps: int, words: np.ndarray,
        grow: Callable[[], NetworkState],
    ) -> NetworkState:  # fmt: skip
        empty(state.fabric, state.buffers, state.nic, self._hidden, member[1])
        while state.fabric.counters[N_FREE_PACKET] * PACKET_WORDS < len(words):
            state = grow()
        load(state.fabric, state.buffers, state.nic, self._hidden, self._numbering(member, base_tx, now_ps), words)
        return state


def blocks(words: np.ndarray) -> list[tuple[int, int, int, int]]:
    """(kind, number, begin, end) of each block."""
    found, at = [], 0
    while at < len(words):
        end = at + HEADER_WORDS + int(words[at + 2])
        found.append((int(words[at]), int(words[at + 1]), at, end))
        at = end
    return found


def is_well_formed(words: np.ndarray) -> bool:
    """Whether words are blocks from beginning to end."""
    at, n = 0, len(words)
    while at + HEADER_WORDS <= n and 0 <= words[at] <= LINK and words[at + 1] >= 0 and 0 <= words[at + 2] <= n:
        at += HEADER_WORDS + int(words[at + 2])
    return at == n


def in_order(words: np.ndarray) -> np.ndarray:
    """The same blocks in the order of kind and number."""
    found = sorted(blocks(words))
    return np.concatenate([words[begin:end] for _, _, begin, end in found]) if found else words
