"""[network.buffer] and [network.pfc] in the network model's terms: bytes for every switch and port."""

import numpy as np

from models.network.state.parameters import BufferParameters
from models.topology.graph import Topology
from pdes.config.tables.network import NetworkConfig
from pdes.errors import ConfigError
from pdes.units import BITS_PER_BYTE, NS_PER_S, PS_PER_NS, PS_PER_S, format_rate

MIB = 2**20
AUTO_BYTES_PER_50_GBPS = 16 * MIB  # HPCC repository, run.py: BUFFER_SIZE 16 * bw / 50, in units of 2^20 bytes
AUTO_SHIFT = 3  # a queue may take 1/8 of the free pool, twice that for every halving that brings its port to host rate


def buffer_parameters(
    network: NetworkConfig, topology: Topology, data_bytes: int, n_data_queue: int
) -> BufferParameters | None:
    """The shared buffers of all switches; None: unlimited. data_bytes: of a full packet on the wire.

    n_data_queue: those that PFC pauses. Raises ConfigError, naming the switch that reserve and headroom would fill.
    """
    if not network.buffer.is_limited:
        return None
    has_pfc = network.has_pfc
    headroom_bytes = _headroom_bytes(network, topology, data_bytes, n_data_queue)
    size = network.buffer.size
    size_bytes = AUTO_BYTES_PER_50_GBPS * host_rate_bps(topology) // (50 * 10**9) if size == "auto" else int(size)
    found = BufferParameters(
        size_bytes=np.where(topology.is_switch, size_bytes, 0),
        alpha_1024=_alpha_1024(network, topology),
        headroom_bytes=np.where(topology.is_switch[topology.port_dst] & has_pfc, headroom_bytes, 0),
        reserve_bytes=network.buffer.reserve_bytes,
        pfc=has_pfc,
        pfc_bytes=network.pfc.frame_bytes,
        resume_offset_bytes=network.pfc.resume_offset_bytes,
    )
    if not network.is_ns3:  # where the pool just wraps below zero
        _check_room(network, topology, found, size_bytes, n_data_queue)
    return found


def host_rate_bps(topology: Topology) -> int:
    """The fastest host's NIC."""
    return int(topology.nic_rate_bps.max(initial=0))


def _ns3_host_rate_bps(topology: Topology) -> int:
    """ns-3's "NIC rate": of the first device of the first host (MODEL.md section 7)."""
    ports = np.flatnonzero(topology.port_src == topology.host[0])
    return int(topology.port_rate_bps[ports[0]]) if len(ports) else 0


def _headroom_bytes(network: NetworkConfig, topology: Topology, data_bytes: int, n_data_queue: int) -> np.ndarray:
    """int64[n_port]: what may still arrive on a link for one queue after a pause was sent.

    The packet that makes it pause may itself need it, as others have shrunk the threshold since. The pause waits for a
    packet and for the pauses of the other queues, crosses the link, and finds a packet half sent; what is on the wire
    by then arrives too: 2 x delay x rate + 3 packets + a pause per queue.
    """
    if network.buffer.headroom_bytes is not None:
        return np.full(topology.n_port, network.buffer.headroom_bytes, np.int64)
    found = np.empty(topology.n_port, np.int64)
    fixed_bytes = 3 * data_bytes + n_data_queue * network.pfc.frame_bytes
    rates, delays_ps = topology.port_rate_bps.tolist(), topology.port_delay_ps.tolist()
    for port, (rate_bps, delay_ps) in enumerate(zip(rates, delays_ps, strict=True)):
        if network.is_ns3:  # CORRECTIONS.md fact 12: truncated before it is tripled
            found[port] = rate_bps * (delay_ps // PS_PER_NS) // BITS_PER_BYTE // NS_PER_S * 3
        else:
            flight_ps = delay_ps + delays_ps[topology.port_peer[port]]  # both with the latency of a switch
            found[port] = -(-flight_ps * rate_bps // (BITS_PER_BYTE * PS_PER_S)) + fixed_bytes
    return found


def _alpha_1024(network: NetworkConfig, topology: Topology) -> np.ndarray:
    """int64[n_port]: the share of the free pool that one queue may take, in 1/1024."""
    if network.buffer.alpha is not None:
        return np.full(topology.n_port, max(1, round(network.buffer.alpha * 1024)), np.int64)
    host_bps = _ns3_host_rate_bps(topology) if network.is_ns3 else host_rate_bps(topology)
    shares = {}
    for rate_bps in np.unique(topology.port_rate_bps).tolist():
        shift, rest_bps = AUTO_SHIFT, rate_bps
        while rest_bps > host_bps and shift > 0:
            shift, rest_bps = shift - 1, rest_bps // 2
        shares[rate_bps] = 1024 >> shift
    return np.array([shares[rate_bps] for rate_bps in topology.port_rate_bps.tolist()], np.int64)


def _check_room(
    network: NetworkConfig, topology: Topology, found: BufferParameters, size_bytes: int, n_data_queue: int
) -> None:
    """Refuse a buffer that is spent before the first packet of the shared pool."""
    taken = np.zeros(topology.n_node, np.int64)
    np.add.at(taken, topology.port_dst, (found.headroom_bytes + found.reserve_bytes) * n_data_queue)
    taken[~topology.is_switch] = 0
    if not len(taken) or taken.max() < size_bytes:
        return
    switch = int(np.argmax(taken))
    ports = topology.in_ports(switch)
    largest = max(ports, key=lambda port: found.headroom_bytes[port])
    text = (
        f"{size_bytes} B, but {topology.node_name[switch]} sets aside {taken[switch]} B: {len(ports)} ports x "
        f"{n_data_queue} priorities x (reserve {found.reserve_bytes} B + headroom of up to "
        f"{found.headroom_bytes[largest]} B, at {format_rate(int(topology.port_rate_bps[largest]))})"
    )
    accepted = f"Accepted: a buffer above {taken[switch]} B, or less reserve or headroom"
    raise ConfigError("[network.buffer] size", text, accepted)
