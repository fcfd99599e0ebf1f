"""Packets and how long they take."""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from math import ceil
from typing import Any

DATA, ACK, FRAME = range(3)


@dataclass(eq=False)
class Packet:
    """Data, an acknowledgement, or a PFC frame (then queue is the one it is about)."""

    kind: int
    size_bytes: int
    queue: int
    path: list[int] = field(default_factory=list)  # ports that it has still to take, as far as they are fixed
    route: int | None = None  # without a fixed path: 2 * queue pair for data, one more for its ACKs
    pair: Any = None  # simulation.Pair
    number: int = 0  # data: first byte; ACK: next byte expected; frame: 1 pause, 0 resume
    ends_flow: int = -1  # flow id, -1: none
    is_marked: bool = False
    is_nack: bool = False
    is_cnp: bool = False
    held: tuple[int, int] | None = None  # ACK of selective repeat: bytes held out of order, around the packet
    sent_ps: int = 0  # when the NIC started the data
    hops: list[tuple[int, ...]] = field(default_factory=list)  # INT: (time, bytes sent, bytes waiting, rate, port)
    pint_code: int = 0
    in_port: Any = None  # at a switch: where it came in


@cache
def wire_ps(size_bytes: int, rate_bps: int) -> int:
    """Serialisation time, and the gap behind a paced packet: rounded up to whole ps."""
    return ceil(Fraction(size_bytes * 8 * 10**12, rate_bps))
