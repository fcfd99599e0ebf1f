"""The hash that spreads flows over paths of equal length: ns-3's rule (HPCC repository, switch-node.cc EcmpHash).

A header is three 32-bit words {source ip, destination ip, source port | destination port << 16}; the hash is
MurmurHash3 x86-32 (Appleby) of these 12 bytes, seeded by the node that decides.
"""

from pdes.engine.jit import kernel

MASK_32 = 0xFFFFFFFF
IP_BASE = 0x0B000001


@kernel
def mul_32(a, b):
    """Low 32 bits of the product of two words 0..2^32-1, by halves: nothing here reaches 2^63."""
    return (a * (b & 0xFFFF) + (((a * (b >> 16)) & 0xFFFF) << 16)) & MASK_32


@kernel
def rotl_32(word, n_bit):
    """Rotate a word 0..2^32-1 left by 1..31 bits."""
    return ((word << n_bit) | (word >> (32 - n_bit))) & MASK_32


@kernel
def murmur3_mix(state, word):
    """Fold one word into the state of MurmurHash3 x86-32."""
    state ^= mul_32(rotl_32(mul_32(word, 0xCC9E2D51), 15), 0x1B873593)
    return (mul_32(rotl_32(state, 13), 5) + 0xE6546B64) & MASK_32


@kernel
def murmur3_32(word_0, word_1, word_2, seed):
    """MurmurHash3 x86-32 of the 12 bytes of three little-endian words; all int64 in 0..2^32-1."""
    state = murmur3_mix(murmur3_mix(murmur3_mix(seed, word_0), word_1), word_2) ^ 12
    state = mul_32(state ^ (state >> 16), 0x85EBCA6B)
    state = mul_32(state ^ (state >> 13), 0xC2B2AE35)
    return state ^ (state >> 16)


@kernel
def ip_of(node):
    """The address that ns-3 gives to a node: 11.x.y.1 with the node id in x and y; 32 bits."""
    return (IP_BASE + ((node // 256) << 16) + ((node % 256) << 8)) & MASK_32


@kernel
def ecmp_index(src, dst, sport, dport, node_seed, n_way):
    """Which of `n_way` next hops a node takes for packets from host `src`, port `sport` to `dst`, `dport`.

    sport, dport: only the low 16 bits count, as in the header. node_seed: id of the deciding node ^ ecmp_seed.
    """
    ports = (sport & 0xFFFF) | ((dport & 0xFFFF) << 16)
    return murmur3_32(ip_of(src), ip_of(dst), ports, node_seed & MASK_32) % n_way
