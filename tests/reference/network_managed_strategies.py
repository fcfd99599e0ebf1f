"""Hypothesis strategies: networks that drop, pause, lose and resend, under every congestion control."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from models.congestion.law import BUILT_IN, Law, find_law
from models.network.state.parameters import (
    ROUND_ROBIN,
    STRICT,
    WEIGHTED,
    WINDOW_FIXED,
    WINDOW_FOLLOWS_RATE,
    BufferParameters,
    NetworkParameters,
    TransportParameters,
)
from models.topology.base_rtt import max_base_rtt, path_base_rtt
from models.topology.graph import Topology
from reference.network_case import Flow, NetworkCase, make_flow_case
from reference.network_strategies import SOON_OR_LATER, flow_lists

US = 10**6
# Values that make short runs interesting: timers that fire, thresholds that are passed.
ODD_VALUES: dict[str, dict[str, list[Any]]] = {
    "dctcp": {"gain": [0.0625, 1.0], "rate_increase_bps": [615_000_000, 10**10], "min_rate_bps": [10**9, 1_000_003]},
    "dcqcn": {
        "gain": [1 / 256, 0.5],
        "alpha_interval_ps": [1_000, US, 55 * US],
        "decrease_interval_ps": [1_000_000, 4 * US, 3_333_333],
        "increase_interval_ps": [700_001, 5 * US, 300 * US],
        "fast_recovery_times": [0, 1, 5],
        "min_rate_bps": [10**9, 1_000_003],
        "clamp_target": [0, 1],
    },
    "hpcc": {"max_stage": [0, 1, 5], "fast_react": [0, 1], "target_utilisation": [0.95, 0.3], "min_rate_bps": [10**8]},
    "hpcc-pint": {"max_stage": [0, 5], "log_base": [1.05, 1.5], "target_utilisation": [0.95, 0.3]},
    "timely": {"low_rtt_ps": [2 * US, 50 * US], "high_rtt_ps": [10 * US, 500 * US], "min_rtt_ps": [US, 20 * US]},
    "swift": {"path_share": [1.0, 1.25], "base_target_ps": [0, 10 * US], "min_window_pkts": [0.001, 0.5],
              "reset_after": [1, 5], "increase_pkts": [1.0, 20.0]},
    "nscc": {"target_share": [0.1, 1.0], "max_window_share": [1.5, 0.3], "adjust_pkts": [1, 8],
             "quick_adapt_shift": [0, 3], "delay_gain": [0.0125, 0.5]},
}  # fmt: skip
PAYLOAD = st.sampled_from([1000, 1000, 1500, 64, 4096])


@st.composite
def law_values(draw: st.DrawFn, law: Law) -> dict[str, Any]:
    """The control's parameters, some of them odd."""
    values = law.parameter_values({})
    if draw(st.booleans()):
        values |= {name: draw(st.sampled_from(some)) for name, some in ODD_VALUES.get(law.name, {}).items()}
    return values


@st.composite
def buffers(draw: st.DrawFn, topology: Topology, largest: int, n_queue: int) -> BufferParameters:
    """Shared buffers that are full soon. A packet always fits into an empty one, else nothing would ever arrive."""
    pfc = draw(st.booleans())
    reserve = draw(st.sampled_from([0, largest // 2, largest, 3 * largest]))
    alpha = np.array([draw(st.sampled_from([64, 128, 1024, 8192])) for _ in range(topology.n_port)])
    flight = 2 * topology.port_delay_ps * (topology.port_rate_bps // 10**9) // 8000 + 4 * largest
    shares = st.sampled_from([0, 1, 1, 2])  # of what makes a link lossless, in halves
    headroom = np.array([int(f) * draw(shares) // 2 for f in flight]) * pfc * topology.is_switch[topology.port_dst]
    beyond = max(0, largest - reserve)  # of a packet, for which the pool and every queue's share of it must have room
    least = max(beyond, beyond * 1024 // int(alpha.min())) + 2
    pool = least + draw(st.sampled_from([0, 3, 20, 100])) * largest
    aside = np.bincount(topology.port_dst, weights=(headroom + reserve) * (n_queue - 1), minlength=topology.n_node)
    return BufferParameters(
        size_bytes=np.where(topology.is_switch, aside.astype(np.int64) + pool, 0),
        alpha_1024=alpha,
        headroom_bytes=headroom,
        reserve_bytes=reserve,
        pfc=pfc,
        pfc_bytes=draw(st.sampled_from([43, 64, 1])),
        resume_offset_bytes=draw(st.sampled_from([0, largest, 3072])),
    )


@st.composite
def transports(draw: st.DrawFn) -> TransportParameters:
    """Loss recovery, with timeouts that some round trips exceed."""
    timeout_ps = draw(st.sampled_from([20 * US, 100 * US, 1000 * US, 333_333_333]))
    return TransportParameters(
        timeout_ps=timeout_ps,
        max_timeout_ps=timeout_ps * draw(st.sampled_from([1, 3, 64])),
        nack_interval_ps=draw(st.sampled_from([0, US, 50 * US, 500 * US])),
        ack_every=draw(st.sampled_from([1, 1, 2, 5])),
        cnp_interval_ps=draw(st.sampled_from([0, 4 * US, 50 * US])),
    )


@st.composite
def losses(draw: st.DrawFn, topology: Topology) -> np.ndarray:
    """Random loss on every link, or on some."""
    some = st.sampled_from([0.0, 0.0, 0.01, 0.05])
    each = draw(st.sampled_from([0.0, 0.01, 0.05]))
    return np.array([each or draw(some) for _ in range(topology.n_port)])


@st.composite
def managed_cases(
    draw: st.DrawFn,
    topologies: st.SearchStrategy[Topology],
    laws: tuple[str, ...] = tuple(BUILT_IN),
    n_parts: tuple[int, ...] = (1,),
    list_flows: Callable[[Topology, int], st.SearchStrategy[list[Flow]]] | None = None,
) -> NetworkCase:
    """Everything that switches with fixed paths do, and go-back-N, in any combination.

    list_flows: of a topology and a payload, instead of a few short ones.
    """
    topology, payload, law = draw(topologies), draw(PAYLOAD), find_law(draw(st.sampled_from(laws)))
    header = 48 + law.header_bytes
    n_queue = draw(st.sampled_from([2, 2, 3, 5]))
    lossy = draw(losses(topology)) if draw(st.booleans()) else None
    buffer = draw(buffers(topology, payload + header, n_queue)) if draw(st.booleans()) else None
    is_timed = lossy is not None or buffer is not None or draw(st.booleans())
    ecn = draw(st.sampled_from([(None, None), (0, 0), (0, 3_000), (1_000, 20_000)]))
    scaled = [None if at_100g is None else topology.port_rate_bps * at_100g // 10**11 for at_100g in ecn]
    parameters = NetworkParameters(
        payload_bytes=payload,
        header_bytes=header,
        ack_bytes=draw(st.sampled_from([60, 60, 1, 1500])),
        seed=draw(st.integers(0, 2**31)),
        ecn_min_bytes=scaled[0],
        ecn_max_bytes=scaled[1],
        ecn_max_probability=draw(st.sampled_from([None, 1.0, 0.2])),
        law=law,
        law_values=draw(law_values(law)),
        window_mode=draw(st.sampled_from([WINDOW_FOLLOWS_RATE, WINDOW_FIXED])),
        n_queue=n_queue,
        scheduler=draw(st.sampled_from([STRICT, ROUND_ROBIN, WEIGHTED])),
        queue_weight=tuple(draw(st.integers(1, 4)) for _ in range(n_queue)),
        buffer=buffer,
        loss_probability=lossy,
        transport=draw(transports()) if is_timed else None,
    )
    window = draw(st.sampled_from([None, None, 0, 1, 3_000, 20_000, 10**6]))
    listed = flow_lists(topology, payload, SOON_OR_LATER) if list_flows is None else list_flows(topology, payload)
    flows, n_part = draw(listed), draw(st.sampled_from(n_parts))
    flows = [(src, dst, max(size_bytes, n_part), start_ps) for src, dst, size_bytes, start_ps in flows]
    case = make_flow_case(topology, flows, parameters, window, draw(st.sampled_from(["per-flow", "per-pair"])), n_part)
    n_pair = len(case.window_bytes)
    sizes = (payload + header, parameters.ack_bytes)
    rtt_ps = path_base_rtt(topology, case.paths, *sizes)[0]
    if draw(st.booleans()):
        rtt_ps = np.full(n_pair, max_base_rtt(topology, *sizes)[0])
    queue = np.array([draw(st.integers(1, n_queue - 1)) for _ in range(n_pair)])
    return replace(case, parameters=replace(parameters, base_rtt_ps=rtt_ps, pair_queue=queue))
