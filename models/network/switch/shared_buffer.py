"""A switch's shared buffer with dynamic thresholds, as ns-3's switch-mmu has it (MODEL.md section 7).

Each packet is charged to the ingress port and queue it came by: first to a reserve, then to the shared pool as far as
alpha x (what is free of the pool), then to a headroom that holds what still comes while PFC stops the sender. Whether a
packet fits is decided when it arrives; it is released when its transmission starts. Choudhury and Hahne 1998 for the
thresholds; Broadcom's form as in ns-3. What ns-3 mode does otherwise: a threshold in 32 bits that wraps, and a packet
that could be dropped although the reserve has room.
"""

import numpy as np

from models.network.state.records import HAS_PFC, IS_NS3, RESERVE_BYTES, RESUME_OFFSET_BYTES
from pdes.engine.jit import step_kernel

DROPPED, ADMITTED, MUST_PAUSE, UNSURE = range(4)  # what admit returns; UNSURE: see is_unsure
LOW_32 = (1 << 32) - 1
ALPHA_BITS = 10


@step_kernel
def threshold_bytes(switch, inlet, constants):
    """How much of the shared pool one queue of an ingress port may hold now."""
    free_bytes = switch.pool_bytes - switch.shared_bytes
    if constants[IS_NS3]:
        return ((free_bytes & LOW_32) * inlet.alpha_1024) >> ALPHA_BITS
    return max(0, free_bytes * inlet.alpha_1024) >> ALPHA_BITS


@step_kernel
def fits_in_any_case(switch, inlet, held, constants, size_bytes):
    """Charge a packet if it fits whatever has left unseen by the lazy books, and neither pauses nor is paused.

    The books may be late: they can only say too much is held. So a threshold that holds by them holds in truth.
    """
    if held.headroom_bytes > 0 or held.is_pausing:
        return False
    before = held.held_bytes - constants[RESERVE_BYTES]
    after = max(0, before + size_bytes)
    added = after - max(0, before)
    switch.shared_bytes += added
    limit_bytes = threshold_bytes(switch, inlet, constants)
    is_sure = switch.shared_bytes <= switch.limit_bytes and after < limit_bytes
    if not is_sure or (constants[IS_NS3] and size_bytes > limit_bytes):
        switch.shared_bytes -= added
        return False
    held.held_bytes += size_bytes
    return True


@step_kernel
def is_unsure(switch, held, constants, size_bytes):
    """Whether what becomes of a packet, which by exact books may not fit, depends on frozen ports, or matters to them.

    The books hold the most that frozen ports may have of the pool (`room`), so what fits by them fits in any case.
    """
    before = held.held_bytes - constants[RESERVE_BYTES]
    added = max(0, before + size_bytes) - max(0, before)
    return switch.n_wet > 0 or switch.shared_bytes + added > switch.limit_bytes


@step_kernel
def admit(switch, inlet, held, constants, size_bytes):
    """Charge a packet by exact books: DROPPED, ADMITTED, or MUST_PAUSE if its sender is to pause now."""
    limit_bytes = threshold_bytes(switch, inlet, constants)
    before = held.held_bytes - constants[RESERVE_BYTES]
    after = before + size_bytes
    no_headroom = size_bytes + held.headroom_bytes > inlet.headroom_bytes
    added = max(0, after) - max(0, before)
    if constants[IS_NS3]:
        fits = after <= 0 or after <= limit_bytes
        if no_headroom and size_bytes + max(0, before) > limit_bytes:
            return DROPPED
    else:
        fits = after <= 0 or (after <= limit_bytes and switch.shared_bytes + added <= switch.pool_bytes)
        if no_headroom and not fits:
            return DROPPED
    if fits:
        held.held_bytes += size_bytes
        switch.shared_bytes += added
    else:
        held.headroom_bytes += size_bytes
    if constants[HAS_PFC] == 0 or held.is_pausing:
        return ADMITTED
    shared = max(0, held.held_bytes - constants[RESERVE_BYTES])
    if held.headroom_bytes > 0 or shared >= threshold_bytes(switch, inlet, constants):
        return MUST_PAUSE
    return ADMITTED


@step_kernel
def release(switch, held, constants, size_bytes):
    """Give back what a packet held, whose transmission starts: first headroom, then the rest."""
    from_headroom = min(np.int64(held.headroom_bytes), size_bytes)
    rest = size_bytes - from_headroom
    switch.shared_bytes -= min(rest, max(0, held.held_bytes - constants[RESERVE_BYTES]))
    held.headroom_bytes -= from_headroom
    held.held_bytes -= rest


@step_kernel
def may_resume(switch, inlet, held, constants):
    """Whether a paused sender may go on: no headroom in use, and clear of the threshold by an offset."""
    if held.headroom_bytes > 0:
        return False
    shared = max(0, held.held_bytes - constants[RESERVE_BYTES])
    return shared == 0 or shared + constants[RESUME_OFFSET_BYTES] <= threshold_bytes(switch, inlet, constants)
