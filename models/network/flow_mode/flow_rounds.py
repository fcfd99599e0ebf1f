"""Rounds of a network in flow mode: messages begin and end up to the horizon, then hosts run, then ranks hear of what
these have posted."""

from models.network.build.arrays import NetworkState
from models.network.flow_mode.state import FlowMode
from models.network.flow_mode.transfers import carry_on, next_transfer_ps, take_posts
from models.network.host.ahead import AT_ONCE, ask_ahead
from models.network.host.host import run_hosts
from models.network.rounds import SHORT_OF_ARRIVING_PACKETS, advance, pack, unpack_arrivals
from pdes.engine.jit import inlined, program_kernel
from pdes.engine.round import HORIZON, ROUND_DONE, close_round, leave_round, open_round
from pdes.engine.round_exchange import ExchangeState


@inlined
def _serve_nothing(state, switches, begin_ps, horizon_ps):
    return 0


@inlined
def _run_a_few(state, hosts, begin_ps, horizon_ps):
    """Run hosts, and ask for what the next ones begin with meanwhile."""
    fabric, nic, work, first, short = state.fabric, state.nic, state.work, 0, 0
    while first < hosts.size and short == 0:
        few = hosts[first : first + AT_ONCE]
        for i in range(first, first + few.size):
            ask_ahead(fabric, nic, work, hosts, i)
        short = run_hosts(fabric, state.buffers, nic, work, state.rows, few, begin_ps, horizon_ps)
        first += AT_ONCE
    return short


@inlined
def flow_rounds(loop, ex, state, port_peer_row, flow, begin, run, hear):
    """Rounds until the run is over, until it is time to pause, or until something is short.

    begin(state, flow, horizon_ps) carries messages on, run(state, horizon_ps) the nodes, hear(state, flow, horizon_ps)
    sees to what was posted; each 0, or what ran short.
    """
    fabric, work = state.fabric, state.work
    while True:
        if not unpack_arrivals(fabric, work, ex):
            return SHORT_OF_ARRIVING_PACKETS
        if not open_round(loop, ex, min(fabric.node_time[1], next_transfer_ps(flow))):
            return ROUND_DONE
        short = begin(state, flow, loop[HORIZON])
        if short == 0:
            short = run(state, loop[HORIZON])
        if short == 0:
            short = hear(state, flow, loop[HORIZON])
        if short != 0:
            leave_round(loop, ex)
            return short
        least_ps = min(fabric.node_time[1], next_transfer_ps(flow))
        if ex.n_rank[0] > 1:
            least_ps = pack(fabric, work, port_peer_row, ex, least_ps)
        code = close_round(loop, ex, least_ps)
        if code != 0:
            return code


@inlined
def _begin(state, flow, horizon_ps):
    return carry_on(state.fabric, flow, horizon_ps)


@inlined
def _run(state, horizon_ps):
    return advance(state, horizon_ps, _serve_nothing, _run_a_few)


@inlined
def _hear(state, flow, horizon_ps):
    return take_posts(state.fabric, state.nic, flow)


@program_kernel
def run_flow_rounds(loop, ex: ExchangeState, state: NetworkState, port_peer_row, flow: FlowMode):
    """Rounds of a network without packets."""
    return flow_rounds(loop, ex, state, port_peer_row, flow, _begin, _run, _hear)
