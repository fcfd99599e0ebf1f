"""When a stream goes on by itself."""

import numpy as np

from pdes.engine.jit import step_kernel
from pdes.engine.time_index import NEVER, set_time


@step_kernel
def set_wake(streams, nodes, node_time, i_stream, wake_ps):
    """Let a stream go on at wake_ps (NEVER: not by time)."""
    stream = streams[np.uint64(i_stream)]
    stream.wake_ps = wake_ps
    node_id = np.int64(stream.node)
    node = nodes[np.uint64(node_id)]
    least_ps = NEVER
    for k in range(node.first_stream, node.end_stream):
        least_ps = min(least_ps, streams[np.uint64(k)].wake_ps)
    node.wake_ps = least_ps
    if wake_ps < node_time[np.uint64((node_time.size >> 1) + node_id)]:
        set_time(node_time, node_id, wake_ps)
