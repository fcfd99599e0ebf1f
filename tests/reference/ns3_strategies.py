"""Hypothesis strategies: small ns-3 cases that crowd. Incasts, small buffers, pauses, drops, losses, every control.

Most cases have some hundred packets, none many more than MAX_PACKETS: the stop time sees to it, since lost packets can
lock a sender in an endless loop (there is no retransmission timeout).
"""

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from reference.ns3_twin.case import DCQCN, DCTCP, HPCC, TIMELY, Ns3Case, Ns3Config, Ns3Flow, Ns3Link
from reference.ns3_twin.quantities import NS_PER_S, survives_cut, wire_ns
from reference.ns3_twin.routes import route_flows, shortest_next_hops

GBPS = 10**9
MAX_PACKETS = 20_000
FIRST_START_NS = 2 * NS_PER_S  # as in the HPCC repository
MIB = 1 << 20
RESERVE_BYTES = 4096
INT_RATES_BPS = [25 * GBPS, 50 * GBPS, 100 * GBPS, 200 * GBPS, 400 * GBPS]  # all that INT can say
OTHER_RATES_BPS = [10 * GBPS, 40 * GBPS]
DELAYS_NS = [1000, 1000, 500, 25, 1, 699, 700, 1500, 5000]
LONG_DELAYS_NS = [1000, 10_000, 130_000]  # round trips that TIMELY's thresholds of 50 and 500 us tell apart


@dataclass(frozen=True)
class LinkKinds:
    """What links of one case may be."""

    rates_bps: list[int]
    delays_ns: list[int]
    error_rates: list[float]


@dataclass(frozen=True)
class Fabric:
    """Nodes and links. Hosts are 0 .. n_host - 1; further nodes that are no switches neither send nor receive."""

    n_host: int
    n_node: int
    switches: tuple[int, ...]
    links: tuple[Ns3Link, ...]


@st.composite
def _link_kinds(draw: st.DrawFn, congestion_control: int) -> LinkKinds:
    rates_bps = INT_RATES_BPS if congestion_control == HPCC else INT_RATES_BPS + OTHER_RATES_BPS
    return LinkKinds(
        draw(st.sampled_from([[100 * GBPS], [100 * GBPS, 400 * GBPS], rates_bps])),
        draw(st.sampled_from([[1000], DELAYS_NS, DELAYS_NS, DELAYS_NS, LONG_DELAYS_NS])),
        draw(st.sampled_from([[0.0], [0.0], [0.0], [0.0], [0.0, 0.0, 0.001], [0.0, 0.0, 0.02]])),
    )


@st.composite
def _link(draw: st.DrawFn, kinds: LinkKinds, end_a: int, end_b: int) -> Ns3Link:
    rate_bps, delay_ns = draw(st.sampled_from(kinds.rates_bps)), draw(st.sampled_from(kinds.delays_ns))
    return Ns3Link(end_a, end_b, rate_bps, delay_ns, draw(st.sampled_from(kinds.error_rates)))


@st.composite
def _hosts_on(draw: st.DrawFn, kinds: LinkKinds, leaf_of_host: list[int]) -> list[Ns3Link]:
    """A link for every host: all alike, or each its own."""
    alike = draw(st.booleans())
    first = draw(_link(kinds, 0, leaf_of_host[0]))
    ends = enumerate(leaf_of_host)
    return [replace(first, end_a=i, end_b=leaf) if alike else draw(_link(kinds, i, leaf)) for i, leaf in ends]


@st.composite
def stars(draw: st.DrawFn, kinds: LinkKinds) -> Fabric:
    """One switch."""
    n_host = draw(st.integers(2, 8))
    return Fabric(n_host, n_host + 1, (n_host,), tuple(draw(_hosts_on(kinds, [n_host] * n_host))))


@st.composite
def dumbbells(draw: st.DrawFn, kinds: LinkKinds) -> Fabric:
    """Two switches with a trunk between them."""
    n_left, n_right = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    n_host = n_left + n_right
    links = draw(_hosts_on(kinds, [n_host] * n_left + [n_host + 1] * n_right))
    links.append(draw(_link(kinds, n_host, n_host + 1)))
    return Fabric(n_host, n_host + 2, (n_host, n_host + 1), tuple(links))


@st.composite
def leaf_spines(draw: st.DrawFn, kinds: LinkKinds) -> Fabric:
    """Two or three leaves, each joined to all of two or three spines, maybe by unequal links."""
    per_leaf, n_leaf, n_spine = draw(st.integers(1, 3)), draw(st.integers(2, 3)), draw(st.integers(2, 3))
    n_host = per_leaf * n_leaf
    leaves, spines = range(n_host, n_host + n_leaf), range(n_host + n_leaf, n_host + n_leaf + n_spine)
    links = draw(_hosts_on(kinds, [n_host + i // per_leaf for i in range(n_host)]))
    alike, first = draw(st.booleans()), draw(_link(kinds, 0, 0))
    for leaf in leaves:
        for spine in spines:
            links.append(replace(first, end_a=leaf, end_b=spine) if alike else draw(_link(kinds, leaf, spine)))
    return Fabric(n_host, n_host + n_leaf + n_spine, (*leaves, *spines), tuple(links))


def narrowed(fabric: Fabric, buffer_mib: int, free_bytes: int) -> Fabric:
    """The fabric with an idle host at every switch whose link's headroom leaves free_bytes of the shared buffer.

    BUFFER_SIZE has whole MiB, which hundreds of packets do not fill. Switches with less than that stay as they are.
    """
    links, n_node, rate_bps = list(fabric.links), fabric.n_node, fabric.links[0].rate_bps
    for switch in fabric.switches:
        own = [link for link in fabric.links if switch in (link.end_a, link.end_b)]
        headroom_bytes = sum(link.rate_bps * link.delay_ns // 8 // NS_PER_S * 3 for link in own)
        spare_bytes = buffer_mib * MIB - headroom_bytes - (len(own) + 1) * RESERVE_BYTES - free_bytes
        if spare_bytes > 0:
            links.append(Ns3Link(n_node, switch, rate_bps, max(spare_bytes // 3 * 8 * NS_PER_S // rate_bps, 1)))
            n_node += 1
    return replace(fabric, n_node=n_node, links=tuple(links))


@st.composite
def _flows(draw: st.DrawFn, n_host: int, payload_bytes: int) -> tuple[Ns3Flow, ...]:
    """Flows to few hosts, so that they meet; in order of their starts, as ns-3 wants them."""
    hosts = st.integers(0, n_host - 1)
    to = draw(st.sampled_from([[n_host - 1], [0, n_host - 1], [0, 0, 0, n_host // 2]]))
    few = [1, payload_bytes - 1, payload_bytes, payload_bytes + 1, 4 * payload_bytes, 12_000]
    sizes = st.one_of(st.sampled_from(few), st.integers(1, 60 * payload_bytes), st.integers(50_000, 300_000))
    starts = st.one_of(st.just(0), st.just(0), st.sampled_from([83, 2083, 4174]), st.integers(0, 20_000))
    priorities = draw(st.sampled_from([[3], [3], [3, 3, 4], [1, 2, 3, 4, 5, 6, 7]]))
    flows = []
    for _ in range(draw(st.sampled_from([1, 2, 4, 8, 12]))):
        src, dst = draw(hosts), draw(st.sampled_from(to))
        dst = dst if dst != src else (src + 1) % n_host
        dport = draw(st.sampled_from([100, 100, 4791]))
        start_ns = FIRST_START_NS + draw(starts)
        flows.append(Ns3Flow(src, dst, draw(st.sampled_from(priorities)), dport, draw(sizes), start_ns))
    return tuple(sorted(flows, key=lambda flow: flow.start_ns))


@st.composite
def _ecn(draw: st.DrawFn, rates_bps: set[int]) -> dict[str, Any]:
    """Thresholds by rate, in proportion or not."""
    low_kb, high_kb = draw(st.sampled_from([(1, 1), (5, 5), (1, 40), (2, 40), (10, 100), (20, 20), (400, 1600)]))
    scaled = draw(st.booleans())
    probability = draw(st.sampled_from([1.0, 0.2, 0.5]))
    factor = {rate_bps: max(rate_bps // (100 * GBPS), 1) if scaled else 1 for rate_bps in sorted(rates_bps)}
    return {
        "ecn_min_bytes": {rate_bps: 1000 * low_kb * f for rate_bps, f in factor.items()},
        "ecn_max_bytes": {rate_bps: 1000 * high_kb * f for rate_bps, f in factor.items()},
        "ecn_max_probability": {rate_bps: probability for rate_bps in factor},
    }


@st.composite
def _control(draw: st.DrawFn, congestion_control: int) -> dict[str, Any]:
    """Constants that show in some 100 us: run.py's, and faster ones."""
    has_window = congestion_control == HPCC or draw(st.booleans())
    return {
        "congestion_control": congestion_control,
        "has_window": has_window,
        "window_follows_rate": draw(st.booleans()),
        "window_is_global": draw(st.booleans()),
        "min_rate_bps": draw(st.sampled_from([GBPS, GBPS // 10, 1_000_003])),
        "gain": draw(st.sampled_from([0.00390625, 0.0625, 0.5])),
        "rate_increase_bps": draw(st.sampled_from([10**7, 4 * 10**7, 10**9])),
        "fast_rate_increase_bps": draw(st.sampled_from([4 * 10**7, 5 * 10**9])),
        "dctcp_rate_increase_bps": draw(st.sampled_from([10**7, 615 * 10**6, 5 * 10**9])),
        "alpha_interval_us": draw(st.sampled_from([1, 4])),
        "decrease_interval_us": draw(st.sampled_from([1, 4])),
        "increase_interval_us": draw(st.sampled_from([3, 20, 300])),
        "fast_recovery_times": draw(st.sampled_from([0, 1, 5])),
        "clamps_target_rate": draw(st.booleans()),
        "fast_react": draw(st.booleans()),
        "target_utilisation": draw(st.sampled_from([0.95, 0.95, 0.7])),
        "mi_threshold": draw(st.sampled_from([0, 0, 5])),
        "int_multiplier": draw(st.sampled_from([1, 4])),
        "is_paced_by_rate": draw(st.sampled_from([True, True, True, False])),
    }


@st.composite
def _stop_ns(draw: st.DrawFn, fabric: Fabric, flows: tuple[Ns3Flow, ...], wire_bytes: int) -> int:
    """An end before which all NICs together can send at most MAX_PACKETS full packets, and never before the first."""
    sources = {flow.src for flow in flows}
    rates_bps = [link.rate_bps for link in fabric.links if link.end_a in sources]
    most_ns = int(MAX_PACKETS / sum(1 / wire_ns(wire_bytes, rate_bps) for rate_bps in rates_bps))
    stop_ns = FIRST_START_NS + min(most_ns, draw(st.sampled_from([4_000_000] * 9 + [150_000, 20_000])))
    while not survives_cut(stop_ns):
        stop_ns += 1
    return stop_ns


@st.composite
def cases(draw: st.DrawFn, controls: tuple[int, ...] = (DCQCN, HPCC, TIMELY, DCTCP)) -> Ns3Case:
    """A case with one of the congestion controls."""
    congestion_control = draw(st.sampled_from(controls))
    kinds = draw(_link_kinds(congestion_control))
    fabric = draw(st.one_of(stars(kinds), dumbbells(kinds), leaf_spines(kinds)))
    buffer_mib = draw(st.sampled_from([1, 1, 1, 2, 32]))
    free_bytes = draw(st.sampled_from([None, 10_000, 60_000, 200_000]))
    if free_bytes is not None:
        fabric = narrowed(fabric, buffer_mib, free_bytes)
    payload_bytes = draw(st.sampled_from([1000, 1000, 1000, 1500, 256]))
    flows = draw(_flows(fabric.n_host, payload_bytes))
    chunk_bytes = draw(st.sampled_from([4000, 4000, 1000, 777]))
    back_to_zero = draw(st.sampled_from([False] * 7 + [True]))
    if back_to_zero:  # only whole chunks ever end; the first flow stays as it is
        flows = (*flows[:1], *(replace(f, size_bytes=-(-f.size_bytes // chunk_bytes) * chunk_bytes) for f in flows[1:]))
    config = Ns3Config(
        payload_bytes=payload_bytes,
        buffer_mib=buffer_mib,
        pfc_is_heeded=draw(st.booleans()),
        ecn_is_on=draw(st.sampled_from([True, True, True, False])),
        ack_ignores_pause=draw(st.booleans()),
        ack_interval_bytes=draw(st.sampled_from([1] * 7 + [3000])),
        chunk_bytes=chunk_bytes,
        back_to_zero=back_to_zero,
        **draw(_ecn({link.rate_bps for link in fabric.links})),
        **draw(_control(congestion_control)),
    )
    config = replace(config, stop_ns=draw(_stop_ns(fabric, flows, payload_bytes + config.data_header_bytes)))
    table = shortest_next_hops(fabric.n_node, fabric.switches, fabric.links)
    paths = route_flows(fabric.links, flows, table)
    return Ns3Case(fabric.n_node, fabric.switches, fabric.links, flows, table, paths, config)
