"""Numbers in text as ns-3 reads them: a double, then 64.64 fixed point, then truncation (CORRECTIONS.md fact 6).

So "0.0007ms" is 699 ns there. Only `compatibility = "ns3-hpcc"` wants this; elsewhere `pdes.units` parses exactly.
"""

import math
import re

from pdes.units import NS_PER_S, PS_PER_NS

_TIME_NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1, "": NS_PER_S}
_RATE_BPS = {
    f"{prefix}{bits}": factor * octets
    for prefix, factor in {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}.items()
    for bits, octets in {"bps": 1, "b/s": 1, "Bps": 8, "B/s": 8}.items()
}
_QUANTITY = re.compile(r"([0-9]*\.?[0-9]*(?:[eE][+-]?[0-9]+)?)([A-Za-z/]*)")
_MOST = 2.0**62


def truncated(value: float, unit: int = NS_PER_S) -> int:
    """Whole ns of `value` >= 0 units of `unit` ns each: the fraction passes through 64 bits, then is cut off."""
    whole = int(value)
    return whole * unit + (int((value - whole) * 2.0**64) * unit >> 64)


def ns3_delay_ps(text: str) -> int | None:
    """A link delay such as "0.001ms" in ps, always whole ns; without a unit: seconds. None: ns-3 would not read it."""
    return _parsed(text, _TIME_NS, PS_PER_NS)


def ns3_rate_bps(text: str) -> int | None:
    """A rate such as "100Gbps" in bit/s, cut off; None: ns-3 would not read it."""
    return _parsed(text, {unit: factor for unit, factor in _RATE_BPS.items() if unit}, 1)


def ns3_start_ps(text: str) -> int | None:
    """A flow's start in seconds, in ps, always whole ns; None: it is no number from 0 on."""
    try:
        value = float(text)
    except ValueError:
        return None
    return truncated(value) * PS_PER_NS if 0 <= value * NS_PER_S * PS_PER_NS < _MOST else None


def _parsed(text: str, units: dict[str, int], factor: int) -> int | None:
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2] not in units or not any(c.isdigit() for c in match[1]):
        return None
    value = float(match[1])
    if not math.isfinite(value) or value * units[match[2]] * factor >= _MOST:
        return None
    return truncated(value, units[match[2]]) * factor
