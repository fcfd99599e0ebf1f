"""Compiling the network's kernels ahead, on a network of two hosts: for a rank that has nothing else to do yet."""

import numpy as np

from models.network.model import NetworkModel
from models.network.parameters import NetworkParameters
from models.topology.graph import make_topology
from models.topology.paths import Paths
from models.workload.flows import FlowList, plan_flows
from pdes.engine.exchange import World


def compile_ahead() -> None:
    """Leave compiled kernels in the cache; runs nothing and talks to no other rank."""
    rate_bps, delay_ps = 10**11, 10**6
    links = [(0, 2, rate_bps, delay_ps), (1, 2, rate_bps, delay_ps)]
    topology = make_topology("two hosts", ("a", "b", "switch"), (False, False, True), (0, 1, -1), links)
    port = {(int(a), int(b)): i for i, (a, b) in enumerate(zip(topology.port_src, topology.port_dst, strict=True))}
    route = [port[0, 2], port[2, 1], port[1, 2], port[2, 0]]
    paths = Paths(np.array([0, 2, 4]), np.array(route, np.int32))
    one = np.array([1])
    plan = plan_flows(FlowList(one * 0, one, one, one * 0, one, ("",)), 2)
    lp_of_node = np.arange(3)
    model = NetworkModel(
        topology, paths, plan, one * 1000, lp_of_node, np.zeros(3, np.int64), delay_ps, World(), NetworkParameters(),
        lambda *_: None,
    )  # fmt: skip
    model.compile()
