"""What switches write into data packets as they leave: INT for HPCC, one utilisation for HPCC-PINT.

INT per hop: the time, the bytes that the port had sent before, the bytes that wait
behind, the rate (Li et al. 2019, sec. 3.1).
In ns-3 mode the fields have the width and the quanta of its header: 24 bits of ns, 20 bits of 128 B x multi, 17 bits of
80 B x multi (MODEL.md section 10).
"""

import numpy as np

from models.congestion.hpcc_pint import encode_utilisation, next_utilisation
from models.congestion.interface import N_HOP
from models.network.state.records import (
    EXTRA_HOPS,
    EXTRA_N_HOP,
    FLAG_ACK,
    INT_MULTI,
    IS_NS3,
    N_HOP_MASK,
    PATH_ID_SHIFT,
    PINT_RTT_PS,
    WORDS_PER_HOP,
    Fabric,
)
from pdes.engine.jit import fast_step, step_kernel
from pdes.units import PS_PER_NS

TIME_MASK, TX_MASK, QUEUE_MASK = (1 << 24) - 1, (1 << 20) - 1, (1 << 17) - 1
TX_QUANTUM_BYTES, QUEUE_QUANTUM_BYTES = 128, 80
PATH_ID_FACTOR, PATH_ID_MASK = 1_000_003, (1 << 32) - 1


@step_kernel
def stamp_int(extra, constants, packet, port, now_ps, tx_bytes, queued_bytes, rate_bps):
    """Write one hop's record into a data packet. tx_bytes: sent before; queued_bytes: waiting behind it."""
    word = extra[np.uint64(packet), EXTRA_N_HOP]
    n_hop, path_id = word & N_HOP_MASK, word >> PATH_ID_SHIFT
    path_id = (path_id * PATH_ID_FACTOR + port + 1) & PATH_ID_MASK
    extra[np.uint64(packet), EXTRA_N_HOP] = path_id << PATH_ID_SHIFT | (n_hop + 1)
    if n_hop >= N_HOP:
        return
    if constants[IS_NS3]:
        tx_quantum, queue_quantum = TX_QUANTUM_BYTES * constants[INT_MULTI], QUEUE_QUANTUM_BYTES * constants[INT_MULTI]
        now_ps = (now_ps // PS_PER_NS & TIME_MASK) * PS_PER_NS
        tx_bytes = (tx_bytes // tx_quantum & TX_MASK) * tx_quantum
        queued_bytes = (queued_bytes // queue_quantum & QUEUE_MASK) * queue_quantum
    at = np.uint64(EXTRA_HOPS + n_hop * WORDS_PER_HOP)
    extra[np.uint64(packet), at] = now_ps
    extra[np.uint64(packet), at + np.uint64(1)] = tx_bytes
    extra[np.uint64(packet), at + np.uint64(2)] = queued_bytes
    extra[np.uint64(packet), at + np.uint64(3)] = rate_bps


@fast_step
def stamp_pint(fabric: Fabric, row, packet, queued_bytes, rate_bps, now_ps):
    """Fold a departure into the port's utilisation; a data packet keeps the largest code on its way.

    row: float64[3], the port's of `Buffers.utilisation`. The arithmetic is `hpcc_pint`'s; a packet that is no data only
    counts as the one before.
    """
    extra, pint, constants, item = fabric.extra, fabric.pint, fabric.constants, fabric.packets[np.uint64(packet)]
    if item.bits & FLAG_ACK == 0:
        row[0] = next_utilisation(row[0], now_ps - row[1], queued_bytes, row[2], rate_bps, constants[PINT_RTT_PS])
        code = encode_utilisation(row[0], pint[0])
        extra[np.uint64(packet), EXTRA_N_HOP] = max(extra[np.uint64(packet), EXTRA_N_HOP], code)
    row[1], row[2] = now_ps, item.size_bytes
