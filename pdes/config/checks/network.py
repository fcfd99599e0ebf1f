"""What [network] and its tables must satisfy together, as far as neither the topology nor the control matters."""

from collections.abc import Iterator

from pdes.config.tables.fields import Fault, Table
from pdes.config.tables.network import LAW_TABLES, NetworkConfig
from pdes.config.tables.routing import routing_faults
from pdes.units import MAX_WIRE_BYTES, exact_duration, exact_rate, shown


def network_faults(network: Table | None) -> Iterator[Fault]:
    """All faults of a [network] whose values are right one by one."""
    if not isinstance(network, NetworkConfig):
        return
    yield from _marking_faults(network)
    yield from _packet_faults(network)
    yield from _pause_faults(network)
    yield from _transport_faults(network)
    yield from _compatibility_faults(network)
    is_selective = network.transport is not None and network.transport.recovery == "selective-repeat"
    yield from routing_faults(network.routing, network.link_event, network.is_ns3, is_selective)
    if network.next_hops_file and (network.link_event or network.routing.policy != "ecmp"):
        found = "names a fixed table, but switches are to look for next hops themselves"
        accepted = 'Accepted: without [[network.link_event]], and with [network.routing] policy = "ecmp"'
        yield Fault(("network", "next_hops_file"), found, accepted)
    if network.parameters and network.congestion_control in LAW_TABLES:
        found = (
            f"is for a congestion control of your own, but congestion_control is {shown(network.congestion_control)}"
        )
        yield Fault(("network", "parameters"), found, f"Accepted: [network.{network.congestion_control}]")


def _marking_faults(network: NetworkConfig) -> Iterator[Fault]:
    kmin, kmax = network.ecn_kmin_bytes, network.ecn_kmax_bytes
    if (kmin is None) != (kmax is None):
        given, other = ("ecn_kmax", "ecn_kmin") if kmin is None else ("ecn_kmin", "ecn_kmax")
        yield Fault(("network", given), f'is a size, but {other} is "auto"', 'Accepted: both sizes, or both "auto"')
    if kmin is not None and kmax is not None and kmin > kmax:
        accepted = f"Accepted: at most ecn_kmax = {kmax} bytes"
        yield Fault(("network", "ecn_kmin"), f"found {kmin} bytes", accepted)
    rates = set()
    for i_row, row in enumerate(network.ecn_rate):
        path = ("network", "ecn_rate", i_row)
        if row.rate_bps in rates:
            yield Fault((*path, "rate"), f"{exact_rate(row.rate_bps)} is there twice", "Accepted: each rate once")
        if row.kmin_bytes > row.kmax_bytes:
            accepted = f"Accepted: at most kmax = {row.kmax_bytes} bytes"
            yield Fault((*path, "kmin"), f"found {row.kmin_bytes} bytes", accepted)
        rates.add(row.rate_bps)


def _packet_faults(network: NetworkConfig) -> Iterator[Fault]:
    data_bytes = network.payload_bytes + network.header_bytes
    for key, size_bytes in (("payload", data_bytes), ("ack", network.ack_bytes)):
        if size_bytes > MAX_WIRE_BYTES:
            found = f"makes packets of {size_bytes} bytes with their header"
            yield Fault(("network", key), found, f"Accepted: packets of at most {MAX_WIRE_BYTES} bytes")
    if network.pfc.frame_bytes > MAX_WIRE_BYTES:
        accepted = f"Accepted: at most {MAX_WIRE_BYTES} bytes"
        yield Fault(("network", "pfc", "frame"), f"found {network.pfc.frame_bytes} bytes", accepted)


def _pause_faults(network: NetworkConfig) -> Iterator[Fault]:
    if network.pfc.enabled and not network.buffer.is_limited:
        found = 'is true, but [network.buffer] size is "unlimited": nothing would ever pause'
        yield Fault(("network", "pfc", "enabled"), found, 'Accepted: "auto" or false, or a buffer with a size')
    if not network.has_pfc and network.pfc.deadlock_check not in ("auto", "off"):
        found = "is there, but switches send no pauses"
        accepted = 'Accepted: "auto" or "off", or a buffer with a size'
        yield Fault(("network", "pfc", "deadlock_check"), found, accepted)
    if network.scheduler.weights and network.scheduler.kind != "weighted":
        found = f"is there, but kind is {shown(network.scheduler.kind)}"
        yield Fault(("network", "scheduler", "weights"), found, 'Accepted: weights with kind = "weighted"')


def _transport_faults(network: NetworkConfig) -> Iterator[Fault]:
    transport = network.transport
    if transport is None:
        return
    if transport.timeout_ps is not None and transport.timeout_ps > transport.max_timeout_ps:
        accepted = f"Accepted: at most max_timeout = {exact_duration(transport.max_timeout_ps)}"
        yield Fault(("network", "transport", "timeout"), f"found {exact_duration(transport.timeout_ps)}", accepted)
    if transport.reorder_bytes is not None and transport.recovery != "selective-repeat":
        found = f"is there, but recovery is {shown(transport.recovery)}"
        yield Fault(("network", "transport", "reorder"), found, 'Accepted: with recovery = "selective-repeat"')


def _compatibility_faults(network: NetworkConfig) -> Iterator[Fault]:
    """What only ns-3's rules know, and what they have no room for."""
    if not network.is_ns3:
        if network.ns3 is not None:
            found = 'is there, but [network] compatibility is "none"'
            yield Fault(("network", "ns3"), found, 'Accepted: with compatibility = "ns3-hpcc"')
        return
    foreign = {
        ("switch_latency",): network.switch_latency_ps > 0,
        ("scheduler",): "scheduler" in network.model_fields_set and network.scheduler.kind != "round-robin",
        ("transport",): network.transport is not None,
        ("pfc", "enabled"): network.pfc.enabled is False,
    }
    for path, is_there in foreign.items():
        if is_there:
            accepted = 'Accepted: compatibility = "none", or this left out'
            if path[0] == "pfc":
                accepted = "Accepted: [network.ns3] ignore_pfc = true, which is how ns-3 does without"
            yield Fault(("network", *path), 'is not a choice in ns-3, and compatibility is "ns3-hpcc"', accepted)
