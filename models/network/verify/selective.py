"""Checks of selective repeat: the pool of ranges, and what the two ends of a queue pair hold and know.

For tests, at a round's end; see `verify`.
"""

import numpy as np

from models.network.state.records import FREE_RANGE, N_FREE_RANGE, Nic
from models.network.verify.fabric import Held, chain, expect

Stretch = tuple[int, int]


def verify_ranges(nic: Nic, counters: np.ndarray) -> None:
    """Chains of ranges and the free ones: disjoint and complete."""
    following, seen = nic.ranges["next"].tolist(), {}
    senders, receivers = (nic.queue_pairs, nic.sends), (nic.receivers, nic.receives)
    for name, (table, rows) in (("sacked_range", senders), ("held_range", receivers), ("early_end", receivers)):
        for row in rows[table[name][rows] >= 0].tolist():
            chain(int(table[name][row]), following, seen, f"row {row}: {name}")
    free = chain(int(counters[FREE_RANGE]), following, seen, "the free ranges")
    expect(len(free) == counters[N_FREE_RANGE], f"{len(free)} free ranges, {counters[N_FREE_RANGE]} counted")
    expect(len(seen) == len(following), f"{len(seen)} ranges free or in use, {len(following)} in the pool")


def ranges_of(nic: Nic, place: int) -> list[Stretch]:
    """(first, end) of a chain's ranges, from a place in the pool on; of early_end: (end of a message, its flow id)."""
    out = []
    while place >= 0:
        item = nic.ranges[place]
        out.append((int(item["first_byte"]), int(item["end_byte"])))
        place = int(item["next"])
    return out


def verify_selective(
    name: str,
    sender: Nic,
    receiver: Nic,
    pair: int,
    messages: list[tuple[int, int, int]],
    mine: list[Held],
    sizes: tuple[int, int],
) -> None:
    """One queue pair. messages: not acknowledged whole. mine: its packets in the network. sizes: (header, dropped)."""
    header, dropped = sizes
    sent, got = sender.queue_pairs[pair], receiver.receivers[receiver.receiver_row[pair]]
    acked, high, expected = int(sent["acked_byte"]), int(sent["high_byte"]), int(got["expected_byte"])
    held, named = ranges_of(receiver, int(got["held_range"])), ranges_of(sender, int(sent["sacked_range"]))
    _verify_chain(f"{name} holds", held, expected, high)
    _verify_chain(f"{name} is told of", named, acked, high)
    known = [(0, expected), *held]
    wrong = [part for part in named if not any(low <= part[0] and part[1] <= end for low, end in known)]
    expect(not wrong, f"{name}: the sender takes {wrong} for held, the receiver has {known}")
    ends = [(end, flow_id) for _, end, flow_id in messages if any(low < end <= most for low, most in held)]
    early = ranges_of(receiver, int(got["early_end"]))
    expect(early == ends, f"{name}: messages end early at {early}, by what is held at {ends}")
    in_hand = expected + sum(end - first for first, end in held)
    refused = int(got["received_bytes"]) - in_hand
    resent = int(sent["sent_bytes"]) - high
    expect(0 <= refused <= resent, f"{name}: {refused} B received twice, {resent} B sent again")
    on_way = [(p.sequence, p.sequence + p.size_bytes - header) for p in mine if not p.is_ack]
    missing = _missing(expected, high, held + on_way)
    expect(missing <= dropped, f"{name}: {missing} B neither received nor in the network, {dropped} B dropped")
    resend, lost, recover = (int(sent[field]) for field in ("resend_byte", "lost_byte", "recover_byte"))
    books = f"{name}: resends from {resend} to {lost} until {recover}, acknowledged {acked}, sent {high}"
    expect(max(lost, recover, resend) <= high and (lost == 0 or lost <= recover or acked < recover), books)
    expect(recover == 0 or acked < recover, books)
    expect(lost == 0 or recover > 0, books)
    inside = resend < lost and any(first <= resend < end for first, end in named)
    expect(not inside, f"{books}: what is next is held, {named}")


def _verify_chain(what: str, ranges: list[Stretch], low: int, high: int) -> None:
    """Ascending, not touching, and between two bytes."""
    for first, end in ranges:
        expect(low < first < end <= high, f"{what} {ranges}, between {low} and {high} B")
        low = end


def _missing(first: int, end: int, covered: list[Stretch]) -> int:
    """Bytes from first to end that no stretch covers."""
    missing = 0
    for low, high in sorted(covered):
        missing += max(0, min(low, end) - first)
        first = max(first, high)
    return missing + max(0, end - first)
