"""`--key topology.host_delay=500ns..5us`: a key of the config that is fitted, and how its values are written."""

from collections.abc import Callable
from typing import Any, NamedTuple

from pdes.config.overrides import keys_of
from pdes.errors import ConfigError
from pdes.units import parse_duration_ps, parse_rate_bps, parse_size_bytes

ACCEPTED = "Accepted: table.key=LOW..HIGH, upwards from above zero, such as topology.host_delay=500ns..5us"
UNITS: dict[str, Callable[[str], float]] = {
    "": float, "ps": parse_duration_ps, "bps": parse_rate_bps, "B": parse_size_bytes,
}  # fmt: skip


class FreeKey(NamedTuple):
    """low, high: in the unit, "": numbers."""

    name: str
    path: tuple[str, ...]
    low: float
    high: float
    unit: str
    is_whole: bool

    def value(self, number: float) -> Any:
        """As a config has it."""
        if self.unit:
            return f"{round(number)}{self.unit}"
        return round(number) if self.is_whole else float(f"{number:.9g}")


def free_keys(texts: list[str]) -> list[FreeKey]:
    """Those of the command line. Raises ConfigError."""
    found = [_free_key(text) for text in texts]
    names = [key.name for key in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"--key {twice[0]}", "is there twice", "Accepted: each key once")
    return found


def _free_key(text: str) -> FreeKey:
    where, (name, _, bounds) = f"--key {text}", text.partition("=")
    path = keys_of(name.strip(), where, ACCEPTED)
    low_text, dots, high_text = bounds.partition("..")
    if not dots:
        raise ConfigError(where, "has no range", ACCEPTED)
    for unit, parse in UNITS.items():
        try:
            low, high = parse(low_text), parse(high_text)
        except ValueError:
            continue
        if not 0 < low < high:
            break
        is_whole = not unit and all(part.strip().isdigit() for part in (low_text, high_text))
        return FreeKey(name.strip(), path, low, high, unit, is_whole)
    raise ConfigError(where, f"from {low_text} to {high_text}", ACCEPTED)
