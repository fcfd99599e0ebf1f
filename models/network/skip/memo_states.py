"""States of network partitions for the memo: words that all ranks agree on, keys, and putting words in place."""

import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.skip.snapshot import (
    LINK,
    leave_out_counts,
    load_all,
    number,
    replace_all,
    store_all,
    store_ends,
)
from models.network.skip.state_words import HOP_COUNT, INSTANT, PACKET_WORDS, PATH, PLACE, RAW, Numbering
from models.network.skip.suspend.hidden import Hidden
from models.network.state.parameters import NetworkParameters
from models.network.state.records import IS_SELECTIVE, N_EXTRA, N_FREE_PACKET, N_QUEUE
from models.topology.graph import Topology
from pdes.engine.exchange import World
from pdes.engine.jit import loop_kernel, step_kernel
from pdes.skipping.history import DONE
from pdes.skipping.in_place_sort import sort_in_place
from pdes.skipping.replay.blocks import HEADER_WORDS, find_equal, merge_blocks
from pdes.skipping.replay.memo import Fresh, Keys, joined

Member = tuple[np.ndarray, np.ndarray, np.ndarray]  # queue pairs, ports, bytes acknowledged
FORM_WORDS = 5  # of a port, that do not change
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


class Layout(NamedTuple):
    """Where ports and ways are, and scratch for numbering nodes."""

    start: np.ndarray  # the ports of queue pair p are port_of[start[p] : start[p + 1]]
    port_of: np.ndarray
    port_src: np.ndarray  # int64[n_port]
    port_dst: np.ndarray
    is_switch: np.ndarray  # uint8[n_node]
    row_of_node: np.ndarray  # int64[n_node]  -1 between calls
    node: np.ndarray  # int64[n_node]


class MemoStates:
    """One rank's part of the states of network partitions."""

    def __init__(
        self, topology: Topology, parameters: NetworkParameters, world: World, hidden: Hidden,
        ways: tuple[np.ndarray, np.ndarray],
    ) -> None:  # fmt: skip
        """ways: the ports of queue pair p are ways[1][ways[0][p] : ways[0][p + 1]]."""
        self._world, self._hidden = world, hidden
        self._layout = Layout(
            *ways, topology.port_src.astype(np.int64), topology.port_dst.astype(np.int64),
            topology.is_switch.astype(np.uint8), np.full(topology.n_node, -1, np.int64),
            np.zeros(topology.n_node, np.int64),
        )  # fmt: skip
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
        words, end_word = self._store(state, many, ends)
        leave_out_counts(words)
        merge_blocks(words, end_word[None, :].copy(), np.zeros(1, np.int64), words.copy(), end_word)
        self._forms(state, none, none, ends)
        find_equal(words, end_word[:1], none, none)
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

    def _of_all(
        self, words: np.ndarray, end_word: np.ndarray, counts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
        """This rank's blocks, where each network partition's begin, some numbers; of all ranks, these as sums."""
        if self._world.size == 1:
            return words, end_word, counts
        n, m = len(end_word), len(end_word) + len(counts)
        parts = self._world.gather_parts(np.concatenate((end_word, counts, words)))
        end = np.stack([part[:n] for part in parts])
        end[1:] += np.cumsum(end[:-1, -1])[:, None]
        every, end_word = np.concatenate([part[m:] for part in parts]), np.zeros(n, np.int64)
        words = np.zeros(len(every), np.int64)
        merge_blocks(every, end, np.zeros(len(parts), np.int64), words, end_word)
        return words, end_word, np.sum([part[n:m] for part in parts], axis=0)

    def _stored(
        self, state: NetworkState, many: Numbering, ends: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
        """Words of all ranks, where each network partition's begin, and random numbers drawn there so far."""
        draws = np.add.reduceat(state.fabric.port_info["ecn_draws"][many.ports].astype(np.int64), ends[1, :-1])
        return self._of_all(*self._store(state, many, ends), draws)

    def states(self, state: NetworkState, members: Sequence[Member], now_ps: int) -> list[Found]:
        """What there is of each network partition, the same on every rank."""
        if not members:
            return []
        all_sent = self._sent(state, members)
        many, ends = self._numbering(members, all_sent, now_ps)
        words, end_word, draws = self._stored(state, many, ends)
        cut, port = end_word.tolist(), ends[1].tolist()
        return [
            (words[cut[i] : cut[i + 1]].copy(), n_draw, all_sent[port[i] : port[i + 1]])
            for i, n_draw in enumerate(draws.tolist())
        ]

    def keys(self, state: NetworkState, fresh: Fresh, now_ps: int) -> Keys:
        """What network partitions are, ways and constants included, and what is in them: a digest of each.

        What is found equal is digested once. Entries of these keys that were read are tried, see `entry_trial`.
        """
        members, all_sent = (fresh.pairs, fresh.ports, fresh.rows[:, DONE].copy()), self._sent_by(state, fresh.ports)
        many = Numbering(*members, np.array([now_ps], np.int64), all_sent, *self._scratch)
        words, end_word, draws = self._stored(state, many, fresh.ends)
        leave_out_counts(words)
        forms, end_form = self._forms(state, fresh.pairs, fresh.ports, fresh.ends)
        like_form, like = (np.zeros(len(fresh.labels), np.int64) for _ in range(2))
        find_equal(forms, end_form, like, like_form)
        find_equal(words, end_word, like_form, like)
        keys: list[bytes] = []
        for i, first in enumerate(like.tolist()):
            if first == i:
                whole = hashlib.blake2b(forms[end_form[i] : end_form[i + 1]].data, digest_size=32)
                whole.update(words[end_word[i] : end_word[i + 1]].data)
                keys.append(whole.digest())
            else:
                keys.append(keys[first])
        found = Keys(keys, draws.tolist(), all_sent)
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
        if not members:
            return []
        own = []
        for member, tx in zip(members, self.sent(state, members), strict=True):
            one, _ = self._numbered(member, tx, now_ps)
            out = np.zeros(self._words_needed(state, len(one.pairs), len(one.ports)), np.int64)
            own.append(out[: store_ends(state.fabric, state.nic, self._hidden, one, out)].copy())
        end_word = np.cumsum([0, *map(len, own)])
        words, end_word, _ = self._of_all(np.concatenate(own), end_word, end_word[:0])
        cut = end_word.tolist()
        return [words[begin:end].copy() for begin, end in zip(cut, cut[1:], strict=False)]

    def load_ends(self, state: NetworkState, member: Member, now_ps: int, words: np.ndarray) -> None:
        """Put words of `ends` in the place of a frozen network partition's queue pairs."""
        one, ends = self._numbering([member], self._sent(state, [member]), now_ps)
        load_all(state.fabric, state.buffers, state.nic, self._hidden, one, ends, words)

    def form(self, state: NetworkState, member: Member) -> bytes:
        """What a network partition is, without what is in it."""
        words, _ = self._forms(state, member[0], member[1], np.array([[0, len(member[0])], [0, len(member[1])]]))
        return hashlib.blake2b(words.data, digest_size=32).digest()

    def _forms(
        self, state: NetworkState, pairs: np.ndarray, ports: np.ndarray, ends: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """What does not change of network partitions, and where each one's begins: see `store_forms`."""
        info = state.fabric.port_info
        facts = [state.fabric.ports[name][ports] for name in ("delay_ps", "ecn_min_bytes")]
        facts += [info[name][ports] for name in ("rate_bps", "ecn_max_bytes")]
        facts.append(info["ecn_max_probability"][ports].view(np.int64))
        constants, start = np.array(facts, np.int64), self._layout.start
        n_of_way = int((start[pairs + 1] - start[pairs]).sum()) + len(pairs)
        n_word = n_of_way + (FORM_WORDS + 2) * len(ports) + (3 + 1) * ends.shape[1]
        out, end_word = np.zeros(n_word + 2 * len(ports), np.int64), np.zeros(ends.shape[1], np.int64)
        store_forms(self._layout, self._scratch[0], pairs, ports, ends, constants, out, end_word)
        return out[: end_word[-1]], end_word

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
        while not replace_all(state.fabric, state.buffers, state.nic, self._hidden, many, ends, words):
            state = grow()
        return state


@step_kernel
def _number_nodes(layout: Layout, ports, first, end):
    """Number the nodes of ports[first:end] in the order of ids; how many, in layout.node, which are ascending."""
    n_node = 0
    for i in range(first, end):
        for node in (layout.port_src[ports[i]], layout.port_dst[ports[i]]):
            if layout.row_of_node[node] < 0:
                layout.row_of_node[node] = 0
                layout.node[n_node] = node
                n_node += 1
    sort_in_place(layout.node, n_node)
    for i in range(n_node):
        layout.row_of_node[layout.node[i]] = i
    return n_node


@loop_kernel
def store_forms(layout: Layout, row_of_port, pairs, ports, ends, constants, out, end_word):
    """Write what does not change of network partitions one behind the other: ways within them, and their ports.

    ends: see `store_all`. constants: int64[FORM_WORDS, n_port], the ports'. Written: row_of_port; out; end_word,
    int64[n + 1], where each one's begin and the last ends.
    """
    at = 0
    for i in range(end_word.size - 1):
        end_word[i] = at
        first, end = ends[1, i], ends[1, i + 1]
        n_node = _number_nodes(layout, ports, first, end)
        out[at], out[at + 1], out[at + 2] = ends[0, i + 1] - ends[0, i], end - first, n_node
        at += 3
        for k in range(first, end):
            row_of_port[ports[k]] = k - first
            out[at] = layout.row_of_node[layout.port_src[ports[k]]]
            out[at + 1] = layout.row_of_node[layout.port_dst[ports[k]]]
            for c in range(FORM_WORDS):
                out[at + 2 + c] = constants[c, k]
            at += FORM_WORDS + 2
        for k in range(n_node):
            node = layout.node[k]
            out[at + k], layout.row_of_node[node] = layout.is_switch[node], -1
        at += n_node
        for k in range(ends[0, i], ends[0, i + 1]):
            begin_way, end_way = layout.start[pairs[k]], layout.start[pairs[k] + 1]
            out[at] = end_way - begin_way
            for w in range(begin_way, end_way):
                out[at + 1 + w - begin_way] = row_of_port[layout.port_of[w]]
            at += 1 + end_way - begin_way
    end_word[end_word.size - 1] = at


def is_well_formed(words: np.ndarray) -> bool:
    """Whether words are blocks from beginning to end."""
    at, n = 0, len(words)
    while at + HEADER_WORDS <= n and 0 <= words[at] <= LINK and words[at + 1] >= 0 and 0 <= words[at + 2] <= n:
        at += HEADER_WORDS + int(words[at + 2])
    return at == n
