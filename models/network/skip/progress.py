"""What fast-forwarding samples of the queue pairs that have something to send, at a decision instant: on every rank
those of all ranks, which gather them in compiled code.
"""

from typing import NamedTuple

import numpy as np

from models.congestion.interface import FLOW_TIMER, N_TIMER
from models.network.host.visits import has_sample
from models.network.link.wire_time import transmission_ps
from models.network.state.records import IS_NS3, MARKER_COLUMN, Fabric, Nic
from pdes.engine.bits import drop_from_set, next_in_set
from pdes.engine.gathering import RANK, Gathering, offer, take_in_order
from pdes.engine.jit import loop_kernel, step_kernel
from pdes.engine.time_index import NEVER

# Columns of a sample.
(
    PAIR,
    ACKED_BYTE,
    ACKED_PS,  # when that was acknowledged
    NEXT_BYTE,
    SENT_PS,  # when the last packet before it left
    RATE_BPS,
    WINDOW_BYTES,
    MESSAGE_END,
    IS_PLAIN,  # 1: one message is in flight, some of it is acknowledged, and there is nothing to send again
    HAS_TIMER,  # 1: a timer of the congestion control is on
    N_MARKED,
    MESSAGE_BEGIN,  # its first byte
    POSTED_PS,
    IS_WHOLE,  # 1: one message is in flight, and nothing is to be sent again; perhaps nothing of it is acknowledged yet
    FLOW_ID,  # the message's
    IS_CLEAR,  # 1: nothing of the queue pair's waited to be sent when it was posted; for `pdes.skipping.fluid` alone
) = range(16)
N_COLUMN = 16


class Samples(NamedTuple):
    """What sampling needs, on one rank."""

    here: np.ndarray  # uint8[n_node]  this rank's nodes
    control_word: np.ndarray  # int64[]  words of a control's record behind the columns
    rows: np.ndarray  # int64[n_qp, columns]  the sample, of all ranks
    own: np.ndarray  # int64[n_qp, columns]  this rank's; rows itself if there is no other rank
    own_words: np.ndarray  # int64[n_qp * columns]  the same words
    gathered: np.ndarray  # int64[n_qp * columns]  of all ranks, one behind the other; empty without others
    gathering: Gathering


def make_samples(here: np.ndarray, control_word: np.ndarray, n_pair: int, gathering: Gathering) -> Samples:
    """Room for a sample of n_pair queue pairs. here, control_word: see `Samples`."""
    n_rank, shape = len(gathering.n_word), (n_pair, N_COLUMN + len(control_word))
    rows = np.zeros(shape, np.int64)
    own = rows if n_rank == 1 else np.zeros(shape, np.int64)
    gathered = np.zeros(0 if n_rank == 1 else rows.size, np.int64)
    return Samples(here, control_word, rows, own, own.reshape(-1), gathered, gathering)


@step_kernel
def _is_whole(record):
    place = np.int64(record.first_message)
    if place < 0 or place != record.sending_message or record.resend_byte < record.lost_byte:
        return False
    is_whole = record.sacked_range < 0 and record.n_backoff == 0  # what the receiver holds, its rank alone knows
    return is_whole and record.high_byte == record.next_byte and record.recover_byte <= record.acked_byte


@loop_kernel
def sample_pairs(fabric: Fabric, nic: Nic, here, control_word, out):
    """Write a row for every queue pair of this rank that is not done and not frozen; how many.

    The others are not visited again (`visits`).

    here: uint8[n_node], this rank's nodes. control_word: int64[], words of the control's record behind the columns.
    out: int64[n_qp, N_COLUMN + as many]. Rows are in the order of queue pairs.
    """
    n_row, n_pair, following = 0, nic.queue_pairs.size, np.int64(0)
    while True:
        pair = next_in_set(nic.active, 0, n_pair, following)
        if pair < 0:
            return n_row
        following = pair + 1
        record = nic.queue_pairs[np.uint64(pair)]
        if not has_sample(fabric, nic, here, record, pair):
            drop_from_set(nic.active, 0, n_pair, pair)
            continue
        is_withdrawn, has_shadow = False, False  # what has a shadow stays simulated
        if fabric.constants[MARKER_COLUMN] >= 0:
            fluid = nic.fluid[np.uint64(pair)]
            is_withdrawn, has_shadow = fluid.n_withdrawn > 0, record.acked_byte < fluid.shadow_end
        row = out[np.uint64(n_row)]
        n_row += 1
        gap_ps = transmission_ps(np.int64(record.last_size_bytes), record.rate_bps, fabric.constants[IS_NS3])
        row[PAIR], row[ACKED_BYTE], row[ACKED_PS] = pair, record.acked_byte, nic.acked_ps[np.uint64(pair)]
        row[NEXT_BYTE], row[SENT_PS] = record.next_byte, record.next_send_ps - gap_ps
        row[RATE_BPS], row[WINDOW_BYTES], row[MESSAGE_END] = record.rate_bps, record.window_bytes, record.message_end
        row[IS_WHOLE], row[N_MARKED], row[FLOW_ID] = _is_whole(record), record.n_marked, -1
        row[MESSAGE_BEGIN], row[POSTED_PS], row[IS_CLEAR] = record.acked_byte, 0, 0
        if record.first_message >= 0:
            message = nic.messages[np.uint64(record.first_message)]
            row[MESSAGE_BEGIN], row[POSTED_PS] = message.end_byte - message.size_bytes, message.posted_ps
            row[FLOW_ID] = message.flow_id
            if fabric.constants[MARKER_COLUMN] >= 0 and not is_withdrawn:
                row[IS_CLEAR] = nic.fluid[np.uint64(pair)].clear_end == message.end_byte
        row[IS_PLAIN] = row[IS_WHOLE] != 0 and record.acked_byte > row[MESSAGE_BEGIN] and not has_shadow
        row[HAS_TIMER] = 0
        for k in range(N_TIMER):
            if nic.control[np.uint64(pair), np.uint64(FLOW_TIMER + k)] < NEVER:
                row[HAS_TIMER] = 1
        for k in range(control_word.size):
            row[np.uint64(N_COLUMN + k)] = nic.control[np.uint64(pair), np.uint64(control_word[k])]


@step_kernel
def offer_sample(fabric: Fabric, nic: Nic, s: Samples, is_wanted, least):
    """Sample this rank's queue pairs, if that is wanted, and meet the other ranks; the least of what they bring."""
    n_own = sample_pairs(fabric, nic, s.here, s.control_word, s.own) if is_wanted else np.int64(0)
    return offer(s.gathering, s.own_words, n_own * s.own.shape[1], least)


@step_kernel
def take_sample(s: Samples):
    """Put what all ranks have sampled into s.rows, by ascending queue pair; how many rows. Every rank must."""
    return take_in_order(s.gathering, s.own_words, s.gathering.n_word[s.gathering.facts[RANK]], s.gathered, s.rows)


@loop_kernel
def sample_all(fabric: Fabric, nic: Nic, s: Samples):
    """Sample the queue pairs of all ranks into s.rows; how many rows. Every rank must."""
    offer_sample(fabric, nic, s, True, np.int64(0))
    return take_sample(s)
