"""Compiling ahead, on a network of two hosts: for a process or a rank that has nothing else to do yet.

The hosts' kernel takes the larger half of all compiling and is the same for every run: someone else can compile it
while the scenario is built. `python -m models.network.warm_up` leaves it in the cache.
"""

import numpy as np
from numba import typeof

from models.network.host import run_hosts
from models.network.model import NetworkModel
from models.network.parameters import NetworkParameters
from models.topology.graph import make_topology
from models.topology.paths import Paths
from models.workload.flows import FlowList, plan_flows
from pdes.engine.exchange import World
from pdes.engine.jit import JIT_DISABLED


def two_hosts() -> NetworkModel:
    """A model of one flow over one switch."""
    rate_bps, delay_ps = 10**11, 10**6
    links = [(0, 2, rate_bps, delay_ps), (1, 2, rate_bps, delay_ps)]
    topology = make_topology("two hosts", ("a", "b", "switch"), (False, False, True), (0, 1, -1), links)
    port = {(int(a), int(b)): i for i, (a, b) in enumerate(zip(topology.port_src, topology.port_dst, strict=True))}
    route = [port[0, 2], port[2, 1], port[1, 2], port[2, 0]]
    paths = Paths(np.array([0, 2, 4]), np.array(route, np.int32))
    one = np.array([1])
    plan = plan_flows(FlowList(one * 0, one, one, one * 0, one, ("",)), 2)
    return NetworkModel(
        topology, paths, plan, one * 1000, np.arange(3), np.zeros(3, np.int64), delay_ps, World(), NetworkParameters(),
        lambda *_: None,
    )  # fmt: skip


def compile_hosts() -> None:
    """Leave the hosts' kernel in the cache; runs nothing and talks to no other rank."""
    if JIT_DISABLED:
        return
    state = two_hosts().state
    arrays = (state.fabric, state.buffers, state.nic, state.work, state.rows, state.fabric.found[2])
    types = tuple(typeof(value) for value in (*arrays, 0, 0, 0))
    run_hosts.compile(types)  # pyright: ignore[reportFunctionMemberAccess]


if __name__ == "__main__":
    compile_hosts()
