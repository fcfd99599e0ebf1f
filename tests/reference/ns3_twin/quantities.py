"""Times and rates as ns-3 computes them: through 64.64 fixed point, cut to whole nanoseconds, always downwards."""

from functools import cache

NS_PER_S = 10**9
UNITS = {  # in bit/s for rates, in ns for durations
    "Gbps": 10**9,
    "Gb/s": 10**9,
    "Mbps": 10**6,
    "Mb/s": 10**6,
    "bps": 1,
    "s": NS_PER_S,
    "ms": 10**6,
    "us": 10**3,
    "ns": 1,
}


def truncated(amount: float, unit: int) -> int:
    """`amount` units of `unit` each, >= 0, the fraction held in 64 bits and the product cut: 0.0007 ms are 699 ns."""
    whole = int(amount)
    return whole * unit + (int((amount - whole) * 2.0**64) * unit >> 64)


@cache
def wire_ns(size_bytes: int, rate_bps: int) -> int:
    """Serialisation time, and the pacing gap, of a packet: 1000 bytes at 100 Gbps take 79 ns, not 80."""
    return truncated(size_bytes * 8 / rate_bps, NS_PER_S)


def seconds_to_ns(seconds: float) -> int:
    """A time in seconds, as flow.txt and config.txt have it."""
    return truncated(seconds, NS_PER_S)


def parse_quantity(text: str) -> int:
    """ "100Gbps" in bit/s, "0.001ms" in ns."""
    unit = text.lstrip("0123456789.")
    return truncated(float(text[: len(text) - len(unit)]), UNITS[unit])


def seconds_text(time_ns: int) -> str:
    """Text in seconds that ns-3 reads as exactly `time_ns`: 9 decimals if they survive the cut, else half a ns more."""
    text = f"{time_ns // NS_PER_S}.{time_ns % NS_PER_S:09d}"
    return text if seconds_to_ns(float(text)) == time_ns else text + "5"


def survives_cut(time_ns: int) -> bool:
    """Whether the plain decimal of a time means the same to ns-3 and to exact arithmetic."""
    return len(seconds_text(time_ns).partition(".")[2]) == 9
