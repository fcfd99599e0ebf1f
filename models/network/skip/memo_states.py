"""States of network partitions for the memo: words that all ranks agree on, keys, and putting words in place."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.skip.freeze import Hidden
from models.network.skip.snapshot import (
    HEADER_WORDS,
    LINK,
    empty,
    leave_out_counts,
    load_all,
    number,
    store_all,
    store_ends,
)
from models.network.skip.state_words import HOP_COUNT, INSTANT, PACKET_WORDS, PATH, PLACE, RAW, Numbering
from models.network.state.parameters import NetworkParameters
from models.network.state.records import IS_SELECTIVE, N_EXTRA, N_FREE_PACKET, N_QUEUE
from models.topology.graph import Topology
from pdes.engine.exchange import World
from pdes.engine.jit import loop_kernel
from pdes.skipping.history import DONE
from pdes.skipping.replay.memo import Fresh, Keys, joined

Member = tuple[np.ndarray, np.ndarray, np.ndarray]  # queue pairs, ports, bytes acknowledged
Found = tuple[np.ndarray, int, np.ndarray]  # words, random numbers drawn so far, bytes that ports have sent so far


def why_no_memo(parameters: NetworkParameters, constants: np.ndarray) -> str:
    """Why what one network partition does says nothing of another, "" if it does."""
    if parameters.routing is not None:
        return "switches choose the ways of flows"
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
        self.trial: Callable[[NetworkState, Fresh, Keys, int], None] | None = None  # of entries that were read
        self._forms: dict[bytes, tuple[Any, bytes]] = {}

    @property
    def is_managed(self) -> bool:
        """Whether switches are managed."""
        return bool(self._hidden.is_managed[0])

    @property
    def law_words(self) -> tuple[np.ndarray, np.ndarray]:
        """Kinds of the words of a control's record, and which hop's they are."""
        return self._scratch[2], self._scratch[3]

    def compile(self, state: NetworkState) -> None:
        """Compile what moves states, or load it from the cache, without talking to other ranks."""
        none = np.zeros(0, np.int64)
        many, ends = self._numbering([(none, none, none)], none, 0)
        words, _ = self._store(state, many, ends)
        leave_out_counts(words)
        find_equal(words, np.zeros(1, np.int64), none, none)
        self._put(state, many, ends, words, lambda: state)

    def _numbering(self, members: Sequence[Member], base_tx: np.ndarray, base_ps: int) -> tuple[Numbering, np.ndarray]:
        """Network partitions one behind the other, and where each begins: see `snapshot.store_all`."""
        pairs, ports, base_byte = (joined([member[k] for member in members]) for k in range(3))
        ends = np.zeros((2, len(members) + 1), np.int64)
        for k in range(2):
            np.cumsum([len(member[k]) for member in members], out=ends[k, 1:])
        return Numbering(pairs, ports, base_byte, np.array([base_ps], np.int64), base_tx, *self._scratch), ends

    def sent(self, state: NetworkState, members: Sequence[Member]) -> list[np.ndarray]:
        """What the ports of each network partition have sent, on all ranks."""
        if not members:
            return []
        return np.split(self._sent(state, members), np.cumsum([len(member[1]) for member in members[:-1]]))

    def _sent(self, state: NetworkState, members: Sequence[Member]) -> np.ndarray:
        """What the ports of network partitions have sent, on all ranks."""
        return self._sent_by(state, joined([member[1] for member in members]))

    def _sent_by(self, state: NetworkState, ports: np.ndarray) -> np.ndarray:
        """The same of ports."""
        own = np.where(self._sends_here[ports], state.fabric.ports["tx_bytes"][ports], 0)
        return self._world.gather_sum(own)

    def _store(self, state: NetworkState, many: Numbering, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """This rank's blocks of network partitions one behind the other, and where each one's begin and the last ends.

        They lie in memory that is used again.
        """
        fabric, nic = state.fabric, state.nic
        n_word = self._words_needed(state, len(many.pairs), len(many.ports))
        if len(self._out) < n_word:
            self._out = np.zeros(2 * n_word, np.int64)
        end_word = np.zeros(ends.shape[1], np.int64)
        store_all(fabric, state.buffers, nic, self._hidden, many, ends, self._out, end_word[1:])
        return self._out[: end_word[-1]], end_word

    def _words_needed(self, state: NetworkState, n_pair: int, n_port: int) -> int:
        """More words than `store` can write here: if every packet that is in use were among them."""
        fabric = state.fabric
        n_used = len(fabric.packets) - int(fabric.counters[N_FREE_PACKET])
        of_pair = 24 + state.nic.control.shape[1] + 2 * HEADER_WORDS
        of_port = 16 + 2 * int(fabric.constants[N_QUEUE]) + 2 * HEADER_WORDS
        return n_used * (PACKET_WORDS + int(fabric.constants[N_EXTRA])) + n_pair * of_pair + n_port * of_port

    def states(self, state: NetworkState, members: Sequence[Member], now_ps: int) -> list[Found]:
        """What there is of each network partition, the same on every rank."""
        if not members:
            return []
        all_sent = self._sent(state, members)
        many, ends = self._numbering(members, all_sent, now_ps)
        words, end_word = self._store(state, many, ends)
        draws = np.add.reduceat(state.fabric.port_info["ecn_draws"][many.ports].astype(np.int64), ends[1, :-1])
        cut, is_kept = end_word.tolist(), self._world.size == 1
        each = [words[cut[i] : cut[i + 1]] for i in range(len(members))]
        own = [(mine.copy() if is_kept else mine, n) for mine, n in zip(each, draws.tolist(), strict=True)]
        port, parts = ends[1].tolist(), self._world.gather_values(own)
        sent = [all_sent[port[i] : port[i + 1]] for i in range(len(members))]
        if len(parts) == 1:
            return [(*part, tx) for part, tx in zip(parts[0], sent, strict=True)]
        return [
            (in_order(np.concatenate([part[i][0] for part in parts])), sum(part[i][1] for part in parts), sent[i])
            for i in range(len(own))
        ]

    def keys(self, state: NetworkState, fresh: Fresh, now_ps: int) -> Keys:
        """What network partitions are, ways and constants included, and what is in them: a digest of each.

        What is found equal is digested once. Entries of these keys that were read are tried, see `entry_trial`.
        """
        members, all_sent = (fresh.pairs, fresh.ports, fresh.rows[:, DONE].copy()), self._sent_by(state, fresh.ports)
        many = Numbering(*members, np.array([now_ps], np.int64), all_sent, *self._scratch)
        words, end_word = self._store(state, many, fresh.ends)
        leave_out_counts(words)
        draws = np.add.reduceat(state.fabric.port_info["ecn_draws"][fresh.ports].astype(np.int64), fresh.ends[1, :-1])
        n, cut, (flow, port) = len(fresh.labels), end_word.tolist(), fresh.ends.tolist()
        each, n_draw = [words[cut[i] : cut[i + 1]] for i in range(n)], draws.tolist()
        pairs, ports = fresh.pairs, fresh.ports
        forms = [self._digest(state, pairs[flow[i] : flow[i + 1]], ports[port[i] : port[i + 1]]) for i in range(n)]
        if self._world.size > 1:
            parts = self._world.gather_values(list(zip(each, n_draw, strict=True)))
            each = [in_order(np.concatenate([part[i][0] for part in parts])) for i in range(n)]
            n_draw = [sum(part[i][1] for part in parts) for i in range(n)]
            words, end_word = np.concatenate(each), np.cumsum([0, *map(len, each)])
        numbers: dict[bytes, int] = {}
        form_of = np.array([numbers.setdefault(form, len(numbers)) for _, form in forms], np.int64)
        like, keys = np.zeros(n, np.int64), []
        find_equal(words, end_word, form_of, like)
        for i, first in enumerate(like.tolist()):
            if first == i:
                whole = forms[i][0].copy()
                whole.update(each[i].data)
                keys.append(whole.digest())
            else:
                keys.append(keys[first])
        found = Keys(keys, n_draw, all_sent)
        if self.trial is not None:
            self.trial(state, fresh, found, now_ps)
        return found

    def _numbered(self, member: Member, base_tx: np.ndarray, now_ps: int) -> tuple[Numbering, np.ndarray]:
        """`_numbering` of one, for what wants its members numbered."""
        one, ends = self._numbering([member], base_tx, now_ps)
        number(one)
        return one, ends

    def compile_ends(self, state: NetworkState) -> None:
        """Compile `ends`, or load it from the cache, without talking to other ranks."""
        none = np.zeros(0, np.int64)
        store_ends(state.fabric, state.nic, self._hidden, self._numbered((none, none, none), none, 0)[0], self._out)

    def ends(self, state: NetworkState, members: Sequence[Member], now_ps: int) -> list[np.ndarray]:
        """Of each network partition the words of queue pairs alone, the same on every rank."""
        own = []
        for member, tx in zip(members, self.sent(state, members), strict=True):
            one, _ = self._numbered(member, tx, now_ps)
            out = np.zeros(self._words_needed(state, len(one.pairs), len(one.ports)), np.int64)
            own.append(out[: store_ends(state.fabric, state.nic, self._hidden, one, out)].copy())
        parts = self._world.gather_values(own) if own else []
        return [in_order(np.concatenate(each)) for each in zip(*parts, strict=True)]

    def load_ends(self, state: NetworkState, member: Member, now_ps: int, words: np.ndarray) -> None:
        """Put words of `ends` in the place of a frozen network partition's queue pairs."""
        one, ends = self._numbering([member], self._sent(state, [member]), now_ps)
        load_all(state.fabric, state.buffers, state.nic, self._hidden, one, ends, words)

    def form(self, state: NetworkState, member: Member) -> bytes:
        """What a network partition is, without what is in it."""
        return self._digest(state, member[0], member[1])[1]

    def _digest(self, state: NetworkState, pairs: np.ndarray, ports: np.ndarray) -> tuple[Any, bytes]:
        """What digests a network partition, and the digest so far."""
        name = pairs.tobytes()
        if name not in self._forms:
            digest = self._form(state, pairs, ports)
            self._forms[name] = (digest, digest.digest())
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
        self, state: NetworkState, members: Member, n_member: int, now_ps: int, words: np.ndarray,
        grow: Callable[[], NetworkState],
    ) -> NetworkState:  # fmt: skip
        """Put words in the place of frozen network partitions' states; the network's, in case its pool has grown.

        members: n_member of them, all of one size, one behind the other.
        """
        many, _ = self._numbering([members], self._sent(state, [members]), now_ps)
        sizes = np.array([[len(members[0])], [len(members[1])]]) // n_member
        ends = sizes * np.arange(n_member + 1)
        return self._put(state, many, ends, words, grow)

    def _put(
        self, state: NetworkState, many: Numbering, ends: np.ndarray, words: np.ndarray,
        grow: Callable[[], NetworkState],
    ) -> NetworkState:  # fmt: skip
        empty(state.fabric, state.buffers, state.nic, self._hidden, many.ports)
        while state.fabric.counters[N_FREE_PACKET] * PACKET_WORDS < len(words) * (ends.shape[1] - 1):
            state = grow()
        load_all(state.fabric, state.buffers, state.nic, self._hidden, many, ends, words)
        return state


@loop_kernel
def find_equal(words, end_word, form_of, like):
    """Of each stretch of words the first that is equal, and of the same form. Written: like, int64[n].

    end_word: int64[n + 1], where they begin and the last ends.
    """
    for i in range(like.size):
        like[i], n = i, end_word[i + 1] - end_word[i]
        for j in range(i):
            if like[j] != j or form_of[j] != form_of[i] or end_word[j + 1] - end_word[j] != n:
                continue
            k = np.int64(0)
            while k < n and words[end_word[i] + k] == words[end_word[j] + k]:
                k += 1
            if k == n:
                like[i] = j
                break


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
