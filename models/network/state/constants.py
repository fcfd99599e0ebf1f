"""From parameters to the scalars that the kernels read: `Fabric.constants`, see `state`."""

import numpy as np

from models.congestion.interface import N_HOP
from models.network.state import records as state
from models.network.state.parameters import SELECTIVE_REPEAT, WINDOW_FIXED, WINDOW_FOLLOWS_RATE, NetworkParameters
from models.workload.plan import WorkloadPlan

NEARLY = 0.98
ROWS_AT_ONCE = 4096  # messages that one acknowledgement may finish after losses
NS3_NACK_INTERVAL_PS = 500 * 10**6  # NACK_Generation_Interval, MODEL.md section 5


def n_extra_columns(parameters: NetworkParameters, n_switch: int) -> int:
    """Words that a packet carries beyond its record. n_switch: on the longest path."""
    needs = parameters.law.needs
    if "int" in needs:
        return state.EXTRA_HOPS + state.WORDS_PER_HOP * min(n_switch, N_HOP)
    return state.EXTRA_HOPS if "pint" in needs else int("rtt" in needs or parameters.rtt_flow >= 0)


def make_constants(plan: WorkloadPlan, parameters: NetworkParameters, most_hops: int) -> np.ndarray:
    """int64[N_CONSTANT]; SLOT_PS and LINK_BITS are left to the caller. most_hops: ports on the longest path."""
    p, out = parameters, np.zeros(state.N_CONSTANT, np.int64)
    n_switch = max(1, most_hops - 1)
    if p.routing is not None:
        n_switch = N_HOP  # a way around a link that is down may be longer than any path at the start
    values = {
        state.PAYLOAD_BYTES: p.payload_bytes,
        state.HEADER_BYTES: p.header_bytes,
        state.ACK_BYTES: p.ack_bytes,
        state.SEED: p.seed,
        state.NEED_PACKETS: 1,
        state.NEED_MESSAGES: plan.burst + 1,
        state.NEED_ROWS: plan.burst + 2,
        state.N_EXTRA: n_extra_columns(p, n_switch),
        state.N_INT_WORD: n_extra_columns(p, n_switch) if _telemetry(p) == state.TELEMETRY_INT else 0,
        state.TELEMETRY: _telemetry(p),
        state.WINDOW_MODE: state.WINDOW_BY_LAW if p.law.controls_window else p.window_mode,
        state.N_PART: plan.n_part,
        state.ACK_EVERY: 1,
        state.N_QUEUE: p.n_queue,
        state.SCHEDULER: p.scheduler,
        state.NS3_RATE_BOUND: 1,
        state.RTT_FLOW: p.rtt_flow,
        state.TELLS_RTT: int(bool(p.law.needs)),
        state.NACK_INTERVAL_PS: NS3_NACK_INTERVAL_PS,
        state.PINT_RTT_PS: max(1, int(p.base_rtt_ps.max())) if p.base_rtt_ps is not None and len(p.base_rtt_ps) else 1,
    }
    if p.transport is not None:
        t = p.transport
        values |= {
            state.TIMEOUT_PS: t.timeout_ps,
            state.MAX_TIMEOUT_PS: t.max_timeout_ps,
            state.NACK_INTERVAL_PS: t.nack_interval_ps,
            state.ACK_EVERY: t.ack_every,
            state.CNP_INTERVAL_PS: t.cnp_interval_ps,
            state.NEED_ROWS: plan.burst + 2 + ROWS_AT_ONCE,
            state.IS_LOSSY: 1,
            state.IS_SELECTIVE: int(t.recovery == SELECTIVE_REPEAT),
            state.REORDER_BYTES: t.reorder_bytes,
            state.SACK_COLUMN: values[state.N_EXTRA],
        }
        values[state.N_EXTRA] += 2 * values[state.IS_SELECTIVE]
    values[state.MARKER_COLUMN] = -1
    if p.has_fluid or p.flow is not None:
        values[state.IS_FLOW_MODE] = (state.IS_HYBRID if p.is_hybrid else 1) if p.flow is not None else 0
        values[state.MARKER_COLUMN] = values[state.N_EXTRA]
        values[state.N_EXTRA] += state.N_MARKER_WORD
        values[state.NEED_PACKETS] += 2 * plan.burst * p.has_fluid
        may_drop = p.buffer is not None and not p.buffer.pfc  # then they have to be sent again before
        values[state.MAY_FOLLOW] = int(not may_drop and not p.is_by_packet)
    if p.is_hybrid and p.flow is not None:
        ack_share = p.ack_bytes / (p.payload_bytes + p.header_bytes)
        calm = 0 if p.flow.audited else NEARLY  # in flow mode a control is as fast as it may be at once
        values[state.CALM_1024] = int(1024 * calm * p.flow.fracs[0] * (1 - ack_share))
    if p.buffer is not None:
        values |= {
            state.HAS_BUFFER: 1,
            state.HAS_PFC: int(p.buffer.pfc),
            state.RESERVE_BYTES: p.buffer.reserve_bytes,
            state.RESUME_OFFSET_BYTES: p.buffer.resume_offset_bytes,
            state.FRAME_BYTES: p.buffer.pfc_bytes,
        }
    if p.ns3 is not None:
        values |= {
            state.IS_NS3: 1,
            state.IS_LOSSY: 1,
            state.INT_MULTI: p.ns3.int_multi,
            state.TIMEOUT_PS: 0,
            state.ACK_EVERY: 0,
            state.CNP_INTERVAL_PS: 0,
            state.NACK_INTERVAL_PS: NS3_NACK_INTERVAL_PS,
            state.NS3_CHUNK_BYTES: p.ns3.chunk_bytes,
            state.NS3_ACK_INTERVAL_BYTES: p.ns3.ack_interval_bytes,
            state.NS3_BACK_TO_ZERO: int(p.ns3.back_to_zero),
            state.NS3_ACK_QUEUE_MASK: p.ns3.ack_queue_mask,
            state.NS3_IGNORES_PFC: int(p.ns3.ignore_pfc),
            state.NS3_RATE_BOUND: int(p.ns3.rate_bound),
        }
    assert values[state.WINDOW_MODE] in (WINDOW_FOLLOWS_RATE, WINDOW_FIXED, state.WINDOW_BY_LAW)
    for place, value in values.items():
        out[place] = value
    return out


def _telemetry(parameters: NetworkParameters) -> int:
    if "int" in parameters.law.needs:
        return state.TELEMETRY_INT
    return state.TELEMETRY_PINT if "pint" in parameters.law.needs else state.TELEMETRY_NONE
