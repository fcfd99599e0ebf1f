"""[network] in the network model's terms: everything that the model is told besides topology, paths and workload."""

from dataclasses import replace

import numpy as np

from models.congestion.law import find_law
from models.network.state.parameters import (
    FLOWLET,
    GO_BACK_N,
    NO_MARKING,
    SELECTIVE_REPEAT,
    STRICT,
    WEIGHTED,
    WINDOW_FIXED,
    WINDOW_FOLLOWS_RATE,
    FlowParameters,
    NetworkParameters,
    Ns3Quirks,
    TransportParameters,
)
from models.topology.graph import Topology
from models.workload.plan import WorkloadPlan
from pdes.config import ECN_REFERENCE_RATE_BPS, Config, Ns3Config, TransportConfig
from pdes.config.tables.network import NetworkConfig
from pdes.config.tables.routing import REORDERING
from pdes.errors import ConfigError
from pdes.scenario.buffer import buffer_parameters
from pdes.scenario.control import Control
from pdes.scenario.flow_numbers import flow_numbers
from pdes.scenario.queues import Queues, find_queues
from pdes.scenario.routing import link_changes, routing_parameters
from pdes.scenario.windows import Windows
from pdes.skipping.max_min.table import WHOLE
from pdes.units import MAX_WIRE_BYTES, shown

TIMEOUT_PS, PATIENT_TIMEOUT_PS = 10**9, 64 * 10**9
SHARES_WHEREVER_PACKETS_GO = ("dctcp", "timely")  # controls of which they were measured
ACK_PRIORITY = 3  # ns-3's, at hosts, with ACK_HIGH_PRIO 0


def network_parameters(
    config: Config, control: Control, topology: Topology, plan: WorkloadPlan, windows: Windows, fixed: np.ndarray
) -> NetworkParameters:
    """Everything of [network]. fixed: bool[n_pair], pairs that keep their paths whatever the policy.

    Raises ConfigError for what does not fit the topology or the control.
    """
    n = config.network
    data_bytes, ack_bytes = control.data_bytes(n), control.ack_bytes(n)
    for key, size_bytes in (("payload", data_bytes), ("ack", ack_bytes)):
        if size_bytes > MAX_WIRE_BYTES:
            found = f"makes packets of {size_bytes} bytes with {control.law.name}'s header"
            raise ConfigError(f"[network] {key}", found, f"packets of at most {MAX_WIRE_BYTES} bytes")
    queues = find_queues(n, plan)
    low, high, probability = marking(n, control, topology)
    changes = link_changes(n, topology)
    has_loss = bool((topology.port_loss > 0).any()) or bool(changes)
    parameters = NetworkParameters(
        payload_bytes=n.payload_bytes,
        header_bytes=n.header_bytes + control.law.header_bytes,
        ack_bytes=ack_bytes,
        seed=config.simulation.seed,
        ecn_min_bytes=low,
        ecn_max_bytes=high,
        ecn_max_probability=probability,
        law=control.law,
        law_values=control.values,
        window_mode=WINDOW_FOLLOWS_RATE if n.window_follows_rate else WINDOW_FIXED,
        base_rtt_ps=windows.pair_rtt_ps,
        pair_queue=queues.pair_queue,
        n_queue=queues.n_queue,
        scheduler=queues.scheduler,
        queue_weight=queues.weight,
        buffer=buffer_parameters(n, topology, data_bytes, queues.n_queue - 1),
        loss_probability=topology.port_loss if (topology.port_loss > 0).any() else None,
        transport=_transport(n, has_loss, int(windows.max_window_bytes.max(initial=0)), data_bytes),
        routing=routing_parameters(n, topology, plan, fixed, changes),
        link_changes=changes,
        ns3=_quirks(n.ns3 or Ns3Config(), queues) if n.is_ns3 else None,
        rtt_flow=_rtt_flow(config, plan),
    )
    return with_skips(config, parameters)


def with_skips(config: Config, parameters: NetworkParameters) -> NetworkParameters:
    """The same network, with as much fast-forwarding as a config asks for."""
    w = config.wormhole
    if w.mode == "flow":
        return without_packets(config, parameters)
    if "fair" in w.uses and (flow := hybrid_parameters(config, parameters)):
        return replace(parameters, flow=flow)
    has_fluid = "alone" in w.uses and not why_no_fluid(config, parameters)
    has_shares = has_fluid and "shares" in w.uses and not why_no_shares(config, parameters)
    p = parameters
    if (w.may_skip, has_fluid, has_shares) == (p.may_skip, p.has_fluid, p.has_shares):
        return p
    return replace(parameters, may_skip=w.may_skip, has_fluid=has_fluid, has_shares=has_shares)


def without_packets(config: Config, p: NetworkParameters) -> NetworkParameters:
    """The same network in flow mode: nothing waits, is marked, dropped or lost. Raises ConfigError for what it has not.

    A class of a weighted scheduler gives each of its flows its weight.
    """
    classes = 0 if p.pair_queue is None else len(np.unique(p.pair_queue))
    refused = {
        "[network] compatibility": (p.ns3 is not None, 'is "ns3-hpcc"', '"none"'),
        "[network.routing] policy": (p.routing is not None and p.routing.policy == FLOWLET, 'is "flowlet"', "others"),
        "[[network.link_event]] loss": (any(c.loss_probability > 0 for c in p.link_changes), "is there", "no loss"),
        "[network.loss]": (p.loss_probability is not None, "makes links lose packets", "links that lose none"),
        "[network.scheduler] kind": (p.scheduler == STRICT and classes > 1, 'is "strict", and several priorities are '
                                     "sent", '"weighted", by flow, or one priority'),
        "[output] rtt_of_flow": (p.rtt_flow >= 0, "is there", "no packets' round-trip times"),
    }  # fmt: skip
    for key, (is_there, found, accepted) in refused.items():
        if is_there:
            raise ConfigError(key, f'{found}, which [wormhole] mode = "flow" cannot do', f"Accepted there: {accepted}")
    what, is_weighted = config.wormhole.flow, p.scheduler == WEIGHTED and classes > 1
    weight = np.array(p.queue_weight, np.float64)[p.pair_queue] if is_weighted and p.pair_queue is not None else None
    forwards = what.compensation != "none"
    numbers = flow_numbers(config)
    fracs = numbers.alone, numbers.shared
    flow = FlowParameters(
        fracs, numbers.use, weight, numbers.queue_ps, forwards, forwards, facts=numbers.facts()
    )  # fmt: skip
    if config.wormhole.audit > 0:
        if why := why_not_beside(config, p):
            found = f"is there, and no packets can be simulated beside flow mode: {why}"
            raise ConfigError("[wormhole] audit", found, "Accepted: 0, which measures nothing")
        return replace(p, flow=replace(flow, trusts=(True, True, True), audited=config.wormhole.audit), may_skip=False)
    return replace(
        p, flow=flow, law=find_law("none"), law_values={}, buffer=None, transport=None, pair_queue=None, n_queue=2,
        scheduler=STRICT, queue_weight=(), may_skip=False,
    )  # fmt: skip


def hybrid_parameters(config: Config, p: NetworkParameters) -> FlowParameters | None:
    """Of a network in which messages go at max-min fair rates where these are known well enough; None: nowhere."""
    numbers = flow_numbers(config, is_quiet=True)
    if why_no_rates(config, p) or not numbers.row or numbers.has_other_parameters:
        return None
    alone, exchange, far, port = (numbers.row[f"{name}_error"] for name in ("ring", "exchange", "far", "port"))
    trusts = tuple(error <= config.wormhole.tolerance for error in (alone, max(exchange, far), port))
    fracs = numbers.alone, numbers.shared
    if not any(trusts):
        return None
    use = numbers.use if trusts[2] else WHOLE  # contended ports have packets else
    return FlowParameters(fracs, use, queue_ps=numbers.queue_ps, facts=numbers.facts(), trusts=trusts)


def why_no_rates(config: Config, p: NetworkParameters) -> str:
    """Why no message goes at a max-min fair rate beside others that are packets in mode "auto", "" if some can."""
    return why_not_beside(config, p) or ("what is skipped is audited" if config.wormhole.audit > 0 else "")


def why_not_beside(config: Config, p: NetworkParameters) -> str:
    """Why there can be no packets and rates in one network, "" if there can."""
    classes = 0 if p.pair_queue is None else len(np.unique(p.pair_queue))
    whys = {
        "ns-3's transport": p.ns3 is not None,
        "packets may be lost, or wait for others' buffers": p.transport is not None or p.buffer is not None,
        "switches choose the ways of flows, or ways change": p.routing is not None or bool(p.link_changes),
        "switches draw what they tell of ports": "pint" in p.law.needs,
        "messages have several priorities": classes > 1 or p.n_queue > 2,
        "packets are sampled": config.output.sample_interval_ps is not None or p.rtt_flow >= 0,
    }
    return next((why for why, is_so in whys.items() if is_so), "")


def why_no_fluid(config: Config, p: NetworkParameters) -> str:
    """Why no message can be withdrawn from the network to end as a forecast says, "" if some can."""
    whys = {
        "ns-3's transport": p.ns3 is not None,
        "losses are drawn": p.loss_probability is not None,
        "ways change": bool(p.link_changes),
        "ways of flows change with each flowlet": p.routing is not None and p.routing.policy == FLOWLET,
        "the run stops at a given time": config.simulation.stop_time_ps is not None,
    }
    return next((why for why, is_so in whys.items() if is_so), "")


def why_no_shares(config: Config, p: NetworkParameters) -> str:
    """Why messages that share ports cannot go on at parts of these that earlier ones got, "" if some can.

    With NSCC, in a mixture of experts over an oversubscribed leaf-spine, an iteration of 676 ms took 1,150 ms so. What
    is learned wrongly there is not known. Where packets go different ways hardly anything goes packet by packet later,
    and what was learned first counts: of DCQCN, before anybody has been told to slow down, an iteration of GPT-7B was
    9 % short; of HPCC one over a narrow stage was 11 % too long.
    """
    if p.law.name == "nscc":
        why = "with nscc they were too slow by far"
    else:
        is_sure = not p.is_by_packet or p.law.name in SHARES_WHEREVER_PACKETS_GO
        why = "" if is_sure else f"with {p.law.name} and packets that go different ways they are wrong, or unknown"
    return why_no_fluid(config, p) or why


def _rtt_flow(config: Config, plan: WorkloadPlan) -> int:
    """The flow that [output] rtt_of_flow names, -1: none."""
    flow = config.output.rtt_of_flow
    if flow is None:
        return -1
    if flow >= plan.n_flow:
        raise ConfigError("[output] rtt_of_flow", f"found {flow}", f"Accepted: 0 to {plan.n_flow - 1}, a flow's id")
    if plan.n_part > 1:
        found = f"is there, and {plan.n_part} queue pairs share each flow"
        raise ConfigError("[output] rtt_of_flow", found, "Accepted: with queue_pairs_per_flow = 1")
    return flow


def marking(n: NetworkConfig, control: Control, topology: Topology) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(kmin, kmax int64, pmax float64), each [n_port]: scaled from 100 Gbps, or as [[network.ecn_rate]] says."""
    law, n_port = control.law, topology.n_port
    is_marking = law.ecn_at_100g is not None if n.ecn is None else n.ecn
    if not is_marking:
        return np.full(n_port, NO_MARKING), np.full(n_port, NO_MARKING), np.ones(n_port)
    fixed, of_rates = {row.rate_bps: row for row in n.ecn_rate}, []
    rates_bps, i_rate = topology.rates
    for rate_bps in rates_bps.tolist():
        row = fixed.get(rate_bps)
        if row is not None:
            kmin, kmax, pmax = row.kmin_bytes, row.kmax_bytes, row.pmax
        else:
            kmin, kmax, pmax = _scaled_marking(n, control, rate_bps)
        of_rates.append((min(kmin, NO_MARKING), min(kmax, NO_MARKING), pmax))
    low, high, probability = zip(*of_rates, strict=True) if of_rates else ((), (), ())
    whole = np.array(low, np.int64)[i_rate], np.array(high, np.int64)[i_rate]
    return *whole, np.array(probability, np.float64)[i_rate]


def _scaled_marking(n: NetworkConfig, control: Control, rate_bps: int) -> tuple[int, int, float]:
    of_law = control.law.ecn_at_100g
    at_100g = (n.ecn_kmin_bytes, n.ecn_kmax_bytes)
    if of_law is None and n.ecn_kmin_bytes is None:
        found = f"is true, but {shown(control.law.name)} has no thresholds of its own"
        raise ConfigError("[network] ecn", found, "with ecn_kmin and ecn_kmax, or false")
    own = of_law or (0, 0, 1.0)
    kmin, kmax = (
        (default if given is None else given) * rate_bps // ECN_REFERENCE_RATE_BPS
        for given, default in zip(at_100g, own[:2], strict=True)
    )
    return kmin, kmax, own[2] if n.ecn_pmax is None else n.ecn_pmax


def _transport(n: NetworkConfig, has_loss: bool, window_bytes: int, data_bytes: int) -> TransportParameters | None:
    """Loss recovery, if anything can be lost or the config has the table.

    A policy that reorders gets an allowance: a hole counts as a loss once a window, or 64 packets, came behind it.
    """
    reorders = n.routing.policy in REORDERING or n.routing.policy == "flowlet"
    allowance_bytes = max(window_bytes, 64 * data_bytes) if reorders else 0
    if n.transport is None and not reorders and not n.buffer.is_limited and not has_loss:
        return None
    t = n.transport or TransportConfig()
    return TransportParameters(
        recovery=SELECTIVE_REPEAT if t.recovery == "selective-repeat" else GO_BACK_N,
        timeout_ps=min(_auto_timeout_ps(n, has_loss) if t.timeout_ps is None else t.timeout_ps, t.max_timeout_ps),
        max_timeout_ps=t.max_timeout_ps,
        reorder_bytes=allowance_bytes if t.reorder_bytes is None else t.reorder_bytes,
        nack_interval_ps=t.nack_interval_ps,
        ack_every=t.ack_every,
        cnp_interval_ps=t.cnp_interval_ps,
    )


def _auto_timeout_ps(n: NetworkConfig, has_loss: bool) -> int:
    """Short where packets get lost; long where only PFC can hold them up, as a pause is no loss (NICs: 4 us x 2^14)."""
    return PATIENT_TIMEOUT_PS if n.has_pfc and not has_loss else TIMEOUT_PS


def _quirks(ns3: Ns3Config, queues: Queues) -> Ns3Quirks:
    stops_acks = ACK_PRIORITY in queues.priority and not ns3.ack_high_priority
    return Ns3Quirks(
        ack_queue_mask=2 << queues.priority.index(ACK_PRIORITY) if stops_acks else 0,
        chunk_bytes=ns3.chunk_bytes,
        ack_interval_bytes=ns3.ack_interval_bytes,
        back_to_zero=ns3.back_to_zero,
        ignore_pfc=ns3.ignore_pfc,
        int_multi=ns3.int_multi,
        rate_bound=ns3.rate_bound,
    )
