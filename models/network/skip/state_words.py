"""Words of a network partition's state: of a packet, of a control, of a queue pair's two ends; see `snapshot`."""

from typing import NamedTuple

import numpy as np

from models.network.host.nic import set_ready, take_packet
from models.network.state.records import (
    EXTRA_HOPS,
    EXTRA_N_HOP,
    EXTRA_SENT_PS,
    FLAG_ACK,
    N_EXTRA,
    N_HOP_MASK,
    PATH_ID_SHIFT,
    TELEMETRY,
    TELEMETRY_INT,
    TELEMETRY_PINT,
    WORDS_PER_HOP,
    Fabric,
    Nic,
)
from models.network.switch.telemetry import PATH_ID_FACTOR, PATH_ID_MASK
from pdes.engine.jit import step_kernel
from pdes.engine.time_index import NEVER

PACKET_WORDS = 8  # without what a packet carries beyond
UNSET = -NEVER  # of a control's word that is 0 because it was never set
SKIPPED_WORDS = 2  # at the end of a sender's block: what a key leaves out

# Kinds of a control's words.
RAW, INSTANT, PLACE, HOP_COUNT, PATH = range(5)


class Numbering(NamedTuple):
    """A network partition's members in order, and where they stand in it."""

    pairs: np.ndarray  # int64[n_pair], ascending
    ports: np.ndarray  # int64[n_port], ascending
    base_byte: np.ndarray  # int64[n_pair]  acknowledged
    base_ps: np.ndarray  # int64[1]
    base_tx: np.ndarray  # int64[n_port]  what the ports have sent, on whatever rank they are
    row_of_port: np.ndarray  # int32[all ports]  valid for those of the partition
    row_of_pair: np.ndarray  # int32[all queue pairs]
    word_kind: np.ndarray  # int64[words of a control's record]
    word_hop: np.ndarray  # int64[the same]  of HOP_COUNT: which hop


@step_kernel
def ahead(time_ps, base_ps):
    """An instant that matters only if it is to come."""
    return max(0, time_ps - base_ps) if time_ps < NEVER else NEVER


@step_kernel
def stamping_port(fabric: Fabric, nic: Nic, pair, hop):
    """The port whose telemetry is a packet's hop-th."""
    return np.int64(fabric.path_port[np.uint64(nic.facts[np.uint64(pair)].data_path + 1 + hop)])


@step_kernel
def _sent(numbering: Numbering, port):
    return numbering.base_tx[np.uint64(numbering.row_of_port[np.uint64(port)])]


@step_kernel
def _path_id(fabric: Fabric, nic: Nic, pair, n_hop):
    """What n_hop stamps make of a packet's path id."""
    path_id = np.int64(0)
    for k in range(n_hop):
        path_id = (path_id * PATH_ID_FACTOR + stamping_port(fabric, nic, pair, k) + 1) & PATH_ID_MASK
    return path_id


@step_kernel
def n_hop_of(fabric: Fabric, nic: Nic, pair):
    """Switches on a queue pair's data path."""
    row, n = np.int64(nic.facts[np.uint64(pair)].data_path) + 1, 0
    while fabric.path_port[np.uint64(row + n)] >= 0:
        n += 1
    return n


@step_kernel
def store_packet(fabric: Fabric, nic: Nic, numbering: Numbering, packet, where, out, at):
    """One packet's words; where they end. where: arrival relative to the base, or the port that it came by, or 0."""
    item, constants = fabric.packets[np.uint64(packet)], fabric.constants
    pair = np.int64(item.queue_pair)
    facts, row = nic.facts[np.uint64(pair)], np.int64(numbering.row_of_pair[np.uint64(pair)])
    first = facts.ack_path if item.bits & FLAG_ACK else facts.data_path
    out[at], out[at + 1], out[at + 2] = row, item.sequence - numbering.base_byte[row], item.path - first
    out[at + 3], out[at + 4], out[at + 5], out[at + 6] = item.size_bytes, item.bits, item.queue, where
    out[at + 7] = 0
    at += PACKET_WORDS
    if constants[N_EXTRA] == 0:
        return at
    words = fabric.extra[np.uint64(packet)]
    for k in range(words.size):
        out[at + k] = 0
    out[at + EXTRA_SENT_PS] = words[EXTRA_SENT_PS] - numbering.base_ps[0]
    if constants[TELEMETRY] == TELEMETRY_PINT:
        out[at + EXTRA_N_HOP] = words[EXTRA_N_HOP]
    elif constants[TELEMETRY] == TELEMETRY_INT:
        n_hop = min(words[EXTRA_N_HOP] & N_HOP_MASK, (words.size - EXTRA_HOPS) // WORDS_PER_HOP)
        out[at + EXTRA_N_HOP] = words[EXTRA_N_HOP] & N_HOP_MASK
        for k in range(n_hop):
            i = EXTRA_HOPS + k * WORDS_PER_HOP
            port = stamping_port(fabric, nic, pair, k)
            out[at + i] = words[i] - numbering.base_ps[0]
            out[at + i + 1] = words[i + 1] - _sent(numbering, port)
            out[at + i + 2], out[at + i + 3] = words[i + 2], words[i + 3]
    return at + words.size


@step_kernel
def load_packet(fabric: Fabric, nic: Nic, numbering: Numbering, words, at):
    """Make a packet of its words; (packet, its `where`, where the words end)."""
    packet = take_packet(fabric.packets, fabric.counters)
    item, constants = fabric.packets[np.uint64(packet)], fabric.constants
    row = words[at]
    pair = numbering.pairs[row]
    facts = nic.facts[np.uint64(pair)]
    item.queue_pair, item.sequence = pair, words[at + 1] + numbering.base_byte[row]
    item.bits = words[at + 4]
    first = facts.ack_path if item.bits & FLAG_ACK else facts.data_path
    item.path, item.size_bytes, item.queue, item.next = first + words[at + 2], words[at + 3], words[at + 5], -1
    where = words[at + 6]
    at += PACKET_WORDS
    if constants[N_EXTRA] == 0:
        return packet, where, at
    extra = fabric.extra[np.uint64(packet)]
    for k in range(extra.size):
        extra[k] = words[at + k]
    extra[EXTRA_SENT_PS] += numbering.base_ps[0]
    if constants[TELEMETRY] == TELEMETRY_INT:
        n_hop = min(words[at + EXTRA_N_HOP], (extra.size - EXTRA_HOPS) // WORDS_PER_HOP)
        extra[EXTRA_N_HOP] = (
            _path_id(fabric, nic, pair, words[at + EXTRA_N_HOP]) << PATH_ID_SHIFT | words[at + EXTRA_N_HOP]
        )
        for k in range(n_hop):
            i = EXTRA_HOPS + k * WORDS_PER_HOP
            extra[i] += numbering.base_ps[0]
            extra[i + 1] += _sent(numbering, stamping_port(fabric, nic, pair, k))
    return packet, where, at + extra.size


@step_kernel
def _store_control(fabric: Fabric, nic: Nic, numbering: Numbering, row, out, at):
    pair, base_byte, base_ps = numbering.pairs[row], numbering.base_byte[row], numbering.base_ps[0]
    words, n_hop = nic.control[np.uint64(pair)], n_hop_of(fabric, nic, pair)
    for k in range(words.size):
        kind, word = numbering.word_kind[k], words[k]
        if kind != RAW and word == 0:
            word = UNSET
        elif kind == INSTANT and word < NEVER:
            word -= base_ps
        elif kind == PLACE:
            word -= base_byte
        elif kind == HOP_COUNT:
            hop = numbering.word_hop[k]
            if hop < n_hop:
                word -= _sent(numbering, stamping_port(fabric, nic, pair, hop))
        elif kind == PATH:
            word = 1 if word == _path_id(fabric, nic, pair, n_hop) else 2
        out[at + k] = word
    return at + words.size


@step_kernel
def _load_control(fabric: Fabric, nic: Nic, numbering: Numbering, row, words, at):
    pair, base_byte, base_ps = numbering.pairs[row], numbering.base_byte[row], numbering.base_ps[0]
    out, n_hop = nic.control[np.uint64(pair)], n_hop_of(fabric, nic, pair)
    for k in range(out.size):
        kind, word = numbering.word_kind[k], words[at + k]
        if kind != RAW and word == UNSET:
            word = 0
        elif kind == INSTANT and word < NEVER:
            word += base_ps
        elif kind == PLACE:
            word += base_byte
        elif kind == HOP_COUNT:
            hop = numbering.word_hop[k]
            if hop < n_hop:
                word += _sent(numbering, stamping_port(fabric, nic, pair, hop))
        elif kind == PATH:
            word = _path_id(fabric, nic, pair, n_hop)
        out[k] = word
    return at + out.size


@step_kernel
def store_sender(fabric: Fabric, nic: Nic, numbering: Numbering, row, out, at):
    record, base_ps = nic.queue_pairs[np.uint64(numbering.pairs[row])], numbering.base_ps[0]
    base_byte = numbering.base_byte[row]
    out[at], out[at + 1] = record.next_byte - base_byte, record.high_byte - base_byte
    out[at + 2], out[at + 3] = ahead(record.next_send_ps, base_ps), record.rate_bps
    out[at + 4], out[at + 5], out[at + 6] = record.window_bytes, record.max_window_bytes, record.line_rate_bps
    out[at + 7], out[at + 8], out[at + 9] = record.law_row, record.queue, record.last_size_bytes
    out[at + 10], out[at + 11] = ahead(record.deadline_ps, base_ps), ahead(record.check_ps, base_ps)
    at = _store_control(fabric, nic, numbering, row, out, at + 12)
    out[at], out[at + 1] = nic.acked_ps[np.uint64(numbering.pairs[row])] - base_ps, record.n_marked
    return at + SKIPPED_WORDS


@step_kernel
def load_sender(fabric: Fabric, nic: Nic, numbering: Numbering, row, words, at):
    pair, base_ps, base_byte = numbering.pairs[row], numbering.base_ps[0], numbering.base_byte[row]
    record = nic.queue_pairs[np.uint64(pair)]
    record.sent_bytes += words[at] + base_byte - record.next_byte
    record.next_byte, record.high_byte = words[at] + base_byte, words[at + 1] + base_byte
    record.acked_byte = base_byte
    record.next_send_ps, record.rate_bps, record.window_bytes = words[at + 2] + base_ps, words[at + 3], words[at + 4]
    record.last_size_bytes, record.gap_ps = words[at + 9], 0
    record.deadline_ps = words[at + 10] + base_ps if words[at + 10] < NEVER else NEVER
    record.check_ps = words[at + 11] + base_ps if words[at + 11] < NEVER else NEVER
    at = _load_control(fabric, nic, numbering, row, words, at + 12)
    nic.acked_ps[np.uint64(pair)] = words[at] + base_ps
    set_ready(nic.nic_ports, nic.queue_pairs, nic.ready, pair)


@step_kernel
def store_receiver(nic: Nic, numbering: Numbering, row, out, at):
    record = nic.receivers[np.uint64(nic.receiver_row[np.uint64(numbering.pairs[row])])]
    base_ps = numbering.base_ps[0]
    out[at], out[at + 1] = record.expected_byte - numbering.base_byte[row], ahead(record.cnp_after_ps, base_ps)
    out[at + 2] = record.n_unacked
    return at + 3


@step_kernel
def load_receiver(nic: Nic, numbering: Numbering, row, words, at):
    record = nic.receivers[np.uint64(nic.receiver_row[np.uint64(numbering.pairs[row])])]
    base_ps = numbering.base_ps[0]
    record.received_bytes += words[at] + numbering.base_byte[row] - record.expected_byte
    record.expected_byte = words[at] + numbering.base_byte[row]
    record.cnp_after_ps, record.n_unacked = words[at + 1] + base_ps, words[at + 2]
