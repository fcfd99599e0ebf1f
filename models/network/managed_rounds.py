"""Rounds of a network whose switches are managed: `rounds` with `managed_switch` for `switch`.

Apart, so that only the kernels that a run needs are compiled.
"""

from models.network.host.host import SHORT_OF_PACKETS, run_hosts
from models.network.host.interrupts import put_back
from models.network.outputs import Outputs, earliest_output_ps
from models.network.rounds import (
    SHORT_OF_ARRIVING_PACKETS,
    STOPPED_BY_FAULT,
    collect_nodes,
    next_event_ps,
    pack,
    unpack_arrivals,
)
from models.network.state.records import FAULT, Fabric, Nic, Rows
from models.network.state.switch_state import Buffers, Routing
from models.network.switch.managed_switch import run_managed_switches
from models.workload.program import Work
from pdes.engine.jit import inlined, loop_kernel
from pdes.engine.round import (
    HORIZON,
    IS_INTERRUPTED,
    ROUND_DONE,
    ROUND_LOOK,
    close_round,
    leave_round,
    open_round,
)
from pdes.engine.round_exchange import ExchangeState


@inlined
def advance_managed(fabric, buffers, routing, nic, work, rows, horizon_ps):
    """Run this rank's events below horizon_ps; 0, or what ran short (then call again with the same horizon)."""
    switches, hosts, short = fabric.found[1], fabric.found[2], 0
    while fabric.node_time[1] < horizon_ps and short == 0:
        begin_ps = fabric.node_time[1]
        n_switch, n_host = collect_nodes(fabric, begin_ps, horizon_ps)
        if n_host > 0:
            short = run_hosts(fabric, buffers, nic, work, rows, hosts, n_host, begin_ps, horizon_ps)
        if n_switch > 0 and short == 0:
            is_done = run_managed_switches(fabric, buffers, routing, switches, n_switch, begin_ps, horizon_ps)
            short = 0 if is_done else SHORT_OF_PACKETS
        if fabric.counters[FAULT]:
            short = STOPPED_BY_FAULT
    return short


@loop_kernel
def run_managed_rounds(
    loop,
    ex: ExchangeState,
    fabric: Fabric,
    buffers: Buffers,
    routing: Routing,
    nic: Nic,
    work: Work,
    rows: Rows,
    port_peer_row,
    outputs: Outputs,
):
    """Rounds until the run is over, until it is time to pause, or until something is short."""
    while True:
        if not unpack_arrivals(fabric, work, ex):
            return SHORT_OF_ARRIVING_PACKETS
        if not open_round(loop, ex, earliest_output_ps(loop, fabric, nic, work, outputs, next_event_ps(fabric, loop))):
            return ROUND_LOOK if loop[IS_INTERRUPTED] else ROUND_DONE
        short = advance_managed(fabric, buffers, routing, nic, work, rows, loop[HORIZON])
        if short:
            leave_round(loop, ex)
            return short
        put_back(fabric)
        least_ps = earliest_output_ps(loop, fabric, nic, work, outputs, next_event_ps(fabric, loop))
        if ex.n_rank[0] > 1:
            least_ps = pack(fabric, work, port_peer_row, ex, least_ps)
        code = close_round(loop, ex, least_ps)
        if code != 0:
            return code
