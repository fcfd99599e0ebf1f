"""The cases: who sends how much when. Each has hosts of its own at one switch, so they all fit into one run.

They are of general kinds, not taken from any job: messages of one size into one port at once; one after the other, so
that newcomers meet others under way; short ones that meet a long one; the same pairs again and again, whose controls
remember; and exchanges, in which everybody sends to everybody. A port into which much more is sent than it lets through
makes controls cut rates; in an exchange no port is offered more than it has, and many controls then give all of it. For
checking: a ring that sends both ways, where acknowledgements meet data; and exchanges among hosts that are at different
distances, which some controls treat unevenly.
"""

from typing import NamedTuple

import numpy as np

from pdes.units import BITS_PER_BYTE, PS_PER_S

SIZES_BYTES = (256_000, 1_000_000, 4_000_000, 8_000_000, 32_000_000)
COUNTS = (1, 2, 4, 8)
CROWDS, MOST_OF_CROWD_BYTES = (16, 32), 8_000_000  # together into one port, of sizes up to that
N_AGAIN, IDLE_PS = 4, 20_000_000  # messages of a pair, and the least time without any
MEETS_BYTES = 8_000_000  # of a long message that are sent when shorter ones join it
RING_HOSTS, RING_BYTES = 8, 8_000_000
FAR_HOSTS, FAR_SIZES_BYTES = 8, (256_000, 1_000_000, 4_000_000)
MOST_EXCHANGED_BYTES = 400_000_000  # in one exchange, for the time that it takes to simulate


class Message(NamedTuple):
    """From one host of a case to another."""

    src: int
    dst: int
    size_bytes: int
    start_ps: int


class Case(NamedTuple):
    """Messages among hosts 0, 1, ... of its own."""

    name: str
    messages: tuple[Message, ...]
    is_fitted: bool = True
    is_exchange: bool = False

    @property
    def n_host(self) -> int:
        """Hosts that it has."""
        return 1 + max(max(message.src, message.dst) for message in self.messages)


def all_cases(
    rate_bps: int, sizes_bytes: tuple[int, ...] = SIZES_BYTES, counts: tuple[int, ...] = COUNTS,
    crowds: tuple[int, ...] = CROWDS,
) -> list[Case]:  # fmt: skip
    """Cases for hosts with links of this rate; the last is the ring."""
    found, ps_per_byte = [], BITS_PER_BYTE * PS_PER_S / rate_bps
    for size in sizes_bytes:
        alone_ps = int(size * ps_per_byte)
        for n in counts:
            found.append(_into_one(f"together-{n}", size, [(i, 0) for i in range(n)]))
            every_ps = 3 * n * alone_ps // 2 + IDLE_PS
            found.append(_into_one(f"again-{n}", size, [(i, k * every_ps) for k in range(N_AGAIN) for i in range(n)]))
            if n > 1:
                if n * (n - 1) * size <= MOST_EXCHANGED_BYTES:
                    found.append(_exchange(n, size))
                found.append(_into_one(f"staggered-{n}", size, [(i, i * alone_ps // 2) for i in range(n)]))
                if size < max(sizes_bytes):
                    found.append(_joining(n, size, max(sizes_bytes), int(min(MEETS_BYTES, size) * ps_per_byte)))
        if size <= MOST_OF_CROWD_BYTES:
            found += [_into_one(f"together-{n}", size, [(i, 0) for i in range(n)]) for n in crowds]
    around = [Message(i, (i + way) % RING_HOSTS, min(RING_BYTES, max(sizes_bytes)), 0) for i in range(RING_HOSTS)
              for way in (1, RING_HOSTS - 1)]  # fmt: skip
    return [*found, Case("ring", tuple(around), is_fitted=False)]


def _into_one(name: str, size_bytes: int, starts: list[tuple[int, int]]) -> Case:
    """Messages of one size to host 0. starts: (which sender, when)."""
    return Case(f"{name}-{size_bytes}", tuple(Message(1 + i, 0, size_bytes, start_ps) for i, start_ps in starts))


def _exchange(n: int, size_bytes: int) -> Case:
    """From each of n hosts to each other one, at once."""
    messages = [Message(i, (i + k) % n, size_bytes, 0) for k in range(1, n) for i in range(n)]
    return Case(f"exchange-{n}-{size_bytes}", tuple(messages), is_exchange=True)


def _joining(n: int, size_bytes: int, long_bytes: int, meets_ps: int) -> Case:
    """One long message, and n - 1 others that begin when it is under way."""
    others = [Message(1 + i, 0, size_bytes, meets_ps) for i in range(1, n)]
    return Case(f"joining-{n}-{size_bytes}", (Message(1, 0, long_bytes, 0), *others))


def weights(cases: list[Case]) -> np.ndarray:
    """Of what is fitted, 1 in all; float64[n_case]. Exchanges have half of it: collectives are made of them."""
    kinds = np.array([one.is_exchange for one in cases]), np.array([not one.is_exchange for one in cases])
    is_fitted, weight = np.array([one.is_fitted for one in cases]), np.zeros(len(cases))
    for kind in kinds:
        weight += (kind & is_fitted) / max(1, (kind & is_fitted).sum())
    return weight / weight.sum()


class Layout(NamedTuple):
    """All cases side by side. A row per message, in order of starts."""

    n_host: int
    messages: np.ndarray  # int64[n, 4]  src, dst, size_bytes, start_ps
    case: np.ndarray  # int64[n]


def lay_out(cases: list[Case]) -> Layout:
    """Give each case hosts of its own."""
    rows, first = [], 0
    for i, case in enumerate(cases):
        rows += [(first + m.src, first + m.dst, m.size_bytes, m.start_ps, i) for m in case.messages]
        first += case.n_host
    table = np.array(rows, np.int64)
    table = table[np.argsort(table[:, 3], kind="stable")]
    return Layout(first, table[:, :4], table[:, 4])


def far_layout(rate_bps: int) -> Layout:
    """Exchanges among hosts half of which are at another switch, one after the other. For `bed.far_bed`."""
    rows, start_ps = [], 0
    for case, size in enumerate(FAR_SIZES_BYTES):
        rows += [(*message[:3], start_ps, case) for message in _exchange(FAR_HOSTS, size).messages]
        start_ps += 2 * FAR_HOSTS * int(size * BITS_PER_BYTE * PS_PER_S / rate_bps) + IDLE_PS
    table = np.array(rows, np.int64)
    return Layout(FAR_HOSTS, table[:, :4], table[:, 4])
