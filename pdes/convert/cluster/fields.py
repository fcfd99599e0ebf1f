"""Fields of traces as whole numbers: times and durations in microseconds, counts in millionths; None: it is none."""

import re
from datetime import UTC, datetime, timedelta

from pdes.units import exact_number

PER_UNIT = 10**6  # microseconds of a second; millionths of a GPU
MOST = 10**10 * PER_UNIT  # seconds: three hundred years
DAY_US = 86_400 * PER_UNIT
NOTHING = frozenset({"", "none", "nan", "null", "nat", "n/a", "na", "unknown"})  # what the traces write for no value
STATUSES = {
    "completed": "completed", "pass": "completed", "succeeded": "completed", "terminated": "completed",
    "failed": "failed", "timeout": "failed", "node_fail": "failed", "out_of_memory": "failed",
    "cancelled": "cancelled", "canceled": "cancelled", "killed": "cancelled",
}  # fmt: skip
_DECIMAL = re.compile(r"(-?)([0-9]{1,15})(?:\.([0-9]{0,30}))?")  # nearly always; `exact_number` has the rest
_ZONE = re.compile(r" P[SD]T$")  # of Philly's: local time, as its other times are
_NAIVE, _AWARE = datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)  # noqa: DTZ001
_MICROSECOND = timedelta(microseconds=1)
_YEARS = range(1990, 2200)


def is_nothing(word: str) -> bool:
    """Whether a field says that there is no value."""
    return not word or word.lower() in NOTHING


def millionths(word: str) -> int | None:
    """A decimal number times a million, rounded half up in size: of seconds, microseconds."""
    match = _DECIMAL.fullmatch(word)
    if match is not None:
        value = int(match[2]) * PER_UNIT
        if match[3]:
            value += (int(match[3].ljust(7, "0")[:7]) + 5) // 10
        value = -value if match[1] else value
    elif "_" in word:  # which Python's numbers may have
        return None
    else:
        try:
            value = round(exact_number(word) * PER_UNIT)
        except ValueError:
            return None
    return value if -MOST <= value <= MOST else None


def date_us(word: str) -> int | None:
    """Microseconds since 1970 of a date with its time, "2017-10-09 07:01:55", with or without a zone."""
    if len(word) < 10 or word[4] != "-" or word[7] != "-" or not word[0].isdigit():
        return None
    try:
        time = datetime.fromisoformat(_ZONE.sub("", word))
        return (time - (_NAIVE if time.tzinfo is None else _AWARE)) // _MICROSECOND if time.year in _YEARS else None
    except (ValueError, OverflowError):
        return None


def decimal(value: int) -> str:
    """A number of millionths as a decimal number with at most six places."""
    whole, rest = divmod(abs(value), PER_UNIT)
    text = f"{whole}.{rest:06d}".rstrip("0") if rest else str(whole)
    return f"-{text}" if value < 0 else text


def status_of(word: str) -> str:
    """How a job ended, in our words; empty: it did not, or the trace does not say."""
    return STATUSES.get(word.strip().lower().partition(" ")[0], "")
