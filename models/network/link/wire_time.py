"""How long packets take: exact, rounded up to whole ps, or as ns-3 truncates."""

import numpy as np

from models.topology.closed_form import tx_ps
from pdes.engine.apart import apart
from pdes.engine.jit import loop_kernel
from pdes.units import NS_PER_S, PS_PER_NS

TWO_32 = 2.0**32


@loop_kernel
def ns3_tx_ps(size_bytes, rate_bps):
    """ns-3's Seconds(bytes * 8 / rate): a double through 64.64 fixed point, truncated to ns (MODEL.md section 1).

    size_bytes * 8 < rate_bps. The low and the high half of the fraction are multiplied apart to stay in 63 bits.
    """
    apart()
    scaled = size_bytes * 8 / rate_bps * TWO_32
    high = np.int64(scaled)
    low = np.int64((scaled - high) * TWO_32)
    return ((high * NS_PER_S + ((low * NS_PER_S) >> 32)) >> 32) * PS_PER_NS


@loop_kernel
def transmission_ps(size_bytes, rate_bps, is_ns3):
    """Serialisation time, and gap between two paced packets."""
    return ns3_tx_ps(size_bytes, rate_bps) if is_ns3 else tx_ps(size_bytes, rate_bps)
