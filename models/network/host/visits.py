"""Which queue pairs a look visits, and which are frozen: sets (`bits`), so that a look costs what is active.

A queue pair is entered wherever it may come to have something to sample: as a message is posted, as it thaws, as a
marker ends or it leaves flow level. The look that finds nothing there takes it out (`progress.sample_pairs`). So the
set may hold too much, all of them at the beginning and after a checkpoint; what is sampled does not depend on what else
it has.
"""

import numpy as np

from models.network.state.records import MARKER_COLUMN, Fabric, Nic
from pdes.engine.bits import n_set_word, next_in_set, put_in_set
from pdes.engine.jit import loop_kernel, step_kernel


def set_of(is_member: np.ndarray) -> np.ndarray:
    """int64[]: a set of queue pairs. is_member: bool[n_qp]."""
    words = np.zeros(max(1, n_set_word(len(is_member))), np.int64)
    _put_all(words, len(is_member), np.flatnonzero(is_member))
    return words


@loop_kernel
def _put_all(words, n_pair, pairs):
    for i in range(pairs.size):
        put_in_set(words, 0, n_pair, pairs[i])


@loop_kernel
def list_members(words, n_pair, out):
    """Write the members of a set of n_pair numbers into out, ascending; how many."""
    n, pair = 0, next_in_set(words, 0, n_pair, 0)
    while pair >= 0:
        out[np.uint64(n)] = pair
        n += 1
        pair = next_in_set(words, 0, n_pair, pair + 1)
    return n


@step_kernel
def visit(nic: Nic, pair):
    """Have a queue pair visited by the next look: it may have something to sample."""
    put_in_set(nic.active, 0, nic.queue_pairs.size, pair)


@step_kernel
def has_sample(fabric: Fabric, nic: Nic, here, record, pair):
    """Whether a queue pair (its record) is this rank's, has something to send or unacknowledged, is not frozen, and has
    packets, not markers alone. here: uint8[n_node], this rank's nodes."""
    if record.acked_byte == record.posted_end or nic.is_frozen[np.uint64(pair)] or here[np.uint64(record.node)] == 0:
        return False
    if fabric.constants[MARKER_COLUMN] < 0 or nic.fluid[np.uint64(pair)].n_withdrawn == 0:
        return True
    has_behind = record.next_byte < record.posted_end
    return has_behind or record.acked_byte < nic.fluid[np.uint64(pair)].from_byte
