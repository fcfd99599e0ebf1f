"""DCTCP as ns-3's RoCE model has it: rate based, with a window that follows the rate.

Source: the HPCC lineage of ns-3's RoCE model, CC_MODE 8, after Alizadeh et al. 2010, sections 3.1-3.3. Once per window
of data alpha takes in the share of marked ACKs; the first mark of a window cuts the rate by alpha / 2; a window
without a cut adds a constant. The constants are those of the HPCC repository's run.py, scaled to the line rate.
"""

import numpy as np

from pdes.engine.jit import loop_kernel, record

CONTROL = record(
    [
        ("alpha", np.float64),  # smoothed share of marked packets
        ("last_update", np.int64),  # an ACK beyond this byte ends a window
        ("cut_until", np.int64),  # no second cut before this byte is acknowledged
        ("batch", np.int64),  # packets in the window
        ("n_marked", np.int64),
        ("is_cut", np.int64),
    ]
)
GAIN, RATE_INCREASE_BPS, MIN_RATE_BPS, PAYLOAD = range(4)  # what the constants hold, float64[4]

DEFAULT_GAIN = 0.0625
RATE_INCREASE_SHARE = 6.15e-3  # of the line rate: 615 Mbit/s at 100 Gbit/s
DEFAULT_MIN_RATE_BPS = 10**9
ECN_BYTES_AT_100G = 300_000  # step marking; scaled to each port's rate


def make_control(n_queue_pair: int) -> np.ndarray:
    """State of every queue pair before its first ACK."""
    control = np.zeros(n_queue_pair, CONTROL)
    control["alpha"] = 1.0
    return control


@loop_kernel
def on_ack(control, constants, i_pair, acked_byte, next_byte, marked, rate_bps, line_rate_bps):
    """Fold one ACK into a queue pair; return its new rate, bit/s.

    acked_byte: the ACK's cumulative sequence; next_byte: first byte not sent; marked: the ACK echoes a mark (0 or 1).
    """
    state = control[np.uint64(i_pair)]
    state.n_marked += marked
    new_window = acked_byte > state.last_update
    if new_window:
        payload = np.int64(constants[PAYLOAD])
        if state.last_update == 0:
            state.batch = next_byte // payload + 1
        else:
            share = min(1.0, state.n_marked / state.batch)
            state.alpha = (1.0 - constants[GAIN]) * state.alpha + constants[GAIN] * share
            state.n_marked = 0
            state.batch = (next_byte - acked_byte) // payload + 1
        state.last_update = next_byte
    if state.is_cut and acked_byte > state.cut_until:
        state.is_cut = 0
    if marked and not state.is_cut:
        least_bps = min(np.int64(constants[MIN_RATE_BPS]), line_rate_bps)
        rate_bps = max(least_bps, np.int64(rate_bps * (1.0 - state.alpha / 2.0)))
        state.is_cut = 1
        state.cut_until = next_byte
    if new_window and not state.is_cut:
        rate_bps = min(line_rate_bps, rate_bps + np.int64(constants[RATE_INCREASE_BPS]))
    return rate_bps
