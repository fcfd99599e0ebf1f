"""One simulation: nodes, ports, queue pairs, and the loop."""

from dataclasses import dataclass
from typing import Any

from models.network.parameters import NetworkParameters
from models.topology.graph import Topology
from models.topology.routing import Paths
from reference.network_twin.events import POST, Events
from reference.network_twin.host import Host
from reference.network_twin.port import Port
from reference.network_twin.receiver import Receiver
from reference.network_twin.sender import Sender
from reference.network_twin.switch import Switch


@dataclass(frozen=True)
class TwinFlow:
    """A message: what it is, on which queue pair (plan's number), when it may start."""

    flow_id: int
    pair: int
    size_bytes: int
    start_ps: int


@dataclass
class FlowResult:
    """What became of a flow; -1 where it did not come to that."""

    start_ps: int = -1
    delivered_ps: int = -1
    finish_ps: int = -1
    ecn_marks: int = 0
    resent_bytes: int = 0


class Pair:
    """A queue pair: two paths, two ends."""

    def __init__(self, run: Any, pair_id: int, row: int, ways: tuple[list[int], list[int]], window: int) -> None:
        p: NetworkParameters = run.parameters
        self.data_path, self.ack_path = ways
        rtt_ps = 0 if p.base_rtt_ps is None else int(p.base_rtt_ps[pair_id])
        queue = 1 if p.pair_queue is None else int(p.pair_queue[pair_id])
        self.sender = Sender(self, run, run.ports[self.data_path[0]], row, window, rtt_ps, queue)
        self.receiver = Receiver(self, run)


class NetworkTwin:
    """`run` it once, then read `flows` (by id), `ports` (by id) and the totals."""

    def __init__(
        self, topology: Topology, paths: Paths, flows: list[TwinFlow], windows: list[int], parameters: NetworkParameters
    ) -> None:
        assert parameters.ns3 is None
        self.parameters, self.events = parameters, Events()
        self.n_hop = self.n_timeout = self.sent_bytes = self.last_event_ps = 0
        rtt = parameters.base_rtt_ps
        self.largest_rtt_ps = 1 if rtt is None or not len(rtt) else max(1, int(max(rtt)))
        self.flows = {flow.flow_id: FlowResult() for flow in flows}
        nodes = [
            Switch(self, i, list(topology.in_ports(i))) if is_switch else Host(self)
            for i, is_switch in enumerate(topology.is_switch.tolist())
        ]
        rates, delays = topology.port_rate_bps.tolist(), topology.port_delay_ps.tolist()
        self.ports = [Port(self, i, rates[i], delays[i]) for i in range(topology.n_port)]
        for i, port in enumerate(self.ports):
            port.node, port.far = nodes[topology.port_src[i]], nodes[topology.port_dst[i]]
            port.peer = self.ports[topology.port_peer[i]]
        ways = [(paths.row(2 * i).tolist(), paths.row(2 * i + 1).tolist()) for i in range(len(windows))]
        self.pairs: dict[int, Pair] = {}
        for row, i in enumerate(sorted(range(len(windows)), key=lambda i: (ways[i][0][0], i))):
            self.pairs[i] = pair = Pair(self, i, row, ways[i], int(windows[i]))
            pair.sender.port.node.add_sender(pair.sender.port, pair.sender)
        for flow in flows:
            post = self.pairs[flow.pair].sender.post
            self.events.push(
                flow.start_ps, POST, flow.flow_id, 0, lambda now_ps, post=post, flow=flow: post(flow, now_ps)
            )

    def run(self, max_hop: int = 10**7) -> "NetworkTwin":
        """Everything that happens, until only timers of idle queue pairs are left, or after max_hop starts."""
        while self.events.n_lasting or any(pair.sender.is_busy for pair in self.pairs.values()):
            if not self.events.heap or self.n_hop >= max_hop:
                break
            self.events.run_next()
        return self
