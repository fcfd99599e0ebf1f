"""What hosts can run out of between two events: packets, messages, rows, ranges. The loop stops then."""

from models.network.host.selective import RANGES_PER_EVENT
from models.network.state.records import (
    IS_SELECTIVE,
    N_ARRIVAL_ROW,
    N_FLOW_ROW,
    N_FREE_MESSAGE,
    N_FREE_PACKET,
    N_FREE_RANGE,
    N_SPENT_ROW,
    N_TASK_ROW,
    NEED_MESSAGES,
    NEED_PACKETS,
    NEED_ROWS,
)
from pdes.engine.apart import apart
from pdes.engine.jit import step_kernel

SHORT_OF_PACKETS, SHORT_OF_MESSAGES, SHORT_OF_ROWS, SHORT_OF_RANGES = 2, 3, 4, 7


@step_kernel
def n_safe_event(counters, constants, n_row):
    """So many events cannot run out of anything: until they are over nobody has to look (`shortage`)."""
    n = counters[N_FREE_PACKET] // max(constants[NEED_PACKETS], 1)
    n = min(n, counters[N_FREE_MESSAGE] // max(constants[NEED_MESSAGES], 1))
    if constants[IS_SELECTIVE]:
        n = min(n, counters[N_FREE_RANGE] // RANGES_PER_EVENT)
    n_used = max(counters[N_FLOW_ROW], counters[N_ARRIVAL_ROW], counters[N_TASK_ROW], counters[N_SPENT_ROW])
    return min(n, (n_row - n_used) // max(constants[NEED_ROWS], 1))


@step_kernel
def shortage(counters, constants, n_row):
    """What an event could run out of, 0 if nothing: checked between events, so that a run goes on where it stopped."""
    apart()
    if counters[N_FREE_PACKET] < constants[NEED_PACKETS]:
        return SHORT_OF_PACKETS
    if constants[IS_SELECTIVE] and counters[N_FREE_RANGE] < RANGES_PER_EVENT:
        return SHORT_OF_RANGES
    if counters[N_FREE_MESSAGE] < constants[NEED_MESSAGES]:
        return SHORT_OF_MESSAGES
    n_used = max(counters[N_FLOW_ROW], counters[N_ARRIVAL_ROW], counters[N_TASK_ROW], counters[N_SPENT_ROW])
    if n_used + constants[NEED_ROWS] > n_row:
        return SHORT_OF_ROWS
    return 0
