"""Windows and base round-trip times of queue pairs, by the physical rule or by ns-3's."""

from typing import NamedTuple

import numpy as np

from models.topology.graph import Topology
from models.topology.ns3_rtt import Ns3Rtt, ns3_window_bytes
from models.topology.routing import NextHops, Paths, max_base_rtt, path_base_rtt
from models.workload.plan import WorkloadPlan
from pdes.config.tables.network import NetworkConfig
from pdes.scenario.control import Control
from pdes.units import PS_PER_NS


class Windows(NamedTuple):
    """For every queue pair, plan's order: int64[n_pair] each; and the network's largest round trip."""

    max_window_bytes: np.ndarray  # 0: no window
    pair_rtt_ps: np.ndarray  # what the congestion control is told
    base_rtt_ps: int
    path_rtt_ps: np.ndarray  # int64[n_pair]  of the pairs' own paths


def find_windows(
    network: NetworkConfig,
    control: Control,
    topology: Topology,
    plan: WorkloadPlan,
    paths: Paths,
    next_hops: NextHops | None,
    known: tuple[np.ndarray, np.ndarray] | None = None,
) -> Windows:
    """What [network] window and base_rtt stand for; base_rtt "auto": a pair's own under window "pair-bdp".

    known: `path_base_rtt`, for who has it already.
    """
    rule = control.law.window if network.window == "auto" else network.window
    n_pair = len(plan.pair_src)
    if network.is_ns3:
        rtt = Ns3Rtt(topology, network.payload_bytes, next_hops)
        largest_ns, bdp_bytes = rtt.largest()
        base_rtt_ps = largest_ns * PS_PER_NS
        pair_ns, pair_bytes = rtt.of_pairs(topology.host[plan.pair_src], topology.host[plan.pair_dst])
        pair_ps, pair_bytes, bdp_bytes = pair_ns * PS_PER_NS, ns3_window_bytes(pair_bytes), ns3_window_bytes(bdp_bytes)
    else:
        sizes = (control.data_bytes(network), control.ack_bytes(network))
        base_rtt_ps, bdp_bytes = max_base_rtt(topology, *sizes)
        pair_ps, pair_bytes = known or path_base_rtt(topology, paths, *sizes)
    is_own = rule == "pair-bdp" if network.base_rtt == "auto" else network.base_rtt == "pair"
    rtt_ps = pair_ps if is_own else np.full(n_pair, base_rtt_ps, np.int64)
    if rule == "pair-bdp":
        return Windows(pair_bytes, rtt_ps, base_rtt_ps, pair_ps)
    size_bytes = {"none": 0, "max-bdp": bdp_bytes}.get(rule, rule) if isinstance(rule, str) else rule
    return Windows(np.full(n_pair, size_bytes, np.int64), rtt_ps, base_rtt_ps, pair_ps)
