"""One simulation: nodes, ports, queue pairs, and the loop."""

from dataclasses import dataclass
from typing import Any

from models.network.state.parameters import LinkChange, NetworkParameters
from models.topology.graph import Topology
from models.topology.routing import Paths
from reference.network_twin.events import CHANGE, POST, Events
from reference.network_twin.host import Host
from reference.network_twin.packet import DATA, Packet
from reference.network_twin.port import Port
from reference.network_twin.receiver import Receiver
from reference.network_twin.routing import Routes
from reference.network_twin.sender import Sender
from reference.network_twin.switch import Switch


@dataclass(frozen=True)
class TwinFlow:
    """A message: what it is, on which queue pair (plan's number; the first of its parts), when it may start."""

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
        self.pair_id = pair_id
        self.is_fixed = p.routing is None or (p.routing.fixed_pair is not None and bool(p.routing.fixed_pair[pair_id]))
        self.data_path, self.ack_path = ways
        rtt_ps = 0 if p.base_rtt_ps is None else int(p.base_rtt_ps[pair_id])
        queue = 1 if p.pair_queue is None else int(p.pair_queue[pair_id])
        self.sender = Sender(self, run, run.ports[self.data_path[0]], row, window, rtt_ps, queue)
        self.receiver = Receiver(self, run)

    def packet(self, kind: int, size_bytes: int, queue: int, number: int) -> Packet:
        """A packet that is about to leave by its first port; behind it, its path or its route."""
        path = (self.data_path if kind == DATA else self.ack_path)[1:]
        if self.is_fixed or not path:
            return Packet(kind, size_bytes, queue, path, pair=self, number=number)
        return Packet(kind, size_bytes, queue, route=2 * self.pair_id + (kind != DATA), pair=self, number=number)


class NetworkTwin:
    """`run` it once, then read `flows` (by id), `ports` (by id) and the totals."""

    def __init__(
        self,
        topology: Topology,
        paths: Paths,
        flows: list[TwinFlow],
        windows: list[int],
        parameters: NetworkParameters,
        n_part: int = 1,
    ) -> None:
        assert parameters.ns3 is None
        self.parameters, self.events, self.n_part = parameters, Events(), n_part
        self.routes = Routes(topology, parameters)
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
            self.events.push(flow.start_ps, POST, flow.flow_id, 0, lambda now_ps, flow=flow: self.post(flow, now_ps))
        for i, change in enumerate(parameters.link_changes):
            self.events.push(change.time_ps, CHANGE, i, 0, lambda _, change=change: self.change(change))

    def post(self, flow: TwinFlow, now_ps: int) -> None:
        """A message comes, split over its queue pairs; then NICs may send, before the next one of the same instant."""
        self.flows[flow.flow_id].start_ps = now_ps
        senders = [self.pairs[flow.pair + k].sender for k in range(self.n_part)]
        for k, sender in enumerate(senders):
            sender.post(flow.flow_id, len(range(k, flow.size_bytes, self.n_part)))
        for sender in senders:
            sender.port.node.note_event(now_ps)
            sender.port.look(now_ps)

    def change(self, change: LinkChange) -> None:
        """Both directions of a link change."""
        port = self.ports[change.port]
        port.change(change)
        port.peer.change(change)

    def run(self, max_hop: int = 10**7) -> "NetworkTwin":
        """Everything that happens, until only timers of idle queue pairs are left, or after max_hop starts."""
        while self.events.n_lasting or any(pair.sender.is_busy for pair in self.pairs.values()):
            if not self.events.heap or self.n_hop >= max_hop:
                break
            self.events.run_next()
        return self
