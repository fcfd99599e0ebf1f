"""Rounds of a network whose switches are managed: `rounds` with `managed_switch` for `switch`.

Apart, so that only the kernels that a run needs are compiled.
"""

from models.network.build.arrays import NetworkState
from models.network.host.shortages import SHORT_OF_PACKETS
from models.network.outputs import Outputs
from models.network.rounds import rounds
from models.network.switch.managed_switch import run_managed_switches
from pdes.engine.jit import inlined, program_kernel
from pdes.engine.round_exchange import ExchangeState


@inlined
def _serve_managed(state, switches, begin_ps, horizon_ps):
    is_done = run_managed_switches(state.fabric, state.buffers, state.routing, switches, begin_ps, horizon_ps)
    return 0 if is_done else SHORT_OF_PACKETS


@inlined
def managed_rounds(loop, ex, state, port_peer_row, outputs):
    """Rounds of a network of managed switches, see `rounds`."""
    return rounds(loop, ex, state, port_peer_row, outputs, _serve_managed)


@program_kernel
def run_managed_rounds(loop, ex: ExchangeState, state: NetworkState, port_peer_row, outputs: Outputs):
    """See `managed_rounds`."""
    return managed_rounds(loop, ex, state, port_peer_row, outputs)
