"""One run: build hosts, switches and queue pairs of a case, start its flows, collect the results."""

from reference.ns3_twin.case import Ns3Case, source_ports
from reference.ns3_twin.control import CONTROLS
from reference.ns3_twin.draws import EngineDraws, Ns3Draws
from reference.ns3_twin.event_queue import FLOW_START, EventQueue
from reference.ns3_twin.host import Host, QueuePair
from reference.ns3_twin.results import FlowRow, Ns3Result, PortRow
from reference.ns3_twin.routes import base_rtts
from reference.ns3_twin.switch import Switch
from reference.ns3_twin.wire import Node, Port, Wires

N_START_STEPS = 3  # events that ns-3 chains at a flow's start, so that it is late in its instant
MASK_32 = 0xFFFFFFFF


def simulate(case: Ns3Case, tie: str = "ns3", seed: int = 1) -> Ns3Result:
    """Run a case until nothing is left to happen, or up to its stop time, without the events of that instant.

    tie: the order of simultaneous events, see `event_queue.tie_rule`. "engine" also draws the engine's random numbers,
    keyed by seed, and keeps receivers (see `Host`); the others draw ns-3's, and seed is RngRun.
    """
    return Simulation(case, tie, seed).run()


class Simulation:
    """The parts of a run."""

    def __init__(self, case: Ns3Case, tie: str, seed: int) -> None:
        self.case = case
        self.events = EventQueue(tie)
        self.n_start_steps = 1 if tie == "engine" else N_START_STEPS
        self.forgets_receivers = tie != "engine"
        draws = EngineDraws(seed) if tie == "engine" else Ns3Draws(case, seed)
        self.wires = Wires(self.events, draws, case.config.pfc_is_heeded)
        self.ports = make_ports(case)
        self.port_between = {(port.node_id, port.peer_id): port for port in self.ports}
        self.host_of = self._make_nodes()
        self.pairs = self._make_pairs()

    def _make_nodes(self) -> dict[int, Host]:
        """Hosts by id; every port knows its node."""
        ports_of: dict[int, list[Port]] = {node: [] for node in range(self.case.n_node)}
        for port in self.ports:
            ports_of[port.node_id].append(port)
        hosts = self.case.hosts
        many = [node for node in hosts if len(ports_of[node]) != 1]
        if many:
            raise ValueError(f"host {many[0]} has {len(ports_of[many[0]])} links. Accepted: 1")
        nic_bps = ports_of[hosts[0]][0].rate_bps
        nodes: dict[int, Node] = {node: Host(self.case.config, self.wires, self.forgets_receivers) for node in hosts}
        for node in self.case.switches:
            nodes[node] = Switch(self.case.config, self.wires, ports_of[node], nic_bps)
        for port in self.ports:
            port.node = nodes[port.node_id]
        return {node_id: node for node_id, node in nodes.items() if isinstance(node, Host)}

    def _make_pairs(self) -> list[QueuePair]:
        case, config = self.case, self.case.config
        base = base_rtts(case.hosts, case.links, case.next_hops, config.payload_bytes)
        longest = max(rtt_ns for rtt_ns, _ in base.values()), max(bdp_bytes for _, bdp_bytes in base.values())
        pairs = []
        for i_flow, (flow, nodes) in enumerate(zip(case.flows, case.paths, strict=True)):
            data, ack = ([self.port_between[ends] for ends in zip(path, path[1:], strict=False)] for path in nodes)
            rtt_ns, bdp_bytes = longest if config.window_is_global else base[flow.src, flow.dst]
            window_bytes = bdp_bytes & MASK_32 if config.has_window else 0
            pair = QueuePair(i_flow, flow, data, ack, data[0].rate_bps, window_bytes, rtt_ns)
            pair.control = CONTROLS[config.congestion_control](config, self.host_of[flow.src], pair)
            pairs.append(pair)
        return pairs

    def run(self) -> Ns3Result:
        """Start every flow at its time and run; a second call finds nothing to do."""
        for pair in self.pairs:
            self.events.push(pair.flow.start_ns, (FLOW_START, pair.i_flow, 0), self._start, pair, 1)
        self.events.run(self.case.config.stop_ns)
        flows = [flow_row(pair, sport) for pair, sport in zip(self.pairs, source_ports(self.case.flows), strict=True)]
        ports = [port_row(port) for port in self.ports]
        return Ns3Result(flows, ports, self.events.n_run, self.events.now_ns, self.wires.pfc_log)

    def _start(self, pair: QueuePair, i_step: int) -> None:
        if i_step < self.n_start_steps:
            order = FLOW_START, pair.i_flow, i_step
            self.events.push(self.events.now_ns, order, self._start, pair, i_step + 1)
        else:
            self.host_of[pair.flow.src].start(pair)


def make_ports(case: Ns3Case) -> list[Port]:
    """Both ends of every link, in the engine's order of port ids: by receiving node, then by sending node."""
    ends = []
    for i_link, link in enumerate(case.links):
        ends += [(link.end_b, link.end_a, i_link), (link.end_a, link.end_b, i_link)]
    if len({end[:2] for end in ends}) < len(ends):
        raise ValueError("two links join the same nodes. Accepted: one link between two nodes")
    ports = []
    for port_id, (dst, src, i_link) in enumerate(sorted(ends)):
        link = case.links[i_link]
        ports.append(Port(port_id, src, dst, i_link, link.rate_bps, link.delay_ns, link.error_rate))
    between = {(port.node_id, port.peer_id): port for port in ports}
    for port in ports:
        port.peer = between[port.peer_id, port.node_id]
    return ports


def flow_row(pair: QueuePair, sport: int) -> FlowRow:
    """A pair as its row."""
    flow = pair.flow
    fct_ns = pair.finish_ns - flow.start_ns if pair.finish_ns >= 0 else -1
    ends = flow.src, flow.dst, sport, flow.dport, flow.size_bytes, flow.start_ns
    return FlowRow(*ends, fct_ns, pair.delivered_ns, pair.sent_bytes, pair.marked_acks, pair.nacks)


def port_row(port: Port) -> PortRow:
    """A port as its row."""
    return PortRow(
        src=port.node_id,
        dst=port.peer_id,
        tx_bytes=port.tx_bytes,
        tx_packets=port.n_sent,
        lost=port.n_lost,
        dropped=port.n_dropped,
        marked=port.n_marked,
        draws=port.n_draw,
        paused_ns=tuple(port.paused_ns),
        paused_since_ns=tuple(port.paused_since_ns),
        pauses_sent=port.pauses_sent,
        resumes_sent=port.resumes_sent,
        pauses_received=port.pauses_received,
        resumes_received=port.resumes_received,
    )
