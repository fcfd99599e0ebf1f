"""The ECMP hash against published vectors and a plain twin."""

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from models.topology.ecmp import ecmp_index, ip_of, murmur3_32

WORD = st.integers(0, 2**32 - 1)


def murmur3_twin(data: bytes, seed: int) -> int:
    """MurmurHash3_x86_32 after Appleby's MurmurHash3.cpp, for whole words, with unbounded integers."""

    def rotl(value: int, n_bit: int) -> int:
        return (value << n_bit | value >> (32 - n_bit)) % 2**32

    state = seed
    for (word,) in struct.iter_unpack("<I", data):
        state ^= rotl(word * 0xCC9E2D51 % 2**32, 15) * 0x1B873593 % 2**32
        state = (rotl(state, 13) * 5 + 0xE6546B64) % 2**32
    state ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state = (state ^ state >> shift) * factor % 2**32
    return state ^ state >> 16


def test_the_twin_gives_the_published_vectors():
    # Widely published for MurmurHash3_x86_32: no bytes, and the bytes ff ff ff ff, 21 43 65 87, 00 00 00 00.
    assert murmur3_twin(b"", 0) == 0
    assert murmur3_twin(b"", 1) == 0x514E28B7
    assert murmur3_twin(b"", 0xFFFFFFFF) == 0x81F16F39
    assert murmur3_twin(b"\xff" * 4, 0) == 0x76293B50
    assert murmur3_twin(b"\x21\x43\x65\x87", 0) == 0xF55B516B
    assert murmur3_twin(b"\x21\x43\x65\x87", 0x5082EDEE) == 0x2362F9DE
    assert murmur3_twin(b"\x00" * 4, 0) == 0x2362F9DE


@given(WORD, WORD, WORD, WORD)
@settings(deadline=None)
def test_murmur3_equals_its_twin(word_0, word_1, word_2, seed):
    assert murmur3_32(word_0, word_1, word_2, seed) == murmur3_twin(struct.pack("<3I", word_0, word_1, word_2), seed)


def test_murmur3_of_twelve_bytes_at_the_ends_of_the_range():
    for words in ((0, 0, 0), (2**32 - 1,) * 3):
        for seed in (0, 2**32 - 1):
            assert murmur3_32(*words, seed) == murmur3_twin(struct.pack("<3I", *words), seed)


def test_addresses_are_those_of_ns3():
    assert [ip_of(node) for node in (0, 1, 255, 256, 300)] == [
        0x0B000001, 0x0B000101, 0x0B00FF01, 0x0B010001, 0x0B012C01,
    ]  # fmt: skip


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 2**20), st.integers(0, 2**20), st.integers(1, 64))
@settings(deadline=None)
def test_the_choice_is_in_range_and_takes_the_low_16_bits_of_ports(src, dst, sport, dport, n_way):
    chosen = ecmp_index(src, dst, sport, dport, 5, n_way)
    assert 0 <= chosen < n_way
    assert chosen == ecmp_index(src, dst, sport % 2**16, dport % 2**16, 5, n_way)
