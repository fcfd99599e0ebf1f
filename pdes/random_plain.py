"""Counter-based random numbers over Python integers: what `rng` compiles, for whoever loads no compiler.

A pure function of (seed, entity, purpose, counter), design R3. The mixing step is SplitMix64's finaliser (Steele, Lea,
Flood 2014, section 3), applied once per key part. It is not meant for cryptography, and it keeps no state: whoever
draws keeps the counter.
"""

# Purposes: one number for each use of randomness, so that no two uses share a stream.
PURPOSE_PHOLD_REMOTE, PURPOSE_PHOLD_TARGET, PURPOSE_PHOLD_DELAY, PURPOSE_PHOLD_START = 1, 2, 3, 4
PURPOSE_ECN = 5
PURPOSE_LOSS, PURPOSE_ROUTE = 6, 7
PURPOSE_ARRIVAL_GAP, PURPOSE_FLOW_SOURCE, PURPOSE_FLOW_DESTINATION, PURPOSE_FLOW_SIZE = 16, 17, 18, 19
PURPOSE_START_JITTER = 20
PURPOSE_AUDIT = 21
PURPOSE_COMPUTE = 22
PURPOSE_SHARE = 23
PURPOSE_FAILURE, PURPOSE_REPAIR, PURPOSE_DETECTION, PURPOSE_VICTIM = 32, 33, 34, 35
PURPOSE_JOB_GAP, PURPOSE_JOB_SIZE, PURPOSE_JOB_DURATION, PURPOSE_JOB_TENANT = 36, 37, 38, 39
PURPOSE_JOB_PRIORITY = 40
PURPOSE_JOB_SEED, PURPOSE_PLACEMENT = 41, 42
PURPOSE_JOB_KIND = 44

MASK = 0xFFFFFFFFFFFFFFFF
GOLDEN, MUL1, MUL2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def mix64_plain(x: int) -> int:
    """SplitMix64's finaliser over Python integers: the readable twin of the compiled one."""
    x = ((x ^ (x >> 30)) * MUL1) & MASK
    x = ((x ^ (x >> 27)) * MUL2) & MASK
    return x ^ (x >> 31)


def random_bits_plain(seed: int, entity: int, purpose: int, counter: int) -> int:
    """64 random bits, as `random_bits`, over Python integers."""
    key = mix64_plain((int(seed) + int(purpose) * GOLDEN) & MASK)
    key = mix64_plain((key + int(entity) * GOLDEN) & MASK)
    return mix64_plain((key + int(counter) * GOLDEN) & MASK)


def uniform_plain(seed: int, entity: int, purpose: int, counter: int) -> float:
    """Uniform number in [0, 1), as `uniform`, over Python integers."""
    return (random_bits_plain(seed, entity, purpose, counter) >> 11) * 2.0**-53
