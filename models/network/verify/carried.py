"""Checks of what an entry's packets carry, and of its flows' controls: see `verify_entry`.

What a control keeps means something to its handlers alone. A word that is as it was is right; of the others it is known
whether they are instants, bytes of the stream, counts of hops, floats.
"""

import math
import struct
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from models.congestion.hpcc_pint import MAX_CODE
from models.congestion.interface import (
    FLOW_BASE_RTT,
    FLOW_LINE_RATE,
    FLOW_MAX_WINDOW,
    FLOW_PAYLOAD,
    FLOW_TIMER,
    N_HOP,
    N_TIMER,
)
from models.network.skip.state_words import HOP_COUNT, INSTANT, PATH, PLACE, RAW, UNSET
from models.network.state.records import (
    EXTRA_HOPS,
    EXTRA_N_HOP,
    EXTRA_SENT_PS,
    MAX_QUEUE_BYTES,
    TELEMETRY,
    TELEMETRY_INT,
    TELEMETRY_NONE,
    TELEMETRY_PINT,
    WORDS_PER_HOP,
)
from models.network.verify.entry_words import PS_PER_BYTE_S, WIRE, Contents, InFlight, Shape
from models.network.verify.fabric import expect
from pdes.engine.time_index import NEVER

MAX_AWAY_PS = 10**13  # of a control's instant that is to come
MAX_WHOLE, MAX_FLOAT = 2**53, 1e18  # of what else a control keeps


@dataclass(frozen=True)
class LawWords:
    """What words of a control's record are, and what the constants say that packets carry for it."""

    kind: list[int]
    hop: list[int]  # of a hop's count: which
    floats: frozenset[int]
    telemetry: int
    is_timed: bool  # packets carry when they were sent


class Reach(NamedTuple):
    """What a control can know of, relative to an entry's end."""

    first_byte: int
    last_byte: int
    duration_ps: int  # since the beginning


def law_words(kind: np.ndarray, hop: np.ndarray, floats: list[int], constants: np.ndarray, is_timed: bool) -> LawWords:
    """kind, hop: of `state_words.Numbering`."""
    return LawWords(kind.tolist(), hop.tolist(), frozenset(floats), int(constants[TELEMETRY]), is_timed)


def _first_ps(was: list[int], law: LawWords) -> int:
    """The earliest instant that a control knows of."""
    known = [word for word, kind in zip(was, law.kind, strict=False) if kind == INSTANT and word != UNSET]
    return min(known, default=0)


def verify_control(
    name: str, words: list[int], was: list[int], law: LawWords, way: list[int], sent_bytes: list[int],
    reach: Reach,
) -> None:  # fmt: skip
    """A control's record. way: ports of its flow; sent_bytes: by ports so far."""
    for k in (FLOW_LINE_RATE, FLOW_MAX_WINDOW, FLOW_BASE_RTT, FLOW_PAYLOAD):
        expect(words[k] == was[k], f"{name}: word {k} of its control is {words[k]}, and never changes from {was[k]}")
    for k, (word, before) in enumerate(zip(words, was, strict=False)):
        kind, is_timer = law.kind[k], FLOW_TIMER <= k < FLOW_TIMER + N_TIMER
        if word == before or (kind != RAW and word == UNSET and not is_timer):
            continue
        if kind == INSTANT:
            first_ps = 0 if is_timer else min(_first_ps(was, law), 0) - reach.duration_ps
            is_right = word == NEVER or first_ps <= word <= MAX_AWAY_PS
        elif kind == PLACE:
            is_right = reach.first_byte <= word <= reach.last_byte
        elif kind == HOP_COUNT:
            is_right = law.hop[k] < len(way) - 1 and -sent_bytes[way[1 + law.hop[k]]] <= word <= 0
        elif kind == PATH:
            is_right = word in (1, 2)
        elif k in law.floats:
            value = struct.unpack("<d", struct.pack("<q", word))[0]
            is_right = math.isfinite(value) and abs(value) <= MAX_FLOAT
        else:
            is_right = abs(word) <= MAX_WHOLE
        expect(is_right, f"{name}: word {k} of its control is {word}")


def verify_stamps(after: Contents, shape: Shape, law: LawWords, rate_bps: list[int], packet_bytes: int) -> None:
    """What a port has sent between packets that it has stamped, and since, fits into the time."""
    if law.telemetry != TELEMETRY_INT:
        return
    stamps: dict[int, list[tuple[int, int]]] = {}
    for packet in after.packets:
        way = shape.ways[packet.pair][0][1 : 1 + N_HOP]
        for k, port in enumerate(way[: packet.extra[EXTRA_N_HOP]]):
            at = EXTRA_HOPS + k * WORDS_PER_HOP
            stamps.setdefault(port, []).append((packet.extra[at], packet.extra[at + 1]))
    for port, found in stamps.items():
        found = [*sorted(found), (None, 0)]
        for (time_ps, sent_bytes), (then_ps, then_bytes) in pairwise(found):
            sent = then_bytes - sent_bytes
            whole = sent if then_ps is not None else sent - packet_bytes  # the last one may still be on its way out
            passed_ps = (then_ps or 0) - time_ps
            is_right = sent >= packet_bytes and whole * PS_PER_BYTE_S // rate_bps[port] <= passed_ps
            expect(is_right, f"port {port} has sent {sent} B in {passed_ps} ps between its stamps")


def verify_carried(
    packet: InFlight, shape: Shape, law: LawWords, rate_bps: list[int], sent_bytes: list[int], since_ps: int
) -> None:  # fmt: skip
    """What a packet carries. rate_bps, sent_bytes: of ports; since_ps: nothing in flight was sent before."""
    extra, name = packet.extra, f"a packet of flow {packet.pair}"
    if not extra:
        return
    at = EXTRA_SENT_PS + 1 if law.telemetry == TELEMETRY_NONE else EXTRA_HOPS
    if law.is_timed:
        sent_ps = extra[EXTRA_SENT_PS]
        expect(since_ps <= sent_ps <= 0, f"{name} was sent at {sent_ps} ps, the first in flight at {since_ps} ps")
    if law.telemetry == TELEMETRY_PINT:
        expect(0 <= extra[EXTRA_N_HOP] <= MAX_CODE, f"{name} has code {extra[EXTRA_N_HOP]}")
    if law.telemetry == TELEMETRY_INT:
        way = shape.ways[packet.pair][0]
        n_hop = len(way) - 1 if packet.is_ack else max(0, packet.hop - (packet.chain != WIRE))
        expect(extra[EXTRA_N_HOP] == n_hop, f"{name} has stamps of {extra[EXTRA_N_HOP]} hops and has passed {n_hop}")
        last_ps = extra[EXTRA_SENT_PS]
        for port in way[1 : 1 + min(n_hop, N_HOP)]:
            now_ps, tx_bytes, queue_bytes, hop_bps = extra[at : at + WORDS_PER_HOP]
            is_right = last_ps <= now_ps <= 0 and -sent_bytes[port] <= tx_bytes <= 0
            is_right &= 0 <= queue_bytes <= MAX_QUEUE_BYTES and hop_bps == rate_bps[port]
            expect(is_right, f"{name} has a stamp of port {port}: {now_ps} ps, {tx_bytes}, {queue_bytes} B, {hop_bps}")
            last_ps, at = now_ps, at + WORDS_PER_HOP
    expect(not any(extra[at:]), f"{name} carries more than stamps")
