"""What carries a collective between servers: protocols, and what each leaves of the line, per kind of network.

HeteroSim, equation 8: over a link of a type a message takes alpha + bytes / beta, with an alpha and a beta for each
range of sizes. Here alpha is `fixed_ps` and `hop_ps`, beta `line_ppm` of the NIC's rate, and a range is a protocol.

InfiniBand's and RoCE's latencies are those with which NCCL chooses (tuning.cc, hwLatencies, network: for trees LL 5,
LL128 8.5, Simple 14 us); its LL sends a flag of 4 bytes with every 4, LL128 one of 8 with every 120. What cloud
networks take was fitted to one measured all-reduce each.
"""

from dataclasses import dataclass

from models.workload.nccl.calibration import ALL_SIZES, MIB
from pdes.units import PS_PER_US

PPM = 10**6
WIRE_PPM = {"LL": 2 * PPM, "LL128": 128 * PPM // 120, "Simple": PPM}
"""Bytes on the wire per byte of data."""


@dataclass(frozen=True)
class Protocol:
    """fixed_ps: once per collective. hop_ps: per hop from server to server, beyond what the network takes.

    line_ppm: of the NIC's payload rate, what data gets. up_to_bytes: from where the one before it in the list ends.
    """

    name: str
    fixed_ps: int
    hop_ps: int
    line_ppm: int
    up_to_bytes: int = ALL_SIZES


@dataclass(frozen=True)
class Transport:
    """A kind of network. ordered: protocols take over from each other at sizes; else the fastest one is used."""

    name: str
    protocols: tuple[Protocol, ...]
    fitted_to: str
    ordered: bool = False


def _protocol(name: str, fixed_us: int, hop_us: float, line_ppm: int, up_to_bytes: int = ALL_SIZES) -> Protocol:
    return Protocol(name, fixed_us * PS_PER_US, round(hop_us * PS_PER_US), line_ppm, up_to_bytes)


_NCCL = (_protocol("LL", 0, 5, 475_000), _protocol("LL128", 0, 8.5, 890_000), _protocol("Simple", 0, 14, 950_000))
TRANSPORTS = {
    transport.name: transport
    for transport in (
        Transport("infiniband", _NCCL, "line: nccl-1368-ring"),
        Transport("roce", _NCCL, "line: nccl-1368-ring"),
        Transport(
            "efa",
            (
                _protocol("LL128", 210, 20, 720_000, 16 * MIB),
                _protocol("Simple", 190, 20, 786_000, 256 * MIB),
                _protocol("Simple", 250, 20, 970_000),
            ),
            "B200-4x8",
            ordered=True,
        ),
        Transport(
            "tcpxo",
            (_protocol("LL", 70, 30, 105_000), _protocol("Simple", 780, 30, 915_000)),
            "H100-2x8-GCP-A3mega",
        ),
    )
}


INFINIBAND = TRANSPORTS["infiniband"]


def protocols_for(transport: Transport, size_bytes: int, protocol: str) -> list[Protocol]:
    """Protocols among which the fastest is taken at a size; those of a name if one is asked for."""
    found = [p for p in transport.protocols if protocol in ("auto", p.name) and size_bytes <= p.up_to_bytes]
    found = found or [p for p in transport.protocols if protocol in ("auto", p.name)][-1:] or [transport.protocols[-1]]
    return found[:1] if transport.ordered else found
