"""An ns-3 (HPCC) config.txt: its lines, its keys with ns-3's own defaults, and what of them is not modelled."""

from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from pdes.errors import ConfigError
from pdes.files import read_text, why_unreadable
from pdes.units import QuantityError, exact_number, parse_rate_bps, shown

LARGEST = 10**30

USED_KEYS = frozenset(
    "ACK_HIGH_PRIO ALPHA_RESUME_INTERVAL BUFFER_SIZE CC_MODE CLAMP_TARGET_RATE DCTCP_RATE_AI ENABLE_QCN "
    "ERROR_RATE_PER_LINK EWMA_GAIN FAST_REACT FAST_RECOVERY_TIMES GLOBAL_T HAS_WIN INT_MULTI KMAX_MAP KMIN_MAP "
    "L2_ACK_INTERVAL L2_BACK_TO_ZERO L2_CHUNK_SIZE MIN_RATE MI_THRESH PACKET_PAYLOAD_SIZE PINT_LOG_BASE PINT_PROB "
    "PMAX_MAP RATE_AI RATE_BOUND RATE_DECREASE_INTERVAL RATE_HAI RP_TIMER SIMULATOR_STOP_TIME U_TARGET VAR_WIN "
    "X_QBB_ENABLED X_STOP_S".split()
)
OTHER_KEYS = frozenset(  # outputs, and what has no effect in ns-3's code
    "DATA_RATE ENABLE_TRACE FCT_OUTPUT_FILE FLOW_FILE LINK_DELAY PAUSE_TIME PFC_OUTPUT_FILE QLEN_MON_END QLEN_MON_FILE "
    "QLEN_MON_START TOPOLOGY_FILE TRACE_FILE TRACE_OUTPUT_FILE USE_DYNAMIC_PFC_THRESHOLD".split()
)
TELEMETRY_MODES = ("3", "10")  # the CC_MODEs for which MULTI_RATE and SAMPLE_FEEDBACK matter


class Entry(NamedTuple):
    """One line. where: file, line and key, for messages; words: the values."""

    where: str
    words: tuple[str, ...]


class Ns3Keys:
    """The keys of a config.txt. Each reader takes ns-3's default (third.cc) for a key that is not there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries = read_entries(path)

    def __contains__(self, key: str) -> bool:
        return key in self.entries

    def number(self, key: str, default: int | Fraction = 0) -> Fraction:
        """A number from 0 on; one beyond any use is cut to LARGEST."""
        if key not in self.entries:
            return Fraction(default)
        number = number_of(self.entries[key])
        if number < 0:
            raise self.fault(key, "Accepted: a number from 0 on")
        return number

    def whole(self, key: str, default: int = 0, least: int = 0) -> int:
        """A whole number; what stands behind the point is cut off, as ns-3 does."""
        number = int(self.number(key, default))
        if not least <= number < 2**62:
            raise self.fault(key, f"Accepted: a whole number from {least} on")
        return number

    def flag(self, key: str, default: bool) -> bool:
        """A switch: any number but 0 is on."""
        return self.number(key, int(default)) != 0

    def rate_bps(self, key: str) -> int | None:
        """A rate; None: not there."""
        if key not in self.entries:
            return None
        try:
            return parse_rate_bps(self.entries[key].words[0])
        except QuantityError as error:
            raise ConfigError(self.entries[key].where, error.found, error.accepted) from error

    def by_rate(self, key: str) -> dict[int, Fraction]:
        """A map such as `2 25000000000 100 100000000000 400`: {rate: value}."""
        if key not in self.entries:
            return {}
        entry, pairs = self.entries[key], {}
        for i_pair in range(int(min(number_of(entry), len(entry.words)))):
            rate_bps, value = int(number_of(entry, 1 + 2 * i_pair)), number_of(entry, 2 + 2 * i_pair)
            if rate_bps <= 0 or value < 0:
                raise self.fault(key, "Accepted: a number of pairs, then rates above 0 bit/s, each with a value from 0")
            pairs[rate_bps] = value
        return pairs

    def fault(self, key: str, accepted: str) -> ConfigError:
        """An error about a key's value."""
        entry = self.entries[key]
        return ConfigError(entry.where, f'found "{" ".join(entry.words)}"', accepted)


def read_entries(path: Path) -> dict[str, Entry]:
    """The lines of a config.txt by key, the last of a key counting; what stands in {braces} is a comment.

    ConfigError: the file cannot be read, or a key has no value.
    """
    try:
        lines = read_text(path, "utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        accepted = "Accepted: an ns-3 config.txt, lines of KEY value"
        raise ConfigError(str(path), f"cannot be read: {why_unreadable(error)}", accepted) from error
    entries = {}
    for i_line, line in enumerate(lines, start=1):
        words = line.partition("{")[0].split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) < 2:
            raise ConfigError(f"{path}: line {i_line}", f"{shown(words[0])} has no value", "Accepted: KEY value")
        entries[words[0]] = Entry(f"{path}: line {i_line}: {words[0]}", tuple(words[1:]))
    return entries


def number_of(entry: Entry, i_word: int = 0) -> Fraction:
    """One of an entry's values. ConfigError: it is no number."""
    try:
        return Fraction(LARGEST) if float(entry.words[i_word]) >= LARGEST else exact_number(entry.words[i_word])
    except (ValueError, IndexError, OverflowError) as error:
        found = f'found "{" ".join(entry.words)}"'
        raise ConfigError(entry.where, found, "Accepted: a number" + (" for each rate" if i_word else "")) from error


def unmodelled(keys: Ns3Keys, mode: str) -> list[str]:
    """Warnings: unknown keys, and what of the file's model is left out."""
    warnings = [
        f"{entry.where}: unknown key, ignored"
        for key, entry in keys.entries.items()
        if key not in USED_KEYS | OTHER_KEYS | {"LINK_DOWN", "MULTI_RATE", "SAMPLE_FEEDBACK"}
    ]
    missing: dict[str, tuple[bool, str]] = {
        "LINK_DOWN": (keys.number("LINK_DOWN") != 0, "the link stays up"),
        "MULTI_RATE": (mode == "3" and keys.flag("MULTI_RATE", True), "one rate for all hops is used"),
        "SAMPLE_FEEDBACK": (mode in TELEMETRY_MODES and keys.flag("SAMPLE_FEEDBACK", False), "every ACK has telemetry"),
        "PINT_PROB": (mode == "10" and keys.number("PINT_PROB", 1) < 1, "every packet carries its code"),
    }
    for key, (is_on, instead) in missing.items():
        if is_on and key in keys:
            entry = keys.entries[key]
            warnings.append(f"{entry.where}: {' '.join(entry.words)} is not modelled, {instead}")
        elif is_on:
            warnings.append(f"{keys.path}: without {key} ns-3 has it on, which is not modelled, {instead}")
    return warnings
