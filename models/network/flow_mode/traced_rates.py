"""What a trace says of messages in flow mode: their rates, each time that these change."""

import numpy as np

from models.network.flow_mode.state import FlowMode
from models.network.watch.tracing import N_RANGE, NOTHING, RANGE_WORDS, RANGES_AT, RATED, trace_flow
from pdes.engine.jit import step_kernel
from pdes.units import BITS_PER_BYTE, PS_PER_S


@step_kernel
def trace_rates(words, flow: FlowMode, now_ps):
    """Write the rates, headers included, of chosen messages that have begun or have another one at this instant."""
    for i in range(words[N_RANGE]):
        at = words[RANGES_AT] + RANGE_WORDS * i
        pair = words[at]
        transfer, record = flow.transfers[np.uint64(pair)], flow.max_min.flows[np.uint64(pair)]
        is_its = words[at + 1] < transfer.end_byte and transfer.end_byte <= words[at + 2]
        if is_its and transfer.size_bytes > 0 and record.since_ps == now_ps:
            rate_bps = np.int64(record.level * record.weight * (BITS_PER_BYTE * PS_PER_S))
            trace_flow(words, RATED, now_ps, pair, transfer.end_byte - 1, rate_bps, NOTHING)
