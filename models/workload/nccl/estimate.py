"""What a collective between servers takes on an idle network: how NCCL's tuner chooses, and what packets do not show.

Packets carry the data; what they do not show is charged before them: the launch, each hop's protocol, the line that a
protocol leaves unused, and the part inside the servers that the network does not hide (chunks pass through both, so
the slower one is what is seen). `Choice.lead_ps` is that sum.
"""

from dataclasses import dataclass

from models.workload.nccl.calibration import ALL_SIZES, Calibration, GpuType, Regime, calibration_of
from models.workload.nccl.in_server import REFERENCE_STEPS, in_server_ps
from models.workload.nccl.options import CollectiveOptions
from models.workload.nccl.transports import PPM, WIRE_PPM, Protocol, Transport, protocols_for
from pdes.units import BITS_PER_BYTE, PS_PER_S, PS_PER_US

TREE_PPM = 810_000
"""Of what a ring gets of the line, a tree's part; NCCL assumes 0.92. Fitted to nccl-1368-tree: 5 servers, 150 GB/s."""
CHUNK_BYTES = 512 * 1024  # of a channel, NCCL's Simple protocol
SHARP_PS = {True: 18 * PS_PER_US, False: 31 * PS_PER_US}
"""Latency of a sum in the network's switches by whether the NVSwitch reduces, too (tuning.cc: NVLS, CollNetDirect)."""
PASSES = {"all-reduce": 2, "reduce-scatter": 1, "all-gather": 1, "broadcast": 1}


@dataclass(frozen=True)
class Choice:
    """A way between servers. rail_bytes: data that a NIC sends; wire_ppm: bytes on the wire per byte of it.

    n_step: messages of a ring one after the other. lead_ps, tail_ps: charged before and after the packets.
    total_ps: the estimate by which it was chosen.
    """

    algorithm: str
    protocol: str
    rail_bytes: int
    wire_ppm: int
    n_step: int
    lead_ps: int
    tail_ps: int
    total_ps: int

    def message_bytes(self) -> int:
        """Bytes on the wire of each step, at least one."""
        return max(1, on_wire(-(-self.rail_bytes // self.n_step), self.wire_ppm))


def on_wire(data_bytes: int, wire_ppm: int) -> int:
    """Bytes on the wire for some bytes of data."""
    return -(-data_bytes * wire_ppm // PPM)


def line_ps(data_bytes: int, rate_bps: int, part_ppm: int = PPM) -> int:
    """Time of bytes on a part of a line; 0 for a rate that is not known."""
    return data_bytes * BITS_PER_BYTE * PS_PER_S * PPM // (rate_bps * part_ppm) if rate_bps else 0


@dataclass(frozen=True)
class Shape:
    """A group: n_server servers with per_server members each, of a GPU type."""

    gpu: GpuType
    n_server: int
    per_server: int

    @property
    def n_gpu(self) -> int:
        return self.n_server * self.per_server


def depth(n: int) -> int:
    """Hops from the root of a balanced binary tree over n to the deepest one."""
    return max(1, (n - 1).bit_length())


def network_part(algorithm: str, kind: str, size_bytes: int, shape: Shape) -> tuple[int, int]:
    """(bytes that a NIC sends, hops from server to server one after the other) of a reducing collective.

    A ring crosses each server's border once on each rail: 1 / per_server of the buffer, (n - 1) / n of it in each half,
    per_server chunks on their way at a time. Hierarchical rings have n_server members. Of a double binary tree the
    busiest server, inner in one and leaf in the other tree, sends four halves; with two servers both send two. Where
    the network's switches reduce (SHARP), a NIC sends its share once, and takes in the sum.
    """
    n, k, m = shape.n_gpu, shape.per_server, shape.n_server
    passes, share = PASSES[kind], -(-size_bytes // k)
    if algorithm == "ring":
        return -(-passes * (n - 1) * size_bytes // (n * k)), -(-passes * (n - 1) // k)
    if algorithm == "tree":
        return (share if m == 2 else 2 * share), 2 * depth(m)
    if algorithm == "sharp":
        return share, 1
    return -(-passes * (m - 1) * share // m), passes * (m - 1)


def inside_part(algorithm: str, kind: str, size_bytes: int, shape: Shape, nvls: bool | None) -> tuple[int, int]:
    """(time inside a server at the full rate, its latency part) of a reducing collective between servers."""
    k = shape.per_server
    if k == 1:
        return 0, 0
    calibration = calibration_of(shape.gpu)
    first, last = simple_ring(calibration)
    if algorithm == "ring":
        n, passes = shape.n_gpu, PASSES[kind]
        moved = passes * (n - 1) * size_bytes // n * (k - 1) // k
        step_ps = (first.latency_ps - calibration.launch_ps) // REFERENCE_STEPS
        hops = -(-passes * (n - 1) // k) * (k - 1)
        return moved * PS_PER_US // last.bytes_per_us + hops * step_ps, hops * step_ps
    whole = in_server_ps(shape.gpu, kind, size_bytes, k, nvls=nvls)
    chunk = in_server_ps(shape.gpu, kind, min(size_bytes, CHUNK_BYTES * k), k, nvls=nvls)
    return max(0, whole - calibration.launch_ps), max(0, chunk - calibration.launch_ps)


def simple_ring(calibration: Calibration) -> tuple[Regime, Regime]:
    """A GPU type's ring for the least and for the largest messages."""
    rings = [regime for regime in calibration.regimes if regime.algorithm == "ring"]
    return rings[0], next(regime for regime in rings if regime.up_to_bytes == ALL_SIZES)


def choice_of(algorithm: str, protocol: Protocol, kind: str, size_bytes: int, shape: Shape,
              options: CollectiveOptions) -> Choice:  # fmt: skip
    """One algorithm and protocol of a reducing collective, estimated."""
    rail_bytes, n_hop = network_part(algorithm, kind, size_bytes, shape)
    nvls = False if options.algorithm_of(kind) == "tree" else options.nvls
    inside_ps, latency_ps = inside_part(algorithm, kind, size_bytes, shape, nvls)
    rate_bps, wire_ppm = options.nic_goodput_bps, WIRE_PPM[protocol.name]
    part_ppm = protocol.line_ppm * TREE_PPM // PPM if algorithm == "tree" else protocol.line_ppm
    net_ps = line_ps(rail_bytes, rate_bps, part_ppm)
    stretch_ps = max(0, net_ps - line_ps(on_wire(rail_bytes, wire_ppm), rate_bps))
    exposed_ps = latency_ps + (max(0, inside_ps - latency_ps - net_ps) if rate_bps else 0)
    hops_ps = n_hop * protocol.hop_ps
    if algorithm == "sharp":
        hops_ps = SHARP_PS[nvls is not False and calibration_of(shape.gpu).has_nvls]
    fixed_ps = calibration_of(shape.gpu).launch_ps + protocol.fixed_ps + hops_ps
    tail_ps = latency_ps // 4 if shape.per_server > 1 else 0
    lead_ps = fixed_ps + stretch_ps + exposed_ps - tail_ps
    total_ps = fixed_ps + net_ps + exposed_ps
    return Choice(algorithm, protocol.name, rail_bytes, wire_ppm, n_hop, lead_ps, tail_ps, total_ps)


def choose(kind: str, size_bytes: int, shape: Shape, options: CollectiveOptions, is_uniform: bool) -> Choice:
    """The way that takes the least time of those that NCCL has; is_uniform: among those in which all do the same.

    Trees reduce and spread in one, so they are for an all-reduce; over two servers a tree is an exchange of halves,
    which all do alike, as the hierarchical rings are. Of servers on unlike networks the slowest one counts.
    """
    found = (_choose(kind, size_bytes, shape, options, is_uniform, one) for one in options.transports)
    return max(found, key=lambda choice: choice.total_ps)


def _choose(
    kind: str, size_bytes: int, shape: Shape, options: CollectiveOptions, is_uniform: bool, transport: Transport
) -> Choice:
    asked = options.algorithm_of(kind)
    algorithms = {"auto": ["ring"], "nvls": ["tree"]}.get(asked, [asked])
    if asked == "auto" and kind == "all-reduce":
        algorithms = ["ring", "tree"]
    two = shape.n_server == 2
    if kind != "all-reduce":
        algorithms = [a for a in algorithms if a not in ("tree", "sharp")] or ["ring"]
    if is_uniform and not two:
        algorithms = [a for a in algorithms if a != "tree"] or ["hierarchical" if shape.per_server > 1 else "ring"]
    found = []
    for algorithm in algorithms:
        name = "hierarchical" if two and algorithm == "tree" else algorithm
        asked_protocol = "Simple" if algorithm == "sharp" else options.protocol_of(kind)  # NCCL has no other for it
        for protocol in protocols_for(transport, size_bytes, asked_protocol):
            found.append(choice_of(name, protocol, kind, size_bytes, shape, options))
    return min(found, key=lambda choice: choice.total_ps)


def exchange_lead_ps(
    size_bytes: int, shape: Shape, n_hop: int, options: CollectiveOptions, kind: str = "all-to-all"
) -> tuple[int, int]:
    """(what an exchange of a kind charges before its packets, bytes on the wire per million bytes of data)."""
    found = (_exchange(size_bytes, shape, n_hop, options, kind, one) for one in options.transports)
    _, lead_ps, wire_ppm = max(found)
    return lead_ps, wire_ppm


def _exchange(
    size_bytes: int, shape: Shape, n_hop: int, options: CollectiveOptions, kind: str, transport: Transport
) -> tuple[int, int, int]:
    """(estimate, the two of `exchange_lead_ps`) in the fastest protocol."""
    n, k = shape.n_gpu, shape.per_server
    rail_bytes = -(-size_bytes // n) * (n - k)
    inside_ps = in_server_ps(shape.gpu, "all-to-all", size_bytes, k)
    launch_ps = calibration_of(shape.gpu).launch_ps
    found = []
    for protocol in protocols_for(transport, size_bytes, options.protocol_of(kind)):
        wire_ppm = WIRE_PPM[protocol.name]
        net_ps = line_ps(rail_bytes, options.nic_goodput_bps, protocol.line_ppm)
        stretch_ps = max(0, net_ps - line_ps(on_wire(rail_bytes, wire_ppm), options.nic_goodput_bps))
        fixed_ps = launch_ps + protocol.fixed_ps + n_hop * protocol.hop_ps
        exposed_ps = max(0, inside_ps - launch_ps - net_ps) if options.nic_goodput_bps else 0
        found.append((fixed_ps + net_ps + exposed_ps, fixed_ps + stretch_ps + exposed_ps, wire_ppm))
    return min(found)


def message_lead_ps(gpu: GpuType, size_bytes: int, options: CollectiveOptions) -> tuple[int, int]:
    """The same of one message from a server to another."""
    return exchange_lead_ps(2 * size_bytes, Shape(gpu, 2, 1), 1, options)
