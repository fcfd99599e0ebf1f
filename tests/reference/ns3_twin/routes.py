"""ns-3's routes: shortest paths by hops, a hash that picks among them, and the base RTT that follows first choices."""

from reference.ns3_twin.case import NextHops, Ns3Flow, Ns3Link, source_ports
from reference.ns3_twin.quantities import NS_PER_S

MASK_32 = 0xFFFFFFFF


def neighbours(links: tuple[Ns3Link, ...]) -> dict[int, list[int]]:
    """The nodes at the other ends of every node's links."""
    near: dict[int, list[int]] = {}
    for link in links:
        near.setdefault(link.end_a, []).append(link.end_b)
        near.setdefault(link.end_b, []).append(link.end_a)
    return near


def shortest_next_hops(n_node: int, switches: tuple[int, ...], links: tuple[Ns3Link, ...]) -> NextHops:
    """Every switch's neighbours on shortest paths to every host, in descending ids. Hosts do not forward."""
    near = neighbours(links)
    table: NextHops = {}
    for dst in sorted(set(range(n_node)) - set(switches)):
        n_hop, front = {dst: 0}, [dst]
        while front:
            reached = {b for a in front for b in near.get(a, ()) if b not in n_hop}
            n_hop |= {b: n_hop[front[0]] + 1 for b in reached}
            front = [b for b in reached if b in switches]
        for switch in switches:
            closer = [b for b in near[switch] if n_hop.get(b, n_node) == n_hop.get(switch, n_node) - 1]
            closer = [b for b in closer if b in switches or b == dst]
            if closer:
                table[switch, dst] = tuple(sorted(closer, reverse=True))
    return table


def rotated(word: int, n_bit: int) -> int:
    """A 32-bit word, rotated to the left."""
    return (word << n_bit | word >> (32 - n_bit)) & MASK_32


def murmur3(words: list[int], seed: int) -> int:
    """MurmurHash3 x86-32 (Appleby) of whole 32-bit little-endian words."""
    state = seed & MASK_32
    for word in words:
        state ^= rotated(word * 0xCC9E2D51 & MASK_32, 15) * 0x1B873593 & MASK_32
        state = (rotated(state, 13) * 5 + 0xE6546B64) & MASK_32
    state ^= 4 * len(words)
    for n_bit, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state = (state ^ state >> n_bit) * factor & MASK_32
    return state ^ state >> 16


def address(node: int) -> int:
    """The IPv4 address of a node, as a number: 11.x.y.1."""
    return 0x0B000001 + (node // 256 << 16) + (node % 256 << 8)


def walk(near: dict[int, list[int]], table: NextHops, src: int, dst: int, sport: int, dport: int) -> tuple[int, ...]:
    """The nodes that a packet with this header passes, from host to host."""
    path = [src, near[src][0]]
    while path[-1] != dst:
        choices = table[path[-1], dst]
        words = [address(src), address(dst), sport | dport << 16]
        path.append(choices[murmur3(words, path[-1]) % len(choices)])
    return tuple(path)


def route_flows(
    links: tuple[Ns3Link, ...], flows: tuple[Ns3Flow, ...], table: NextHops
) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """(data, ACK) path of every flow; ACKs have a header of their own, and so a path of their own."""
    near = neighbours(links)
    return tuple(
        (walk(near, table, f.src, f.dst, sport, f.dport), walk(near, table, f.dst, f.src, f.dport, sport))
        for f, sport in zip(flows, source_ports(flows), strict=True)
    )


def base_rtts(
    hosts: list[int], links: tuple[Ns3Link, ...], table: NextHops, payload_bytes: int
) -> dict[tuple[int, int], tuple[int, int]]:
    """{(src, dst): (base RTT in ns, bandwidth-delay product in bytes)} along the path of first next hops.

    The serialisation time counts once, not both ways, and without headers.
    """
    near = neighbours(links)
    link_of = {ends: link for link in links for ends in ((link.end_a, link.end_b), (link.end_b, link.end_a))}
    both: dict[tuple[int, int], tuple[int, int]] = {}
    for src in hosts:
        for dst in hosts:
            if src == dst:
                continue
            path = [link_of[src, near[src][0]]]
            node = near[src][0]
            while node != dst:
                following = table[node, dst][0]
                path.append(link_of[node, following])
                node = following
            wire_ns = sum(payload_bytes * 8 * NS_PER_S // link.rate_bps for link in path)
            rtt_ns = 2 * sum(link.delay_ns for link in path) + wire_ns
            both[src, dst] = rtt_ns, rtt_ns * min(link.rate_bps for link in path) // NS_PER_S // 8
    return both
