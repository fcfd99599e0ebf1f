"""Compiling beside a run: what processes do that leave kernels in the cache while it gets ready.

The hosts' steps and nearly all that the rounds are made of are the same for every run: they are compiled for a network
of two hosts while the scenario is built. See `pdes.simulation.compilers`.
`python -m models.network.build.warm_up` compiles the hosts' alone, as long as whoever has started it lives:
`scripts/run` does so as soon as Numba is installed.
"""

import base64
import gc
import os
import pickle
import queue
import threading
import time
from importlib import import_module
from typing import Any

import numpy as np
from numba import typeof

from models.network.model import LogicalProcesses, NetworkModel
from models.network.state.parameters import NetworkParameters
from models.topology.graph import make_topology
from models.topology.paths import Paths
from models.workload.traffic.flows import FlowList, plan_flows
from pdes.engine.compiling.garbage import collect_seldom
from pdes.engine.exchange import World


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
        topology,
        paths,
        plan,
        one * 1000,
        LogicalProcesses(np.arange(3), np.zeros(3, np.int64), delay_ps),
        World(),
        NetworkParameters(),
        lambda *_: None,
    )


def task(kernel: Any, arguments: tuple[Any, ...]) -> str:
    """A line that tells `serve` to compile a kernel for arguments like these."""
    types = tuple(typeof(value) for value in arguments)
    return f"{kernel.__module__} {kernel.__name__} {base64.b64encode(pickle.dumps(types)).decode()}"


def perform(line: str, model: NetworkModel) -> None:
    """Compile what a line names. model: gives the types where the line has none: they are the same for all runs."""
    module, name, *types = line.split()
    if types:
        kernel: Any = getattr(import_module(module), name)
        kernel.compile(pickle.loads(base64.b64decode(types[0])))
        return
    for kernel, arguments in model.kernels():
        if (kernel.__module__, kernel.__name__) == (module, name):
            kernel.compile(tuple(typeof(value) for value in arguments))


def serve(lines: "queue.SimpleQueue[str]") -> None:
    """Compile what lines name, and answer each with a line on standard output; whoever starts the process ends it."""
    gc.freeze()
    collect_seldom()
    model = two_hosts()
    while True:
        perform(lines.get(), model)
        print("done", flush=True)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(0)


if __name__ == "__main__" and len(os.sched_getaffinity(0)) > 1:
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    perform("models.network.host.host run_hosts", two_hosts())
