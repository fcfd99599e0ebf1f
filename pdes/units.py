"""Quantities with units, at the edge of the program: text in, plain integers out, and text for people.

Inside, time is int picoseconds, sizes are int bytes, rates are int bit/s. Parsing is exact (fractions of decimals):
text that is not a whole number of the inner unit is refused, never rounded. Kernels know no units: they get plain ints.
"""

import re
from fractions import Fraction

from pdes.errors import SimError

PS_PER_NS, PS_PER_US, PS_PER_MS, PS_PER_S = 10**3, 10**6, 10**9, 10**12
NS_PER_S = 10**9
US_PER_S = 10**6
BITS_PER_BYTE = 8
MAX_INT64 = 2**63 - 1
MAX_WIRE_BYTES = 2**16 - 1  # of a simulated packet with its header: 16 bits, as IP's total length
MAX_DIGITS = 40  # of a whole number in text: more are of no use, and Python's own limit has an error of its own
MAX_QUANTITY_CHARS = 100
MAX_PACKET_BYTES = MAX_INT64 // (PS_PER_S * BITS_PER_BYTE)  # bytes * 8 * 10**12 must fit int64

DURATION_UNITS = {
    "ps": 1,
    "ns": PS_PER_NS,
    "us": PS_PER_US,
    "ms": PS_PER_MS,
    "s": PS_PER_S,
    "min": 60 * PS_PER_S,
    "h": 3600 * PS_PER_S,
}
LONG_DURATION_UNITS = {
    "us": 1,
    "ms": 10**3,
    "s": US_PER_S,
    "min": 60 * US_PER_S,
    "h": 3600 * US_PER_S,
    "d": 86400 * US_PER_S,
    "w": 7 * 86400 * US_PER_S,
    "y": 365 * 86400 * US_PER_S,
}
SIZE_UNITS = {
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
_LONG = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
_PREFIXES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
RATE_UNITS = {f"{prefix}{bits}": factor for bits in ("bps", "b/s") for prefix, factor in _PREFIXES.items()} | {
    f"{prefix}{octets}": factor * BITS_PER_BYTE for octets in ("Bps", "B/s") for prefix, factor in _PREFIXES.items()
}
FLOPS_UNITS = {f"{prefix}flops": factor for prefix, factor in (_PREFIXES | {"P": 10**15, "E": 10**18}).items()}

_NUMBER = r"([+-]?[0-9][0-9_]*(?:\.[0-9]*)?|[+-]?\.[0-9]+)([eE][+-]?[0-9]{1,2})?"
_DECIMAL = re.compile(_NUMBER.replace("{1,2}", "{1,3}"))
_IN_BYTES = re.compile(r"\s*[0-9][0-9_.eE+-]*\s*[kMGT]?B(?:ps|/s)\s*")
_QUANTITY = re.compile(_NUMBER + r"\s*([A-Za-z/\u00b5\u03bc]*)")


class QuantityError(SimError, ValueError):
    """Text that is not the quantity asked for. found: what was there; accepted: what would have been right."""

    exit_status = 2

    def __init__(self, found: str, accepted: str) -> None:
        self.found, self.accepted = found, accepted
        super().__init__(f"{found}. {accepted}")

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.found, self.accepted)


def parse_duration_ps(text: object) -> int:
    """Picoseconds of a text like "1.5us". Raises QuantityError; range 0 .. 2**63-1 ps (106 days)."""
    return _parse(text, DURATION_UNITS, "a duration", "ps, ns, us, ms, s, min or h", "1.5us", "picoseconds")


def parse_long_duration_us(text: object) -> int:
    """Microseconds of a text like "36h", for months of a cluster. Raises QuantityError; range 0 .. 2**63-1 us."""
    names = "us, ms, s, min, h, d, w or y (365 days)"
    return _parse(text, LONG_DURATION_UNITS, "a duration", names, "36h", "microseconds")


def parse_size_bytes(text: object) -> int:
    """Bytes of a text like "4MB" (10**6) or "4MiB" (2**20). Raises QuantityError; range 0 .. 2**63-1."""
    return _parse(text, SIZE_UNITS, "a size", "B, kB, MB, GB, TB, KiB, MiB, GiB or TiB", "4MB", "bytes")


def parse_rate_bps(text: object) -> int:
    """Bit/s of a text like "100Gbps" or "12.5GBps" (bytes); "b/s" and "B/s" too. Raises QuantityError."""
    units = "bps, kbps, Mbps, Gbps, Tbps, or kBps, MBps, GBps, TBps for bytes"
    return _parse(text, RATE_UNITS, "a rate", units, "100Gbps", "bit/s")


def bits_instead(text: str) -> str | None:
    """A rate that is written in bytes, "400GB/s", with as many bits, "400Gbps": None if it is not written in bytes."""
    return text.strip().replace("B/s", "bps").replace("Bps", "bps") if _IN_BYTES.fullmatch(text) else None


def parse_flops(text: object) -> int:
    """Floating-point operations per second of a text like "312Tflops" (any case). Raises QuantityError."""
    units = "flops, kflops, Mflops, Gflops, Tflops, Pflops or Eflops"
    return _parse(_flops_spelling(text), FLOPS_UNITS, "a compute rate", units, "312Tflops", "flops")


def _flops_spelling(text: object) -> object:
    """ "312TFLOPS" and "312 TFLOP/s" become "312Tflops"; everything else is left alone."""
    if not isinstance(text, str):
        return text
    return re.sub(r"(?i)flop(s|/s)\s*$", "flops", text)


def _parse(text: object, units: dict[str, int], kind: str, unit_names: str, example: str, inner: str) -> int:
    key = id(units), text  # the tables of units live as long as the program
    if isinstance(text, str) and key in _known:
        return _known[key]
    value = _parsed(text, units, kind, unit_names, example, inner)
    if len(_known) < MOST_KNOWN:
        _known[key] = value
    return value


_known: dict[tuple[int, object], int] = {}
MOST_KNOWN = 10_000  # texts, whose values are remembered: many configs of one process have the same


def _parsed(text: object, units: dict[str, int], kind: str, unit_names: str, example: str, inner: str) -> int:
    accepted = f'Accepted: {kind} with its unit ({unit_names}), such as "{example}"'
    if not isinstance(text, str):
        raise QuantityError(f"found {shown(text)}, which is not text", accepted)
    if len(text) > MAX_QUANTITY_CHARS:
        raise QuantityError(f"found {shown(text)}, which is {len(text):,} characters long", accepted)
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise QuantityError(f"found {shown(text)}, which is not a number and a unit", accepted)
    number, exponent, unit = match.groups(default="")
    unit = unit.replace("\u00b5", "u").replace("\u03bc", "u")
    if unit not in units:
        what = f"has the unit {shown(unit)}" if unit else "has no unit"
        meant = _meant(unit, units)
        advice = f'. Did you mean "{number}{exponent}{meant}"?' if meant else ""
        raise QuantityError(f"found {shown(text)}, which {what}", accepted + advice)
    value = _exact(number, exponent) * units[unit]
    if value < 0 or value > MAX_INT64:
        what = "is below zero" if value < 0 else f"is above the largest value, {MAX_INT64} {inner}"
        raise QuantityError(f"found {shown(text)}, which {what}", accepted)
    if value.denominator != 1:
        raise QuantityError(f"found {shown(text)}, which is not a whole number of {inner}", accepted)
    return value.numerator


def _meant(unit: str, units: dict[str, int]) -> str:
    """The unit that is written otherwise ("bytes", "gbit/s", "KBPS", "usec"), "" if that is not sure."""
    word = unit.lower().replace("bit/s", "bps").replace("bits", "b").replace("bit", "b").replace("sec", "s")
    for ending in ("bytes", "byte"):
        word = word.replace(ending, "b")
    if not word or (units is RATE_UNITS and ("B" in unit or "byte" in unit.lower())):  # bits and bytes: who knows
        return ""
    found = [
        name
        for name in units
        if name.lower() in (word, word + "b", word + "ps", word + "bps") and not name.endswith(("Bps", "B/s"))
    ]
    return found[0] if found else ""


def _exact(number: str, exponent: str) -> Fraction:
    """Value of decimal text; the pattern keeps the exponent within two digits, so this stays small."""
    return Fraction(number.replace("_", "").rstrip(".") + exponent)


def is_count(text: str) -> bool:
    """Whether text is the digits of a whole number, and not more of them than are of any use."""
    return text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS


def whole_number(text: str) -> int:
    """As int(text), but ValueError too for more digits than are of any use."""
    if len(text) > MAX_DIGITS:
        raise ValueError(f"{shown(text)} has {len(text):,} digits")
    return int(text)


def exact_number(text: str) -> Fraction:
    """The exact value of a decimal number such as "2.5e-3". ValueError: it is none, or longer than is of any use."""
    match = _DECIMAL.fullmatch(text) if len(text) <= MAX_QUANTITY_CHARS else None
    if match is None:
        raise ValueError(f"{shown(text)} is no number")
    return _exact(*match.groups(default=""))


def shown(value: object) -> str:
    """A value as a TOML file would write it, cut to 60 characters: for error texts."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > 1000:
        return f"a whole number of {value.bit_length():,} bits"
    try:
        text = '"' + value + '"' if isinstance(value, str) else str(value)
    except (ValueError, RecursionError):
        return "a list or a table, very long or deep"
    return text if len(text) <= 60 else text[:57] + "..."


def exact_duration(duration_ps: int) -> str:
    """Text that parse_duration_ps turns back into exactly this many ps: the largest unit up to s that fits whole."""
    return _exact_text(duration_ps, {unit: DURATION_UNITS[unit] for unit in ("ps", "ns", "us", "ms", "s")})


def exact_long_duration(duration_us: int) -> str:
    """Text that `parse_long_duration_us` reads back as the same."""
    return _exact_text(duration_us, LONG_DURATION_UNITS)


def exact_size(size_bytes: int) -> str:
    """Text that parse_size_bytes turns back into exactly this many bytes."""
    return _exact_text(size_bytes, {unit: SIZE_UNITS[unit] for unit in ("B", "kB", "MB", "GB")})


def exact_rate(rate_bps: int) -> str:
    """Text that parse_rate_bps turns back into exactly this rate."""
    return _exact_text(rate_bps, {unit: RATE_UNITS[unit] for unit in ("bps", "kbps", "Mbps", "Gbps", "Tbps")})


def _exact_text(value: int, units: dict[str, int]) -> str:
    fitting = [unit for unit, factor in units.items() if value % factor == 0 and (value or factor == 1)]
    return f"{value // units[fitting[-1]]}{fitting[-1]}"


def format_duration(duration_ps: int, digits: int = 3) -> str:
    """A duration for people, such as "12.4 ms": `digits` significant digits, minutes and hours as such."""
    if abs(duration_ps) >= 600 * PS_PER_S:
        seconds = duration_ps // PS_PER_S
        minutes = seconds // 60
        return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min"
    return _scaled(duration_ps, {"ps": 1, "ns": PS_PER_NS, "us": PS_PER_US, "ms": PS_PER_MS, "s": PS_PER_S}, digits)


def format_long_duration(duration_us: float, digits: int = 3) -> str:
    """For people: "2.5 h", "31 d"; seconds of less than two minutes."""
    seconds = duration_us / US_PER_S
    unit, length = next((pair for pair in _LONG if abs(seconds) >= 2 * pair[1]), _LONG[-1])
    return f"{seconds / length:.{digits}g} {unit}"


def format_size(size_bytes: int, digits: int = 3) -> str:
    """A size for people, such as "4.19 MB" (decimal units)."""
    return _scaled(size_bytes, {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}, digits)


def format_rate(rate_bps: int, digits: int = 3) -> str:
    """A rate for people, such as "100 Gbps"."""
    return _scaled(rate_bps, {f"{prefix}bps": factor for prefix, factor in _PREFIXES.items()}, digits)


def format_count(count: float, digits: int = 3) -> str:
    """A number for people, such as "31.2 M"; the unit, if any, follows it."""
    return _scaled(count, {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}, digits).rstrip()


def _scaled(value: float, units: dict[str, int], digits: int) -> str:
    """`value` in the largest unit that leaves at least 1, with `digits` significant digits, whole ones all kept."""
    last = list(units)[-1]
    for unit, factor in units.items():
        decimals = max(0, digits - len(str(int(abs(value) / factor)))) if factor > 1 or value != int(value) else 0
        rounded = round(value / factor, decimals)
        if abs(rounded) < 1000 or unit == last:
            text = f"{rounded:.{decimals}f}"
            return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {unit}"
    raise AssertionError("units is never empty")
