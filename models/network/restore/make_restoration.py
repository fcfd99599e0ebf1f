"""Making one rank's part of how network partitions come back (`restoration`)."""

import numpy as np

from models.network.model import NetworkModel
from models.network.restore.restoration import Depths, Restoration
from models.network.restore.restored_packets import Ways
from models.network.skip.fast_forward import FastForward
from models.network.skip.memo_states import MemoStates
from models.network.state.parameters import NetworkParameters
from models.network.state.records import TELEMETRY, TELEMETRY_INT
from models.topology.graph import Topology
from pdes.engine.exchange import World


def make_restoration(
    topology: Topology, model: NetworkModel, parameters: NetworkParameters, world: World, fast: FastForward,
    depths: Depths | None,
) -> Restoration:  # fmt: skip
    """The part of one rank. depths: None: nothing is put back. See `why_no_restoration` first."""
    pairs, state = model.pairs, model.state
    begin = pairs.path_start[0:-1:2][pairs.pair_of_row]
    end = pairs.path_start[1::2][pairs.pair_of_row] - 1  # before the end mark of the data's way
    rows = zip(begin.tolist(), end.tolist(), strict=True)
    is_managed = bool(fast.hidden.is_managed[0])
    ways = Ways(
        ports_of=[pairs.path_port[b:e].astype(np.int64) for b, e in rows],
        is_switch_port=topology.is_switch[topology.port_src] != 0,
        rate_bps=topology.port_rate_bps,
        delay_ps=topology.port_delay_ps,
        payload_bytes=parameters.payload_bytes,
        wire_bytes=parameters.payload_bytes + parameters.header_bytes,
        has_telemetry=int(state.fabric.constants[TELEMETRY]) == TELEMETRY_INT,
        is_managed=is_managed,
    )
    states = None if fast.replays is None else fast.replays.states
    states = states or MemoStates(topology, parameters, world, fast.hidden, fast.ways)
    return Restoration(states, ways, world, fast.hidden.here, is_managed, depths)
