"""How the queues of a network partition come back when it thaws after a skip (HyGra section V-C, its Table IV).

`snapshot`: as they were, see `suspend`; nothing here is used. The others are there to measure what that is worth:

- `none`: what was in flight at the freeze is gone, as when a flow level knows of rates alone. Queues and links are
  empty, acknowledgements on their way too. A sender goes on from its first byte that was not acknowledged, at the rate
  and with the window that it had, and its receiver expects that byte. What is sent again counts as sent for the first
  time, and its first time as not sent: bytes are conserved (design R8), nothing counts as resent. Ports have sent both.
- `learned`: like `none`, but queues of switches are filled to depths that are predicted, see `restored_packets`. Links
  stay empty, and so do the NICs' ports.

Both change the words that `snapshot` makes of a partition, which all ranks have, before it is shown again; what the
skip has got done moves what is left as ever. What spoils that: `why_no_restoration`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.restore.restored_packets import PutBack, Ways, put_back
from models.network.skip.memo_states import MemoStates
from models.network.skip.snapshot import EGRESS_SIDE, LINK, RECEIVER, SENDER
from models.network.skip.state_words import PACKET_WORDS
from models.network.state.parameters import SELECTIVE_REPEAT, NetworkParameters
from models.network.state.records import N_EXTRA, N_QUEUE
from pdes.engine.exchange import World
from pdes.engine.time_index import NEVER
from pdes.skipping.frozen import Freeze
from pdes.skipping.replay.blocks import HEADER_WORDS, blocks

NEXT, HIGH, QUEUE, DEADLINE, CHECK = 0, 1, 8, 10, 11  # words of a sender's block
EXPECTED, N_UNACKED = 0, 2  # of a receiver's
N_PLAIN_HEAD, N_MANAGED_HEAD = 2, 4  # of an egress port's, before its chains


def why_no_restoration(parameters: NetworkParameters, is_learned: bool) -> str:
    """Why partitions are not emptied here, "" if they can be."""
    if parameters.routing is not None:
        return "switches choose the ways of flows"
    if parameters.buffer is not None:
        return "switches share their buffers among network partitions"
    if parameters.transport is not None and parameters.transport.recovery == SELECTIVE_REPEAT:
        return "with selective repeat, receivers keep packets out of order"
    if is_learned and "pint" in parameters.law.needs:
        return f"packets of {parameters.law.name} carry what they have met on their way, rounded at random"
    return ""


class Depths(Protocol):
    """Who knows how deep queues will be; the same on every rank."""

    def compile(self, state: NetworkState) -> None:
        """Compile what it needs, without talking to other ranks."""

    def note(self, state: NetworkState, pairs: np.ndarray) -> None:
        """See the queues on the ways of these queue pairs, at a look."""

    def predict(self, ports: np.ndarray) -> np.ndarray:
        """Bytes that will wait at each port at its thaw; int64, at least 0."""
        ...


@dataclass
class Restoration:
    """One rank's part. depths: None: nothing is put back."""

    states: MemoStates
    ways: Ways
    world: World
    here: np.ndarray  # uint8[n_node]
    is_managed: bool
    depths: Depths | None = None

    def compile(self, state: NetworkState) -> None:
        """Compile what moves states, or load it from the cache."""
        self.states.compile(state)
        if self.depths is not None:
            self.depths.compile(state)

    def note(self, state: NetworkState, pairs: np.ndarray) -> None:
        """See a look, if that is of use."""
        if self.depths is not None:
            self.depths.note(state, pairs)

    def restore(self, state: NetworkState, freeze: Freeze, grow: Callable[[], NetworkState]) -> NetworkState:
        """Change what a frozen partition holds; the network's state, in case its pool has grown."""
        table, n_extra = state.nic.queue_pairs, int(state.fabric.constants[N_EXTRA])
        own = np.where(self.here[state.nic.facts["node"][freeze.pairs]] != 0, table["acked_byte"][freeze.pairs], 0)
        member = (freeze.pairs, freeze.ports, np.max(self.world.allgather(own), axis=0))
        words = self.states.states(state, [member], freeze.begin_ps)[0][0]
        packets = PutBack.nothing(len(freeze.pairs))
        if self.depths is not None:
            first = [begin + HEADER_WORDS for kind, _, begin, _ in blocks(words) if kind == SENDER]
            in_flight, queue = (words[[at + i for at in first]] for i in (NEXT, QUEUE))
            depth_bytes = self.depths.predict(freeze.ports)
            packets = put_back(self.ways, freeze, depth_bytes, in_flight, queue, n_extra)
        return self.states.put(state, member, 1, freeze.begin_ps, self._changed(state, freeze, words, packets), grow)

    def _changed(self, state: NetworkState, freeze: Freeze, words: np.ndarray, packets: PutBack) -> np.ndarray:
        """The words with nothing in flight but these packets."""
        constants, out = state.fabric.constants, []
        n_queue, n_word = int(constants[N_QUEUE]), PACKET_WORDS + int(constants[N_EXTRA])
        for kind, row, begin, end in blocks(words):
            body = words[begin + HEADER_WORDS : end].copy()
            if kind == SENDER:
                body[[NEXT, HIGH]] = packets.sent_bytes[row]
                if packets.sent_bytes[row] == 0:
                    body[[DEADLINE, CHECK]] = NEVER  # the next packet arms it
            elif kind == RECEIVER:
                body[[EXPECTED, N_UNACKED]] = 0
            elif kind == LINK:
                body = np.zeros(1, np.int64)
            elif kind == EGRESS_SIDE:
                chains = packets.at_port.get(row, np.zeros((0, n_word), np.int64))
                if self.is_managed and self.ways.is_switch_port[freeze.ports[row]]:
                    body = _managed(body, chains, n_queue, n_word)
                else:
                    body = np.concatenate([body[:N_PLAIN_HEAD], [0, len(chains)], chains.ravel()])
            out += [np.array([kind, row, len(body)], np.int64), body]
        return np.concatenate(out)


def _managed(body: np.ndarray, packets: np.ndarray, n_queue: int, n_word: int) -> np.ndarray:
    """A managed port's words, its chains replaced: of each queue the deficit, the number of packets, the packets."""
    out, at = [body[:N_MANAGED_HEAD]], N_MANAGED_HEAD
    for i in range(n_queue):
        mine = packets[packets[:, 5] == i] if len(packets) else packets
        deficit_bytes = body[at] if len(mine) else 0  # as `egress.take_first` leaves it with the last packet
        out += [np.array([deficit_bytes, len(mine)], np.int64), mine.ravel()]
        at += 2 + int(body[at + 1]) * n_word
    return np.concatenate([*out, body[at:]])
