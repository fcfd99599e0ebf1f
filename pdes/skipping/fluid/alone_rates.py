"""At which rate a message goes that has its way to itself: told from the times of messages of sizes near its own.

How long such a message takes is up to its way's form (rates and delays in order) and its size. It takes so much for
each byte, and something once, such as what its control needs to gain its rate; all of it is taken to be for bytes. What
is really taken once is no more than what the message that was measured took beyond its bytes at line rate. So this
bounds the error, which has to be within the tolerance. A message that is shorter than the one that is known and than
eight round trips has no rate, as a control may not have settled in it.
"""

import numpy as np

from pdes.engine.jit import loop_kernel, step_kernel
from pdes.skipping.fluid.flow_table import RTT_PS, Table
from pdes.skipping.fluid.stage_load import N_LOAD

LARGER = 2.0  # times as large messages go as these where stages are full: in longer ones queues there may grow
MIN_ROUND_TRIPS = 8  # that a message lasts, and that its flow was alone before: then its control has settled


@step_kernel
def line_rate(t: Table, flow):
    """Bytes per ps of the slowest port of a flow's way."""
    p, least = t.partitions, np.inf
    for at in range(p.port_start[flow], p.port_start[flow + 1]):
        least = min(least, t.byte_per_ps[np.uint64(p.port_of[at])])
    return least


@step_kernel
def alone_rate(t: Table, flow, size, is_loaded):
    """Bytes per ps of a message of `size` bytes that has its flow's way to itself, 0: that is not known.

    is_loaded: 1 if its data meets acknowledgements of others.
    """
    known, form, near = t.known, t.form[flow], np.int64(-1)
    for k in range(known.n_size[form]):
        if near < 0 or abs(known.size[form, k] - size) < abs(known.size[form, near] - size):
            near = np.int64(k)
    if near < 0:
        return 0.0
    of_size, sent_ps = known.size[form, near], known.sent_ps[form, near]
    if size != of_size:
        once_ps = max(0.0, sent_ps - of_size / line_rate(t, flow))
        if once_ps * abs(size - of_size) > known.tolerance[0] * sent_ps * size:
            return 0.0
        if t.stages.is_full.size > 0 and form % N_LOAD != 0 and size > LARGER * of_size:
            return 0.0
        is_smaller = size < of_size * (1 - known.tolerance[0])
        if is_smaller and sent_ps * size < MIN_ROUND_TRIPS * t.words[RTT_PS] * of_size:
            return 0.0
    rate = of_size / sent_ps
    return rate / known.longer[form, near] if is_loaded else rate


@loop_kernel
def alone_rates(t: Table, flows, size, is_loaded, out):
    """Write `alone_rate` of messages into out. int64[n], int64[n], int64[n], float64[n]."""
    for i in range(flows.size):
        out[i] = alone_rate(t, flows[i], size[i], is_loaded[i])
