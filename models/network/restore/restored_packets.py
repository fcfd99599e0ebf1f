"""Packets that are put back into queues whose depths alone are known.

A queue is shared out among the partition's flows through it in proportion to their rates, in whole packets, of each
flow at most what it had in flight; in it they take turns evenly. Of a flow the byte that is next acknowledged lies
nearest the receiver. A packet carries what it would have picked up on its way here: it left its host before by the
delays of the links, transmissions and queues that it has passed, and its telemetry has the depths of these queues, and
what their ports will have sent since, at the flows' rates.
"""

from dataclasses import dataclass, field

import numpy as np

from models.network.skip.state_words import PACKET_WORDS
from models.network.state.records import EXTRA_HOPS, EXTRA_N_HOP, EXTRA_SENT_PS, WORDS_PER_HOP
from pdes.skipping.frozen import Freeze
from pdes.units import BITS_PER_BYTE, PS_PER_S


@dataclass(frozen=True)
class Ways:
    """Where packets go, and how long that takes. Rows for every queue pair and port."""

    ports_of: list[np.ndarray]  # of each queue pair's data, from its NIC's on
    is_switch_port: np.ndarray  # bool[n_port]
    rate_bps: np.ndarray  # int64[n_port]
    delay_ps: np.ndarray  # int64[n_port]
    payload_bytes: int
    wire_bytes: int  # of a full packet
    has_telemetry: bool
    is_managed: bool  # switches note where a waiting packet came in


@dataclass
class PutBack:
    """sent_bytes: int64[n_pair], beyond what is acknowledged. at_port: words of packets, by the port's row."""

    sent_bytes: np.ndarray
    at_port: dict[int, np.ndarray] = field(default_factory=dict)

    @staticmethod
    def nothing(n_pair: int) -> "PutBack":
        """Everything is gone."""
        return PutBack(np.zeros(n_pair, np.int64))


def put_back(
    ways: Ways, freeze: Freeze, depth_bytes: np.ndarray, in_flight_bytes: np.ndarray, queue: np.ndarray, n_extra: int
) -> PutBack:
    """Fill queues. depth_bytes: int64, of freeze.ports. in_flight_bytes, queue: of freeze.pairs. n_extra: words."""
    paths = [ways.ports_of[pair] for pair in freeze.pairs.tolist()]
    rate = freeze.done_packets * ways.wire_bytes / freeze.done_ps  # bytes on the wire per ps
    counts = _counts(ways, freeze, paths, depth_bytes, rate)
    depth_of = dict(zip(freeze.ports.tolist(), depth_bytes.tolist(), strict=True))
    flow_rate = np.zeros(len(ways.rate_bps))
    for row, path in enumerate(paths):
        flow_rate[path] += rate[row]
    found, sent = PutBack.nothing(len(paths)), {}
    for row, path in enumerate(paths):
        left, first = int(in_flight_bytes[row]) // ways.payload_bytes, 0
        for hop in range(len(path) - 1, 0, -1):
            n = min(counts.get((row, hop), 0), left - first)
            if n > 0:
                sent.setdefault(int(path[hop]), []).append((row, hop, first, n))
                first += n
        found.sent_bytes[row] = first * ways.payload_bytes
    for port, parts in sorted(sent.items()):
        found.at_port[int(np.searchsorted(freeze.ports, port))] = _chain(
            ways, freeze, paths, parts, queue, depth_of, flow_rate, n_extra
        )
    return found


def _counts(
    ways: Ways, freeze: Freeze, paths: list[np.ndarray], depth_bytes: np.ndarray, rate: np.ndarray
) -> dict[tuple[int, int], int]:
    """(flow's row, hop) -> packets: of each queue the shares, rounded so that they add up to the queue's."""
    through: dict[int, list[tuple[int, int]]] = {}
    for row, path in enumerate(paths):
        for hop, port in enumerate(path.tolist()):
            if ways.is_switch_port[port]:
                through.setdefault(port, []).append((row, hop))
    counts: dict[tuple[int, int], int] = {}
    for i, port in enumerate(freeze.ports.tolist()):
        flows = through.get(port, [])
        share = np.cumsum([rate[row] for row, _ in flows])
        if len(share) == 0 or share[-1] <= 0:
            continue
        upto = np.floor(share / share[-1] * (depth_bytes[i] / ways.wire_bytes) + 0.5).astype(np.int64)
        counts |= dict(zip(flows, np.diff(upto, prepend=0).tolist(), strict=True))
    return counts


def _chain(
    ways: Ways, freeze: Freeze, paths: list[np.ndarray], parts: list[tuple[int, int, int, int]], queue: np.ndarray,
    depth_of: dict[int, int], flow_rate: np.ndarray, n_extra: int,
) -> np.ndarray:  # fmt: skip
    """The packets of one port in the order in which they leave; int64[n, words]. parts: (row, hop, first packet, n)."""
    port = int(paths[parts[0][0]][parts[0][1]])
    turn = np.concatenate([(np.arange(n) + 0.5) / n for *_, n in parts])
    part = np.repeat(np.arange(len(parts)), [n for *_, n in parts])
    number = np.concatenate([np.arange(n) for *_, n in parts])
    order = np.lexsort((part, turn))
    out = np.zeros((len(order), PACKET_WORDS + n_extra), np.int64)
    behind = len(order) - 1 - np.arange(len(order))  # packets that came after it
    waited_ps = behind * ways.wire_bytes * BITS_PER_BYTE * PS_PER_S // int(ways.rate_bps[port])
    for i, (row, hop, first, n) in enumerate(parts):
        mine = np.flatnonzero(part[order] == i)
        words = out[mine]
        came_by = int(np.searchsorted(freeze.ports, paths[row][hop - 1]))
        words[:, 0], words[:, 1] = row, (first + number[order][mine]) * ways.payload_bytes
        words[:, 2], words[:, 3], words[:, 5] = hop + 1, ways.wire_bytes, queue[row]
        words[:, 6] = came_by if ways.is_managed else 0
        if n_extra:
            _stamp(words[:, PACKET_WORDS:], ways, paths[row][: hop + 1], waited_ps[mine], depth_of, flow_rate)
        out[mine] = words
        assert n == len(mine)
    return out


def _stamp(
    extra: np.ndarray, ways: Ways, path: np.ndarray, waited_ps: np.ndarray, depth_of: dict[int, int],
    flow_rate: np.ndarray,
) -> None:  # fmt: skip
    """What packets carry that wait at the last port of a path, relative to now. waited_ps: there."""
    age_ps = waited_ps.copy()
    n_stamp = len(path) - 2  # switches passed
    for hop in range(len(path) - 2, -1, -1):
        port = int(path[hop])
        ps_per_byte = BITS_PER_BYTE * PS_PER_S / int(ways.rate_bps[port])
        age_ps = age_ps + int(ways.delay_ps[port]) + int(ways.wire_bytes * ps_per_byte)
        if hop > 0 and ways.has_telemetry and hop <= (extra.shape[1] - EXTRA_HOPS) // WORDS_PER_HOP:
            at = EXTRA_HOPS + (hop - 1) * WORDS_PER_HOP
            extra[:, at] = -age_ps
            extra[:, at + 1] = -np.rint(age_ps * flow_rate[port]).astype(np.int64)
            extra[:, at + 2], extra[:, at + 3] = depth_of[port], ways.rate_bps[port]
        if hop > 0:
            age_ps = age_ps + int(depth_of[port] * ps_per_byte)
    extra[:, EXTRA_SENT_PS] = -age_ps
    if ways.has_telemetry:
        extra[:, EXTRA_N_HOP] = n_stamp
