"""Words of a network partition's state read as what they stand for; what cannot be read is refused.

`snapshot` writes them. Its kernels trust what they load, so words from a file are read here first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from models.network.skip.memo_states import is_well_formed
from models.network.skip.snapshot import EGRESS_SIDE, LINK, RECEIVER, SENDER
from models.network.skip.state_words import PACKET_WORDS, SKIPPED_WORDS
from models.network.state.records import FLAG_ACK
from models.network.verify.fabric import expect
from pdes.skipping.replay.blocks import HEADER_WORDS, blocks

# Words of a sender's block; the control's follow, then those that keys leave out.
(
    NEXT, HIGH, NEXT_SEND, RATE, WINDOW, MAX_WINDOW, LINE_RATE, LAW_ROW, QUEUE, LAST_SIZE, DEADLINE, CHECK, N_SENDER,
) = range(13)  # fmt: skip
EXPECTED, CNP_AFTER, N_UNACKED, N_RECEIVER = range(4)  # of a receiver's
FREE_AT, NIC_TURN, N_PLAIN = range(3)  # of an egress side's, before its chains
SWITCH_TURN, PAUSED, N_MANAGED = 2, 3, 4  # the same of a managed switch's
N_PINT = 3  # behind its chains
PS_PER_BYTE_S = 8 * 10**12  # at 1 bit/s
WIRE, ACKS, DATA, FIRST_QUEUE = range(4)  # chains of packets of a port: a managed switch's queue q is FIRST_QUEUE + q


@dataclass(frozen=True)
class Shape:
    """What says how many words there are."""

    ways: list[tuple[list[int], list[int]]]  # rows of the ports on each queue pair's way, and on that of its ACKs
    is_switch: list[bool]  # of each port, whether its sender is one
    n_control: int
    n_extra: int
    n_queue: int
    is_managed: bool
    has_pint: bool


class InFlight(NamedTuple):
    """A packet that waits or is on a wire. Ports and queue pairs are rows of the partition."""

    pair: int
    is_ack: bool
    sequence: int  # relative to what is acknowledged
    port: int
    hop: int  # which port of its way that is
    chain: int
    size_bytes: int
    bits: int
    queue: int
    where: int  # its arrival on a wire, the port by which it came at a managed switch
    extra: list[int]

    @property
    def place(self) -> tuple[int, bool]:
        """How far it has come."""
        return self.hop, self.chain == WIRE


@dataclass
class Contents:
    """What is in a network partition."""

    senders: list[list[int]] = field(default_factory=list)
    receivers: list[list[int]] = field(default_factory=list)
    egress: list[list[int]] = field(default_factory=list)  # without chains
    deficits: list[list[int]] = field(default_factory=list)  # of queues of managed switches
    packets: list[InFlight] = field(default_factory=list)  # of every chain in its order

    def n_before(self, pair: int, is_ack: bool, hop: int) -> int:
        """Packets of a queue pair that are still to be sent by a port of their way."""
        mine = (p for p in self.of_flow(pair) if p.is_ack == is_ack)
        return sum(p.hop < hop or (p.hop == hop and p.chain != WIRE) for p in mine)

    def of_chain(self, port: int, chain: int) -> list[InFlight]:
        """The packets of one chain."""
        return self._chains.get((port, chain), [])

    def of_flow(self, pair: int) -> list[InFlight]:
        """The packets of one queue pair."""
        return self._flows.get(pair, [])

    @cached_property
    def _chains(self) -> dict[tuple[int, int], list[InFlight]]:
        found: dict[tuple[int, int], list[InFlight]] = {}
        for packet in self.packets:
            found.setdefault((packet.port, packet.chain), []).append(packet)
        return found

    @cached_property
    def _flows(self) -> dict[int, list[InFlight]]:
        found: dict[int, list[InFlight]] = {}
        for packet in self.packets:
            found.setdefault(packet.pair, []).append(packet)
        return found


class _Block:
    """The words of one block, taken one after the other."""

    def __init__(self, name: str, words: Sequence[int]) -> None:
        self.name, self._words, self._at = name, words, 0

    @property
    def n_left(self) -> int:
        return len(self._words) - self._at

    def take(self, n: int) -> list[int]:
        expect(n <= self.n_left, f"{self.name} ends within what it holds")
        self._at += n
        return list(self._words[self._at - n : self._at])

    def close(self) -> None:
        expect(self.n_left == 0, f"{self.name} has {self.n_left} words too many")


def read_words(words: np.ndarray, shape: Shape) -> Contents:
    """What words say. AssertionError: they are not a state of a network partition of this shape."""
    expect(is_well_formed(words), "its blocks do not add up to its words")
    found, values, contents = blocks(words), words.tolist(), Contents()
    rows = {SENDER: len(shape.ways), RECEIVER: len(shape.ways)}
    rows |= {EGRESS_SIDE: len(shape.is_switch), LINK: len(shape.is_switch)}
    wanted = [(kind, row) for kind, n in rows.items() for row in range(n)]
    expect([block[:2] for block in found] == wanted, "it has not one block of each end of its flows and of its ports")
    for kind, row, begin, end in found:
        block = _Block(f"block {row} of kind {kind}", values[begin + HEADER_WORDS : end])
        if kind == SENDER:
            contents.senders.append(block.take(N_SENDER + shape.n_control + SKIPPED_WORDS))
        elif kind == RECEIVER:
            contents.receivers.append(block.take(N_RECEIVER))
        elif kind == EGRESS_SIDE:
            _read_egress(block, row, shape, contents)
        else:
            _read_chain(block, row, WIRE, shape, contents)
        block.close()
    return contents


def _read_egress(block: _Block, port: int, shape: Shape, contents: Contents) -> None:
    is_managed = shape.is_managed and shape.is_switch[port]
    contents.egress.append(block.take(N_MANAGED if is_managed else N_PLAIN))
    contents.deficits.append([])
    if not is_managed:
        _read_chain(block, port, ACKS, shape, contents)
        _read_chain(block, port, DATA, shape, contents)
        return
    for i in range(shape.n_queue):
        contents.deficits[-1] += block.take(1)
        _read_chain(block, port, FIRST_QUEUE + i, shape, contents)
    if shape.has_pint:
        block.take(N_PINT)


def _read_chain(block: _Block, port: int, chain: int, shape: Shape, contents: Contents) -> None:
    (n_packet,) = block.take(1)
    n_word = PACKET_WORDS + shape.n_extra
    expect(0 <= n_packet <= block.n_left // n_word, f"{block.name} has room for no {n_packet} packets")
    for _ in range(n_packet):
        pair, sequence, path, size_bytes, bits, queue, where, unused, *extra = block.take(n_word)
        expect(0 <= pair < len(shape.ways), f"{block.name}: a packet of flow {pair}, there are {len(shape.ways)}")
        is_ack = bool(bits & FLAG_ACK)
        way = shape.ways[pair][is_ack]
        is_there = 1 <= path <= len(way) and way[path - 1] == port
        expect(is_there and unused == 0, f"{block.name}: a packet of flow {pair} is not at port {port} of its way")
        contents.packets.append(
            InFlight(pair, is_ack, sequence, port, path - 1, chain, size_bytes, bits, queue, where, extra)
        )
